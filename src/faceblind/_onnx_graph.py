"""What an ONNX network takes and gives, read from its file, and the sizes it was exported for taken out of it.

onnxruntime refuses any input but of the sizes that stand in the file, also where the network itself, being made of
convolutions, takes every size (CenterFace was published that way). The sizes are a note beside the graph; without them
onnxruntime works them out. This reads and rewrites the few protobuf fields concerned, so that the `onnx` package is not
needed.

Format: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto (field numbers below).
"""

from __future__ import annotations

from dataclasses import dataclass

from faceblind._protobuf import BYTES, Field, fields, message

_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_INPUT, _GRAPH_OUTPUT, _GRAPH_VALUE = 1, 5, 11, 12, 13
_NODE_OPERATOR = 4
_TENSOR_NAME = 8
_VALUE_NAME, _VALUE_TYPE = 1, 2
_TYPE_TENSOR = 1
_TENSOR_TYPE_SHAPE = 2
_SHAPE_AXIS = 1
_AXIS_SIZE = 1


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
    rewritten: list[Field] = []
    for number, wire, value in graph:
        if number in {_GRAPH_INPUT, _GRAPH_OUTPUT} and isinstance(value, bytes):
            if _text(value, _VALUE_NAME) in weights:
                continue  # a weight listed as an input could be replaced by a caller, so nothing is worked out ahead
            rewritten.append((number, wire, _freed(value, keep=(1,) if number == _GRAPH_INPUT else ())))
        elif number != _GRAPH_VALUE:  # notes on the sizes inside
            rewritten.append((number, wire, value))
    return message(
        (number, wire, message(rewritten) if number == _MODEL_GRAPH else value) for number, wire, value in fields(data)
    )


def _graph_of(data: bytes) -> list[Field]:
    graphs = [value for number, _, value in fields(data) if number == _MODEL_GRAPH and isinstance(value, bytes)]
    if len(graphs) != 1:
        raise ValueError(f"it holds {len(graphs)} graphs")
    return list(fields(graphs[0]))


def _port(value: bytes) -> Port:
    shape = _inside(_inside(_inside(value, _VALUE_TYPE), _TYPE_TENSOR), _TENSOR_TYPE_SHAPE)
    sizes: list[int | None] = []
    for number, _, axis in fields(shape):
        if number == _SHAPE_AXIS and isinstance(axis, bytes):
            given = [size for at, _, size in fields(axis) if at == _AXIS_SIZE and isinstance(size, int)]
            sizes.append(given[0] if given and given[0] > 0 else None)
    return Port(name=_text(value, _VALUE_NAME), shape=tuple(sizes))


def _freed(value: bytes, *, keep: tuple[int, ...]) -> bytes:
    """Rewrite a ValueInfoProto so that only the axes of `keep` have a size."""

    def within(data: bytes, path: tuple[int, ...]) -> bytes:
        if not path:
            axes = [axis for axis in fields(data) if axis[0] == _SHAPE_AXIS]
            return message(axis if at in keep else (_SHAPE_AXIS, BYTES, b"") for at, axis in enumerate(axes))
        return message(
            (number, wire, within(inner, path[1:]) if number == path[0] and isinstance(inner, bytes) else inner)
            for number, wire, inner in fields(data)
        )

    return within(value, (_VALUE_TYPE, _TYPE_TENSOR, _TENSOR_TYPE_SHAPE))


def _inside(data: bytes, wanted: int) -> bytes:
    return next((value for number, _, value in fields(data) if number == wanted and isinstance(value, bytes)), b"")


def _text(value: int | bytes, wanted: int) -> str:
    return _inside(value, wanted).decode(errors="replace") if isinstance(value, bytes) else ""
