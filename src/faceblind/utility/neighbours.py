"""Neighbour overlap: how much of each image's nearest neighbours survive the map.

It needs no labels and no task: a search system that returned ten images before returns so many of the same after.
Among photographs of people it cannot be 1 when identity was what made neighbours near; the control at the same rank
says what part of the loss is not identity.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError

_ROWS = 1024


def nearest(vectors: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the k nearest other rows by cosine, (n, k), nearest first; ties go to the lower row.

    Parameters
    ----------
    vectors : (n, d) float32, unit rows
    """
    n = vectors.shape[0]
    if not 1 <= k < n:
        raise DataError(f"{k} neighbours need at least {k + 1} images, got {n}")
    found = np.empty((n, k), dtype=np.int64)
    for start in range(0, n, _ROWS):
        scores = vectors[start : start + _ROWS] @ vectors.T
        rows = np.arange(scores.shape[0])
        scores[rows, rows + start] = -np.inf
        top = _highest(scores, k)
        order = np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1, kind="stable")
        found[start : start + _ROWS] = np.take_along_axis(top, order, axis=1)
    return found


def _highest(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the columns of the k highest scores of each row in column order; the lower columns of a tie at the end."""
    last = np.partition(scores, scores.shape[1] - k, axis=1)[:, [scores.shape[1] - k]]
    chosen = scores >= last
    crowded = np.flatnonzero(chosen.sum(axis=1) > k)
    if crowded.size:
        tied = scores[crowded] == last[crowded]
        room = k - (scores[crowded] > last[crowded]).sum(axis=1)
        chosen[crowded] &= ~tied | (tied.cumsum(axis=1) <= room[:, None])
    return np.nonzero(chosen)[1].reshape(-1, k)


def neighbour_overlap(before: NDArray[np.float32], after: NDArray[np.float32], *, k: int = 10) -> tuple[float, int]:
    """Return the mean share of the k nearest neighbours that are the same before and after, and the k used.

    Parameters
    ----------
    before, after : (n, d), (n, q) float32, unit rows of the same images in the same order
    k : int
        Fewer when there are not k + 1 images.
    """
    if before.shape[0] != after.shape[0]:
        raise DataError(f"before and after must show the same images, got {before.shape[0]} and {after.shape[0]} rows")
    used = min(k, before.shape[0] - 1)
    a, b = nearest(before, used), nearest(after, used)
    return float((a[:, :, None] == b[:, None, :]).any(axis=2).mean()), used
