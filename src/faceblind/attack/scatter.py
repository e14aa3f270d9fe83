"""Within-identity scatter, in which the whitening attackers (WCCN, LDA, PLDA) divide what identity is not.

Everything happens in the eigenvectors of the within-identity covariance, so that one decomposition serves every
shrinkage. With fewer images than dimensions it is made inside the range of the training images; directions beyond it
have no scatter that was seen, and are treated as such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import UsageError
from faceblind.attack.memory import Memory
from faceblind.attack.projection import RANGE, Projection, principal
from faceblind.attack.training import Training, usable_rows

ALONE = "with one image per identity the covariance of all training images stands in for the within-identity one"


@dataclass(frozen=True, eq=False)
class Scatter:
    """Within-identity covariance of training images, and their identity means, in its eigenvectors.

    Attributes
    ----------
    rotation : Projection
        From (n, d) vectors to (n, r) coordinates: r is d, or the rank of the training images when that is less.
    variances : (r,) ascending
        Within-identity variance of each coordinate.
    mean_variance : float
        Mean over all d dimensions: what variances are shrunk towards.
    means : (m, r) identity means, less their mean over images
    counts : (m,) images per identity
    identities_known : bool
        False when no identity has two images: `variances` are then those of the training images as such.
    """

    rotation: Projection
    variances: NDArray[np.float64]
    mean_variance: float
    means: NDArray[np.float64]
    counts: NDArray[np.intp]
    identities_known: bool

    @property
    def beyond(self) -> bool:
        """Whether there are dimensions that no training image reaches."""
        return bool(self.rotation.basis.shape[1] < self.rotation.basis.shape[0])

    def scales(self, shrinkage: float) -> tuple[NDArray[np.float64], float]:
        """Return one over the standard deviation of each coordinate, and of dimensions beyond them.

        Shrunk variances are ``(1 - a) s + a mean(s)``. Without shrinkage, coordinates without variance (null
        directions of an erased release, where only rounding is left) get 0 instead of infinity.
        """
        shrunk = (1 - shrinkage) * self.variances + shrinkage * self.mean_variance
        floor = shrinkage * self.mean_variance
        seen = shrunk > (self.variances[-1] * RANGE if shrinkage == 0 else 0)
        scales = np.where(seen, 1 / np.sqrt(np.where(seen, shrunk, 1)), 0)
        return scales, 1 / np.sqrt(floor) if floor > 0 else 0.0

    def setting(self, **values: float) -> Mapping[str, float]:
        """Return a setting for the record, which says so where the covariance of all images stood in."""
        return values if self.identities_known else {**values, "total_covariance": 1.0}


def within(training: Training) -> Scatter | None:
    """Decompose the within-identity covariance; None when no identity has two images that differ."""
    n, dim = training.vectors.shape
    freedom = n - training.counts.size
    if freedom < 1:
        return None
    mean = training.vectors.mean(axis=0)
    inside = training.vectors - mean
    reach = None
    if n < dim:
        _, reach = principal(inside)
        inside = inside @ reach
    means = training.sums(inside) / training.counts[:, None]
    residuals = inside - means[training.codes]
    variances, basis = np.linalg.eigh(residuals.T @ residuals / freedom)
    variances = np.clip(variances, 0, None)
    if variances.sum() * freedom <= RANGE * np.einsum("ij,ij->", inside, inside):
        return None
    rotation = Projection(mean, basis if reach is None else reach @ basis)
    return Scatter(rotation, variances, float(variances.sum()) / dim, means @ basis, training.counts, True)


def total(X: NDArray[np.float32]) -> Scatter:
    """Decompose the covariance of vectors without labels, each its own identity."""
    Z = X.astype(np.float64)
    mean = Z.mean(axis=0)
    Z -= mean
    values, basis = principal(Z)
    variances = values / max(Z.shape[0] - 1, 1)
    scattered = float(variances.sum()) / Z.shape[1]
    return Scatter(Projection(mean, basis), variances, scattered, Z @ basis, np.ones(Z.shape[0], np.intp), False)


def check_shrinkages(shrinkages: Sequence[float]) -> None:
    """Refuse an empty grid and shares outside 0 to 1."""
    if not shrinkages or not all(0 <= a <= 1 for a in shrinkages):
        raise UsageError(f"shrinkages are shares between 0 and 1, at least one, got {tuple(shrinkages)}")


class ScatterMaker:
    """Makes the scatter of drawn images; falls back to the covariance of all images when each stands alone.

    The fall-back needs no labels, so it is computed once for an array and shared by all seeds.
    """

    def __init__(self) -> None:
        self._totals = Memory(total, 2)

    def __call__(
        self,
        X: NDArray[np.float32],
        identity: NDArray[Any],
        k: int | None,
        rng: np.random.Generator,
        *,
        who: str,
    ) -> Scatter:
        """Draw k images of each identity and decompose; raises `DataError` as `Training.draw` does."""
        found = within(Training.draw(X, identity, k, rng, who=who))
        if found is not None:
            return found
        usable = usable_rows(X, identity, who=who)
        return self._totals(X if usable.size == X.shape[0] else X[usable])
