"""What an ONNX network takes and gives, read from its file, and the sizes it was exported for taken out of it.

onnxruntime refuses any input but of the sizes that stand in the file, also where the network itself, being made of
convolutions, takes every size (CenterFace was published that way). The sizes are a note beside the graph; without them
onnxruntime works them out. This reads and rewrites the few protobuf fields concerned, so that the `onnx` package is not
needed.

Format: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto (field numbers below) and
https://protobuf.dev/programming-guides/encoding (wire format).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_INPUT, _GRAPH_OUTPUT, _GRAPH_VALUE = 1, 5, 11, 12, 13
_NODE_OPERATOR = 4
_TENSOR_NAME = 8
_VALUE_NAME, _VALUE_TYPE = 1, 2
_TYPE_TENSOR = 1
_TENSOR_TYPE_SHAPE = 2
_SHAPE_AXIS = 1
_AXIS_SIZE = 1

_Field = tuple[int, int, int | bytes]
"""Number, wire type and value: an int for varints, the content for everything else."""


@dataclass(frozen=True, kw_only=True)
class Port:
    """One input or output of a network."""

    name: str
    shape: tuple[int | None, ...]
    """None for an axis of any size."""


@dataclass(frozen=True, kw_only=True)
class Graph:
    """The outside of a network."""

    inputs: tuple[Port, ...]
    """Without the weights, which old exporters list among them."""
    outputs: tuple[Port, ...]
    operators: tuple[str, ...]
    """Operator of every node, in the order of the file."""


def read_graph(data: bytes) -> Graph:
    """Read the inputs, outputs and operators of an ONNX file.

    Raises
    ------
    ValueError
        The bytes are not an ONNX file, or it ends early.
    """
    graph = _graph_of(data)
    weights = {_text(value, _TENSOR_NAME) for number, _, value in graph if number == _GRAPH_INITIALIZER}
    ports = {
        at: tuple(_port(value) for number, _, value in graph if number == at and isinstance(value, bytes))
        for at in (_GRAPH_INPUT, _GRAPH_OUTPUT)
    }
    return Graph(
        inputs=tuple(port for port in ports[_GRAPH_INPUT] if port.name not in weights),
        outputs=ports[_GRAPH_OUTPUT],
        operators=tuple(_text(value, _NODE_OPERATOR) for number, _, value in graph if number == _GRAPH_NODE),
    )


def without_sizes(data: bytes) -> bytes:
    """Return an ONNX file whose inputs and outputs may have any size; raises `ValueError` as `read_graph` does.

    The number of axes and the channels of an input (its second axis) stay.
    """
    graph = _graph_of(data)
    weights = {_text(value, _TENSOR_NAME) for number, _, value in graph if number == _GRAPH_INITIALIZER}
    rewritten: list[_Field] = []
    for number, wire, value in graph:
        if number in {_GRAPH_INPUT, _GRAPH_OUTPUT} and isinstance(value, bytes):
            if _text(value, _VALUE_NAME) in weights:
                continue  # a weight listed as an input could be replaced by a caller, so nothing is worked out ahead
            rewritten.append((number, wire, _freed(value, keep=(1,) if number == _GRAPH_INPUT else ())))
        elif number != _GRAPH_VALUE:  # notes on the sizes inside
            rewritten.append((number, wire, value))
    return _message(
        (number, wire, _message(rewritten) if number == _MODEL_GRAPH else value)
        for number, wire, value in _fields(data)
    )


def _graph_of(data: bytes) -> list[_Field]:
    graphs = [value for number, _, value in _fields(data) if number == _MODEL_GRAPH and isinstance(value, bytes)]
    if len(graphs) != 1:
        raise ValueError(f"it holds {len(graphs)} graphs")
    return list(_fields(graphs[0]))


def _port(value: bytes) -> Port:
    shape = _inside(_inside(_inside(value, _VALUE_TYPE), _TYPE_TENSOR), _TENSOR_TYPE_SHAPE)
    sizes: list[int | None] = []
    for number, _, axis in _fields(shape):
        if number == _SHAPE_AXIS and isinstance(axis, bytes):
            given = [size for at, _, size in _fields(axis) if at == _AXIS_SIZE and isinstance(size, int)]
            sizes.append(given[0] if given and given[0] > 0 else None)
    return Port(name=_text(value, _VALUE_NAME), shape=tuple(sizes))


def _freed(value: bytes, *, keep: tuple[int, ...]) -> bytes:
    """Rewrite a ValueInfoProto so that only the axes of `keep` have a size."""

    def within(data: bytes, path: tuple[int, ...]) -> bytes:
        if not path:
            axes = [field for field in _fields(data) if field[0] == _SHAPE_AXIS]
            return _message(axis if at in keep else (_SHAPE_AXIS, _BYTES, b"") for at, axis in enumerate(axes))
        return _message(
            (number, wire, within(inner, path[1:]) if number == path[0] and isinstance(inner, bytes) else inner)
            for number, wire, inner in _fields(data)
        )

    return within(value, (_VALUE_TYPE, _TYPE_TENSOR, _TENSOR_TYPE_SHAPE))


def _inside(data: bytes, wanted: int) -> bytes:
    return next((value for number, _, value in _fields(data) if number == wanted and isinstance(value, bytes)), b"")


def _text(value: int | bytes, wanted: int) -> str:
    return _inside(value, wanted).decode(errors="replace") if isinstance(value, bytes) else ""


def _fields(data: bytes) -> Iterator[_Field]:
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise ValueError(f"no field has the number 0 (byte {position})")
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, wire, value
            continue
        if wire == _BYTES:
            length, position = _varint(data, position)
        elif wire in {_FIXED64, _FIXED32}:
            length = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire} at byte {position}")
        if position + length > end:
            raise ValueError(f"a field at byte {position} runs past the end")
        yield number, wire, data[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise ValueError(f"a number at byte {position} runs past the end")
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position


def _message(fields: Iterator[_Field] | list[_Field]) -> bytes:
    parts: list[bytes] = []
    for number, wire, value in fields:
        parts.append(_encoded(number << 3 | wire))
        if isinstance(value, int):
            parts.append(_encoded(value))
        else:
            if wire == _BYTES:
                parts.append(_encoded(len(value)))
            parts.append(value)
    return b"".join(parts)


def _encoded(value: int) -> bytes:
    out = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)
