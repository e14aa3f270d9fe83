"""Draws of people, not of pairs: what everything that is compared on the same test people shares.

The 190 pairs of one person's 20 images rise and fall together, so intervals that count pairs as independent are far
too narrow (a nominal 95 % covers about 23 %). Here people are drawn with replacement: a mated pair counts as often
as its person was drawn, a non-mated pair as often as the product of its two people, and thresholds that are set on
the test set are set anew in every draw. `subject_interval` makes an interval of the draws.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from faceblind._errors import DataError
from faceblind.measure.curve import bin_edges
from faceblind.measure.limits import LEVEL, subject_interval
from faceblind.measure.operating import allowed_false_accepts
from faceblind.measure.tail import ScoreTail

_TAIL_POINTS = 4_000
_CHUNK = 64


def percentile_interval(
    point: float, draws: NDArray[np.float64], people: int, *, level: float = LEVEL
) -> tuple[float, float]:
    """Return the percentile interval of bootstrap draws of a rate, never narrower than the data allow.

    When every person shows the same rate of 0 (or 1), the draws do not vary and would claim certainty. Then the exact
    binomial bound for zero events among `people` people is used: a leak that only a few people have could have been
    missed by drawing these people, whatever the number of pairs.
    """
    tail = (1 - level) / 2
    low, high = (float(q) for q in np.quantile(draws, [tail, 1 - tail]))
    if point == 0 and high == 0:
        high = 1 - tail ** (1 / people)
    if point == 1 and low == 1:
        low = tail ** (1 / people)
    return min(low, point), max(high, point)


@dataclass(frozen=True, eq=False)
class SubjectBootstrap:
    """Draws of people with replacement, shared by everything that is compared on the same test people.

    Attributes
    ----------
    weights : (draws, m) int32
        How often each of m subjects was drawn.
    """

    weights: NDArray[np.int32]
    _real: NDArray[np.float64] = field(repr=False)

    @classmethod
    def of(cls, subjects: int, *, draws: int = 1000, rng: np.random.Generator) -> SubjectBootstrap:
        """Draw `draws` samples of `subjects` people."""
        weights = rng.multinomial(subjects, np.full(subjects, 1 / subjects), size=draws).astype(np.int32)
        return cls(weights, weights.astype(np.float64))

    def tar_frozen(self, tail: ScoreTail, threshold: float) -> NDArray[np.float64]:
        """Return TAR per draw, (draws,), at a threshold that was fixed elsewhere."""
        return self._ratio(tail.true_accepts(threshold), tail.mated_pairs())

    def tar_calibrated(self, tail: ScoreTail, far: float) -> NDArray[np.float64]:
        """Return TAR per draw, (draws,), with the threshold set at `far` anew in each draw.

        NaN where the threshold of a draw lies beyond the scores that the tail keeps: there TAR is higher than at any kept
        threshold. `subject_interval` takes such draws for high, and their number is ``np.isnan(draws).sum()``; a tail
        made with more `slack` finds them.
        """
        rejected = self._highest_rejected(tail, far)
        lost = np.isnan(rejected)
        levels, which = np.unique(np.where(lost, np.float32(2.0), rejected), return_inverse=True)  # ascending
        # accepted[s, l]: mated pairs of subject s that score above levels[l]
        slot = np.searchsorted(levels, tail.mated, side="left")
        counts = np.bincount(
            tail.mated_subject * np.int64(levels.size + 1) + slot, minlength=tail.subjects * (levels.size + 1)
        ).reshape(tail.subjects, levels.size + 1)
        accepted = counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
        true_accepts = np.einsum("bs,sb->b", self._real, accepted[:, which].astype(np.float64))
        tar = _safe_ratio(true_accepts, self._real @ tail.mated_pairs())
        tar[lost] = np.nan
        return tar

    def far_frozen(self, tail: ScoreTail, threshold: float) -> NDArray[np.float64]:
        """Return FAR per draw, (draws,), at a threshold that was fixed elsewhere; people on both sides are resampled.

        A person who was drawn twice is not matched with its copy: those pairs are neither accepted nor counted.

        Products of two weights make the noise of single pairs of people count three times (A. B. Owen, The
        pigeonhole bootstrap, Annals of Applied Statistics 1, 2007). So the draws are brought to the variance that
        counts what pairs share through either person, and a pair itself one and a half times (after P. M. Aronow,
        C. Samii and V. A. Assenova, Cluster-robust variance estimation for dyadic data, Political Analysis 23, 2015).

        Raises
        ------
        DataError
            The tail does not reach down to the threshold (`ScoreTail.reaches`).
        """
        if not tail.reaches(threshold):
            raise tail.too_short(threshold)
        first, second = tail.pairs_of(slice(0, int(np.count_nonzero(tail.top >= np.float32(threshold))))).T
        m = tail.subjects
        accepted = sparse.csr_array((np.ones(first.size), (first, second)), shape=(m, m))  # sums what falls together
        drawn = np.einsum("bs,sb->b", self._real, accepted @ self._real.T)
        draws = _safe_ratio(drawn, tail.nonmated_drawn(self._real))
        point, spread = first.size / tail.nonmated, draws.std()
        if spread == 0:
            return draws
        wanted = np.sqrt(_dyadic_variance(tail, accepted) * max(m - 1, 1) / m)  # a bootstrap's own scale
        fixed: NDArray[np.float64] = np.clip(point + (draws - draws.mean()) * min(wanted / spread, 1.0), 0, 1)
        return fixed

    def fnmr_band(
        self, tail: ScoreTail, thresholds: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return pointwise 95 % limits of FNMR at fixed thresholds, two arrays of their length."""
        low, high = np.empty(thresholds.size), np.empty(thresholds.size)
        for index, threshold in enumerate(thresholds):
            accepts = tail.true_accepts(float(threshold))
            draws = 1 - self._ratio(accepts, tail.mated_pairs())
            point = 1 - accepts.sum() / tail.mated_pairs().sum()
            low[index], high[index] = subject_interval(point, draws, tail.effective_subjects)
        return low, high

    def eer(self, tail: ScoreTail) -> NDArray[np.float64]:
        """Return the equal error rate per draw, (draws,).

        FNMR is resampled exactly; FMR by its first-order (Hajek) projection on people, from the per-subject
        histogram. The EER of a draw is where the two curves cross on the histogram's grid.
        """
        if tail.subject_histogram is None:
            raise DataError("the equal error rate needs score_tail(..., histogram=True)")
        edges = bin_edges(tail.subject_histogram.shape[1])[:-1]
        above = tail.subject_histogram[:, ::-1].cumsum(axis=1)[:, ::-1].astype(np.float64)  # (m, bins): >= left edge
        fmr = _safe_ratio(self._real @ above, (self._real @ tail.nonmated_pairs())[:, None])
        slot = np.searchsorted(edges, tail.mated, side="right")  # edges at or below the score
        counts = np.bincount(
            tail.mated_subject * np.int64(edges.size + 1) + slot, minlength=tail.subjects * (edges.size + 1)
        ).reshape(tail.subjects, -1)
        accepted = counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:].astype(np.float64)
        fnmr = 1 - _safe_ratio(self._real @ accepted, (self._real @ tail.mated_pairs())[:, None])
        return _crossing(fmr, fnmr)

    def _ratio(self, numerator: NDArray[np.int64], denominator: NDArray[np.int64]) -> NDArray[np.float64]:
        return _safe_ratio(self._real @ numerator, self._real @ denominator)

    def _highest_rejected(self, tail: ScoreTail, far: float) -> NDArray[np.float32]:
        """Return per draw the highest non-mated score that must be rejected to stay within `far`.

        Most draws find it among three times the scores that `far` allows. When the highest scores belong to a few
        people who look alike, a draw without them finds it far below: such draws look on, to the end of the tail.
        What they do not find there is NaN, unless the tail holds every score: then all are accepted (-inf).
        """
        totals = tail.nonmated_drawn(self._real)
        allowed = np.floor(far * totals * (1 + 1e-15))
        rejected = np.empty(totals.size, dtype=np.float32)
        open_draws = np.arange(totals.size)
        depth = 3 * allowed_false_accepts(far, tail.nonmated) + 64
        while True:
            stride = -(
                -min(depth, tail.top.size) // _TAIL_POINTS
            )  # beyond a few thousand, one stands for its neighbours
            scores = tail.top[:depth:stride]
            first, second = tail.pairs_of(slice(None, depth, stride)).T
            unfinished = [open_draws[:0]]
            for start in range(0, open_draws.size, _CHUNK):
                draws = open_draws[start : start + _CHUNK]
                rows = self.weights[draws]
                accepted = np.cumsum(rows[:, first] * rows[:, second] * stride, axis=1, dtype=np.int64)
                index = (accepted <= allowed[draws, None]).sum(axis=1)
                rejected[draws] = scores[np.minimum(index, scores.size - 1)]
                unfinished.append(draws[index == scores.size])
            open_draws = np.concatenate(unfinished)
            if not open_draws.size:
                return rejected
            if depth >= tail.top.size:
                rejected[open_draws] = -np.inf if tail.top.size == tail.nonmated else np.nan
                return rejected
            depth *= 4


