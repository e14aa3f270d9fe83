"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypedDict

from cyclopts import Parameter

Table = Annotated[
    Path,
    Parameter(help="Table of embeddings: .parquet, .npz, .npy (with .parquet beside it) or a folder of shards."),
]
Identity = Annotated[str, Parameter(help="Column that says who is on each image.")]
Sample = Annotated[str, Parameter(help="Column of unique keys; row numbers when the table has none.")]
Embedding = Annotated[str, Parameter(help="Column of vectors.")]
Metadata = Annotated[Path | None, Parameter(help="Parquet file that describes a .npy file.")]
Seed = Annotated[int, Parameter(help="Seed of everything drawn; the same seed gives the same bytes.")]
Split = Annotated[Path | None, Parameter(help="split.csv of an earlier audit, instead of drawing a split.")]
Shares = Annotated[
    str | None,
    Parameter(help="Shares or counts of identities for fit,attack,validation,test; default 0.3,0.25,0.2,0.25."),
]
Eraser = Annotated[
    str, Parameter(help="Eraser: isp, isp-fisher, isp-ratio, sal, leace; an audit also takes inlp and rlace.")
]
Attackers = Annotated[
    str,
    Parameter(
        help="Attackers, comma-separated: cosine, class-mean, ridge, ridge-template, wccn, lda, plda, mlp, best-effort; "
        "'default' is all but best-effort, 'all' is all."
    ),
]
Fars = Annotated[str, Parameter(help="False accept rates to report.")]
Compare = Annotated[str, Parameter(help="Erasers to measure beside it at the same rank, comma-separated, or 'all'.")]
Extrapolate = Annotated[
    str | None, Parameter(help="FARs below what the data support, extrapolated and labelled so, e.g. 1e-5,1e-6.")
]
FailIf = Annotated[
    str | None,
    Parameter(
        help="Exit 1 unless the data show the opposite, e.g. 'TAR@FAR(1e-4) > 5%' or 'EER < 30%'; judged by the bound for all attacks."
    ),
]
Force = Annotated[bool, Parameter(help="Go on although the projector was made for another encoder.", negative=())]


class Columns(TypedDict):
    """Column names, as the readers take them."""

    identity: str
    sample: str
    embedding: str
