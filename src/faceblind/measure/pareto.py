"""Generalised Pareto fits whose end point respects a limit, many weighted samples at a time.

The tail of a bounded score ends: the shape is negative, and the distribution is written by its end point e and
k = -shape, ``P(Y > y) = (1 - y / e)^(1 / k)``. Whatever the end point, the best k is a mean, so that the fits of a
thousand bootstrap draws are one matrix product over a grid of end points.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Method = Literal["likelihood", "moments"]
GRID = 256


def fit_pareto(
    excess: NDArray[np.float64], room: float, weights: NDArray[np.float64], *, method: Method, grid: int = GRID
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fit GPDs with an end point to weighted excesses, one for each row of weights.

    Parameters
    ----------
    excess : (n,) float64
        Above 0 and below `room`, in descending order.
    room : float
        The end point lies no further than this.
    weights : (b, n) float64
        Not negative, with a sum above 0 in every row.
    method : {"likelihood", "moments"}
        ``likelihood``: for a given end point e the likelihood is largest at ``k = -mean(log(1 - y / e))``; e is searched
        on a grid of `grid` points (after S. D. Grimshaw, Technometrics 35, 1993). ``moments``: probability-weighted
        moments (J. R. M. Hosking and J. R. Wallis, Technometrics 29, 1987); an end point outside of what data and room
        allow is moved there, and k made to fit the mean.

    Returns
    -------
    end, k : (b,) float64
        P(Y > y) = (1 - y / end)^(1 / k), the GPD with shape ``-k`` and scale ``k end``.
    """
    shares = weights / weights.sum(axis=1, keepdims=True)
    largest = excess[np.argmax(shares > 0, axis=1)]
    if method == "moments":
        return _moments(excess, room, shares, largest)
    ends = np.geomspace(excess[min(9, excess.size - 1)], room, grid)
    logs = np.log1p(-np.minimum(excess[:, None] / ends, 1 - 1e-12))
    k = -(shares @ logs)
    allowed = (ends > largest[:, None]) & (k > 0) & (k < 1)  # from k = 1 on the likelihood has no bound
    likelihood = np.where(allowed, k - 1 - np.log(np.where(allowed, k * ends, 1.0)), -np.inf)
    best = (np.arange(shares.shape[0]), np.argmax(likelihood, axis=1))
    found = allowed[best]
    if found.all():
        return ends[best[1]], k[best]
    by_moments = _moments(excess, room, shares, largest)
    return np.where(found, ends[best[1]], by_moments[0]), np.where(found, k[best], by_moments[1])


def anderson_darling(excess: NDArray[np.float64], end: float, k: float) -> float:
    """Return ``-n - mean((2i - 1) (log F(y_i) + log(1 - F(y_(n+1-i)))))`` of descending excesses."""
    n = excess.size
    log_above = np.log1p(-np.minimum(excess / end, 1 - 1e-12)) / k  # ascending: the largest excess comes first
    log_below = np.log(np.maximum(-np.expm1(log_above), 1e-300))
    odd = 2 * np.arange(1, n + 1) - 1
    return float(-n - np.mean(odd * (log_below[::-1] + log_above)))


def _moments(
    excess: NDArray[np.float64], room: float, shares: NDArray[np.float64], largest: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    above = np.cumsum(shares, axis=1) - shares / 2  # P(Y > y), to the middle of its step
    first, second = shares @ excess, (shares * above) @ excess
    gap = np.maximum(first - 2 * second, 1e-12 * first)
    k = first / gap - 2
    end = np.where(k > 0, 2 * first * second / gap / np.where(k > 0, k, 1.0), np.inf)
    moved = np.clip(end, np.minimum(largest * (1 + 1e-9), room), room)
    return moved, np.where(moved == end, k, first / np.maximum(moved - first, 1e-12))  # the mean is k end / (1 + k)
