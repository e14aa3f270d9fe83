"""Fit an eraser on a table of any size: one pass, sums per identity, memory that grows with identities and not with rows.

The sums of each shard of rows are collected apart and added in the order of the shards. Where that happens, in this
process or on a cluster, has no influence on a single bit of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._engine import Engine, answers
from faceblind._errors import DataError
from faceblind.data.embeddings import bad_rows
from faceblind.data.tables import EmbeddingTable
from faceblind.data.tables.table import Batch
from faceblind.erase import IdentityMoments, Projector
from faceblind.erase.methods import directions_from, moments_for

_SHARD_ROWS = 262_144
"""Rows whose sums are one task. Fixed: the cuts decide how sums are rounded."""

Progress = Callable[[int, int], None]


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
    progress: Progress | None = None,
    engine: Engine | None = None,
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
    progress : callable, optional
        Called as ``progress(done, total)``, in rows.
    engine : Engine, optional
        Collects the sums in other processes or on other machines, which must see the table under the same path. What
        travels back for each 262,144 rows is one vector of float64 for each identity among them (and one d x d matrix
        for methods that use scatter), so it pays for tables whose rows are grouped by identity, or that have few
        identities. The result is the same to the last bit.

    Raises
    ------
    RankError
        The rank asked for is larger than the data supports; the message says the most it supports.
    UsageError
        The method needs the vectors themselves.
    DataError
        Fewer than two identities with two images; a non-finite or zero row (named).
    """
    job = MomentsJob(table, method, None if samples is None else np.array(sorted(samples), dtype=np.str_))
    job.open()
    cuts = range(0, table.rows, _SHARD_ROWS)
    shards = [_Rows(k, start, min(start + _SHARD_ROWS, table.rows)) for k, start in enumerate(cuts)]
    moments = _merged(job, shards, engine, progress or (lambda _done, _total: None))
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


@dataclass(frozen=True)
class _Rows:
    """Consecutive rows of a table, whose sums are one task."""

    shard: int
    start: int
    stop: int

    def __str__(self) -> str:
        return f"rows {self.start} to {self.stop}"


@dataclass(frozen=True, eq=False)
class _Part:
    rows: _Rows
    moments: IdentityMoments


@dataclass(frozen=True, eq=False)
class MomentsJob:
    """Collects the sums of shards of rows; see `faceblind._engine.Job`."""

    table: EmbeddingTable
    method: str
    wanted: NDArray[np.str_] | None
    """Sorted keys of the rows to use; all when None."""

    def open(self) -> None:
        """Check that there is something to collect; raises `UsageError` for a method that sums do not serve."""
        moments_for(self.method)

    def run(self, rows: _Rows) -> _Part:
        """Collect the sums of a shard, of the identities in it and no others."""
        moments = moments_for(self.method)
        for _ in self.steps(rows, moments):
            pass
        return _Part(rows, moments_for(self.method).merge(moments))  # into empty sums: without room to grow

    def steps(self, rows: _Rows, moments: IdentityMoments) -> Iterator[int]:
        """Add a shard batch by batch; yield how many rows were read."""
        for batch in self.table.batches(start=rows.start, stop=rows.stop):
            if batch.identity is None:
                raise DataError(f"{self.table.path} has no identities: name the identity column")
            chosen = slice(None) if self.wanted is None else np.isin(batch.sample, self.wanted)
            try:
                moments.partial_fit(batch.vectors[chosen], batch.identity[chosen])
            except DataError:
                self._refuse(batch, chosen)
                raise
            yield len(batch)

    def _refuse(self, batch: Batch, chosen: Any) -> None:
        """Name a bad row by its number in the table; sums know only how many they were given."""
        numbers = np.arange(batch.start, batch.start + len(batch))[chosen]
        bad = bad_rows(batch.vectors[chosen])
        found = [(numbers[r], "NaN or infinity") for r in bad.non_finite] + [
            (numbers[r], "only zeros") for r in bad.zero
        ]
        if found:
            row, what = min(found)
            raise DataError(f"{self.table.path}: row {row} holds {what}: re-embed that image or drop the row")


def _merged(job: MomentsJob, shards: Sequence[_Rows], engine: Engine | None, progress: Progress) -> IdentityMoments:
    """Add the sums of all shards in order; those that come before their turn wait."""
    total, done, rows = moments_for(job.method), 0, shards[-1].stop
    if engine is None:
        for shard in shards:
            part = moments_for(job.method)
            for count in job.steps(shard, part):
                done += count
                progress(done, rows)
            total.merge(part)
        return total
    waiting: dict[int, IdentityMoments] = {}
    turn = 0
    with answers(engine, job, shards) as parts:
        for part in parts:
            waiting[part.rows.shard] = part.moments
            while turn in waiting:
                total.merge(waiting.pop(turn))
                turn += 1
            done += part.rows.stop - part.rows.start
            progress(done, rows)
    return total
