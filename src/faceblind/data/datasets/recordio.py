"""MXNet RecordIO files, read as a stream: no mxnet, one record in memory at a time.

A file is a row of parts: magic number, a word with a flag (3 bits) and a length (29 bits), the bytes, zeros up to a
multiple of four. A record is one part (flag 0), or a first, any number of middle and a last part (1, 2, 3), with the magic number
between them: the writer cuts a record wherever the magic number occurs in it at a multiple of four. An image record begins
with flag, label and two numbers (``IfQQ``, little-endian); a flag above 0 is the number of labels that follow.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError, FormatError

MAGIC = 0xCED7230A
_MAGIC_BYTES = struct.pack("<I", MAGIC)
_PART = struct.Struct("<II")
_HEADER = struct.Struct("<IfQQ")
_LENGTH_BITS = 29
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_MOST_BYTES = 1 << 28
_MOST_LABELS = 1 << 12


class ImageHeader(NamedTuple):
    """What stands before the image in a record.

    Attributes
    ----------
    labels : one label, or as many as the record has
    flag : number of labels that followed the header, 0 when the one label stood in it
    size : bytes before the image
    """

    labels: tuple[float, ...]
    flag: int
    size: int


class RecordFile:
    """One RecordIO file; use as a context manager."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self._stream = self.path.open("rb")
        except OSError as error:
            raise DataError(f"cannot read {self.path}: {error.strerror or error}") from error
        self.size = self._stream.seek(0, 2)

    def __enter__(self) -> RecordFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def read(self, offset: int) -> tuple[bytes, int]:
        """Return the record at a byte offset, its parts joined, and where the next one begins.

        Raises
        ------
        FormatError
            No record begins there, or it is cut off or damaged; names the byte.
        """
        parts: list[bytes] = []
        at, total = offset, 0
        while True:
            flag, length, data_at = self._part(at)
            if (flag in (_WHOLE, _FIRST)) == bool(parts) or flag > _LAST:
                raise self._error(at, f"continuation flag {flag} where {'2 or 3' if parts else '0 or 1'} is due")
            total += length
            if total > _MOST_BYTES:
                raise self._error(offset, f"a record of more than {_MOST_BYTES >> 20} MiB")
            self._stream.seek(data_at)
            data = self._stream.read(length)
            if len(data) != length:
                raise self._error(at, "cut off inside of a record")
            parts.append(data)
            at = data_at + -(-length // 4) * 4
            if flag in (_WHOLE, _LAST):
                return _MAGIC_BYTES.join(parts), at

    def scan(self) -> Iterator[tuple[int, ImageHeader, int]]:
        """Yield byte offset, header and where the next record begins, in order; images are passed over, not read."""
        at = 0
        while at < self.size:
            flag, length, data_at = self._part(at)
            if flag == _WHOLE:
                self._stream.seek(data_at)
                head = self._stream.read(min(length, _HEADER.size))
                count = _HEADER.unpack(head)[0] if len(head) == _HEADER.size else 0
                if count <= _MOST_LABELS:
                    head += self._stream.read(min(length - len(head), 4 * count))
                after = data_at + -(-length // 4) * 4
            else:
                head, after = self.read(at)
            yield at, self._parse(head, at), after
            at = after

    def header(self, offset: int) -> tuple[ImageHeader, bytes]:
        """Return the header and the image of the record at an offset.

        Raises
        ------
        FormatError
            See `read`; or the record is too short for what it says it holds.
        """
        data, _ = self.read(offset)
        header = self._parse(data, offset)
        return header, data[header.size :]

    def _part(self, at: int) -> tuple[int, int, int]:
        """Return flag, length and offset of the bytes of the part at an offset."""
        if at % 4:
            raise self._error(at, "records begin at multiples of four")
        self._stream.seek(at)
        head = self._stream.read(_PART.size)
        if len(head) < _PART.size:
            raise self._error(at, f"the file ends ({self.size:,} bytes): an incomplete download")
        magic, word = _PART.unpack(head)
        if magic != MAGIC:
            raise self._error(at, f"no record begins here: magic number {MAGIC:#x} is due, {magic:#x} is there")
        length = word & ((1 << _LENGTH_BITS) - 1)
        data_at = at + _PART.size
        if data_at + length > self.size:
            raise self._error(
                at,
                f"a record of {length:,} bytes, but the file ends after {self.size - data_at:,}: an incomplete download",
            )
        return word >> _LENGTH_BITS, length, data_at

    def _parse(self, data: bytes, offset: int) -> ImageHeader:
        if len(data) < _HEADER.size:
            raise self._error(offset, f"a record of {len(data)} bytes, too short for an image header of {_HEADER.size}")
        flag, label, _, _ = _HEADER.unpack_from(data)
        if not flag:
            return ImageHeader((label,), 0, _HEADER.size)
        size = _HEADER.size + 4 * flag
        if flag > _MOST_LABELS or size > len(data):
            raise self._error(offset, f"a header that promises {flag:,} labels in a record of {len(data)} bytes")
        return ImageHeader(struct.unpack_from(f"<{flag}f", data, _HEADER.size), flag, size)

    def _error(self, offset: int, what: str) -> FormatError:
        return FormatError(f"{self.path}, byte {offset:,}: {what}")


class RecordIndex:
    """Numbers of records and where they begin, as an ``.idx`` file lists them: number, tab, byte offset."""

    def __init__(self, numbers: NDArray[np.int64], offsets: NDArray[np.int64]) -> None:
        self.numbers, self.offsets = numbers, offsets

    @classmethod
    def read(cls, path: Path, records: RecordFile) -> RecordIndex:
        """Read an ``.idx`` file and check it against the size of the file it belongs to.

        Raises
        ------
        FormatError
            A line that cannot be read, a number listed twice, an offset behind the end of the file or not a multiple of four; names
            the line.
        """
        numbers, offsets = array("q"), array("q")
        try:
            with path.open(encoding="ascii") as stream:
                for line, text in enumerate(stream, start=1):
                    cells = text.split()
                    if not cells:
                        continue
                    if len(cells) != 2 or not (cells[0].isdigit() and cells[1].isdigit()):
                        raise FormatError(
                            f"{path}, line {line}: expected number and byte offset, got {text.strip()[:80]!r}"
                        )
                    number, offset = int(cells[0]), int(cells[1])
                    if offset % 4:
                        raise FormatError(
                            f"{path}, line {line}: record {number} at byte {offset:,}, not a multiple of four"
                        )
                    if offset >= records.size:
                        raise FormatError(
                            f"{path}, line {line}: record {number} at byte {offset:,}, but {records.path.name} ends at byte "
                            f"{records.size:,}: an incomplete download, or the index of another file"
                        )
                    numbers.append(number)
                    offsets.append(offset)
        except (UnicodeDecodeError, OverflowError) as error:
            raise FormatError(f"{path} is not an index of records: {error}") from error
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror or error}") from error
        keys = np.frombuffer(numbers, dtype=np.int64) if numbers else np.zeros(0, np.int64)
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        again = np.flatnonzero(keys[1:] == keys[:-1])
        if again.size:
            raise FormatError(f"{path} lists record {keys[again[0]]} twice")
        return cls(keys, np.frombuffer(offsets, dtype=np.int64)[order] if offsets else keys)

    @classmethod
    def scanned(cls, records: RecordFile) -> RecordIndex:
        """Give the records of a file the numbers from 0 on, in the order in which they stand."""
        offsets = np.array([offset for offset, _, _ in records.scan()], dtype=np.int64)
        return cls(np.arange(offsets.size, dtype=np.int64), offsets)

    def __len__(self) -> int:
        return int(self.numbers.size)

    def __contains__(self, number: int) -> bool:
        place = int(np.searchsorted(self.numbers, number))
        return place < self.numbers.size and int(self.numbers[place]) == number

    def offset(self, number: int) -> int:
        """Return where a record begins.

        Raises
        ------
        DataError
            It is not listed.
        """
        place = int(np.searchsorted(self.numbers, number))
        if place >= self.numbers.size or int(self.numbers[place]) != number:
            raise DataError(f"record {number} is not in the index")
        return int(self.offsets[place])
