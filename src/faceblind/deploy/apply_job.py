"""One shard of a sharded application: which rows it has and how it is written, in whatever process that happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from faceblind._errors import DataError
from faceblind.data.tables import EmbeddingTable, open_writer
from faceblind.data.tables.table import Piece
from faceblind.deploy.apply import Plan
from faceblind.deploy.shard_folder import FileState, ShardFolder, ShardRecord, sources_of
from faceblind.deploy.stream import stream
from faceblind.erase import Projector


@dataclass(frozen=True)
class ShardTask:
    """Rows of the table that make one shard."""

    index: int
    start: int
    stop: int

    def __str__(self) -> str:
        return f"shard {self.index} (rows {self.start} to {self.stop})"


@dataclass(frozen=True, kw_only=True)
class ApplyJob:
    """Write one shard: a `faceblind._engine.Job` over `ShardTask`, whose record is a `ShardRecord`.

    It is a value: the table and the folder must be at the same paths wherever it runs. A shard that is done twice has the
    same bytes, and takes its place by a rename.
    """

    projector: Projector
    table: EmbeddingTable
    folder: ShardFolder
    plan: Plan
    states: Mapping[Path, FileState]
    """The source files as they were at the beginning."""
    threads: int = 1
    """Of each process; the bytes do not depend on it."""

    def open(self) -> None:
        """Nothing to get ready: a table is opened, and its files are read as tasks need them."""

    def run(self, task: ShardTask) -> ShardRecord:
        """Write a shard and its record.

        Raises
        ------
        DataError
            A bad row, or a source file that changed since the run began; both are named.
        OutputError
            The disk is full.
        """
        plan = self.plan
        pieces = self.table.pieces(task.start, task.stop)
        path = self.folder.shard(task.index)
        self.folder.forget(task.index)
        digest = sha256()
        with open_writer(
            path,
            meta=plan.meta,
            dim=plan.dim,
            dtype=plan.dtype,
            carried_schema=self.table.carried_schema,
            tee=digest.update,
            **plan.names,
        ) as writer:
            try:
                tally = stream(
                    self.projector,
                    self.table,
                    writer,
                    start=task.start,
                    stop=task.stop,
                    compact=plan.compact,
                    renormalise=plan.renormalise,
                    threads=self.threads,
                )
            except (DataError, FileNotFoundError):
                self._check(pieces)  # a file that was replaced reads as a damaged one
                raise
            self._check(pieces)
        record = ShardRecord(
            index=task.index,
            start=task.start,
            sha256=digest.hexdigest(),
            size=path.stat().st_size,
            tally=tally,
            sources=sources_of(self.table, task.start, task.stop, self.states),
        )
        self.folder.finish(record)
        return record

    def _check(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            if FileState.of(piece.path) != self.states[piece.path]:
                raise DataError(
                    f"{piece.path} changed while it was read: nothing may write to the table meanwhile; finished shards "
                    "of unchanged files stay, run again"
                )
