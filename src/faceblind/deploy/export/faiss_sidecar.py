"""The record beside a faiss index: faiss files have no place for metadata, so ``index.faiss`` gets ``index.faiss.json``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from faceblind._errors import FormatError, OutputError
from faceblind._files import atomic_path, sha256_file, write_text
from faceblind.data.meta import METADATA_KEY, TableMeta

SIDECAR_FORMAT = "faceblind.faiss/1"
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Sidecar:
    """What is known of an index."""

    meta: TableMeta
    """Provenance of the stored vectors."""
    form: Mapping[str, Any]
    """Projector and form of output, see `described`."""
    count: int
    factory: str
    metric: str
    faiss: str
    """Version of faiss that wrote the index."""
    source: str = ""
    """What the vectors were read from."""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        return {
            "format": SIDECAR_FORMAT,
            METADATA_KEY: json.loads(self.meta.to_json()),
            "queries": "raw: the projector inside the index is applied to whatever is added or searched",
            "form": dict(self.form),
            "count": self.count,
            "factory": self.factory,
            "metric": self.metric,
            "faiss": self.faiss,
            "source": self.source,
        }


def sidecar_path(index: str | Path) -> Path:
    """Return the path of an index's record."""
    index = Path(index)
    return index.with_name(f"{index.name}.json")


def write_index(index: Any, target: str | Path, sidecar: Sidecar, check: Callable[[Any], T]) -> T:
    """Write an index and its record, after `check` has seen the index as it reads back; returns what `check` returns.

    The earlier record goes before the new index gets its name: a record must never describe another file.

    Raises
    ------
    OutputError
        The place cannot be written.
    """
    import faiss

    target = Path(target)
    with atomic_path(target) as temporary:
        try:
            faiss.write_index(index, str(temporary))
        except RuntimeError as error:  # of C++, without a number
            raise OutputError(f"cannot write {target}: faiss says {brief(error)}") from error
        result = check(read_index(temporary))
        file = {"sha256": sha256_file(temporary), "bytes": temporary.stat().st_size}
        sidecar_path(target).unlink(missing_ok=True)
    write_text(sidecar_path(target), json.dumps(sidecar.to_dict() | file, indent=1, sort_keys=True) + "\n")
    return result


def read_index(path: str | Path) -> Any:
    """Read an index, mapped into memory as far as faiss can; raises `FormatError`."""
    import faiss

    wanted = faiss.IO_FLAG_MMAP | getattr(faiss, "IO_FLAG_MMAP_IFC", 0)  # inverted lists refuse the second
    try:
        try:
            return faiss.read_index(str(path), wanted)
        except RuntimeError:
            return faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
    except RuntimeError as error:
        raise FormatError(f"{path} is not a faiss index that this version reads: {brief(error)}") from error


def brief(error: Exception) -> str:
    """Return what an error of faiss says, without the place in its source."""
    return str(error).rsplit(": ", 1)[-1][:200]


def read_meta(index: str | Path) -> TableMeta:
    """Read the provenance of an index; empty when it has no record.

    Raises
    ------
    FormatError
        The record is damaged or belongs to an index of another size.
    """
    record = sidecar_path(index)
    if not record.is_file():
        return TableMeta()
    try:
        data = json.loads(record.read_text(encoding="utf-8"))
        if data["format"] != SIDECAR_FORMAT:
            raise FormatError(f"{record} has format {data['format']!r}, this version reads {SIDECAR_FORMAT!r}")
        meta = TableMeta.from_json(json.dumps(data[METADATA_KEY]))
        size = data["bytes"]
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{record} is not the record of an index: {error!r}") from error
    if size != Path(index).stat().st_size:
        raise FormatError(f"{record} describes another file than {index} (of {size:,} bytes): move the record away")
    return meta
