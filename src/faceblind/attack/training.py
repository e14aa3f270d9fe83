"""What a learning attacker is given: the drawn images of each identity, checked; and how its outputs become rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.attack.base import draw_images
from faceblind.data.embeddings import unit_rows


@dataclass(frozen=True, eq=False)
class Training:
    """Images an attacker may learn from, with labels.

    Attributes
    ----------
    rows : (n,) which rows of the released vectors were drawn
    vectors : (n, d) float64
    codes : (n,) identities as 0..m-1
    counts : (m,) images per identity
    """

    rows: NDArray[np.intp]
    vectors: NDArray[np.float64]
    codes: NDArray[np.intp]
    counts: NDArray[np.intp]

    @classmethod
    def draw(
        cls, X: NDArray[np.float32], identity: NDArray[Any], k: int | None, rng: np.random.Generator, *, who: str
    ) -> Training:
        """Draw k images of each identity (all when k is None). Rows of zeros say nothing and are never drawn.

        Raises
        ------
        DataError
            Shapes that do not fit, a row with NaN or infinity (named), k less than one, fewer than two identities, or
            training vectors that are all the same.
        """
        usable = usable_rows(X, identity, who=who)
        labels = np.asarray(identity)[usable]
        rows = usable[draw_images(labels, k, rng)]
        names, codes = np.unique(np.asarray(identity)[rows], return_inverse=True)
        if names.size < 2:
            raise DataError(
                f"{who} needs at least two training identities, got {names.size}; give it the images of more people"
            )
        drawn = X[rows]
        if not np.ptp(drawn, axis=0).any():
            raise DataError(
                f"all training vectors are the same: {who} has nothing to learn; was everything erased, or a column read twice?"
            )
        return cls(rows, drawn.astype(np.float64), codes, np.bincount(codes))

    def sums(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sums of (n, q) columns over the images of each identity, (m, q)."""
        order = np.argsort(self.codes, kind="stable")
        starts = np.concatenate([[0], np.cumsum(self.counts)[:-1]])
        return np.add.reduceat(columns[order], starts, axis=0)


def usable_rows(X: NDArray[np.float32], identity: NDArray[Any], *, who: str) -> NDArray[np.intp]:
    """Return the rows that hold something; refuse arrays that cannot be learned from."""
    if np.ndim(X) != 2 or np.shape(identity) != np.shape(X)[:1]:
        raise DataError(
            f"{who} needs (n, d) vectors and n identities, got shapes {np.shape(X)} and {np.shape(identity)}"
        )
    with np.errstate(invalid="ignore", over="ignore"):
        finite = np.isfinite(np.einsum("ij->i", X, dtype=np.float64))
    if not finite.all():
        raise DataError(f"row {int(np.argmin(finite))} holds NaN or infinity; drop it before {who} learns from it")
    return np.flatnonzero(X.any(axis=1))


def score_rows(mapped: NDArray[Any], X: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale outputs of released vectors to unit rows; rows that were released as zeros stay zeros.

    A row that was released as zeros says nothing. Centring would make all of them the same point, with cosine 1
    among themselves: false accepts that raise thresholds and hide the leak of the others.
    """
    peak = np.abs(mapped).max(axis=1, keepdims=True)  # outputs can be far from 1: scale before float32
    says = (peak > 0) & (X != 0).any(axis=1, keepdims=True)
    return unit_rows(np.divide(mapped, peak, out=np.zeros_like(mapped), where=says))