def _dyadic_variance(tail: ScoreTail, accepted: sparse.csr_array) -> float:
    """Return the variance of FAR over people: pairs that share a person vary together.

    With e the deviation of a pair of people from the overall rate and h the sum of a person's, it is
    ``sum h^2 - sum e^2``, and never under ``sum e^2``, the variance of pairs that share nothing. Here only half of the
    second sum is taken off: the difference is noisy and skewed where a few people look like many, and intervals made
    of it ended too low in 6 of 100 simulated audits, of the larger one in 3.
    """
    n = tail.images.astype(np.float64)
    t = n if tail.templates is None else tail.templates.astype(np.float64)
    rate = float(accepted.sum()) / tail.nonmated
    # Symmetric: what two people have with each other, whoever is the query, counts as one.
    both = accepted + accepted.T
    sizes = tail.nonmated_pairs().astype(np.float64)
    h = np.asarray(both.sum(axis=1)).reshape(-1) - rate * sizes
    # Sum over pairs of (a - rate * size)^2, without an array of all pairs.
    cells = both.tocoo()
    size = n[cells.row] * t[cells.col] + (t[cells.row] * n[cells.col] if tail.templates is not None else 0.0)
    squares = float(((cells.data - rate * size) ** 2 - (rate * size) ** 2).sum()) / 2
    if tail.templates is None:
        empty = float((n**2).sum() ** 2 - (n**4).sum()) / 2
    else:
        empty = float((n**2).sum() * (t**2).sum() + (n @ t) ** 2 - 2 * ((n * t) ** 2).sum())
    squares += rate**2 * empty
    variance: float = max(float(h @ h) - squares / 2, squares) / tail.nonmated**2
    return variance


def _safe_ratio(numerator: NDArray[np.float64], denominator: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(
        numerator,
        denominator,
        out=np.zeros(np.broadcast(numerator, denominator).shape),
        where=denominator > 0,
    )


def _crossing(fmr: NDArray[np.float64], fnmr: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return where falling FMR and rising FNMR cross, by linear interpolation along each row."""
    # One more point beyond the last edge, where nothing is accepted: there the curves have crossed.
    fmr = np.pad(fmr, ((0, 0), (0, 1)))
    gap = fmr - np.pad(fnmr, ((0, 0), (0, 1)), constant_values=1.0)
    last = gap.shape[1] - 1
    after = np.clip((gap > 0).sum(axis=1), 1, last)
    rows = np.arange(gap.shape[0])
    g0, g1 = gap[rows, after - 1], gap[rows, after]
    share = np.clip(_safe_ratio(g0, g0 - g1), 0, 1)
    left, right = fmr[rows, after - 1], fmr[rows, after]
    result: NDArray[np.float64] = left + share * (right - left)
    return result
