"""Embedding a folder of photographs: list, embed what is not done yet, write one table.

A run that was killed continues where it stopped, and its table has the same bytes as that of a run that was
not, wherever its shards are embedded. Memory does not grow with the number of photographs, apart from their names.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from pathlib import Path

from faceblind._engine import Engine, answers
from faceblind._errors import DataError, UsageError
from faceblind._files import locked
from faceblind.data.findings import Finding
from faceblind.data.meta import TableMeta
from faceblind.data.tables import TableWriter, open_writer
from faceblind.encoders.embed_job import EmbedJob, EmbedTask, await_shards, write_shard
from faceblind.encoders.encoder import Encoder
from faceblind.encoders.folder import Photo, PhotoFolder, list_photos
from faceblind.encoders.pipeline import Embedded, embed_batches
from faceblind.encoders.shards import Skip, Stamp, WorkFolder, write_skip_list

Progress = Callable[[int, int], None]
"""Called as ``progress(done, total)``, in photographs."""

_Shard = Sequence[Photo]
_SHARD_ROWS = 256
_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class EmbedResult:
    """What `embed_folder` did."""

    output: Path
    embedded: int
    """Rows in the table."""
    resumed: int
    """How many photographs an interrupted run had dealt with."""
    skipped: tuple[Skip, ...]
    notes: tuple[Finding, ...]
    """What was left out of the listing, and what was continued or redone."""
    skip_list_path: Path | None
    """CSV file with the columns sample and reason; None when nothing was skipped."""


def embed_folder(
    folder: str | Path,
    encoder: Encoder,
    output: str | Path,
    *,
    labels_csv: str | Path | None = None,
    batch_size: int = 16,
    workers: int = 2,
    dtype: str = "float32",
    progress: Progress | None = None,
    resume: bool = True,
    engine: Engine | None = None,
) -> EmbedResult:
    """Embed the photographs of a folder into one table.

    Photographs that cannot be used are skipped, and named with the reason in the result and in
    ``OUTPUT.skipped.csv``. Until the table is written, finished vectors are kept in ``OUTPUT.partial``; after
    a crash or Ctrl-C the same call continues from there. Photographs that changed since are embedded again,
    and all of them if the encoder changed.

    Parameters
    ----------
    folder, labels_csv
        See `list_photos`.
    encoder
        From `open_encoder`, or your own.
    output
        Table to write; its suffix decides the format (`faceblind.data.tables.open_writer`).
    batch_size
        Photographs given to the encoder at a time.
    workers
        Threads that decode.
    dtype
        Type of the vectors in the table, ``"float32"`` or ``"float16"``.
    progress
        Called from this thread, first with what an interrupted run had done.
    resume
        False throws an interrupted run's vectors away.
    engine
        Embeds shards of 256 photographs in other processes or on other machines, each with an encoder and
        `workers` threads of its own; they must see the photographs and the folder of `output` under the same
        paths. The table has the same bytes. In this process when missing.

    Raises
    ------
    DataError
        The folder or the CSV cannot be used, or every photograph was skipped.
    EncoderError
        The encoder failed, or is another one on another machine.
    OutputError
        The table or the working folder cannot be written, or another run is writing it; found out before the
        first photograph. Or a worker does not see the working folder.
    """
    for name, value in (("batch_size", batch_size), ("workers", workers)):
        if value < 1:
            raise UsageError(f"{name} must be at least 1, got {value}")
    output = Path(output)
    listing = list_photos(folder, labels_csv=labels_csv)
    table = _Table(output, encoder, listing.synthetic, dtype)
    table.rehearse()
    place = output.with_name(output.name + ".partial")
    WorkFolder.check(place)
    with locked(place, output):
        work, restarted = WorkFolder.open(
            place, encoder.fingerprint, shard_rows=_SHARD_ROWS, resume=resume, projector=encoder.projector
        )
        shards = [listing.photos[i : i + _SHARD_ROWS] for i in range(0, len(listing), _SHARD_ROWS)]
        plan = _plan(shards, work)
        run = _Run(encoder, listing, work, batch_size, workers)
        steps = run.here(shards, plan) if engine is None else run.elsewhere(shards, plan, engine)
        done = plan.done
        if progress is not None:
            progress(done, len(listing))
        with closing(steps):
            for count in steps:
                done += count
                if progress is not None:
                    progress(done, len(listing))
        skipped = tuple(skip for record in work.records(len(shards)) for skip in record.skipped)
        skip_list = write_skip_list(output, skipped)
        if len(skipped) == len(listing):
            work.remove()
            first = "; ".join(f"{skip.sample}: {skip.reason}" for skip in skipped[:_SHOWN])
            raise DataError(
                f"none of the {len(listing)} photographs under {listing.root} can be used ({first}); see {skip_list}"
            )
        table.write(shards, work)
        work.remove()
    return EmbedResult(
        output=output,
        embedded=len(listing) - len(skipped),
        resumed=plan.done,
        skipped=skipped,
        notes=(*listing.notes, *_resume_notes(plan, restarted)),
        skip_list_path=skip_list,
    )


@dataclass(frozen=True)
class _Run:
    """Embeds what is left to do; both ways yield how many photographs were done since."""

    encoder: Encoder
    listing: PhotoFolder
    work: WorkFolder
    batch_size: int
    workers: int

    def here(self, shards: Sequence[_Shard], plan: _Plan) -> Generator[int, None, None]:
        """Decode ahead across shards, so that the encoder never waits at the end of one."""
        todo = [shards[k] for k in plan.todo]
        batches = embed_batches(todo, self.encoder, batch_size=self.batch_size, workers=self.workers)
        with closing(batches):
            for k, shard in zip(plan.todo, todo, strict=True):
                parts: list[Embedded] = []
                left = len(shard)
                while left:
                    parts.append(next(batches))
                    left -= len(parts[-1].stamps)
                    yield len(parts[-1].stamps)
                write_shard(self.work, k, parts)

    def elsewhere(self, shards: Sequence[_Shard], plan: _Plan, engine: Engine) -> Generator[int, None, None]:
        """Leave them to an engine, whose workers write into the working folder."""
        job = EmbedJob(
            encoder=self.encoder,
            fingerprint=self.encoder.fingerprint,
            root=self.listing.root.absolute(),
            work=self.work.path.absolute(),
            batch_size=self.batch_size,
            workers=self.workers,
        )
        with answers(engine, job, [EmbedTask.of(k, shards[k]) for k in plan.todo]) as records:
            for record in records:
                yield record.photos
        await_shards(self.work, plan.todo)


@dataclass(frozen=True, kw_only=True)
class _Plan:
    todo: list[int]
    done: int
    """Photographs in finished shards."""
    redo: int
    """Photographs in shards that were finished and no longer hold."""


def _plan(shards: Sequence[_Shard], work: WorkFolder) -> _Plan:
    todo, done, redo = [], 0, 0
    for k, shard in enumerate(shards):
        record = work.record(k)
        if record is None:
            todo.append(k)
        elif record.stamps == tuple(Stamp.of(photo.sample, photo.path) for photo in shard):
            done += len(shard)
        else:
            todo.append(k)
            redo += len(shard)
    return _Plan(todo=todo, done=done, redo=redo)


def _resume_notes(plan: _Plan, restarted: str | None) -> list[Finding]:
    notes = []
    if restarted is not None:
        message = f"the vectors of an interrupted run were thrown away: {restarted}"
        notes.append(Finding(kind="restarted", severity="note", count=1, message=message))
    if plan.done:
        message = f"an interrupted run was continued; it had dealt with {plan.done} photographs"
        notes.append(Finding(kind="resumed", severity="note", count=plan.done, message=message))
    if plan.redo:
        message = (
            f"{plan.redo} photographs of an interrupted run were embedded again, as they or their neighbours "
            "in the list changed since"
        )
        notes.append(Finding(kind="redone", severity="note", count=plan.redo, message=message))
    return notes


class _Rehearsal(Exception):  # noqa: N818 (not an error: it takes an opened table back)
    pass


@dataclass(frozen=True)
class _Table:
    output: Path
    encoder: Encoder
    synthetic: bool
    dtype: str

    def rehearse(self) -> None:
        """Open the table and take it back: what cannot be written must show now, not after hours."""
        with suppress(_Rehearsal), self._open():
            raise _Rehearsal

    def write(self, shards: Sequence[_Shard], work: WorkFolder) -> None:
        with self._open() as writer:
            for k, shard in enumerate(shards):
                record, vectors = work.read(k)
                kept = [shard[i] for i in record.kept()]
                if kept:
                    identity = [photo.identity for photo in kept]
                    writer.write(vectors, identity, [photo.sample for photo in kept])

    def _open(self) -> AbstractContextManager[TableWriter]:
        encoder = self.encoder
        meta = TableMeta(encoder=encoder.fingerprint, synthetic=self.synthetic, projector=encoder.projector)
        return open_writer(self.output, meta=meta, dim=encoder.dim, dtype=self.dtype)
