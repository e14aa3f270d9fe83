"""Single ``.npy`` files of vectors: checked headers, memory maps, and a file that grows row by row."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError, FormatError
from faceblind.data.tables.vectors import FLOATS


@dataclass(frozen=True)
class Header:
    """What a ``.npy`` header says about the array that follows."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class NpyVectors:
    """A ``.npy`` file of vectors, not loaded."""

    path: Path
    header: Header
    offset: int
    """Where the array begins in the file."""

    @property
    def rows(self) -> int:
        """Number of vectors."""
        return self.header.shape[0]

    def map(self) -> NDArray[Any]:
        """Return the (n, d) array as a read-only memory map."""
        if self.rows == 0:
            return np.empty(self.header.shape, self.header.dtype)
        return np.memmap(
            self.path,
            self.header.dtype,
            mode="r",
            offset=self.offset,
            shape=self.header.shape,
            order="F" if self.header.fortran else "C",
        )


def open_npy(path: Path) -> NpyVectors:
    """Check a ``.npy`` file of vectors against its header.

    Raises
    ------
    FormatError
        Not a ``.npy`` file, pickled, truncated, or with more bytes than its header announces.
    DataError
        Not a matrix of float16, float32 or float64, or not readable.
    """
    try:
        with path.open("rb") as stream:
            header = read_header(stream, path)
            offset = stream.tell()
        held = path.stat().st_size - offset
    except PermissionError as error:
        raise DataError(f"cannot read {path}: {error.strerror}; check its permissions") from error
    check_vectors(header, path)
    if held != header.nbytes:
        state = "is truncated" if held < header.nbytes else "has bytes after its array"
        raise FormatError(
            f"{path} {state}: its header announces {header.nbytes} bytes for shape {header.shape}, the file "
            f"holds {held}; write it again"
        )
    return NpyVectors(path, header, offset)


def read_header(stream: IO[bytes], path: Path, what: str = "it") -> Header:
    """Read a ``.npy`` header from `stream`; raises `FormatError` for anything else and for pickled arrays."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        version = np.lib.format.read_magic(stream)
        # Version 3.0 differs only for tables with named fields, which are refused below in any case.
        shape, fortran, dtype = readers.get(version, np.lib.format.read_array_header_2_0)(stream)
    except (ValueError, EOFError) as error:
        raise FormatError(
            f"{path}: {what} is not a NumPy array file or is truncated ({error}); write it with "
            "numpy.save(..., allow_pickle=False)"
        ) from error
    if dtype.hasobject:
        raise FormatError(
            f"{path}: {what} holds pickled Python objects, which are never loaded; save plain arrays "
            "(float32 for vectors, text for labels)"
        )
    return Header(shape, fortran, dtype)


def check_vectors(header: Header, path: Path, what: str = "the array") -> None:
    """Raise `DataError` unless the header describes a matrix of float16, float32 or float64."""
    if len(header.shape) != 2:
        raise DataError(f"{path}: {what} must have two dimensions (images, features), got shape {header.shape}")
    if header.dtype.newbyteorder("=") not in FLOATS:
        raise DataError(f"{path}: {what} holds {header.dtype}; vectors must be float16, float32 or float64")
    if header.shape[1] == 0:
        raise DataError(f"{path}: the vectors have length 0")


def native(vectors: NDArray[Any]) -> NDArray[Any]:
    """Return vectors in native byte order and C order; a view when they are so already."""
    dtype = vectors.dtype.newbyteorder("=")
    return np.asarray(np.ascontiguousarray(vectors, dtype=dtype))


class GrowingNpy:
    """A ``.npy`` file written row block by row block; the header is completed at the end."""

    def __init__(self, path: Path, dim: int, dtype: np.dtype[Any]) -> None:
        self._stream: IO[bytes] = path.open("wb")
        self._dim = dim
        self._dtype = dtype
        self._offset = 0
        self.rows = 0
        """Rows so far."""

    def append(self, vectors: NDArray[Any]) -> None:
        """Append (b, d) vectors of the file's dtype."""
        if not self._offset:
            self._offset = self._write_header()
        write_array(self._stream, vectors)
        self.rows += vectors.shape[0]

    def finish(self) -> None:
        """Write the final number of rows into the header and close the file."""
        self._stream.seek(0)
        if self._write_header() != self._offset:  # numpy pads headers so that the first axis can grow
            raise FormatError(f"numpy {np.__version__} wrote a header of another length; please report this")
        self._stream.close()

    def close(self) -> None:
        """Let go of the file, finished or not."""
        with suppress(OSError):  # what is still in the buffer may not fit, and that was told already
            self._stream.close()

    def _write_header(self) -> int:
        write_header(self._stream, (self.rows, self._dim), self._dtype)
        return self._stream.tell()


def write_header(stream: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Write the ``.npy`` header of a C-ordered array."""
    description = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, description)


def write_array(stream: IO[bytes], array: NDArray[Any]) -> None:
    """Write an array's bytes; unlike ``ndarray.tofile`` a full disk keeps its error number."""
    stream.write(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
