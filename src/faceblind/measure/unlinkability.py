"""Global unlinkability D_sys, with the value that pure chance gives taken off.

D_sys (Gomez-Barrero et al.) is the mean, over mated scores, of how much more likely than not a score makes "same
person". Its estimator cannot go below 0, so noise only ever adds: identical distributions read 0.10 with 500 scores
each and 0.03 with 15,200 and 6,400. A raw 0.03 is therefore no evidence of a leak, and no evidence of none. Every
value here comes with its permutation null, and what exceeds it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.measure.intervals import SubjectBootstrap
from faceblind.measure.limits import LEVEL
from faceblind.measure.tail import ScoreTail

Binning = Literal["width", "mass"]
BINS = 100
_PER_BIN = 10  # mated scores a bin should hold on average, when there are few
_HYPERGEOMETRIC_LIMIT = 500_000_000  # numpy's sampler ends at 1e9


@dataclass(frozen=True)
class Unlinkability:
    """D_sys of mated against non-mated scores: 0 when they are alike, 1 when they do not overlap.

    Attributes
    ----------
    value : float
        The plain estimate, biased upwards.
    null_mean, null_high : float
        Mean and 95 % quantile of the estimate when identity means nothing.
    excess : float
        ``value - null_mean``; may be below 0.
    adjusted : float
        ``excess / (1 - null_mean)``: about 0 when there is nothing to link, 1 when nothing overlaps.
    p_value : float
        Share of permutations that read at least `value`, the observed one included.
    null : {"images", "scores"}
        What was permuted: the identities of images, or the labels of scores (see `unlinkability`).
    low, high : float or None
        95 % interval over people of D_sys without bias; holds `adjusted` (or 0, when that is below).
    omega : float
        Prior odds of mated to non-mated.
    bins : int
        Bins that were formed; with a single one nothing can be told apart.
    """

    value: float
    null_mean: float
    null_high: float
    excess: float
    adjusted: float
    p_value: float
    null: Literal["images", "scores"]
    low: float | None
    high: float | None
    omega: float
    bins: int
    binning: Binning
    permutations: int
    mated: int
    nonmated: int
    subjects: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in plain JSON types."""
        return asdict(self)


def d_sys(mated: NDArray[Any], nonmated: NDArray[Any], *, omega: float = 1.0) -> NDArray[np.float64]:
    """Compute global unlinkability from histograms or densities on the same bins.

    With p and q the shares of mated and non-mated scores in a bin, the local measure is
    ``D = 2 omega p / (omega p + q) - 1`` where ``omega p > q``, else 0, and ``D_sys = sum(p D)``.

    Parameters
    ----------
    mated, nonmated : (..., bins)
        Counts or densities, not negative. Leading axes are broadcast. Rows are divided by their sum; a row of zeros
        gives 0.
    omega : float
        Prior odds, P(mated) / P(non-mated); 1 when nothing is known.

    Returns
    -------
    (...) float64 in [0, 1]

    Notes
    -----
    M. Gomez-Barrero, J. Galbally, C. Rathgeb, C. Busch, General framework to evaluate unlinkability in biometric
    template protection systems, IEEE TIFS 13 (2018); revisited in arXiv 2311.04633.
    """
    if not omega > 0:
        raise DataError(f"the prior odds omega must be above 0, got {omega}")
    p, q = _shares(mated), _shares(nonmated)
    gain, both = omega * p - q, omega * p + q
    local = np.divide(gain, both, out=np.zeros(np.broadcast(gain, both).shape), where=gain > 0)
    value: NDArray[np.float64] = np.minimum((p * local).sum(axis=-1), 1.0)
    return value


