"""PLDA: the likelihood ratio of "same person" against "two people" under Gaussian identities and Gaussian noise.

Two-covariance model (Brümmer, de Villiers 2010): an identity is ``y ~ N(mean, S_b)`` and its images ``x ~ N(y, S_w)``.
Both covariances come from moments (ANOVA), as in LDA. In coordinates that are whitened within identities and diagonal
between them, with between-variances ``psi``, the log likelihood ratio of a pair is, up to a constant,

    sum_i  psi_i/(2 psi_i + 1) x_i x'_i  -  psi_i^2/(2 (2 psi_i + 1)(psi_i + 1)) (x_i^2 + x'_i^2)

The first term is an inner product, once coordinates are multiplied by ``sqrt(psi/(2 psi + 1))``: this part is exact.
The second belongs to each image alone and cannot be had from a cosine, for which every row is its own best match.
Length normalisation takes its place, as is common for PLDA (Garcia-Romero, Espy-Wilson 2011). The order of pairs is
exact among images with equal second terms and equal lengths. Where identity is weak (psi below 1: the encoders that an audit
is about) it is close to that of the likelihood ratio; for strong identity (psi of 10 and more: face recognition) the second
term matters and the order differs.

Identity means of few people miss most of the directions in which other people differ. So ``psi`` is shrunk as well:
``(1 - b) psi + b mean(psi)`` over all dimensions. Without shrinkage (b = 0) this is the textbook model in the span of the training
identities; with b = 1 all directions count alike, and it is WCCN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import UsageError
from faceblind.attack.base import Candidate
from faceblind.attack.lda import discriminants
from faceblind.attack.projection import Projection
from faceblind.attack.scatter import ALONE, Scatter, ScatterMaker, check_shrinkages
from faceblind.attack.training import score_rows
from faceblind.attack.wccn import Whitening

SHRINKAGES = (1e-4, 0.01, 0.1, 0.3, 0.6)
BETWEEN = (0.0, 0.3, 0.6, 0.9)


@dataclass(frozen=True)
class PLDA:
    """Two-covariance PLDA, with a grid of shrinkages of both covariances.

    Parameters
    ----------
    shrinkages : tuple of float
        How far the within-identity covariance is shrunk towards a multiple of the identity matrix, 0 to 1.
    between : tuple of float
        How far the between-identity covariance is shrunk towards a multiple of the (shrunk) within-identity one, 0 to 1.
    """

    shrinkages: tuple[float, ...] = SHRINKAGES
    between: tuple[float, ...] = BETWEEN
    name: str = field(default="plda", init=False)
    learns: bool = field(default=True, init=False)
    patience: int | None = field(default=None, init=False)
    _scatter: ScatterMaker = field(default_factory=ScatterMaker, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_shrinkages(self.shrinkages)
        if not self.between or not all(0 <= b <= 1 for b in self.between):
            raise UsageError(f"between-identity shrinkages lie between 0 and 1, at least one, got {self.between}")

    def fit(
        self, X: NDArray[np.float32], identity: NDArray[Any], *, k: int | None, rng: np.random.Generator
    ) -> Sequence[Candidate]:
        """Fit on k random images per identity (all when k is None); returns one candidate per setting.

        Raises
        ------
        DataError
            Fewer than two identities, all training vectors are the same, or a row that is not finite.
        """
        scatter = self._scatter(X, identity, k, rng, who="PLDA")
        whitening = Whitening(scatter)
        return tuple(candidate for a in self.shrinkages for candidate in self._at(a, scatter, whitening))

    def _at(self, a: float, scatter: Scatter, whitening: Whitening) -> list[Candidate]:
        """Return the candidates of one shrinkage: they share its discriminant directions."""
        if not scatter.identities_known:
            return [PLDAMap(whitening, a, 1.0, None, np.ones(0), scatter.setting(shrinkage=a))]
        found = discriminants(scatter, a)
        psi = between_variances(found.ratios, scatter.counts)
        if not psi.any():  # means vary no more than images of one person do: nothing to weigh directions by
            return [PLDAMap(whitening, a, 1.0, None, np.ones(0), scatter.setting(shrinkage=a, between=1.0))]
        mean = float(psi.sum()) / scatter.rotation.mean.size
        candidates: list[Candidate] = []
        for b in self.between:
            floor = pair_weights(np.array(b * mean))
            # Directions beyond the discriminants all have the floor's weight: rows are whitened ones times it, and
            # what discriminants weigh above it. Inner products are those of one weighted rotation.
            excess = np.sqrt(pair_weights((1 - b) * psi + b * mean) - floor)
            candidates.append(
                PLDAMap(
                    whitening,
                    a,
                    float(np.sqrt(floor)),
                    found.projection,
                    excess,
                    scatter.setting(shrinkage=a, between=b),
                )
            )
        return candidates

    def describe(self) -> dict[str, Any]:
        """Return the recipe and the grid, for the record."""
        return {
            "name": self.name,
            "recipe": "two-covariance PLDA by moments: cosine in coordinates whose inner product is the pair term of the log "
            f"likelihood ratio; {ALONE}, and all directions count alike",
            "grid": {"shrinkage": list(self.shrinkages), "between": list(self.between)},
        }


def between_variances(ratios: NDArray[np.float64], counts: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the variance of identities in units of that within, from ANOVA mean squares; never below 0.

    The mean over n images carries 1/n of the within-identity variance, which is taken off. `counts` may differ.
    """
    images = float(counts.sum())
    effective = (images - float((counts**2).sum()) / images) / (counts.size - 1)
    return np.clip((ratios - 1) / effective, 0, None)


def pair_weights(psi: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the coefficients of the pair term, ``psi/(2 psi + 1)``: from 0 where there is no identity to 1/2."""
    return psi / (2 * psi + 1)


@dataclass(frozen=True, eq=False)
class PLDAMap:
    """A fitted PLDA at one setting."""

    whitening: Whitening
    shrinkage: float
    floor: float
    discriminants: Projection | None
    excess: NDArray[np.float64]
    setting: Mapping[str, float]

    def map(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Map (n, d) released vectors to unit rows; rows of zeros stay zeros."""
        return score_rows(self.rows(X), X)

    def rows(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return rows before normalisation: their inner products are the pair term of the log likelihood ratio."""
        parts = []
        if self.floor:
            parts.append(self.floor * self.whitening(X, self.shrinkage))
        if self.discriminants is not None:
            parts.append(self.discriminants(X) * self.excess)
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
