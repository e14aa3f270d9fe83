"""People as the vectors show them: one mean per identity, and how near every image is to the others of its own.

All label checks read these numbers. Vectors are scaled to unit length and freed of the table's mean, so that two
unrelated images have a similarity around zero whatever the encoder's common direction is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from faceblind.data.embeddings import unit_rows

ROWS = 65_536
"""Rows per step: float64 copies of a table are made in pieces of this size."""


@dataclass(frozen=True, eq=False)
class People:
    """Vectors and labels, with sums per identity.

    Attributes
    ----------
    vectors : (n, d) float32
        Unit rows, centred on the table's mean and scaled to unit length again.
    names : (k,) str
    codes : (n,) int
        Row to identity.
    counts : (k,) int
    sums : (k, d) float64
        Sum of the vectors of each identity.
    own : (n,) float64
        Mean similarity of each image to the other images of its identity; NaN for a single image.
    """

    vectors: NDArray[np.float32]
    names: NDArray[np.str_]
    codes: NDArray[np.intp]
    counts: NDArray[np.intp]
    sums: NDArray[np.float64]
    own: NDArray[np.float64]

    @classmethod
    def of(cls, vectors: NDArray[np.float32], identity: NDArray[np.str_]) -> People:
        """Centre unit rows on their mean and sum them by identity."""
        names, codes, counts = np.unique(identity, return_inverse=True, return_counts=True)
        centred = unit_rows(vectors - vectors.mean(axis=0, dtype=np.float64).astype(np.float32))
        sums = sums_by_code(centred, codes, names.size)
        return cls(centred, names, codes, counts, sums, own_similarity(centred, codes, sums, counts))

    def means(self) -> NDArray[np.float64]:
        """Return the (k, d) means, not of unit length: their products are mean similarities of images."""
        return np.asarray(self.sums / self.counts[:, None])

    def cohesion(self) -> NDArray[np.float64]:
        """Return the (k,) mean similarity of two images of each identity; NaN for a single image."""
        total = np.bincount(self.codes, weights=np.nan_to_num(self.own), minlength=self.names.size)
        return np.where(self.counts > 1, total / self.counts, np.nan)


def sums_by_code(vectors: NDArray[np.float32], codes: NDArray[Any], size: int) -> NDArray[np.float64]:
    """Add up rows by code, in float64; rows with a negative code are left out. Returns (size, d)."""
    total = np.zeros((size, vectors.shape[1]))
    for start in range(0, codes.size, ROWS):
        part = codes[start : start + ROWS]
        rows = np.flatnonzero(part >= 0)
        pick = sparse.csr_array((np.ones(rows.size), (part[rows], rows)), shape=(size, part.size))
        total += pick @ vectors[start : start + ROWS].astype(np.float64)
    return total


def own_similarity(
    vectors: NDArray[np.float32], codes: NDArray[Any], sums: NDArray[np.float64], counts: NDArray[Any]
) -> NDArray[np.float64]:
    """Mean similarity of each row to the other rows of its code; NaN where there is no other (or no code)."""
    own = np.full(codes.size, np.nan)
    for start in range(0, codes.size, ROWS):
        part = codes[start : start + ROWS]
        rows = np.flatnonzero((part >= 0) & (counts[part] > 1))
        mine = vectors[start : start + ROWS][rows].astype(np.float64)
        with_itself = np.einsum("ij,ij->i", mine, sums[part[rows]])
        itself = np.einsum("ij,ij->i", mine, mine)
        own[start + rows] = (with_itself - itself) / (counts[part[rows]] - 1)
    return own
