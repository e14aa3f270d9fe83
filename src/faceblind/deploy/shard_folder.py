"""The working folder of a sharded run: finished shards that survive a crash, and what they come from.

::

    OUTPUT.partial/
      .lock                 held while a run is at work
      manifest.json         what decides the bytes: projector, options, versions
      00000.json            record of a finished shard: its digest, and the state of the files it was read from
      clean/                becomes OUTPUT
        part-00000.parquet
        manifest.json       written last: all of the above in one

A shard counts as finished once its record is there, and only as long as its file has the recorded digest. It is used
again only if the options are the same and the files it comes from are unchanged.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from faceblind._errors import DataError, OutputError
from faceblind._files import LOCK, remove, sha256_file, write_text
from faceblind._manifest import read_manifest
from faceblind.data.tables.table import EmbeddingTable, Piece
from faceblind.deploy.stream import Tally

MANIFEST = "manifest.json"
FORMAT = "faceblind sharded apply, version 1"
_CLEAN = "clean"
_ENDS = 1 << 16


@dataclass(frozen=True)
class FileState:
    """State of a file when it was looked at; another state means that it may hold something else."""

    size: int
    mtime_ns: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> FileState:
        """Look at a file; raises `DataError` when it is gone."""
        try:
            status = path.stat()
        except OSError as error:
            raise DataError(f"{path} cannot be read any more: {error.strerror or error}") from error
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)


@dataclass(frozen=True)
class Source:
    """Rows of a source file that a shard was made from, and the state the file was in."""

    name: str
    start: int
    stop: int
    state: FileState

    @classmethod
    def of(cls, piece: Piece, root: Path, state: FileState) -> Source:
        """Name a piece by its path relative to the folder the table is in."""
        return cls(Path(os.path.relpath(piece.path, root)).as_posix(), piece.start, piece.stop, state)


def sources_of(table: EmbeddingTable, start: int, stop: int, states: Mapping[Path, FileState]) -> tuple[Source, ...]:
    """Return what rows `start` to `stop` of a table are read from."""
    root = table.path.parent
    return tuple(Source.of(piece, root, states[piece.path]) for piece in table.pieces(start, stop))


@dataclass(frozen=True, kw_only=True)
class ShardRecord:
    """What a finished shard holds and what it was made from."""

    index: int
    start: int
    sha256: str
    size: int
    """Bytes of the file."""
    tally: Tally
    sources: tuple[Source, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ShardRecord:
        """Rebuild from `to_dict`; raises `KeyError`, `TypeError` or `ValueError` for anything else."""
        tally = dict(data["tally"])
        sources = (
            Source(item["name"], item["start"], item["stop"], FileState(**item["state"])) for item in data["sources"]
        )
        return cls(
            index=int(data["index"]),
            start=int(data["start"]),
            sha256=str(data["sha256"]),
            size=int(data["size"]),
            tally=Tally(**(tally | {"examples": tuple(tally["examples"])})),
            sources=tuple(sources),
        )


@dataclass(frozen=True)
class ShardFolder:
    """The working folder; its lock is held by the caller."""

    path: Path

    @property
    def clean(self) -> Path:
        """Where the shards are; it becomes the output."""
        return self.path / _CLEAN

    def shard(self, index: int) -> Path:
        """Return the place of a shard."""
        return self.clean / shard_name(index)

    def begin(self, settings: Mapping[str, Any]) -> str | None:
        """Get ready for a run; return why an earlier run's shards were thrown away, if they were.

        Raises
        ------
        OutputError
            The folder holds something else.
        """
        earlier = self._manifest()
        now = {"format": FORMAT, "settings": dict(settings)}
        why = None if earlier in (None, now) else _difference(earlier or {}, now)
        if why is not None:
            self.discard()
        if earlier is None or why is not None:
            write_text(self.path / MANIFEST, as_json(now))
        self.clean.mkdir(exist_ok=True)
        for folder in (self.path, self.clean):
            sweep(folder)
        return why

    def record(self, index: int) -> ShardRecord | None:
        """Return the record of a finished shard; None when it is not finished or was damaged."""
        try:
            record = ShardRecord.from_dict(json.loads(self._record(index).read_text(encoding="utf-8")))
            intact = record.index == index and sha256_file(self.shard(index)) == record.sha256
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return record if intact else None

    def finish(self, record: ShardRecord) -> None:
        """Make a shard count, after its file was put in place."""
        write_text(self._record(record.index), as_json(record.to_dict()))

    def forget(self, index: int) -> None:
        """Make a shard no longer count, before its file is written anew."""
        self._record(index).unlink(missing_ok=True)

    def forget_beyond(self, shards: int) -> None:
        """Remove shards that this run does not have, from one over more rows."""
        names = {shard_name(index) for index in range(shards)} | {MANIFEST}
        for entry in self.clean.iterdir():
            if entry.name not in names:
                remove(entry)
        for entry in self.path.glob("[0-9]*.json"):
            if entry.stem.isdecimal() and int(entry.stem) >= shards:
                entry.unlink()

    def discard(self) -> None:
        """Remove everything but the lock."""
        # The manifest goes last: as long as it is there, the rest is known to be ours.
        for entry in sorted(self.path.iterdir(), key=lambda entry: entry.name == MANIFEST):
            if entry.name != LOCK:
                remove(entry)

    def _record(self, index: int) -> Path:
        return self.path / f"{index:05d}.json"

    def _manifest(self) -> dict[str, Any] | None:
        return read_manifest(self.path, MANIFEST, FORMAT, is_leftover=lambda entry: entry.name.startswith("."))


def shard_name(index: int) -> str:
    """Return the file name of a shard."""
    return f"part-{index:05d}.parquet"


def sweep(folder: Path) -> None:
    """Remove what a run that was killed in the act of writing left under temporary names."""
    for entry in folder.glob(".*.part"):
        remove(entry)


def final_manifest(
    settings: Mapping[str, Any], paths: Mapping[str, Path], records: Sequence[ShardRecord]
) -> dict[str, Any]:
    """Return what the finished folder says about itself.

    Parameters
    ----------
    paths
        The source files by the names that the records use.
    """
    states = {source.name: source.state for record in records for source in record.sources}
    total = sum((record.tally for record in records), Tally())
    return {
        "format": FORMAT,
        "settings": dict(settings),
        "source": [
            {
                "name": name,
                "size": state.size,
                "mtime_ns": state.mtime_ns,
                "ends_sha256": _sha256_of_ends(paths[name]),
            }
            for name, state in sorted(states.items())
        ],
        "rows": total.rows,
        "emptied": total.emptied,
        "energy_kept": total.energy / total.rows,
        "shards": [
            {
                "name": shard_name(record.index),
                "start": record.start,
                "rows": record.tally.rows,
                "size": record.size,
                "sha256": record.sha256,
                "emptied": record.tally.emptied,
                "examples": list(record.tally.examples),
                "energy": record.tally.energy,
            }
            for record in records
        ],
    }


def read_output(output: Path) -> dict[str, Any] | None:
    """Return the manifest of a finished folder at `output`; None when nothing is there.

    Raises
    ------
    OutputError
        It holds something that no sharded run wrote, which replacing it would delete.
    """
    if not output.exists():
        return None
    if not output.is_dir():
        raise OutputError(f"cannot write {output}: it is a file already; move it, or name another place")
    names = {entry.name for entry in output.iterdir()}
    if not names:
        return None
    try:
        manifest = json.loads((output / MANIFEST).read_text(encoding="utf-8"))
        known = manifest["format"] == FORMAT
        ours = {shard["name"] for shard in manifest["shards"]} | {MANIFEST} if known else set()
    except (OSError, ValueError, KeyError, TypeError):
        manifest, ours = {}, set()
    if strange := sorted(names - ours):
        raise OutputError(
            f"cannot write {output}: the folder holds {strange[0]}, which would be deleted; name a new folder"
        )
    return dict(manifest)


def is_intact(output: Path, shards: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the shards of a finished folder have the digests that its manifest records."""
    try:
        return all(sha256_file(output / shard["name"]) == shard["sha256"] for shard in shards)
    except OSError:
        return False


def as_json(data: Mapping[str, Any]) -> str:
    """Return canonical JSON, as all files here hold it."""
    return json.dumps(data, sort_keys=True, indent=1)


def _sha256_of_ends(path: Path) -> str:
    """Hex SHA-256 of the first and last 64 KiB of a file, where formats keep what they say about the rest."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        digest.update(stream.read(_ENDS))
        stream.seek(max(_ENDS, path.stat().st_size - _ENDS))
        digest.update(stream.read(_ENDS))
    return digest.hexdigest()


def _difference(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    before, after = earlier.get("settings", {}), now["settings"]
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if "versions" in names:
        return "they were made with other versions of faceblind or its libraries"
    if "projector" in names:
        return "they were made with another projector"
    if "table" in names:
        return "they were made from a table with other columns or another encoder"
    return (
        "they were made with other options ("
        + ", ".join(f"{name} {before.get(name)}, now {after.get(name)}" for name in names)
        + ")"
    )
