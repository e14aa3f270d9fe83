"""Reads the lists and numbers in a pickle as data. Nothing is imported, called or built that the file names.

Verification sets are handed around as pickles of lists of JPEG files, written by Python 2 and 3 in every protocol. A
pickle is a program for a small stack machine, and running one from a stranger is running the stranger's code. Here the
machine knows only lists, tuples, strings, numbers and truth values. The few names of functions by which Python and
numpy wrap bytes are matched as text and what they would give is made here; any other name ends the reading.

The instructions are those of Python's ``pickletools``, which documents and parses them and runs none.
"""

from __future__ import annotations

import codecs
import math
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError, FormatError

_CODES = {ord(code.code): code for code in pickletools.opcodes}
_VALUES = frozenset(
    [
        "INT",
        "LONG",
        "BININT",
        "BININT1",
        "BININT2",
        "LONG1",
        "LONG4",
        "UNICODE",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE8",
        "BINBYTES",
        "SHORT_BINBYTES",
        "BINBYTES8",
        "BYTEARRAY8",
    ]
)
_PYTHON2_STRINGS = frozenset(("BINSTRING", "SHORT_BINSTRING"))
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_PUTS, _GETS = frozenset(("PUT", "BINPUT", "LONG_BINPUT")), frozenset(("GET", "BINGET", "LONG_BINGET"))
_NOTHING = frozenset(("PROTO", "FRAME"))
_WRAPPERS = {
    "_codecs.encode": "encode",
    "__builtin__.bytearray": "bytes",
    "builtins.bytearray": "bytes",
    "__builtin__.bytes": "bytes",
    "builtins.bytes": "bytes",
    "__builtin__.str": "bytes",
    "numpy.dtype": "dtype",
    "numpy.ndarray": "array type",
    **{f"numpy.{core}.multiarray._reconstruct": "array" for core in ("core", "_core")},
    **{f"numpy.{core}.multiarray.scalar": "scalar" for core in ("core", "_core")},
    **{f"numpy.{core}.numeric._frombuffer": "buffer" for core in ("core", "_core")},
}
"""Names that wrap bytes, and what is done in their stead."""
_DTYPES = {"u1": np.uint8, "uint8": np.uint8, "b1": np.bool_, "bool": np.bool_}
_MARK = object()


@dataclass(frozen=True)
class _Name:
    """A name that the file mentions; never looked up."""

    kind: str


@dataclass
class _Type:
    """A numpy type of one byte."""

    name: str


@dataclass
class _Array:
    """A numpy array whose content comes with a later instruction."""

    values: NDArray[Any] | None = None


def read_pickle_data(path: Path) -> Any:
    """Return what a pickle holds: lists, tuples, bytes, str, int, bool, None, and numpy arrays of uint8 or bool.

    Raises
    ------
    FormatError
        Not a pickle, cut off, or holding anything else, such as the name of a function; names the byte.
    DataError
        The file cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return _Reader(path, stream).read()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


class _Bounded:
    """A stream for the parsers of `pickletools` that never asks for more bytes than there are."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.size = stream.seek(0, 2)
        self.at = stream.seek(0)

    def read(self, count: int) -> bytes:
        data = self._stream.read(min(count, self.size - self.at)) if count > 0 else b""
        self.at += len(data)
        return data

    def readline(self) -> bytes:
        line = self._stream.readline()
        self.at += len(line)
        return line


