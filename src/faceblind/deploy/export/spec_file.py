"""The preprocessing spec of a fused encoder: pixels as before, vectors as they come out."""

from __future__ import annotations

from typing import Any

from faceblind._errors import EncoderError
from faceblind.encoders import PreprocessSpec

_ARITHMETIC = ("scale", "mean", "std")


def spec_of_fused(spec: PreprocessSpec, *, output: str, dim: int) -> dict[str, Any]:
    """Return the spec in JSON types, with pooling and scaling left to the graph.

    Raises
    ------
    EncoderError
        The spec cannot be written so that it reads the same (a bug, found out before a file is written).
    """
    data = {key: value for key, value in spec.pixel_steps().items() if value is not None}
    if spec.dtype == "uint8":  # network inputs of bytes take no arithmetic, and the spec refuses to name any
        data = {key: value for key, value in data.items() if key not in _ARITHMETIC}
    data |= {"input": spec.input, "output": output, "pooling": "as output", "normalise": False, "dim": dim}
    read = PreprocessSpec.parse(data)
    if read.pixel_steps() != spec.pixel_steps():
        raise EncoderError("the encoder's preprocessing cannot be written as a spec: please report this with the spec")
    return data
