"""Centre vectors and project them on directions; the same projection serves many candidates of a fit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from faceblind.attack.memory import Memory

RANGE = 1e-10
"""Directions with less than this share of the largest variance hold rounding (float32 rounds near 1e-15 of it)."""
_REMEMBERED = 2  # validation and test


class Projection:
    """``(X - mean) @ basis`` in float64, remembered for the last arrays.

    Parameters
    ----------
    mean : (d,)
    basis : (d, r)
    """

    def __init__(self, mean: NDArray[np.float64], basis: NDArray[np.float64]) -> None:
        self.mean, self.basis = mean, basis
        self._memory = Memory(self._project, _REMEMBERED)

    def __call__(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return (n, r) coordinates, which nobody may change."""
        return self._memory(X)

    def _project(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        return (X.astype(np.float64) - self.mean) @ self.basis


def principal(Z: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the eigenvalues of ``Z'Z`` (r,), ascending and not negative, and its eigenvectors (d, r).

    With fewer rows than columns they come from the n x n Gram matrix, and only the range of Z is returned.
    """
    n, dim = Z.shape
    if n >= dim:
        values, basis = np.linalg.eigh(Z.T @ Z)
        return np.clip(values, 0, None), basis
    values, dual = np.linalg.eigh(Z @ Z.T)
    keep = values > values[-1] * RANGE
    values, dual = values[keep], dual[:, keep]
    return values, (Z.T @ dual) / np.sqrt(values)
