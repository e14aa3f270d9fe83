"""Controls: what removing the same number of dimensions does without knowing identities.

An eraser has removed identity only in so far as it beats these at the same rank. Otherwise it has removed variance.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from faceblind.data.embeddings import unit_rows
from faceblind.erase.base import LinearEraser, svd_flip
from faceblind.erase.directions import check_rank
from faceblind.erase.isp import ISP
from faceblind.erase.moments import IdentityMoments
from faceblind.erase.projector import Projector
from faceblind.erase.rank import RankChoice


class RandomEraser(LinearEraser):
    """Remove a random subspace (Haar measure). Labels and data are used only for their shape."""

    def __init__(self, rank: int, *, rng: np.random.Generator) -> None:
        super().__init__(rank)
        self.rng = rng

    def fit(self, X: ArrayLike, identity: ArrayLike | None = None) -> Self:
        """Draw the subspace for (n, d) data."""
        dim = np.asarray(X).shape[1]
        check_rank(self.rank, dim, dim, identities=0 if identity is None else np.unique(np.asarray(identity)).size)
        q, _ = linalg.qr(self.rng.standard_normal((dim, self.rank)), mode="economic")
        self.projector_ = Projector.of(svd_flip(q), method="random", choice=RankChoice(rule="given"))
        return self


class PCAEraser(LinearEraser):
    """Remove the leading principal components of the unit vectors, without labels."""

    def fit(self, X: ArrayLike, identity: ArrayLike | None = None) -> Self:
        """Fit on (n, d) vectors."""
        Z = unit_rows(np.asarray(X)).astype(np.float64)
        Z -= Z.mean(axis=0)
        dim = Z.shape[1]
        check_rank(self.rank, min(dim, Z.shape[0] - 1), dim, identities=Z.shape[0])
        eigenvalues, vectors = linalg.eigh(Z.T @ Z)
        spectrum = np.sqrt(np.clip(eigenvalues[::-1], 0, None))
        self.projector_ = Projector.of(
            svd_flip(vectors[:, ::-1][:, : self.rank]),
            method="pca",
            spectrum=spectrum,
            choice=RankChoice(rule="given"),
        )
        return self


class PermutedISP(LinearEraser):
    """ISP fitted on shuffled identities: the same recipe and group sizes, with no identity to find."""

    def __init__(self, rank: int, *, rng: np.random.Generator) -> None:
        super().__init__(rank)
        self.rng = rng

    def fit(self, X: ArrayLike, identity: ArrayLike) -> Self:
        """Fit on (n, d) vectors with their identities permuted over rows."""
        labels = self.rng.permutation(np.asarray(identity))
        found = ISP.directions(IdentityMoments().partial_fit(X, labels))
        found.check(self.rank)
        self.projector_ = Projector.of(
            found.reads[:, : self.rank], method="permuted", spectrum=found.spectrum, choice=RankChoice(rule="given")
        )
        return self
