"""From raw vectors in a store to clean ones beside them: in batches, resumable, checked against what is read back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from numpy.typing import NDArray

from faceblind._errors import DataError, UsageError
from faceblind.data.meta import TableMeta
from faceblind.data.tables.table import check_size
from faceblind.deploy.checks import cautions_for
from faceblind.deploy.stores.base import Rows, Source, Store, StoreGoneError
from faceblind.deploy.stores.clean import clean, named
from faceblind.deploy.stores.compare import Differences, compare
from faceblind.deploy.stores.record import COMPLETE, REPAIRING, WRITING, WRITTEN, Record
from faceblind.erase import Projector

BATCH_ROWS = 8192
"""Rows per batch, which is one transaction: 24 MiB at d = 768 in float32."""


@dataclass(frozen=True, kw_only=True)
class RewriteReport:
    """What `rewrite` did."""

    source: str
    target: str
    rows: int
    """Clean vectors in the target."""
    written: int
    """How many of them this run wrote."""
    resumed: bool
    """Whether an earlier run had begun."""
    dim: int
    dtype: str
    formula: str
    energy_kept: float
    """Mean share of squared length that is left."""
    empty: int
    """Raw rows without a vector; they have none in the target either."""
    emptied: int
    """Raw rows that had nothing left. They have no vector in the target: a vector of zeros has no cosine."""
    emptied_examples: tuple[str, ...]
    checksum: str
    """Sum of the hashes of all clean rows as stored; see `record`."""
    verified: bool
    behind: Differences
    """Rows that came, changed or went in the source while it was read: run again to bring the target up to date."""
    cautions: tuple[str, ...]
    switch: tuple[str, ...]
    undo: tuple[str, ...]


def rewrite(
    store: Store,
    projector: Projector,
    *,
    batch_rows: int = BATCH_ROWS,
    compact: bool = False,
    renormalise: bool = True,
    dtype: Literal["float32", "float16"] | None = None,
    resume: bool = True,
    verify: bool = True,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> RewriteReport:
    """Write clean vectors into a new column or collection of a store; the raw ones are only read.

    Run again after an interruption, it goes on after the last row that is durable, and ends with the same contents. Run
    again when complete, it compares all rows and writes those that are new or changed.

    Parameters
    ----------
    store : Store
        `LanceStore`, `PostgresStore`, `QdrantStore` or your own.
    batch_rows : int
        Rows per batch and transaction.
    compact, renormalise
        As for `Projector.apply`.
    dtype : {"float32", "float16"}, optional
        Precision to store; that of the raw vectors when missing.
    resume : bool
        With False, a target that exists is refused.
    verify : bool
        Read the whole target back at the end: counts, checksum, and every raw row projected again.
    force : bool
        Go on although the projector was made for another encoder or the vectors were projected before.

    Raises
    ------
    EncoderError
        The projector was made for another encoder.
    ProjectorError
        The vectors have another dimension or were projected before.
    UsageError
        The target was begun with other settings.
    DataError
        A row that cannot be used, named by its key; or the target does not hold what was written.
    StoreGoneError
        The store went away, is locked, or another run is at work. What was written is kept.
    """
    check_size(batch_rows)
    source = store.describe()
    if source.scales and not renormalise:
        raise UsageError(f"{source.name} scales vectors to unit length by itself: leave out --no-renormalise")
    cautions = [*source.cautions, *_check(source, projector, force=force)]
    meta = TableMeta(encoder=source.meta.encoder, synthetic=source.meta.synthetic, projector=projector.digest)
    fresh = Record(
        meta=meta,
        source=source.name,
        source_rows=source.rows,
        dim=projector.compact_dim if compact else projector.dim,
        dtype=dtype or source.dtype,
        compact=compact,
        renormalise=renormalise,
        metric=source.metric,
        scaled_by_store=source.scales,
    )
    with store.locked():
        text = store.record()
        if text is None:
            record = fresh
            store.create(dim=fresh.dim, dtype=fresh.dtype, record=fresh.to_json())
        else:
            record = Record.from_json(text)
            record.require_same(fresh, source.target)
            if not resume:
                raise UsageError(f"{source.target} exists: resume, or give another --target, or drop it first")
        run = _Run(store, projector, source, batch_rows, progress, record)
        behind, verified = run.all(verify=verify)
    record = run.record
    if verified and behind.any:
        cautions.append(
            f"the source changed while it was read ({behind.words()}): run again to bring the target up to date"
        )
    elif not verified and (now := store.describe().rows) != source.rows:
        cautions.append(f"the source had {source.rows:,} rows at the start and has {now:,} now: run again")
    if record.empty:
        cautions.append(f"{record.empty:,} rows have no vector and get none")
    if record.emptied:
        cautions.append(
            f"{record.emptied:,} rows had nothing left and get no vector, among them {', '.join(map(str, record.examples))}"
        )
    seen = record.rows + record.emptied
    return RewriteReport(
        source=source.name,
        target=source.target,
        rows=record.rows,
        written=run.written,
        resumed=text is not None,
        dim=record.dim,
        dtype=record.dtype,
        formula=projector.formula(compact=compact),
        energy_kept=record.energy / seen if seen else 0.0,
        empty=record.empty,
        emptied=record.emptied,
        emptied_examples=tuple(map(str, record.examples)),
        checksum=record.checksum,
        verified=verified,
        behind=behind,
        cautions=tuple(cautions),
        switch=store.switch(),
        undo=store.undo(),
    )


@dataclass
class _Run:
    """One run under the lock; `record` is what is durable."""

    store: Store
    projector: Projector
    source: Source
    batch_rows: int
    progress: Callable[[int, int], None] | None
    record: Record
    written: int = 0

    def all(self, *, verify: bool) -> tuple[Differences, bool]:
        try:
            if self.record.status in {WRITING, WRITTEN}:
                self._write()
            else:
                self._repair()
            return self._verify() if verify else (Differences(), False)
        except StoreGoneError as error:
            raise StoreGoneError(
                f"{error}; {self.record.rows:,} clean rows are stored and nothing is lost: run again to continue"
            ) from error

    def _write(self) -> None:
        while (raw := self.store.read(self.record.last, self.batch_rows)).last is not None:
            self._write_batch(raw)
            self._tell(self.record.rows + self.record.empty + self.record.emptied)
        if self.record.status == WRITING:
            self._save(replace(self.record, status=WRITTEN))

    def _write_batch(self, raw: Rows) -> None:
        ready = clean(self.projector, raw, self.record, self.source.name)
        made = self.record

        def record_of(stored: NDArray[Any]) -> str:
            nonlocal made
            rows = replace(ready.rows, vectors=stored)
            made = self.record.add(rows, ready.emptied, ready.energy, raw.last, len(raw.empty))
            return made.to_json()

        if len(ready.rows):
            self.store.write(ready.rows, record_of)
        else:
            self.store.save(record_of(ready.rows.vectors))
        self.record = made  # only now is it durable
        self.written += len(ready.rows)

    def _repair(self) -> None:
        self._save(replace(self.record, status=REPAIRING))
        found, record = self._compare(fix=True)
        self.written += found.missing + found.changed
        self._save(replace(record, status=WRITTEN))

    def _verify(self) -> tuple[Differences, bool]:
        found, held = self._compare(fix=False)
        record, target = self.record, self.source.target
        count = self.store.count()
        same = held.rows == count == record.rows
        if self.source.exact:
            same &= held.checksum == record.checksum
        else:  # the sum of bits says nothing; rows were compared within rounding, and the sum of now is kept
            same &= not found.any
            record = replace(record, checksum=held.checksum)
        if not same and self.store.shares_rows and not found.changed and count == held.rows < record.rows:
            found.extra += record.rows - held.rows  # rows were deleted, and their clean vectors with them
            self._save(replace(held, status=WRITTEN))
            record, same = self.record, True
        if not same:
            self._save(replace(record, status=REPAIRING))
            where = f" ({named(found.examples)})" if found.examples else ""
            raise DataError(
                f"{target} does not hold what was written to it{where}: {record.rows:,} rows with checksum "
                f"{record.checksum[:12]} were written, {count:,} with {held.checksum[:12]} are there; run again to write "
                "those rows anew, or drop it"
            )
        self._save(replace(record, status=COMPLETE))
        return found, True

    def _compare(self, *, fix: bool) -> tuple[Differences, Record]:
        return compare(
            self.store,
            self.projector,
            self.record,
            name=self.source.name,
            batch_rows=self.batch_rows,
            fix=fix,
            progress=self._tell,
        )

    def _save(self, record: Record) -> None:
        self.store.save(record.to_json())
        self.record = record

    def _tell(self, done: int) -> None:
        if self.progress is not None:
            self.progress(done, max(done, self.source.rows))


def _check(source: Source, projector: Projector, *, force: bool) -> list[str]:
    """Refuse vectors that the projector is not for; return cautions."""
    cautions = cautions_for(
        projector, source.meta, source.dim, source.name, remedy="rewrite the raw vectors", force=force
    )
    if not source.rows:
        raise DataError(f"{source.name} has no rows: there is nothing to rewrite")
    return list(cautions)
