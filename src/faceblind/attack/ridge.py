"""The ridge probe: least squares from vectors to identities, verified by cosine in its output space.

k images of each training identity give centred vectors Zc (N, d) and centred one-hot labels Y (N, m);
``W = (Zc'Zc + lambda tr(Zc'Zc)/d I)^-1 Zc'Y`` and a pair scores ``cos((z1 - mean) W, (z2 - mean) W)``
(arXiv 2604.05296, probes; this reading of k is the default one). For large lambda, W tends to the identity means'
directions; for small lambda it whitens.

One eigendecomposition serves every lambda. When there are fewer images than dimensions it is that of the N x N Gram
matrix. When there are more identities than dimensions the score needs only W W', so a d-column factor stands in for W.

An attacker who can label k images of a person usually holds more images of them, and covariance needs no labels. With
``covariance="all"`` Zc'Zc comes from every training image and Zc'Y from the k labelled ones: a stronger attacker for
small k, and one eigendecomposition serves every seed and every k as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import UsageError
from faceblind.attack.base import Candidate
from faceblind.attack.memory import Memory
from faceblind.attack.projection import Projection, principal
from faceblind.attack.training import Training, score_rows, usable_rows

LAMBDAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2)
_WHO = "a ridge probe"
_COVARIANCE = {"drawn": "the k images of each identity", "all": "all training images, labelled or not"}


@dataclass(frozen=True)
class RidgeProbe:
    """Ridge probe with a grid of regularisation strengths, relative to the mean variance per dimension.

    Parameters
    ----------
    lambdas : tuple of float
    covariance : {"drawn", "all"}
        Which images give the covariance: the k drawn ones of each identity, or every training image.
    """

    lambdas: tuple[float, ...] = LAMBDAS
    covariance: Literal["drawn", "all"] = "drawn"
    name: str = field(default="ridge", init=False)
    learns: bool = field(default=True, init=False)
    patience: int | None = field(default=None, init=False)
    _spectra: Memory[_Spectrum] = field(
        default_factory=lambda: Memory(_Spectrum.of, 2), init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.covariance not in _COVARIANCE:
            raise UsageError(f"covariance comes from 'drawn' or 'all' images, got {self.covariance!r}")
        if not self.lambdas or min(self.lambdas) <= 0:
            raise UsageError(f"regularisation strengths must be greater than 0, got {self.lambdas}")

    def fit(
        self, X: NDArray[np.float32], identity: NDArray[Any], *, k: int | None, rng: np.random.Generator
    ) -> Sequence[Candidate]:
        """Fit on k random images per identity (all when k is None); returns one candidate per lambda.

        Raises
        ------
        DataError
            Fewer than two identities, all training vectors are the same, or a row that is not finite.
        """
        training = Training.draw(X, identity, k, rng, who=_WHO)
        if self.covariance == "all":
            usable = usable_rows(X, identity, who=_WHO)
            spectrum = self._spectra(X if usable.size == X.shape[0] else X[usable])
        else:
            spectrum = _Spectrum.of(X[training.rows])
        rotated = (training.vectors - spectrum.rotation.mean) @ spectrum.rotation.basis
        rotated -= rotated.mean(axis=0)  # centred labels: Zc'Y is then the class sums
        factor = training.sums(rotated).T
        if factor.shape[1] > factor.shape[0]:
            values, vectors = np.linalg.eigh(factor @ factor.T)
            factor = vectors * np.sqrt(np.clip(values, 0, None))
        return tuple(
            RidgeMap(
                spectrum.rotation, factor / (spectrum.values + lam * spectrum.per_dimension)[:, None], {"lambda": lam}
            )
            for lam in self.lambdas
        )

    def describe(self) -> dict[str, Any]:
        """Return the recipe and the grid, for the record."""
        return {
            "name": self.name,
            "recipe": "ridge regression from k images per identity to one-hot identities, cosine of outputs",
            "covariance": _COVARIANCE[self.covariance],
            "grid": {"lambda": list(self.lambdas)},
        }


@dataclass(frozen=True, eq=False)
class _Spectrum:
    """Eigenvalues of the covariance, scaled by the number of images, and the rotation into its eigenvectors."""

    values: NDArray[np.float64]
    per_dimension: float
    rotation: Projection

    @classmethod
    def of(cls, X: NDArray[np.float32]) -> _Spectrum:
        Z = X.astype(np.float64)
        mean = Z.mean(axis=0)
        Z -= mean
        values, basis = principal(Z)
        return cls(values, float(np.einsum("ij,ij->", Z, Z)) / Z.shape[1], Projection(mean, basis))


@dataclass(frozen=True, eq=False)
class RidgeMap:
    """A fitted ridge probe at one lambda."""

    rotation: Projection
    weights: NDArray[np.float64]
    setting: Mapping[str, float]

    def map(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Map (n, d) released vectors to unit rows of the probe's output space; rows of zeros stay zeros."""
        return score_rows(self.rotation(X) @ self.weights, X)
