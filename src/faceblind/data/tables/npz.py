"""Tables in one ``.npz`` archive: arrays of vectors, identities and keys. Needs no pyarrow."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError, FormatError
from faceblind.data.findings import Finding
from faceblind.data.meta import METADATA_KEY, TableMeta
from faceblind.data.tables.arrow import parse_meta
from faceblind.data.tables.columns import DEFAULTS, find_column, find_sample, row_numbers, text_of_numpy
from faceblind.data.tables.inspection import SHOWN, dtype_findings
from faceblind.data.tables.npy import Header, check_vectors, native, read_header
from faceblind.data.tables.table import BATCH_ROWS, Batch, Names, Piece, check_range, check_size

META_ARRAY = f"{METADATA_KEY}_meta"
"""Array of no dimensions that holds the table's metadata as JSON."""

_MISCOUNTED = "{path}: an array holds fewer or more bytes than its header announces; write it again"

_USUAL_NAMES = ("vectors", "embeddings", "X")


@dataclass(frozen=True)
class NpzTable:
    """An opened ``.npz``; see `EmbeddingTable`. Open it with `open_npz_table`.

    Vectors are read from the archive batch by batch, compressed or not; those in Fortran order, and the
    identities and keys in any case, are loaded whole.
    """

    path: Path
    rows: int
    dim: int
    dtype: np.dtype[Any]
    meta: TableMeta
    findings: tuple[Finding, ...]
    _names: Names
    _has_sample: bool

    @property
    def carried_schema(self) -> None:
        """Always None: other arrays are not carried, and a finding says so."""
        return

    def batches(self, size: int = BATCH_ROWS, *, start: int = 0, stop: int | None = None) -> Iterator[Batch]:
        """Yield rows in order; see `EmbeddingTable.batches`. What lies before `start` is passed over, but decompressed."""
        check_size(size)
        wanted = check_range(start, stop, self.rows)
        names = self._names
        with _opened(self.path) as archive:
            identity = None if names.identity is None else _read_text(archive, names.identity, "identity", self.path)
            sample = _read_text(archive, names.sample, "sample", self.path) if self._has_sample else None
        done = wanted.start
        for vectors in self._vectors(size, wanted):
            rows = slice(done, done + vectors.shape[0])
            yield Batch(
                done,
                vectors,
                None if identity is None else identity[rows],
                row_numbers(done, vectors.shape[0]) if sample is None else sample[rows],
            )
            done = rows.stop

    def pieces(self, start: int = 0, stop: int | None = None) -> tuple[Piece, ...]:
        """Return the archive with the rows; see `EmbeddingTable.pieces`."""
        wanted = check_range(start, stop, self.rows)
        return (Piece(self.path, wanted.start, wanted.stop),) if wanted else ()

    def _vectors(self, size: int, wanted: range) -> Iterator[NDArray[Any]]:
        archive = zipfile.ZipFile(self.path)
        with archive, archive.open(self._names.embedding + ".npy") as stream:
            header = read_header(stream, self.path)
            if header.fortran:
                whole = _read(stream, self.path, header.nbytes, header.dtype).reshape(header.shape, order="F")
                for first in range(wanted.start, wanted.stop, size):
                    yield native(whole[first : min(first + size, wanted.stop)])
                return
            row_bytes = self.dim * header.dtype.itemsize
            with _reading(self.path):
                stream.seek(wanted.start * row_bytes, os.SEEK_CUR)
            for first in range(wanted.start, wanted.stop, size):
                count = min(size, wanted.stop - first)
                block = _read(stream, self.path, count * row_bytes, header.dtype)
                yield native(block.reshape(count, self.dim))
            if wanted.stop == self.rows:
                _read(stream, self.path, 0, header.dtype, last=True)


