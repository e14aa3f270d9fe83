"""The steps of a projector, and of pooling, as ONNX nodes of any opset from 11 on.

Only operators that every runtime has are used, in float32. Lengths are taken of rows divided by their largest entry, so
that no square over- or underflows; comparisons are written so that NaN stays NaN and is never taken for an empty row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind.data.embeddings import MIN_NORM
from faceblind.deploy.export.steps import TOO_SHORT, Steps
from faceblind.encoders import PreprocessSpec

MIN_OPSET = 11
"""Below it, operators take their settings in ways that are not written here."""
_AXES_ARE_INPUTS = {"ReduceSum": 13, "ReduceMean": 18, "ReduceMax": 18}  # from this opset on


class Nodes:
    """Collects nodes and constants; every name begins with `prefix`, so that none clashes with those of a graph."""

    def __init__(self, opset: int, *, prefix: str) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._opset = opset
        self._prefix = prefix
        self._made: dict[tuple[str, bytes, tuple[int, ...]], str] = {}

    def constant(self, array: NDArray[Any], what: str = "constant") -> str:
        """Add an array once and return its name."""
        from onnx import numpy_helper

        key = (str(array.dtype), array.tobytes(), array.shape)
        if key not in self._made:
            self._made[key] = f"{self._prefix}{what}_{len(self._made)}"
            self.constants.append(numpy_helper.from_array(np.asarray(array, order="C"), self._made[key]))
        return self._made[key]

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node with one output and return the output's name."""
        from onnx import helper

        name = output or f"{self._prefix}{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=f"{name}/node", **attributes))
        return name

    def number(self, value: float) -> str:
        """Return the name of a float32 number."""
        return self.constant(np.array(value, np.float32), "number")

    def reduce(self, operator: str, name: str, axes: Sequence[int], *, keepdims: int) -> str:
        """Add a reduction; where its axes are written depends on the opset."""
        if self._opset < _AXES_ARE_INPUTS[operator]:
            return self.add(operator, name, axes=list(axes), keepdims=keepdims)
        return self.add(operator, name, self.constant(np.array(axes, np.int64), "axes"), keepdims=keepdims)

    def to_float32(self, name: str) -> str:
        """Add a conversion to float32."""
        from onnx import TensorProto

        return self.add("Cast", name, to=TensorProto.FLOAT)


def add_erasing(nodes: Nodes, steps: Steps, vectors: str, output: str) -> None:
    """Add the steps of a projector from (b, d) float32 `vectors` to `output`."""
    zero, arrays = nodes.number(0.0), steps.arrays
    largest, scaled, length = _length(nodes, vectors)
    rows, lost = vectors, nodes.add("Equal", largest, zero)
    if steps.unit_first:
        rows = nodes.add("Where", lost, zero, nodes.add("Div", scaled, length))
    result = nodes.add("MatMul", rows, nodes.constant(arrays["first"], "first"))
    if "second" in arrays:
        result = nodes.add("MatMul", result, nodes.constant(arrays["second"], "second"))
    if steps.residual:
        result = nodes.add("Add", result, rows)
    if "offset" in arrays:
        result = nodes.add("Add", result, nodes.constant(arrays["offset"], "offset"))
    left_largest, left_scaled, left_length = _length(nodes, result)
    short = nodes.add("Less", nodes.add("Mul", left_largest, left_length), nodes.number(TOO_SHORT))
    if not steps.unit_first:  # ratios before products: lengths themselves may not fit into float32
        share = nodes.add("Mul", nodes.add("Div", left_largest, largest), nodes.add("Div", left_length, length))
    else:
        share = nodes.add("Mul", left_largest, left_length)
    gone = nodes.add("Or", nodes.add("Less", share, nodes.number(steps.gone_ratio)), nodes.add("Or", short, lost))
    if steps.renormalise:
        result = nodes.add("Div", left_scaled, left_length)
    nodes.add("Where", gone, zero, result, output=output)


def add_pooling(nodes: Nodes, spec: PreprocessSpec, output: str, axes: int) -> str:
    """Add what `faceblind.encoders` does with a network's output of so many axes; returns the name of (b, d) vectors.

    `axes` must suit the pooling, which opening the encoder has made sure of.
    """
    vectors = nodes.to_float32(output)
    if spec.pooling == "cls":
        vectors = nodes.add("Gather", vectors, nodes.constant(np.array(0, np.int64), "first_token"), axis=1)
    elif spec.pooling == "mean":
        vectors = nodes.reduce("ReduceMean", vectors, (1,) if axes == 3 else (2, 3), keepdims=0)
    elif spec.pooling == "patch mean":
        bounds = [(spec.prefix_tokens, "starts"), (np.iinfo(np.int64).max, "ends"), (1, "axes")]
        sliced = [nodes.constant(np.array([value], np.int64), what) for value, what in bounds]
        vectors = nodes.reduce("ReduceMean", nodes.add("Slice", vectors, *sliced), (1,), keepdims=0)
    if not spec.normalise:
        return vectors
    largest, scaled, length = _length(nodes, vectors)
    short = nodes.add("Less", nodes.add("Mul", largest, length), nodes.number(MIN_NORM))
    return nodes.add("Where", short, nodes.number(0.0), nodes.add("Div", scaled, length))


def _length(nodes: Nodes, rows: str) -> tuple[str, str, str]:
    """Add the largest entry of every row (b, 1), rows divided by it, and their length in those units.

    A row of zeros stays zeros, of length 0; dividing by that length is the caller's to replace.
    """
    largest = nodes.reduce("ReduceMax", nodes.add("Abs", rows), (1,), keepdims=1)
    divisor = nodes.add("Where", nodes.add("Equal", largest, nodes.number(0.0)), nodes.number(1.0), largest)
    scaled = nodes.add("Div", rows, divisor)
    squares = nodes.reduce("ReduceSum", nodes.add("Mul", scaled, scaled), (1,), keepdims=1)
    return largest, scaled, nodes.add("Sqrt", squares)
