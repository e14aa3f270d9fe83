"""The working folder of an embedding run: finished vectors that survive a crash, and what they come from.

::

    OUTPUT.partial/
      manifest.json       the encoder's fingerprint, its projector if it has one, photographs per shard
      .lock               held by the run that is under way
      00000.npy           (m, d) float32: the vectors of the first photographs, without those skipped
      00000.json          those photographs (key, size, modification time), and the skipped ones with reasons

A shard is finished once its JSON is there; both files are renamed into place. It is used again only if the
encoder and all of its photographs are unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import FormatError, OutputError
from faceblind._files import LOCK, atomic_path, remove, sha256_file, write_csv, write_text
from faceblind._manifest import read_manifest
from faceblind.data.meta import Fingerprint

_FORMAT = "faceblind embedding run, version 1"
_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Stamp:
    """State of a photograph's file when it was read; another state means that it may be another picture."""

    sample: str
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, sample: str, path: Path) -> Stamp:
        """Take the stamp of a file; one that is missing has the size -1."""
        try:
            status = path.stat()
        except OSError:
            return cls(sample, -1, -1)
        return cls(sample, status.st_size, status.st_mtime_ns)


@dataclass(frozen=True)
class Skip:
    """A photograph without a vector, and why."""

    sample: str
    reason: str


def write_skip_list(output: Path, skipped: Sequence[Skip]) -> Path | None:
    """Write ``OUTPUT.skipped.csv`` and return its path; with nothing to list, remove that of an earlier run."""
    path = output.with_name(f"{output.name}.skipped.csv")
    if not skipped:
        path.unlink(missing_ok=True)
        return None
    write_csv(path, ("sample", "reason"), [(skip.sample, skip.reason) for skip in skipped])
    return path


@dataclass(frozen=True, kw_only=True)
class ShardRecord:
    """What a finished shard was made from."""

    stamps: tuple[Stamp, ...]
    skipped: tuple[Skip, ...]
    sha256: str
    """Of the file of vectors."""

    def kept(self) -> list[int]:
        """Return the positions, within the shard, of the photographs that have a vector."""
        missing = {skip.sample for skip in self.skipped}
        return [i for i, stamp in enumerate(self.stamps) if stamp.sample not in missing]


class WorkFolder:
    """The working folder beside an output; make it with `WorkFolder.open`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(
        cls, path: Path, encoder: Fingerprint, *, shard_rows: int, resume: bool, projector: str | None = None
    ) -> tuple[WorkFolder, str | None]:
        """Open or make the folder; shards of an earlier run stay if it was made with the same encoder and projector.

        The caller holds it (`faceblind._files.locked`).

        Returns
        -------
        WorkFolder
        str or None
            Why an earlier run's shards were thrown away, if they were.

        Raises
        ------
        OutputError
            The place cannot be written, or holds something else.
        """
        manifest = {"format": _FORMAT, "encoder": encoder.to_dict(), "shard_rows": shard_rows}
        if projector is not None:
            manifest["projector"] = projector
        earlier = read_manifest(path, _MANIFEST, _FORMAT, is_leftover=_is_leftover)
        why = None
        if earlier is not None:
            if not resume:
                why = "a fresh start was asked for"
            elif earlier != manifest:
                why = _difference(earlier, manifest)
            if why is not None:
                cls(path).remove()
        if earlier is None or why is not None:
            write_text(path / _MANIFEST, json.dumps(manifest, sort_keys=True, indent=1))
        return cls(path), why

    @staticmethod
    def check(path: Path) -> None:
        """Raise `OutputError` when there is something else at the place of a working folder."""
        read_manifest(path, _MANIFEST, _FORMAT, is_leftover=_is_leftover)

    def is_of(self, encoder: Fingerprint) -> bool:
        """Whether the folder is there and of a run with this encoder."""
        try:
            manifest = read_manifest(self.path, _MANIFEST, _FORMAT, is_leftover=_is_leftover)
        except OutputError:
            return False
        return manifest is not None and manifest.get("encoder") == encoder.to_dict()

    def has(self, shard: int) -> bool:
        """Whether a shard is finished, whatever is in it."""
        return self._json(shard).exists()

    def record(self, shard: int) -> ShardRecord | None:
        """Return the record of a finished shard; None when it is not finished or was damaged."""
        try:
            data = json.loads(self._json(shard).read_text(encoding="utf-8"))
            record = ShardRecord(
                stamps=tuple(Stamp(*stamp) for stamp in data["stamps"]),
                skipped=tuple(Skip(*skip) for skip in data["skipped"]),
                sha256=data["sha256"],
            )
            intact = sha256_file(self._npy(shard)) == record.sha256
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return record if intact else None

    def write(
        self,
        shard: int,
        stamps: Sequence[Stamp],
        skipped: Sequence[Skip],
        vectors: NDArray[np.float32],
    ) -> None:
        """Finish a shard: its vectors first, then the record that makes them count."""
        self._json(shard).unlink(missing_ok=True)
        with atomic_path(self._npy(shard)) as temporary, temporary.open("wb") as stream:
            np.save(stream, vectors, allow_pickle=False)
        data = {
            "stamps": [[stamp.sample, stamp.size, stamp.mtime_ns] for stamp in stamps],
            "skipped": [[skip.sample, skip.reason] for skip in skipped],
            "sha256": sha256_file(self._npy(shard)),
        }
        write_text(self._json(shard), json.dumps(data))

    def read(self, shard: int) -> tuple[ShardRecord, NDArray[np.float32]]:
        """Return a finished shard; raises `FormatError` when something altered it since."""
        record = self.record(shard)
        if record is None:
            raise FormatError(f"{self._npy(shard)} was altered or removed while it was in use: run again")
        return record, np.load(self._npy(shard), allow_pickle=False)

    def records(self, shards: int) -> Iterator[ShardRecord]:
        """Yield the records of all shards, in order."""
        for shard in range(shards):
            yield self.read(shard)[0]

    def remove(self) -> None:
        """Remove all that is in the folder but its lock, whose holder removes it and then the folder."""
        for entry in self.path.iterdir():
            if entry.name != LOCK:
                remove(entry)

    def _npy(self, shard: int) -> Path:
        return self.path / f"{shard:05d}.npy"

    def _json(self, shard: int) -> Path:
        return self.path / f"{shard:05d}.json"


def _is_leftover(entry: Path) -> bool:
    # of a run killed before it had written anything, or in the act of writing
    return entry.name == LOCK or (entry.name.startswith(".") and entry.name.endswith(".part"))


def _difference(earlier: dict[str, Any], now: dict[str, Any]) -> str:
    before, after = earlier.get("encoder"), now["encoder"]
    if before == after and earlier.get("projector") != now.get("projector"):
        return "the projector behind the encoder changed"
    if before == after or not isinstance(before, dict):
        return "they were made by another version of faceblind"
    names = [name for name in after if before.get(name) != after[name]]
    return f"the encoder changed ({', '.join(names)})"