class _Reader:
    def __init__(self, path: Path, stream: IO[bytes]) -> None:
        self._path, self._stream = path, _Bounded(stream)
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._begins = 0

    def read(self) -> Any:
        while True:
            self._begins = self._stream.at
            byte = self._stream.read(1)
            if not byte:
                raise self._error("the file ends before its data do: an incomplete download, or not a pickle")
            code = _CODES.get(byte[0])
            if code is None:
                raise self._error(f"{byte!a} is no instruction of a pickle: the file is damaged or something else")
            argument = self._argument(code)
            try:
                if code.name == "STOP":
                    return _plain(self._pop())
                self._step(code.name, argument)
            except (IndexError, ValueError, TypeError, KeyError) as error:
                if isinstance(error, FormatError):
                    raise
                raise self._error(f"{code.name} does not fit what came before it: the file is damaged") from error

    def _argument(self, code: pickletools.OpcodeInfo) -> Any:
        if code.arg is None:
            return None
        try:
            if code.name == "STRING":  # pickletools takes it for ASCII, Python 2 wrote any bytes so
                return _quoted(self._stream.readline())
            reader = cast("Callable[[_Bounded], Any]", code.arg.reader)  # it needs read and readline only
            return reader(self._stream)
        except (ValueError, UnicodeDecodeError, OverflowError, MemoryError) as error:
            raise self._error(
                f"{code.name} is cut off or damaged ({str(error)[:100]}); the file has {self._stream.size:,} bytes: an "
                "incomplete download?"
            ) from error

    def _step(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _VALUES:
            stack.append(argument)
        elif name in _PYTHON2_STRINGS:
            stack.append(argument.encode("latin-1"))
        elif name == "STRING":
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name]())
        elif name == "MARK":
            stack.append(_MARK)
        elif name in _TUPLES:
            count = _TUPLES[name]
            stack.append(tuple(self._pop() for _ in range(count))[::-1])
        elif name == "TUPLE":
            stack.append(tuple(self._marked()))
        elif name == "LIST":
            stack.append(self._marked())
        elif name == "APPEND":
            value = self._pop()
            self._list().append(value)
        elif name == "APPENDS":
            values = self._marked()
            self._list().extend(values)
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = self._top()
        elif name in _PUTS:
            self._memo[int(argument)] = self._top()
        elif name in _GETS:
            stack.append(self._memo[int(argument)])
        elif name == "GLOBAL":
            stack.append(self._name(str(argument).replace(" ", ".", 1)))
        elif name == "STACK_GLOBAL":
            last, first = self._pop(), self._pop()
            stack.append(self._name(f"{first}.{last}"))
        elif name == "REDUCE":
            arguments, function = self._pop(), self._pop()
            stack.append(self._wrapped(function, arguments))
        elif name == "BUILD":
            state = self._pop()
            self._fill(self._top(), state)
        elif name not in _NOTHING:
            raise self._error(f"instruction {name} has no place in a list of images and was not followed")

    def _name(self, text: str) -> _Name:
        kind = _WRAPPERS.get(text)
        if kind is None:
            raise self._error(
                f"the file asks to run {text[:80]!r}, which is no list of images; nothing was run. Get the file from "
                "where the data set is published, or make it anew"
            )
        return _Name(kind)

    def _wrapped(self, function: Any, arguments: Any) -> Any:
        kind = function.kind if isinstance(function, _Name) else None
        match kind, arguments:
            case "encode", (str() as text, "latin1" | "latin-1"):
                return text.encode("latin-1")
            case "bytes", ():
                return b""
            case "bytes", (bytes() | bytearray() as data,):
                return bytes(data)
            case "bytes", (str() as text, "latin1" | "latin-1"):
                return text.encode("latin-1")
            case "dtype", (str() | bytes() as text, *_):
                return _Type(text if isinstance(text, str) else text.decode("ascii"))
            case "array", (_Name(kind="array type"), tuple(), bytes() | str()):
                return _Array()
            case "scalar", (_Type() as of, bytes() | bytearray() as data):
                return self._values(of, (1,), data)[0].item()
            case "buffer", (bytes() | bytearray() as data, _Type() as of, tuple() as shape, str()):
                return _Array(self._values(of, shape, data))
        raise self._error("a call that does not wrap bytes has no place in a list of images and was not followed")

    def _fill(self, target: Any, state: Any) -> None:
        match target, state:
            case _Type(), tuple():
                return  # byte order and the like: of one byte there is none
            case _Array(), (_, tuple() as shape, _Type() as of, _, bytes() | bytearray() as data):
                target.values = self._values(of, shape, data)
                return
        raise self._error("a state that is no array's has no place in a list of images and was not followed")

    def _values(self, of: _Type, shape: tuple[Any, ...], data: bytes | bytearray) -> NDArray[Any]:
        name = of.name.lstrip("|")
        if name not in _DTYPES:
            raise self._error(f"an array of {of.name[:20]!r}: images are arrays of bytes (u1)")
        if not all(type(side) is int and 0 <= side <= len(data) for side in shape) or math.prod(shape) != len(data):
            raise self._error(f"an array whose shape is not that of its {len(data):,} bytes: the file is damaged")
        return np.frombuffer(bytes(data), dtype=_DTYPES[name]).reshape(shape)

    def _pop(self) -> Any:
        value = self._stack.pop()
        if value is _MARK:
            raise self._error("the stack is empty where a value is due: the file is damaged")
        return value

    def _top(self) -> Any:
        if self._stack[-1] is _MARK:
            raise self._error("the stack is empty where a value is due: the file is damaged")
        return self._stack[-1]

    def _list(self) -> list[Any]:
        target = self._top()
        if type(target) is not list:
            raise self._error("values are added to what is no list: the file is damaged")
        return target

    def _marked(self) -> list[Any]:
        values: list[Any] = []
        while (value := self._stack.pop()) is not _MARK:
            values.append(value)
        values.reverse()
        return values

    def _error(self, what: str) -> FormatError:
        return FormatError(f"{self._path}, byte {self._begins:,}: {what}")


def _quoted(line: bytes) -> bytes:
    """Return the bytes of a string as Python 2 wrote it, in quotes and with escapes."""
    text = line.removesuffix(b"\n")
    if not line.endswith(b"\n") or len(text) < 2 or text[:1] not in (b"'", b'"') or text[-1:] != text[:1]:
        raise ValueError("a string without quotes")  # becomes a FormatError that names the byte
    return codecs.escape_decode(text[1:-1])[0]


def _plain(value: Any) -> Any:
    """Unwrap arrays at the top two levels, where images and labels are."""
    if isinstance(value, list | tuple):
        return [_plain_entries(part) for part in value]
    return value.values if isinstance(value, _Array) else value


def _plain_entries(part: Any) -> Any:
    if isinstance(part, list | tuple):
        return [entry.values if isinstance(entry, _Array) else entry for entry in part]
    return part.values if isinstance(part, _Array) else part
