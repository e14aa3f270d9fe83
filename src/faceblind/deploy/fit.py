"""Fit an eraser on a table of any size: one pass, sums per identity, memory that grows with identities and not with rows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from faceblind._errors import DataError
from faceblind.data.tables import EmbeddingTable
from faceblind.erase import Projector
from faceblind.erase.methods import directions_from, moments_for


@dataclass(frozen=True)
class TableFit:
    """A fitted projector and what to tell the user about its rank."""

    projector: Projector
    note: str


def fit_table(
    table: EmbeddingTable,
    *,
    method: str = "isp",
    rank: int | None = None,
    samples: Collection[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TableFit:
    """Fit an eraser from one pass over a table with identities.

    Identities with a single image are left out: their mean is image noise.

    Parameters
    ----------
    method : str
        One of `faceblind.erase.methods.MOMENT_METHODS`.
    rank : int, optional
        Dimensions to remove; when missing, 192 or the most that the identities support (all of LEACE's).
    samples : collection of str, optional
        Use only the rows with these keys (the fit part of a split).

    Raises
    ------
    RankError
        The rank asked for is larger than the data supports; the message says the most it supports.
    UsageError
        The method needs the vectors themselves.
    DataError
        Fewer than two identities with two images; a non-finite or zero row.
    """
    moments = moments_for(method)
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
    directions = directions_from(method, moments)
    people = int(moments.counts().size)
    chosen, note = directions.settle(rank)
    note += f"; fitted on {moments.rows_:,} images of {people:,} identities"
    if dropped:
        note += f"; {dropped} identities with a single image were left out"
    projector = directions.projector(chosen, encoder=table.meta.encoder, synthetic=table.meta.synthetic)
    return TableFit(projector, note)