def unlinkability(
    tail: ScoreTail,
    *,
    rng: np.random.Generator,
    omega: float = 1.0,
    binning: Binning = "width",
    bins: int | None = None,
    permutations: int = 500,
    vectors: NDArray[np.float32] | None = None,
    identity: NDArray[Any] | None = None,
    bootstrap: SubjectBootstrap | None = None,
) -> Unlinkability:
    """Measure D_sys with its permutation null and an interval over people.

    Parameters
    ----------
    tail : ScoreTail
        Made with ``histogram=True``.
    rng : Generator
        Draws the permutations.
    omega : float
        Prior odds of mated to non-mated.
    binning : {"width", "mass"}
        ``width``: equal bins from the lowest to the highest score, as in the authors' script; comparable with
        published values, but one outlier widens all bins. ``mass``: bins that hold equal shares of the half-and-half
        mixture of both kinds; the value then depends on the order of scores only (up to the grid below).
    bins : int, optional
        Number of bins, ``min(100, mated scores / 10)`` when missing, as in the authors' script. More bins see finer
        structure and add bias: with identical distributions the plain value grows about as
        ``sqrt(bins (1 / mated + 1 / nonmated))``. Fewer bins hide structure: D_sys can only fall when bins are merged.
        Bins are unions of cells of the tail's per-subject histogram (4.9e-4 wide up to 1,024 people, 7.8e-3 from
        16,384), so scores that all lie in a few cells give few bins, and `bins` of the result says so.
    permutations : int
        Draws of the null.
    vectors, identity : (n, d) float32 and (n,), optional
        The unit rows and labels that the tail was made of. With them identities are permuted over images, which keeps
        the dependence of the pairs of one image (``null="images"``). Without, the labels of scores are permuted, as if
        all pairs were independent (``null="scores"``). That is as good when people have equally many images. When they
        do not, and images differ in how near they are to everything, it is too narrow: with 40 images of one person
        and 3 of 40 others it found a leak where there was none in a third of trials, at a nominal 5 %.
    bootstrap : SubjectBootstrap, optional
        Gives the interval. Mated scores are resampled exactly, non-mated ones by their first-order projection on
        people. Two ways to take the bias off are joined, because neither holds everywhere: the draws moved to
        `adjusted` (subtracts too much when the leak is weak), and the basic interval ``2 value - quantile`` (subtracts
        half the bias when there is none). The interval reaches from the lower to the higher end of both, so it errs
        to the wide side.

    Raises
    ------
    DataError
        The tail has no histogram, or vectors and labels are not those of the tail.
    """
    if tail.histogram is None or tail.subject_histogram is None:
        raise DataError("unlinkability needs score_tail(..., histogram=True)")
    if permutations < 1:
        raise DataError(f"the null needs at least one permutation, got {permutations}")
    if binning not in ("width", "mass"):
        raise DataError(f"bins are of equal 'width' or 'mass', got {binning!r}")
    cells = tail.subject_histogram.shape[1]
    mated = np.bincount(_cell(tail.mated, cells), minlength=cells)
    nonmated = tail.histogram.reshape(cells, -1).sum(axis=1)
    wanted = bins if bins is not None else min(BINS, max(1, tail.mated.size // _PER_BIN))
    edges = _edges(mated, nonmated, wanted, binning)
    mated, nonmated = _merge(mated, edges), _merge(nonmated, edges)
    value = float(d_sys(mated, nonmated, omega=omega))
    if vectors is not None and identity is not None:
        null = _null_of_images(vectors, identity, tail, edges, mated + nonmated, permutations, omega, rng)
    else:
        null = _null_of_scores(mated, nonmated, permutations, omega, rng)
    mean = float(null.mean())
    adjusted = (value - mean) / (1 - mean) if mean < 1 else 0.0
    low = high = None
    if bootstrap is not None:
        low, high = _interval(value, mean, adjusted, _draws(tail, bootstrap, edges, omega))
    return Unlinkability(
        value=value,
        null_mean=mean,
        null_high=float(np.quantile(null, LEVEL)),
        excess=value - mean,
        adjusted=adjusted,
        p_value=float(1 + np.count_nonzero(null >= value - 1e-12)) / (1 + permutations),
        null="scores" if vectors is None or identity is None else "images",
        low=low,
        high=high,
        omega=omega,
        bins=int(edges.size - 1),
        binning=binning,
        permutations=permutations,
        mated=int(tail.mated.size),
        nonmated=tail.nonmated,
        subjects=tail.subjects,
    )


def _shares(counts: NDArray[Any]) -> NDArray[np.float64]:
    wide: NDArray[np.float64] = np.asarray(counts, dtype=np.float64)
    total = wide.sum(axis=-1, keepdims=True)
    shares: NDArray[np.float64] = np.divide(wide, total, out=np.zeros(wide.shape), where=total > 0)
    return shares


def _cell(scores: NDArray[np.float32], cells: int) -> NDArray[np.int64]:
    """Return the cell of each score, by the rule of the tail's histograms."""
    place = (np.clip(scores, -1.0, 1.0).astype(np.float64) + 1.0) * (cells / 2)
    return np.minimum(place.astype(np.int64), cells - 1)


def _edges(mated: NDArray[np.int64], nonmated: NDArray[np.int64], bins: int, binning: Binning) -> NDArray[np.int64]:
    """Return the cells at which bins begin, and the end of the last: strictly increasing, around all scores."""
    if bins < 1:
        raise DataError(f"a histogram needs at least one bin, got {bins}")
    used = np.flatnonzero(mated + nonmated)
    first, last = int(used[0]), int(used[-1]) + 1
    if binning == "width":
        inner = np.round(np.linspace(first, last, bins + 1)).astype(np.int64)
    else:
        mixture = np.cumsum(_shares(mated) + _shares(nonmated)) / 2
        inner = np.searchsorted(mixture, np.arange(1, bins) / bins, side="left") + 1
    return np.unique(np.concatenate([[first], np.clip(inner, first, last), [last]]))


def _merge(counts: NDArray[Any], edges: NDArray[np.int64]) -> NDArray[Any]:
    """Sum cells to bins along the last axis; nothing lies outside the edges."""
    merged: NDArray[Any] = np.add.reduceat(counts[..., : edges[-1]], edges[:-1], axis=-1)
    return merged


def _null_of_scores(
    mated: NDArray[np.int64], nonmated: NDArray[np.int64], permutations: int, omega: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    pool = mated + nonmated
    size = int(mated.sum())
    if int(pool.sum()) < _HYPERGEOMETRIC_LIMIT:
        drawn = rng.multivariate_hypergeometric(pool, size, size=permutations, method="marginals")
    else:  # mated scores are then a vanishing part of the pool
        drawn = np.minimum(rng.multinomial(size, pool / pool.sum(), size=permutations), pool)
    return d_sys(drawn, pool - drawn, omega=omega)


def _null_of_images(
    vectors: NDArray[np.float32],
    identity: NDArray[Any],
    tail: ScoreTail,
    edges: NDArray[np.int64],
    pool: NDArray[np.int64],
    permutations: int,
    omega: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Permute identities over images: the pool of all scores stays, only which of them are mated changes."""
    _, codes = np.unique(np.asarray(identity), return_inverse=True)
    sizes = np.bincount(codes)
    if vectors.shape[0] != codes.size or not np.array_equal(sizes, tail.images):
        raise DataError("vectors and identity are not the rows and labels that the score tail was made of")
    if tail.templates is not None or int(pool.sum()) != codes.size * (codes.size - 1) // 2:
        raise DataError("the score tail is not of all pairs of the rows: permute scores, by leaving vectors out")
    cells = int(tail.subject_histogram.shape[1]) if tail.subject_histogram is not None else 0
    bin_of_cell = np.searchsorted(edges, np.arange(cells), side="right") - 1
    null = np.empty(permutations)
    groups = [np.flatnonzero(sizes == size) for size in np.unique(sizes[sizes > 1])]
    starts = np.cumsum(sizes) - sizes
    for b in range(permutations):
        order = rng.permutation(codes.size)
        mated = np.zeros(edges.size - 1, dtype=np.int64)
        for people in groups:  # people with the same number of images make one stack
            size = int(sizes[people[0]])
            rows = vectors[order[starts[people][:, None] + np.arange(size)]]
            scores = (rows @ rows.transpose(0, 2, 1))[:, *np.triu_indices(size, 1)]
            place = np.clip(bin_of_cell[_cell(scores.reshape(-1), cells)], 0, mated.size - 1)
            mated += np.bincount(place, minlength=mated.size)
        null[b] = d_sys(mated, np.maximum(pool - mated, 0), omega=omega)
    return null


def _draws(tail: ScoreTail, bootstrap: SubjectBootstrap, edges: NDArray[np.int64], omega: float) -> NDArray[np.float64]:
    by_subject = tail.subject_histogram
    if by_subject is None:  # checked by the caller
        return np.empty(0)
    cells = by_subject.shape[1]
    flat = tail.mated_subject.astype(np.int64) * cells + _cell(tail.mated, cells)
    mated = np.bincount(flat, minlength=tail.subjects * cells).reshape(tail.subjects, cells)
    weights = bootstrap.weights.astype(np.float64)
    drawn = [weights @ _merge(counts, edges).astype(np.float64) for counts in (mated, by_subject)]
    return d_sys(*drawn, omega=omega)


def _interval(value: float, null_mean: float, adjusted: float, draws: NDArray[np.float64]) -> tuple[float, float]:
    tail = (1 - LEVEL) / 2
    low, high = (float(q) for q in np.quantile(draws, [tail, 1 - tail]))
    centre, spread = float(draws.mean()), max(1 - null_mean, 1e-12)
    lows = adjusted, adjusted + (low - centre) / spread, 2 * value - high
    highs = adjusted, adjusted + (high - centre) / spread, 2 * value - low
    return float(np.clip(min(lows), 0, 1)), float(np.clip(max(highs), 0, 1))
