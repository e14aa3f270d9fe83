"""Detector networks that say what a test tells them to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from encoders.tiny_onnx import FLOAT, model, node
from faceblind.faces.align import TEMPLATE

_SIZE = 64
_OUTPUTS = ("heat", "size", "offset", "points")
_LENGTHS = (1, 2, 2, 10)
_UPRIGHT = ((TEMPLATE[:, ::-1] + 0.5) / 112).ravel()  # y, x of each point as shares of the box


def centerface_saying(
    path: Path,
    peaks: Mapping[tuple[int, int], float],
    *,
    side: float | None = None,
    upright: bool = False,
    spoil: tuple[int, int] | None = None,
) -> dict[str, np.ndarray]:
    """Write a CenterFace for 64x64 photographs with these scores at these cells; returns its maps."""
    rng = np.random.default_rng(5)
    cells = _SIZE // 4
    maps = {
        "heat": rng.uniform(0, 0.3, size=(1, cells, cells)),
        "size": rng.uniform(0.2, 0.8, size=(2, cells, cells)),
        "offset": rng.uniform(-0.5, 0.5, size=(2, cells, cells)),
        "points": rng.uniform(0, 1, size=(10, cells, cells)),
    }
    if upright:
        maps["points"][:] = _UPRIGHT[:, None, None]
    if side is not None:
        maps["size"][:] = math.log(side / 4)
    for cell, score in peaks.items():
        maps["heat"][0][cell] = score
    if spoil is not None:
        maps["size"][0][spoil] = np.inf
    maps = {name: values.astype(np.float32) for name, values in maps.items()}
    path.write_bytes(
        model(
            [node("Identity", [f"{name} map"], name) for name in _OUTPUTS],
            inputs=[("image", FLOAT, (10, 3, 32, 32))],  # as CenterFace was published
            outputs=[(name, FLOAT, (10, length, 8, 8)) for name, length in zip(_OUTPUTS, _LENGTHS, strict=True)],
            weights={f"{name} map": values[None] for name, values in maps.items()},
        )
    )
    return maps


def scrfd_saying(
    path: Path,
    planted: Mapping[int, Mapping[tuple[int, int, int], float]],
    *,
    batched: bool = False,
    order: Sequence[int] | None = None,
    fixed: bool = False,
) -> dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Write a SCRFD for 64x64 photographs with these scores at (row, column, anchor); returns scores, boxes, points."""
    rng = np.random.default_rng(6)
    values = {}
    for stride in (8, 16, 32):
        cells = _SIZE // stride
        count = cells * cells * 2
        scores = rng.uniform(0, 0.3, size=(count, 1)).astype(np.float32)
        for (row, column, anchor), score in planted.get(stride, {}).items():
            scores[(row * cells + column) * 2 + anchor] = score
        boxes, points = rng.uniform(0.1, 0.4, size=(count, 4)), rng.uniform(-1, 1, size=(count, 10))
        values[stride] = (scores, boxes.astype(np.float32), points.astype(np.float32))
    flat = [values[stride][part] for part in range(3) for stride in (8, 16, 32)]
    flat = [flat[i] for i in (order or range(9))]
    arrays = {f"w{i}": array[None] if batched else array for i, array in enumerate(flat)}
    path.write_bytes(
        model(
            [node("Identity", [f"w{i}"], f"out{i}") for i in range(9)],
            inputs=[("image", FLOAT, (1, 3, _SIZE, _SIZE) if fixed else (1, 3, "height", "width"))],
            outputs=[
                (f"out{i}", FLOAT, [f"axis {k} of {i}" for k in range(a.ndim)]) for i, a in enumerate(arrays.values())
            ],
            weights=arrays,
        )
    )
    return values


def spot_finder(path: Path, *, side: float = 8.0, only_small: bool = False) -> Path:
    """Write a CenterFace whose score is how red a cell is (and how dark in the other colours); takes every size.

    Its faces are `side` pixels wide, around the cell, with the points of an upright face in them. With `only_small` the
    redness of the eight cells around is taken off, so that a spot of more than one cell is none.
    """
    patch = 12 if only_small else 4
    red = np.full((1, 3, patch, patch), -1 / (255 * (patch * patch - 16)) if only_small else 0.0)
    middle = slice((patch - 4) // 2, (patch + 4) // 2)
    red[0, 1:] = 0
    red[0, :, middle, middle] = np.array([1, -1, -1])[:, None, None] / (255 * 16)
    nothing = np.zeros((1, 3, 4, 4))
    weights = {
        "red": red,
        **{f"no {name}": nothing.repeat(n, axis=0) for name, n in zip(_OUTPUTS[1:], _LENGTHS[1:], strict=True)},
        "size bias": np.full(2, math.log(side / 4)),
        "offset bias": np.zeros(2),
        "points bias": _UPRIGHT,
    }
    cell = {"kernel_shape": (4, 4), "strides": (4, 4)}
    pads = ((patch - 4) // 2,) * 4
    path.write_bytes(
        model(
            [
                node("Conv", ["image", "red"], "heat", kernel_shape=(patch, patch), strides=(4, 4), pads=pads),
                *(node("Conv", ["image", f"no {name}", f"{name} bias"], name, **cell) for name in _OUTPUTS[1:]),
            ],
            inputs=[("image", FLOAT, (10, 3, 32, 32))],
            outputs=[(name, FLOAT, (10, length, 8, 8)) for name, length in zip(_OUTPUTS, _LENGTHS, strict=True)],
            weights={name: array.astype(np.float32) for name, array in weights.items()},
        )
    )
    return path
