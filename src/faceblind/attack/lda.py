"""LDA: cosine in the directions with the most variance between identities for their variance within.

Linear discriminants (Fisher 1936; Rao 1948): whiten within identities, then keep the main directions of the identity
means. Dropping the others helps when most directions carry no identity at all, which whitening alone would blow up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import UsageError
from faceblind.attack.base import Candidate
from faceblind.attack.projection import RANGE, Projection
from faceblind.attack.scatter import ALONE, Scatter, ScatterMaker, check_shrinkages
from faceblind.attack.training import score_rows

SHRINKAGES = (1e-4, 0.01, 0.1, 0.3, 0.6)
DIMENSIONS = (8, 32, 128, 512)


@dataclass(frozen=True)
class LDA:
    """Linear discriminants, with a grid of shrinkages and numbers of dimensions.

    Parameters
    ----------
    shrinkages : tuple of float
        How far the within-identity covariance is shrunk towards a multiple of the identity matrix, 0 to 1.
    dimensions : tuple of int
        Directions kept, best first; those above what the training identities support are cut to it.
    """

    shrinkages: tuple[float, ...] = SHRINKAGES
    dimensions: tuple[int, ...] = DIMENSIONS
    name: str = field(default="lda", init=False)
    learns: bool = field(default=True, init=False)
    patience: int | None = field(default=None, init=False)
    _scatter: ScatterMaker = field(default_factory=ScatterMaker, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_shrinkages(self.shrinkages)
        if not self.dimensions or min(self.dimensions) < 1:
            raise UsageError(f"dimensions must be whole numbers of at least 1, at least one, got {self.dimensions}")

    def fit(
        self, X: NDArray[np.float32], identity: NDArray[Any], *, k: int | None, rng: np.random.Generator
    ) -> Sequence[Candidate]:
        """Fit on k random images per identity (all when k is None); returns one candidate per setting.

        Raises
        ------
        DataError
            Fewer than two identities, all training vectors are the same, or a row that is not finite.
        """
        scatter = self._scatter(X, identity, k, rng, who="LDA")
        candidates = []
        for a in self.shrinkages:
            found = discriminants(scatter, a)
            sizes = dict.fromkeys(min(size, found.ratios.size) for size in self.dimensions)
            candidates += [
                DiscriminantMap(found.projection, size, scatter.setting(shrinkage=a, dimensions=size)) for size in sizes
            ]
        return tuple(candidates)

    def describe(self) -> dict[str, Any]:
        """Return the recipe and the grid, for the record."""
        return {
            "name": self.name,
            "recipe": "cosine in the directions with the highest ratio of between-identity to within-identity variance, "
            f"whitened within identities; {ALONE}, and its main directions are kept",
            "grid": {"shrinkage": list(self.shrinkages), "dimensions": list(self.dimensions)},
        }


@dataclass(frozen=True, eq=False)
class Discriminants:
    """Directions with the highest between-to-within ratio, whitened within identities.

    Attributes
    ----------
    projection : Projection
        From (n, d) vectors to (n, q) coordinates with unit within-identity variance, best first.
    ratios : (q,) descending
        Between-identity mean squares (images times variance of means) in these coordinates; 1 when there is no identity.
    """

    projection: Projection
    ratios: NDArray[np.float64]


def discriminants(scatter: Scatter, shrinkage: float) -> Discriminants:
    """Diagonalise the between-identity scatter in coordinates whitened within identities.

    When every image stands alone nothing tells identity from the rest: the main directions are returned, all alike.
    """
    scales, _ = scatter.scales(shrinkage)
    rotation = scatter.rotation
    if not scatter.identities_known:
        kept = np.flatnonzero(scales)[::-1]
        return Discriminants(Projection(rotation.mean, rotation.basis[:, kept] * scales[kept]), np.ones(kept.size))
    between = np.sqrt(scatter.counts)[:, None] * scatter.means * scales  # (m, r)
    people, size = between.shape
    small = between @ between.T if people <= size else between.T @ between
    values, vectors = np.linalg.eigh(small)
    kept = np.flatnonzero(values > values[-1] * RANGE)[::-1][: people - 1]  # best first
    values, vectors = values[kept], vectors[:, kept]
    directions = between.T @ vectors / np.sqrt(values) if people <= size else vectors
    return Discriminants(
        Projection(rotation.mean, rotation.basis @ (scales[:, None] * directions)), values / (people - 1)
    )


@dataclass(frozen=True, eq=False)
class DiscriminantMap:
    """The first directions of a discriminant projection."""

    projection: Projection
    dimensions: int
    setting: Mapping[str, float]

    def map(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Map (n, d) released vectors to unit rows of the discriminant space; rows of zeros stay zeros."""
        return score_rows(self.projection(X)[:, : self.dimensions], X)
