"""Fit ISP on a table of any size: one pass, per-identity sums, memory that grows with identities and not with rows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from faceblind._errors import DataError
from faceblind.data.tables import EmbeddingTable
from faceblind.erase import ISP, IdentityMoments, Projector
from faceblind.erase.isp import identity_directions, projector_of, settle_rank


@dataclass(frozen=True)
class TableFit:
    """A fitted projector and what to tell the user about its rank."""

    projector: Projector
    note: str


def fit_table(
    table: EmbeddingTable,
    *,
    rank: int | None = None,
    samples: Collection[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TableFit:
    """Fit ISP from one pass over a table with identities.

    Identities with a single image are left out: their mean is image noise.

    Parameters
    ----------
    rank : int, optional
        Dimensions to remove; when missing, 192 or the most that the identities support.
    samples : collection of str, optional
        Use only the rows with these keys (the fit part of a split).

    Raises
    ------
    RankError
        The rank asked for is larger than the data supports; the message says the most it supports.
    DataError
        Fewer than two identities with two images; a non-finite or zero row.
    """
    moments = IdentityMoments()
    wanted = None if samples is None else np.array(sorted(samples), dtype=np.str_)
    done = 0
    for batch in table.batches():
        if batch.identity is None:
            raise DataError(f"{table.path} has no identities: name the identity column")
        rows = slice(None) if wanted is None else np.isin(batch.sample, wanted)
        moments.partial_fit(batch.vectors[rows], batch.identity[rows])
        done += len(batch)
        if progress is not None:
            progress(done, table.rows)
    dropped = moments.drop_single_images()
    if moments.rows_ == 0:
        raise DataError(
            f"{table.path}: none of its identities has two images; fit on people with several photographs each"
        )
    basis, spectrum = identity_directions(moments)
    people = int(moments.counts().size)
    chosen, note = settle_rank(rank, basis, identities=people)
    note += f"; fitted on {moments.rows_:,} images of {people:,} identities"
    if dropped:
        note += f"; {dropped} identities with a single image were left out"
    projector = projector_of(
        basis,
        spectrum,
        chosen,
        moments,
        method=ISP.method,
        encoder=table.meta.encoder,
        synthetic=table.meta.synthetic,
    )
    return TableFit(projector, note)
