"""All pairs of rows, block by block: the matrix product every exact measurement is built on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 2048
"""Rows per block: the score block (16 MB) stays near the cache and the product runs at full speed."""


@dataclass(frozen=True)
class Block:
    """Scores of rows ``i0:i1`` against rows ``j0:j1`` with ``j0 >= i0``; on the diagonal only ``i < j`` is meant.

    Where rows of one table meet rows of another, those of the second are numbered on from the first's last.
    """

    i0: int
    i1: int
    j0: int
    j1: int
    scores: NDArray[np.float32]

    @property
    def diagonal(self) -> bool:
        """Whether the block meets itself."""
        return self.i0 == self.j0


def score_blocks(vectors: NDArray[np.float32], *, block: int = BLOCK) -> Iterator[Block]:
    """Yield the upper triangle of ``vectors @ vectors.T`` in blocks; the buffer is reused, copy what you keep.

    Parameters
    ----------
    vectors : (n, d) float32, C-contiguous, unit rows
    """
    n = vectors.shape[0]
    buffer = np.empty(min(block, n) ** 2, dtype=np.float32)
    for i0 in range(0, n, block):
        i1 = min(i0 + block, n)
        for j0 in range(i0, n, block):
            j1 = min(j0 + block, n)
            out = buffer[: (i1 - i0) * (j1 - j0)].reshape(i1 - i0, j1 - j0)
            np.matmul(vectors[i0:i1], vectors[j0:j1].T, out=out)
            yield Block(i0, i1, j0, j1, out)


def cross_blocks(left: NDArray[np.float32], right: NDArray[np.float32], *, block: int = BLOCK) -> Iterator[Block]:
    """Yield ``left @ right.T`` in blocks, rows of `right` numbered from ``len(left)`` on; the buffer is reused.

    Parameters
    ----------
    left : (n, d) float32, C-contiguous, unit rows
    right : (m, d) float32, C-contiguous, unit rows
    """
    n, m = left.shape[0], right.shape[0]
    buffer = np.empty(min(block, n) * min(block, m), dtype=np.float32)
    for i0 in range(0, n, block):
        i1 = min(i0 + block, n)
        for j0 in range(0, m, block):
            j1 = min(j0 + block, m)
            out = buffer[: (i1 - i0) * (j1 - j0)].reshape(i1 - i0, j1 - j0)
            np.matmul(left[i0:i1], right[j0:j1].T, out=out)
            yield Block(i0, i1, n + j0, n + j1, out)


def pairs_above(
    vectors: NDArray[np.float32],
    threshold: float,
    *,
    labels: NDArray[Any] | None = None,
    limit: int = 1_000_000,
    block: int = BLOCK,
) -> tuple[NDArray[np.int64], NDArray[np.float32], int]:
    """Find all pairs of rows whose cosine is at least `threshold`.

    Parameters
    ----------
    vectors : (n, d) float32, unit rows
    labels : (n,), optional
        Only pairs of two different labels are looked for.
    limit : int
        Keep at most this many pairs (the first in the order of blocks, rows and columns); the count is exact
        regardless.

    Returns
    -------
    pairs : (p, 2) int64, ``i < j``
    scores : (p,) float32
    count : int
        Number of pairs found, also beyond `limit`.
    """
    found: list[NDArray[np.int64]] = []
    values: list[NDArray[np.float32]] = []
    count = kept = 0
    codes = None if labels is None else np.unique(labels, return_inverse=True)[1]
    for part in score_blocks(np.ascontiguousarray(vectors, dtype=np.float32), block=block):
        rows, columns = np.nonzero(part.scores >= threshold)
        if part.diagonal:
            upper = rows < columns
            rows, columns = rows[upper], columns[upper]
        if codes is not None:
            different = codes[rows + part.i0] != codes[columns + part.j0]
            rows, columns = rows[different], columns[different]
        count += rows.size
        rows, columns = rows[: limit - kept], columns[: limit - kept]
        if rows.size:
            kept += rows.size
            found.append(np.stack([rows + part.i0, columns + part.j0], axis=1))
            values.append(part.scores[rows, columns])
    if not found:
        return np.empty((0, 2), dtype=np.int64), np.empty(0, dtype=np.float32), count
    return np.concatenate(found), np.concatenate(values), count
