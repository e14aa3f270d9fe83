"""Non-linear features of the leading principal coordinates, on which linear attackers read non-linear codes.

Identity can be held by the size of coordinates and not their sign, or by products of coordinates: its mean over the images
of a person is then the same for everybody, and no linear attacker sees anything. Products of pairs make such a code
linear; random ramps (ReLU of random directions) do so, less sharply, for codes of more than two coordinates.
Products of p coordinates are p(p+1)/2, so only the leading ones can be expanded: a code that hides in directions with
little variance is not found this way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind.attack.memory import Memory
from faceblind.attack.projection import RANGE, Projection, principal


class Expansion:
    """Features of vectors, remembered for the last arrays."""

    def __init__(self, leading: Projection, ramps: Ramps | None) -> None:
        self._leading, self._ramps = leading, ramps
        self._memory = Memory(self._expand, 2)

    def __call__(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return (n, q) features; rows of zeros stay zeros, which attackers take for nothing said."""
        return self._memory(X)

    def _expand(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        coordinates = self._leading(X)
        if self._ramps is None:
            first, second = np.triu_indices(coordinates.shape[1])
            features = coordinates[:, first] * coordinates[:, second]
        else:
            features = np.maximum(coordinates @ self._ramps.directions + self._ramps.offsets, 0)
        features[~X.any(axis=1)] = 0
        return features.astype(np.float32)


@dataclass(frozen=True, eq=False)
class Ramps:
    """Random directions (p, q) and offsets (q,)."""

    directions: NDArray[np.float64]
    offsets: NDArray[np.float64]

    @classmethod
    def draw(cls, size: int, count: int, rng: np.random.Generator) -> Ramps:
        """Draw directions whose outputs have variance 1, and offsets half as wide."""
        return cls(rng.standard_normal((size, count)) / np.sqrt(size), rng.standard_normal(count) / 2)


def leading(vectors: NDArray[np.float64], size: int) -> Projection:
    """Return the projection on the main directions of training vectors, at most `size`, scaled to variance 1."""
    mean = vectors.mean(axis=0)
    values, basis = principal(vectors - mean)
    kept = np.flatnonzero(values > values[-1] * RANGE)[::-1][:size]
    return Projection(mean, basis[:, kept] * np.sqrt(vectors.shape[0] / values[kept]))
