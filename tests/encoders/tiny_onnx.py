"""Hand-encoded ONNX models, so that the tests need no ONNX library.

Field numbers from https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

FLOAT, UINT8, INT8, INT64, FLOAT16 = 1, 2, 3, 7, 10
_TYPES = {"float32": FLOAT, "uint8": UINT8, "int8": INT8, "int64": INT64, "float16": FLOAT16}


def _varint(value: int) -> bytes:
    out = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def block(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def tensor(name: str, array: np.ndarray, *, external: tuple[str, int] | None = None) -> bytes:
    """Encode a TensorProto; `external` names the file and offset its data was put at."""
    out = b"".join(number(1, side) for side in array.shape)
    out += number(2, _TYPES[str(array.dtype)]) + block(8, name)
    if external is None:
        return out + block(9, array.tobytes())
    for key, value in (("location", external[0]), ("offset", external[1]), ("length", array.nbytes)):
        out += block(13, block(1, key) + block(2, str(value)))
    return out + number(14, 1)


def node(op: str, inputs: Sequence[str], output: str, **attributes: int | Sequence[int] | bytes) -> bytes:
    out = b"".join(block(1, name) for name in inputs) + block(2, output) + block(4, op)
    for name, value in attributes.items():
        if isinstance(value, bytes):
            body = block(5, value) + number(20, 4)
        elif isinstance(value, int):
            body = number(3, value) + number(20, 2)
        else:
            body = b"".join(number(8, item) for item in value) + number(20, 7)
        out += block(5, block(1, name) + body)
    return out


def value_info(name: str, dtype: int, shape: Sequence[int | str]) -> bytes:
    dims = b"".join(block(1, number(1, d) if isinstance(d, int) else block(2, d)) for d in shape)
    return block(1, name) + block(2, block(1, number(1, dtype) + block(2, dims)))


Value = tuple[str, int, Sequence[int | str]]


def model(
    nodes: Sequence[bytes],
    *,
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    weights: Mapping[str, np.ndarray] | None = None,
    raw_weights: Sequence[bytes] = (),
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    graph = b"".join(block(1, item) for item in nodes) + block(2, "tiny")
    graph += b"".join(block(5, tensor(name, array)) for name, array in (weights or {}).items())
    graph += b"".join(block(5, item) for item in raw_weights)
    graph += b"".join(block(11, value_info(*item)) for item in inputs)
    graph += b"".join(block(12, value_info(*item)) for item in outputs)
    entries = (block(14, block(1, key) + block(2, value)) for key, value in (metadata or {}).items())
    return number(1, 8) + block(7, graph) + block(8, block(1, "") + number(2, 17)) + b"".join(entries)


ANY_IMAGE: Value = ("image", FLOAT, ("batch", 3, "height", "width"))


def mean_colour(
    path: Path,
    *,
    dim: int = 4,
    image: Value = ANY_IMAGE,
    seed: int = 0,
    metadata: Mapping[str, str] | None = None,
) -> np.ndarray:
    """Write a model whose vector is the mean colour times a (3, dim) matrix, which is returned."""
    matrix = np.random.default_rng(seed).normal(size=(3, dim)).astype(np.float32)
    path.write_bytes(
        model(
            [
                node("GlobalAveragePool", ["image"], "pooled"),
                node("Flatten", ["pooled"], "flat", axis=1),
                node("MatMul", ["flat", "matrix"], "embedding"),
            ],
            inputs=[image],
            outputs=[("embedding", FLOAT, ("batch", dim))],
            weights={"matrix": matrix},
            metadata=metadata,
        )
    )
    return matrix


def pixels_as_tokens(path: Path, *, dtype: int = FLOAT) -> None:
    """Write a model whose output (b, h*w, 3) has the pixels of a NCHW image as tokens, in raster order."""
    path.write_bytes(
        model(
            [
                node("Cast", ["image"], "float", to=FLOAT),
                node("Reshape", ["float", "shape"], "channels"),
                node("Transpose", ["channels"], "tokens", perm=(0, 2, 1)),
            ],
            inputs=[("image", dtype, ("batch", 3, "height", "width"))],
            outputs=[("tokens", FLOAT, ("batch", "n", 3))],
            weights={"shape": np.array([0, 3, -1], dtype=np.int64)},
        )
    )


def one_node(path: Path, op: str, image: Value, output: Value) -> None:
    """Write a model of a single operator without attributes."""
    path.write_bytes(model([node(op, [image[0]], output[0])], inputs=[image], outputs=[output]))
