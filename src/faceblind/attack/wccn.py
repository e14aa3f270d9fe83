"""WCCN: cosine after dividing by what varies within identities.

Within-class covariance normalisation (Hatch, Kajarekar, Stolcke 2006) maps vectors by ``S_w^(-1/2)``: directions in
which images of one person differ count little, however much variance they hold, and directions in which they agree
count much, however little they hold. Identity buried under pose, light or scene is read this way where plain cosine
reads nothing. Unlike LDA it keeps every direction, so it does not depend on where the training identities happened to
differ; on erased vectors, where identity is thin and everywhere, that makes it the stronger of the two.

``S_w`` is shrunk towards a multiple of the identity matrix; the grid goes from nearly none to nearly plain cosine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind.attack.base import Candidate
from faceblind.attack.memory import Memory
from faceblind.attack.scatter import ALONE, Scatter, ScatterMaker, check_shrinkages
from faceblind.attack.training import score_rows

SHRINKAGES = (1e-4, 1e-3, 1e-2, 0.1, 0.3, 0.6, 0.9)


@dataclass(frozen=True)
class WCCN:
    """Within-class covariance normalisation, with a grid of shrinkages.

    Parameters
    ----------
    shrinkages : tuple of float
        Between 0 (none: directions without scatter are left out) and 1 (cosine of centred vectors).
    """

    shrinkages: tuple[float, ...] = SHRINKAGES
    name: str = field(default="wccn", init=False)
    learns: bool = field(default=True, init=False)
    patience: int | None = field(default=None, init=False)
    _scatter: ScatterMaker = field(default_factory=ScatterMaker, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_shrinkages(self.shrinkages)

    def fit(
        self, X: NDArray[np.float32], identity: NDArray[Any], *, k: int | None, rng: np.random.Generator
    ) -> Sequence[Candidate]:
        """Fit on k random images per identity (all when k is None); returns one candidate per shrinkage.

        Raises
        ------
        DataError
            Fewer than two identities, all training vectors are the same, or a row that is not finite.
        """
        scatter = self._scatter(X, identity, k, rng, who="WCCN")
        whitening = Whitening(scatter)
        return tuple(WhitenedMap(whitening, a, scatter.setting(shrinkage=a)) for a in self.shrinkages)

    def describe(self) -> dict[str, Any]:
        """Return the recipe and the grid, for the record."""
        return {
            "name": self.name,
            "recipe": f"cosine of centred vectors mapped by the within-identity covariance to the power -1/2; {ALONE}",
            "grid": {"shrinkage": list(self.shrinkages)},
        }


class Whitening:
    """Centred vectors in coordinates of unit within-identity variance, at any shrinkage."""

    def __init__(self, scatter: Scatter) -> None:
        self._scatter = scatter
        self._beyond = Memory(self._outside, 2)

    def __call__(self, X: NDArray[np.float32], shrinkage: float) -> NDArray[np.float64]:
        """Return (n, q) rows: coordinates seen in training, then what lies beyond them where it counts."""
        scales, scale_beyond = self._scatter.scales(shrinkage)
        rows = self._scatter.rotation(X) * scales
        if not (self._scatter.beyond and scale_beyond):
            return rows
        return np.concatenate([rows, scale_beyond * self._beyond(X)], axis=1)

    def _outside(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        rotation = self._scatter.rotation
        return (X.astype(np.float64) - rotation.mean) - rotation(X) @ rotation.basis.T


@dataclass(frozen=True, eq=False)
class WhitenedMap:
    """A fitted WCCN at one shrinkage."""

    whitening: Whitening
    shrinkage: float
    setting: Mapping[str, float]

    def map(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Map (n, d) released vectors to unit rows of the whitened space; rows of zeros stay zeros."""
        return score_rows(self.whitening(X, self.shrinkage), X)
