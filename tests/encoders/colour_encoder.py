"""A small encoder for tests of whole runs: the mean colour, and what tests ask it to do on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from faceblind.data.meta import Fingerprint
from faceblind.encoders import Encoder


class ColourEncoder(Encoder):
    """Mean colour / 255; `each` is called with every batch before it is encoded."""

    def __init__(self, each: Callable[[Sequence[NDArray[Any]]], None] | None = None, weights: str = "0" * 64) -> None:
        self._each = each
        self._fingerprint = Fingerprint(
            encoder="colour",
            weights_sha256=weights,
            dim=3,
            pooling="mean",
            preprocessing="{}",
            precision="float64",
            libraries={"numpy": np.__version__},
        )

    @property
    def fingerprint(self) -> Fingerprint:
        return self._fingerprint

    def run(self, prepared: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        if self._each is not None:
            self._each(prepared)
        return np.array([image.mean(axis=(0, 1)) / 255 for image in prepared], dtype=np.float32)


def people(root: Path, *, count: int = 4, photos: int = 5) -> Path:
    """Write plain photographs of `count` people; no two have one colour."""
    for p in range(count):
        folder = root / f"p{p}"
        folder.mkdir(parents=True)
        for i in range(photos):
            Image.new("RGB", (6, 4), colour(p, i)).save(folder / f"{i}.png")
    return root


def colour(person: int, photo: int) -> tuple[int, int, int]:
    return (10 + 20 * person, 1 + photo, 100)
