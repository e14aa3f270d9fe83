"""Which faces are attacked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError


@dataclass(frozen=True, eq=False)
class Targets:
    """Faces that are released and attacked: of some people, with other photographs of the same people beside them.

    Attributes
    ----------
    pixels : (n, H, W, 3) uint8
    identity : (n,) str
    gallery, gallery_identity
        Other photographs, which recovered faces are matched with; empty without a judge.
    """

    pixels: NDArray[np.uint8]
    identity: NDArray[np.str_]
    gallery: NDArray[np.uint8]
    gallery_identity: NDArray[np.str_]

    @classmethod
    def draw(cls, pixels: NDArray[np.uint8], identity: NDArray[np.str_], *, each: int = 2, seed: int = 0) -> Targets:
        """Take up to `each` photographs of every person with more than one as targets, and the rest as the gallery."""
        rng = np.random.default_rng([seed, 0x7A6])
        target, rest = [], []
        for name in np.unique(identity):
            rows = rng.permutation(np.flatnonzero(identity == name))
            if rows.size > 1:
                cut = min(each, rows.size - 1)
                target.extend(rows[:cut].tolist())
                rest.extend(rows[cut:].tolist())
        if not target:
            raise DataError("attacks need people with at least two photographs: one to attack, one to recognise it by")
        a, b = np.sort(target), np.sort(rest)
        return cls(pixels[a], identity[a], pixels[b], identity[b])
