"""The ridge probe: least squares from vectors to identities, verified by cosine in its output space.

k images of each training identity give centred vectors Zc (N, d) and centred one-hot labels Y (N, m);
``W = (Zc'Zc + lambda tr(Zc'Zc)/d I)^-1 Zc'Y`` and a pair scores ``cos((z1 - mean) W, (z2 - mean) W)``
(arXiv 2604.05296, probes; this reading of k is the default one). For large lambda, W tends to the identity means'
directions; for small lambda it whitens.

One eigendecomposition serves every lambda. When there are fewer images than dimensions it is that of the N x N Gram
matrix. When there are more identities than dimensions the score needs only W W', so a d-column factor stands in for W.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.attack.base import Candidate, draw_images
from faceblind.data.embeddings import unit_rows

LAMBDAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2)


@dataclass(frozen=True)
class RidgeProbe:
    """Ridge probe with a grid of regularisation strengths, relative to the mean variance per dimension."""

    lambdas: tuple[float, ...] = LAMBDAS
    name: str = field(default="ridge", init=False)
    learns: bool = field(default=True, init=False)

    def fit(
        self, X: NDArray[np.float32], identity: NDArray[Any], *, k: int, rng: np.random.Generator
    ) -> Sequence[Candidate]:
        """Fit on k random images per identity; returns one candidate per lambda.

        Raises
        ------
        DataError
            Fewer than two identities, or all training vectors are the same.
        """
        rows = draw_images(identity, k, rng)
        names, codes = np.unique(identity[rows], return_inverse=True)
        if names.size < 2:
            raise DataError(f"a ridge probe needs at least two training identities, got {names.size}")
        Z = X[rows].astype(np.float64)
        mean = Z.mean(axis=0)
        Z -= mean
        n, dim = Z.shape
        if n >= dim:
            eigenvalues, basis = np.linalg.eigh(Z.T @ Z)
        else:
            eigenvalues, dual = np.linalg.eigh(Z @ Z.T)
            keep = eigenvalues > eigenvalues[-1] * 1e-10
            eigenvalues, dual = eigenvalues[keep], dual[:, keep]
            basis = (Z.T @ dual) / np.sqrt(eigenvalues)
        total = float(np.einsum("ij,ij->", Z, Z))
        if not total > 0:
            raise DataError("all training vectors are the same: a ridge probe has nothing to learn")
        sums = np.zeros((names.size, basis.shape[1]))
        np.add.at(sums, codes, Z @ basis)  # Zc'Y in the eigenbasis: class sums, since Zc has zero column sums
        factor = sums.T
        if factor.shape[1] > factor.shape[0]:
            values, vectors = np.linalg.eigh(factor @ factor.T)
            factor = vectors * np.sqrt(np.clip(values, 0, None))
        shared = _Rotation(mean, basis)
        spread = np.clip(eigenvalues, 0, None)
        return tuple(
            RidgeMap(shared, factor / (spread + lam * total / dim)[:, None], {"lambda": lam}) for lam in self.lambdas
        )

    def describe(self) -> dict[str, Any]:
        """Return the recipe and the grid, for the record."""
        return {
            "name": self.name,
            "recipe": "ridge regression from k images per identity to one-hot identities, cosine of outputs",
            "grid": {"lambda": list(self.lambdas)},
        }


class _Rotation:
    """Centre and rotate vectors into the eigenbasis; remembers the last result, which all lambdas share.

    Vectors are compared by value with those remembered (far cheaper than the product): arrays can change in place.
    """

    def __init__(self, mean: NDArray[np.float64], basis: NDArray[np.float64]) -> None:
        self.mean, self.basis = mean, basis
        self._last: tuple[NDArray[np.float32], NDArray[np.float64]] | None = None

    def __call__(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        if self._last is None or not np.array_equal(self._last[0], X):
            self._last = (X.copy(), (X.astype(np.float64) - self.mean) @ self.basis)
        return self._last[1]


@dataclass(frozen=True, eq=False)
class RidgeMap:
    """A fitted ridge probe at one lambda."""

    rotation: _Rotation
    weights: NDArray[np.float64]
    setting: Mapping[str, float]

    def map(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Map (n, d) released vectors to unit rows of the probe's output space; rows of zeros stay zeros.

        A row that was released as zeros says nothing. Centring would make all of them the same point, with cosine 1
        among themselves: false accepts that raise thresholds and hide the leak of the others.
        """
        mapped = self.rotation(X) @ self.weights
        mapped[~X.any(axis=1)] = 0
        peak = np.abs(mapped).max(axis=1, keepdims=True)  # outputs can be far from 1: scale before float32
        return unit_rows(np.divide(mapped, peak, out=np.zeros_like(mapped), where=peak > 0))
