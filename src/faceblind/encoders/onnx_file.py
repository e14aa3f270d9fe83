"""What an ONNX file says about itself: where its weights are, how they are stored, and their hash.

onnxruntime runs a network but tells neither the number type of its weights nor that they lie in a second
file. A fingerprint needs both, so this reads the few protobuf fields concerned and skips the weights.

Format: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto (field numbers below).
"""

from __future__ import annotations

import hashlib
import math
import mmap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from faceblind._errors import EncoderError
from faceblind._files import sha256_file
from faceblind._protobuf import Data, Span, spans, varints

_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_INITIALIZER = 1, 5
_NODE_ATTRIBUTE = 5
_ATTRIBUTE_TENSOR, _ATTRIBUTE_GRAPH = 5, 6
_TENSOR_DIMS, _TENSOR_TYPE, _TENSOR_EXTERNAL = 1, 2, 13
_ENTRY_KEY, _ENTRY_VALUE = 1, 2

_TYPE_NAMES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    16: "bfloat16",
    17: "float8",
    18: "float8",
    19: "float8",
    20: "float8",
    21: "uint4",
    22: "int4",
}
_WORTH_NAMING = 0.05  # share of all weights; below it are biases, scales and shapes


@dataclass(frozen=True, kw_only=True)
class OnnxFile:
    """Facts about an ONNX file that its fingerprint needs."""

    sha256: str
    """SHA-256 of the file; with external weights, of the list of its own SHA-256 and theirs."""
    precision: str
    """How the weights are stored, e.g. ``"weights float32"`` or ``"weights int8"``."""


def inspect_onnx(path: str | Path) -> OnnxFile:
    """Read an ONNX file's weight types and hash it, with the weight files it refers to.

    Raises
    ------
    EncoderError
        No such file, not ONNX, truncated, or a weight file it refers to is missing.
    """
    path = Path(path)
    if not path.is_file():
        raise EncoderError(f"no such encoder file: {path}")
    elements: Counter[str] = Counter()
    external: set[str] = set()
    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            graphs = [span for number, span in _messages(data, 0, len(data)) if number == _MODEL_GRAPH]
            if not graphs:
                raise damaged(path, "it holds no graph")
            for tensor in _tensors(data, *graphs[-1]):
                _read_tensor(data, *tensor, elements, external)
    except ValueError as error:  # also mmap of an empty file
        raise damaged(path, str(error)) from error
    return OnnxFile(sha256=_hash(path, sorted(external)), precision=_precision(elements))


def _hash(path: Path, external: list[str]) -> str:
    own = sha256_file(path)
    if not external:
        return own
    lines = [own]
    for name in external:
        weights = path.parent / name
        if not weights.is_file():
            raise EncoderError(f"{path} keeps its weights in {weights}, which is missing: put it beside the file")
        lines.append(f"{sha256_file(weights)}  {name}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _precision(elements: Counter[str]) -> str:
    total = elements.total()
    names = [name for name, count in sorted(elements.items()) if count >= _WORTH_NAMING * total]
    return "weights " + " and ".join(names) if names else "no weights"


def damaged(path: Path, why: str) -> EncoderError:
    """Return the error about a file that is cut off or no ONNX."""
    return EncoderError(f"{path} is not a whole ONNX file ({why}): export or download it again")


def _tensors(data: Data, start: int, end: int) -> Iterator[Span]:
    """Yield the spans of all tensors of a graph: initializers, constants of nodes and of their sub-graphs."""
    for number, span in _messages(data, start, end):
        if number == _GRAPH_INITIALIZER:
            yield span
        elif number == _GRAPH_NODE:
            attributes = [inner for field, inner in _messages(data, *span) if field == _NODE_ATTRIBUTE]
            for field, inner in (pair for attribute in attributes for pair in _messages(data, *attribute)):
                if field == _ATTRIBUTE_TENSOR:
                    yield inner
                elif field == _ATTRIBUTE_GRAPH:
                    yield from _tensors(data, *inner)


def _read_tensor(data: Data, start: int, end: int, elements: Counter[str], external: set[str]) -> None:
    dims: list[int] = []
    type_number = 0
    for number, _, value in spans(data, start, end):
        if number == _TENSOR_TYPE and isinstance(value, int):
            type_number = value
        elif number == _TENSOR_DIMS:
            dims += [value] if isinstance(value, int) else list(varints(data, *value))
        elif number == _TENSOR_EXTERNAL and isinstance(value, tuple):
            entry = {field: data[a:b] for field, (a, b) in _messages(data, *value)}
            if entry.get(_ENTRY_KEY) == b"location":
                external.add(entry.get(_ENTRY_VALUE, b"").decode())
    elements[_TYPE_NAMES.get(type_number, f"type {type_number}")] += math.prod(dims)


def _messages(data: Data, start: int, end: int) -> Iterator[tuple[int, Span]]:
    """Yield (field number, span) of everything with a length."""
    for number, _, value in spans(data, start, end):
        if isinstance(value, tuple):
            yield number, value