def open_npz_table(path: Path, names: Names) -> NpzTable:
    """Inspect the arrays of an archive without loading them.

    Raises
    ------
    FormatError, DataError
        Not a zip archive, truncated, pickled arrays, a missing array, arrays of different lengths, no rows.
    """
    with _opened(path) as archive:
        present = [name[:-4] for name in archive.namelist() if name.endswith(".npy")]
        names = Names(names.identity, names.sample, _embedding_name(names.embedding, present, path))
        header = _header(archive, names.embedding, path)
        check_vectors(header, path, f"array {names.embedding!r}")
        if header.shape[0] == 0:
            raise DataError(f"{path}: the table has no rows")
        if names.identity is not None:
            find_column(names.identity, present, "identity", path)
        note = find_sample(names.sample, present, path)
        for name in (names.identity, names.sample):
            if name in present:
                _check_labels(_header(archive, name, path), name, header.shape[0], path)
        meta = TableMeta()
        if META_ARRAY in present:
            meta = parse_meta(str(_read_array(archive, META_ARRAY, path)), path)
    used = {names.embedding, names.identity, names.sample, META_ARRAY}
    findings = list(dtype_findings(header.dtype, str(path)))
    if rest := sorted(set(present) - used):
        findings.append(_left_behind(rest))
    if note:
        findings.append(note)
    dtype = header.dtype.newbyteorder("=")
    return NpzTable(
        path, header.shape[0], header.shape[1], dtype, meta, tuple(findings), names, names.sample in present
    )


def _embedding_name(wanted: str, present: list[str], path: Path) -> str:
    if wanted not in present and wanted == DEFAULTS.embedding:
        usual = [name for name in _USUAL_NAMES if name in present]
        if len(usual) > 1:
            raise DataError(f"{path}: arrays {', '.join(usual)} could all be the vectors; name one with embedding=...")
        if usual:
            return usual[0]
    find_column(wanted, present, "embedding", path)
    return wanted


def _check_labels(header: Header, name: str, rows: int, path: Path) -> None:
    if header.shape != (rows,):
        raise DataError(f"{path}: array {name!r} has shape {header.shape}, but there are {rows} vectors")


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    with _reading(path), zipfile.ZipFile(path) as archive:
        yield archive


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:  # RuntimeError: encrypted
        raise FormatError(
            f"{path} is not a readable .npz archive (truncated, damaged or another format): {error}; write "
            "it with numpy.savez"
        ) from error
    except PermissionError as error:
        raise DataError(f"cannot read {path}: {error.strerror}; check its permissions") from error


def _header(archive: zipfile.ZipFile, name: str, path: Path) -> Header:
    with archive.open(name + ".npy") as stream:
        header = read_header(stream, path, f"array {name!r}")
        # Said before memory is set aside for what a damaged header announces.
        if archive.getinfo(name + ".npy").file_size != stream.tell() + header.nbytes:
            raise FormatError(_MISCOUNTED.format(path=path))
        return header


def _read_array(archive: zipfile.ZipFile, name: str, path: Path) -> NDArray[Any]:
    with archive.open(name + ".npy") as stream:
        header = read_header(stream, path, f"array {name!r}")
        return _read(stream, path, header.nbytes, header.dtype, last=True).reshape(header.shape)


def _read_text(archive: zipfile.ZipFile, name: str, what: str, path: Path) -> NDArray[np.str_]:
    return text_of_numpy(_read_array(archive, name, path), what, path)


def _read(stream: IO[bytes], path: Path, nbytes: int, dtype: np.dtype[Any], *, last: bool = False) -> NDArray[Any]:
    with _reading(path):
        data = stream.read(nbytes)
        # The checksum is compared when the end is reached.
        more = stream.read(1) if last else b""
    if len(data) != nbytes or more:
        raise FormatError(_MISCOUNTED.format(path=path))
    return np.frombuffer(data, dtype)


def _left_behind(names: list[str]) -> Finding:
    return Finding(
        kind="arrays_not_carried",
        severity="note",
        count=len(names),
        examples=tuple(names[:SHOWN]),
        message="the archive has arrays that are neither vectors, identities nor keys; they are not read "
        "and a rewritten table will not have them",
    )
