"""Apply a projector to a table shard by shard: resumable after any crash, by as many processes as there are cores."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from faceblind._engine import Engine, answers
from faceblind._errors import UsageError
from faceblind._files import locked, replace_folder, restore_folder, write_text
from faceblind._local_engine import LocalEngine
from faceblind.data.meta import TableMeta
from faceblind.data.tables import EmbeddingTable
from faceblind.data.tables.arrow import load_arrow
from faceblind.data.tables.write_parquet import ROW_GROUP
from faceblind.deploy.apply import ApplyReport, Plan, plan_for, report_of
from faceblind.deploy.apply_job import ApplyJob, ShardTask
from faceblind.deploy.shard_folder import (
    MANIFEST,
    FileState,
    ShardFolder,
    ShardRecord,
    Source,
    as_json,
    final_manifest,
    is_intact,
    read_output,
    sources_of,
)
from faceblind.deploy.stream import Tally
from faceblind.erase import Projector

SHARD_ROWS = 262_144
"""Rows per shard unless told otherwise: 400 MB at d = 768 in float16."""


def apply_sharded(
    projector: Projector,
    table: EmbeddingTable,
    output: str | Path,
    *,
    engine: Engine | None = None,
    workers: int = 1,
    shard_rows: int = SHARD_ROWS,
    compact: bool = False,
    renormalise: bool = True,
    dtype: str | None = None,
    force: bool = False,
    names: dict[str, str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ApplyReport:
    """Write a folder of Parquet shards of erased vectors, and a manifest that names them, their digests and their source.

    Until all shards are there they are kept in ``OUTPUT.partial``; a run that was killed goes on from there when it is
    started again and ends with the same bytes. Shards are made again when their files have another digest than was
    recorded or when the source files they come from changed, and all of them when projector or options changed. A finished
    `output` of the same source and options is checked and left as it is; any other finished one is replaced when the
    new one is complete.

    Parameters
    ----------
    projector, table, compact, renormalise, dtype, force, names
        As for `apply_table`.
    output : path
        Folder to write. It must be new, empty or written by this function.
    engine : Engine, optional
        Where shards are made; `LocalEngine` with `workers` when missing. The bytes do not depend on it.
    workers : int
        Processes on this machine.
    shard_rows : int
        Rows per shard, a multiple of the 4,096 of a row group.
    progress : callable, optional
        Called with rows done and all rows, first with what an interrupted run had done.

    Raises
    ------
    EncoderError, ProjectorError
        As `apply_table`.
    DataError
        A row with NaN or infinity, or a source file that changed during the run; finished shards stay.
    OutputError
        The place cannot be written, another run is writing it, or the folder holds something else.
    UsageError
        A number of rows per shard that is no such multiple.
    MissingExtraError
        pyarrow is not installed.
    """
    load_arrow("writing a folder of shards")
    if shard_rows < 1 or shard_rows % ROW_GROUP:
        raise UsageError(f"rows per shard must be a multiple of {ROW_GROUP:,} (a row group), got {shard_rows:,}")
    engine = engine or LocalEngine(workers)
    threads = engine.threads if isinstance(engine, LocalEngine) else 1
    output = Path(output)
    plan = plan_for(
        projector, table, compact=compact, renormalise=renormalise, dtype=dtype, force=force, names=names or {}
    )
    read_output(output)
    with locked(output.with_name(output.name + ".partial"), output):
        restore_folder(output)
        folder = ShardFolder(output.with_name(output.name + ".partial"))
        run = _Run(projector, table, output, folder, plan, shard_rows)
        done = run.finished()
        if done is not None:
            folder.discard()
            note = f"{output} was already complete, made of the same source with the same options, and is intact"
            if progress is not None:
                progress(table.rows, table.rows)
            return report_of(projector, plan, done, resumed=table.rows, notes=(note,))
        return run.carry_out(engine, threads, progress or (lambda _done, _of: None))


class _Run:
    """One run over a table, while the lock of its working folder is held."""

    def __init__(
        self,
        projector: Projector,
        table: EmbeddingTable,
        output: Path,
        folder: ShardFolder,
        plan: Plan,
        shard_rows: int,
    ) -> None:
        self.output = output
        self.folder = folder
        self.projector = projector
        self.table = table
        self.plan = plan
        self.tasks = [
            ShardTask(index, start, min(start + shard_rows, table.rows))
            for index, start in enumerate(range(0, table.rows, shard_rows))
        ]
        self.paths = {Source.of(p, table.path.parent, _NO_STATE).name: p.path for p in table.pieces()}
        self.states = {path: FileState.of(path) for path in self.paths.values()}
        self.settings = {
            "projector": projector.digest,
            "compact": plan.compact,
            "renormalise": plan.renormalise,
            "dtype": plan.dtype,
            "shard_rows": shard_rows,
            "versions": _versions(),
            "table": {
                "meta": TableMeta.to_json(table.meta),
                "dim": table.dim,
                "dtype": str(table.dtype),
                "names": plan.names,
                "carried": None if table.carried_schema is None else str(table.carried_schema),
            },
        }

    def finished(self) -> Tally | None:
        """Return the tally of a finished output that this run would make again; None when there is none."""
        found = read_output(self.output)
        if found is None or found.get("settings") != _plain(self.settings):
            return None
        records = [self._expected(shard) for shard in found["shards"]]
        expected = (
            _plain(final_manifest(self.settings, self.paths, records)) if len(records) == len(self.tasks) else None
        )
        if found != expected or not is_intact(self.output, found["shards"]):
            return None
        return sum((record.tally for record in records), Tally())

    def _expected(self, shard: Mapping[str, Any]) -> ShardRecord:
        index = int(Path(shard["name"]).stem.rpartition("-")[2])
        tally = Tally(
            rows=shard["rows"], energy=shard["energy"], emptied=shard["emptied"], examples=tuple(shard["examples"])
        )
        task = self.tasks[min(index, len(self.tasks) - 1)]
        return ShardRecord(
            index=index,
            start=task.start,
            sha256=shard["sha256"],
            size=shard["size"],
            tally=tally,
            sources=self._sources(task),
        )

    def _sources(self, task: ShardTask) -> tuple[Source, ...]:
        return sources_of(self.table, task.start, task.stop, self.states)

    def carry_out(self, engine: Engine, threads: int, progress: Callable[[int, int], None]) -> ApplyReport:
        """Make the shards that are not there yet and put the folder in its place."""
        folder, table = self.folder, self.table
        restarted = folder.begin(self.settings)
        folder.forget_beyond(len(self.tasks))
        records: dict[int, ShardRecord] = {}
        redo = 0
        for task in self.tasks:
            record = folder.record(task.index)
            if record is None:
                continue
            if record.start == task.start and record.sources == self._sources(task):
                records[task.index] = record
            else:
                redo += record.tally.rows
        resumed = done = sum(record.tally.rows for record in records.values())
        progress(done, table.rows)
        job = ApplyJob(
            projector=self.projector,
            table=table,
            folder=folder,
            plan=self.plan,
            states=self.states,
            threads=threads,
        )
        todo = [task for task in self.tasks if task.index not in records]
        try:
            with answers(engine, job, todo) as finished:
                for record in finished:
                    records[record.index] = record
                    done += record.tally.rows
                    progress(done, table.rows)
        except BaseException:
            if not records:
                folder.discard()  # nothing to go on from
            raise
        ordered = [records[task.index] for task in self.tasks]
        manifest = final_manifest(self.settings, self.paths, ordered)
        write_text(folder.clean / MANIFEST, as_json(manifest))
        replace_folder(folder.clean, self.output)
        folder.discard()
        total = sum((record.tally for record in ordered), Tally())
        return report_of(self.projector, self.plan, total, resumed=resumed, notes=_notes(restarted, resumed, redo))


_NO_STATE = FileState(0, 0, 0)


def _notes(restarted: str | None, resumed: int, redo: int) -> tuple[str, ...]:
    notes = []
    if restarted is not None:
        notes.append(f"the shards of an interrupted run were thrown away: {restarted}")
    if resumed:
        notes.append(f"an interrupted run was continued; {resumed:,} rows were done")
    if redo:
        notes.append(f"{redo:,} rows of an interrupted run were done again, as the files they come from changed since")
    return tuple(notes)


def _versions() -> dict[str, str]:
    found = {}
    for name in ("faceblind", "numpy", "pyarrow"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def _plain(data: Mapping[str, Any]) -> Any:
    return json.loads(as_json(data))
