"""Cutting an encoder's graph down to one output, so that nothing else of it can be asked for.

What only dropped outputs needed (a text tower, hidden states) goes as well: nodes, weights and inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from faceblind._errors import EncoderError
from faceblind.deploy.export.onnx_nodes import MIN_OPSET

_DEFAULT_DOMAINS = ("", "ai.onnx")


def opset_of(model: Any, what: object) -> int:
    """Return the version of the standard operators; raises `EncoderError` when it is too old to add to."""
    found = [entry.version for entry in model.opset_import if entry.domain in _DEFAULT_DOMAINS]
    opset = int(found[0]) if found else 1
    if opset < MIN_OPSET:
        raise EncoderError(
            f"{what} uses ONNX opset {opset}; a projector can be put behind opset {MIN_OPSET} and later: "
            "export the encoder again, or raise it with onnx.version_converter.convert_version"
        )
    return opset


def free_prefix(graph: Any, wanted: str = "faceblind/") -> str:
    """Return a prefix that no name in the graph begins with."""
    names = set(_all_names(graph))
    prefix, n = wanted, 1
    while any(name.startswith(prefix) for name in names):
        n += 1
        prefix = f"{wanted.rstrip('/')}{n}/"
    return prefix


def free_name(graph: Any, wanted: str) -> str:
    """Return `wanted`, or with a number when the graph has something of that name."""
    names, name, n = set(_all_names(graph)), wanted, 1
    while name in names:
        n += 1
        name = f"{wanted}_{n}"
    return name


def keep_only(graph: Any, outputs: Collection[str]) -> None:
    """Drop every node, weight, input and note that the named values do not need, in place."""
    needed = set(outputs)
    for at in reversed(range(len(graph.node))):  # in a valid graph, producers stand before consumers
        if needed & set(graph.node[at].output):
            needed |= _read_by(graph.node[at])
        else:
            del graph.node[at]
    made = {name for node in graph.node for name in node.output} | needed
    _drop(graph.initializer, lambda item: item.name in needed)
    _drop(graph.sparse_initializer, lambda item: item.values.name in needed)
    _drop(graph.input, lambda item: item.name in needed)
    _drop(graph.value_info, lambda item: item.name in made)
    _drop(graph.quantization_annotation, lambda item: item.tensor_name in made)


def _drop(field: Any, wanted: Callable[[Any], bool]) -> None:
    for at in reversed(range(len(field))):
        if not wanted(field[at]):
            del field[at]


def _read_by(node: Any) -> set[str]:
    """Names that a node reads, those that its sub-graphs take from outside included."""
    names = {name for name in node.input if name}
    for inner in _subgraphs(node):
        for deeper in inner.node:
            names |= _read_by(deeper)
        names |= {item.name for item in inner.output}  # a branch may hand an outer value through
    return names


def _subgraphs(node: Any) -> Iterable[Any]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _all_names(graph: Any) -> Iterable[str]:
    for items in (graph.input, graph.output, graph.initializer, graph.value_info):
        yield from (item.name for item in items)
    for node in graph.node:
        yield node.name
        yield from node.input
        yield from node.output
        for inner in _subgraphs(node):
            yield from _all_names(inner)
