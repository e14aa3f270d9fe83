"""Reading and writing protobuf messages field by field, knowing nothing of what they mean.

ONNX files are such messages. A few of their fields are all that is needed, so neither the `onnx` package nor their weights
have to be loaded. A part of a message is read where it lies, in bytes or in a mapped file.

Format: https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator

VARINT, _FIXED64, BYTES, _FIXED32 = 0, 1, 2, 5

Data = bytes | mmap.mmap
Span = tuple[int, int]
"""Start and end of a part of the data."""
Field = tuple[int, int, int | bytes]
"""Number, wire type and value: an int for varints, the content for everything else."""


def spans(data: Data, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int, int | Span]]:
    """Yield (number, wire type, value) of the message at `data[start:end]`: an int for varints, else where the value is.

    Raises
    ------
    ValueError
        The bytes are no message, or it ends early.
    """
    position, end = start, len(data) if end is None else end
    while position < end:
        tag, position = _varint(data, position, end)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise ValueError(f"no field has the number 0 (byte {position})")
        if wire == VARINT:
            value, position = _varint(data, position, end)
            yield number, wire, value
            continue
        if wire == BYTES:
            length, position = _varint(data, position, end)
        elif wire in {_FIXED64, _FIXED32}:
            length = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire} at byte {position}")
        if position + length > end:
            raise ValueError(f"a field at byte {position} runs past the end")
        yield number, wire, (position, position + length)
        position += length


def fields(data: bytes) -> Iterator[Field]:
    """Yield the fields of a message with their contents; raises as `spans` does."""
    for number, wire, value in spans(data):
        yield number, wire, value if isinstance(value, int) else data[slice(*value)]


def varints(data: Data, start: int, end: int) -> Iterator[int]:
    """Yield the numbers packed in `data[start:end]`; raises `ValueError` when the last one ends early."""
    while start < end:
        value, start = _varint(data, start, end)
        yield value


def message(content: Iterable[Field]) -> bytes:
    """Write a message of fields; the inverse of `fields`."""
    parts: list[bytes] = []
    for number, wire, value in content:
        parts.append(_encoded(number << 3 | wire))
        if isinstance(value, int):
            parts.append(_encoded(value))
        else:
            if wire == BYTES:
                parts.append(_encoded(len(value)))
            parts.append(value)
    return b"".join(parts)


def _varint(data: Data, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= end or shift > 63:
            raise ValueError(f"a number at byte {position} runs past the end")
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position


def _encoded(value: int) -> bytes:
    out = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)
