"""What every eraser offers, and the shape linear erasers share."""

from __future__ import annotations

from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faceblind._errors import RankError
from faceblind.erase.projector import Projector


@runtime_checkable
class Eraser(Protocol):
    """A map fitted on labelled vectors that removes identity from any vectors of the same encoder."""

    def fit(self, X: ArrayLike, identity: ArrayLike) -> Self:
        """Learn the map from (n, d) vectors and their identities."""
        ...

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Apply the map to (n, d) vectors; rows of the result have unit length."""
        ...


class LinearEraser:
    """Base of erasers whose map is an orthogonal projection; `fit` must set `projector_`.

    Parameters
    ----------
    rank : int
        Dimensions to remove.
    """

    projector_: Projector

    def __init__(self, rank: int) -> None:
        if rank < 1:
            raise RankError(f"the rank is the number of dimensions to remove: at least 1, got {rank}")
        self.rank = rank

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Remove the fitted subspace and scale rows to unit length; rows with nothing left become zeros."""
        return self.projector_.apply(X).vectors


def svd_flip(basis: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fix the signs of columns: the entry of largest magnitude is positive, so that a fit gives the same bytes."""
    largest = np.abs(basis).argmax(axis=0)
    signs = np.sign(basis[largest, np.arange(basis.shape[1])])
    result: NDArray[np.float64] = basis * np.where(signs == 0, 1.0, signs)
    return result
