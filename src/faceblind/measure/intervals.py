"""Intervals that resample people, not pairs.

The 190 pairs of one person's 20 images rise and fall together, so intervals that count pairs as independent are far
too narrow (a nominal 95 % covers about 23 %). Here people are drawn with replacement: a mated pair counts as often
as its person was drawn, a non-mated pair as often as the product of its two people, and thresholds that are set on
the test set are set anew in every draw.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.measure.curve import bin_edges
from faceblind.measure.operating import allowed_false_accepts
from faceblind.measure.tail import ScoreTail

LEVEL = 0.95
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
        """Return TAR per draw, (draws,), with the threshold set at `far` anew in each draw."""
        rejected = self._highest_rejected(tail, far)
        levels, which = np.unique(rejected, return_inverse=True)  # ascending
        # accepted[s, l]: mated pairs of subject s that score above levels[l]
        slot = np.searchsorted(levels, tail.mated, side="left")
        counts = np.bincount(
            tail.mated_subject * np.int64(levels.size + 1) + slot, minlength=tail.subjects * (levels.size + 1)
        ).reshape(tail.subjects, levels.size + 1)
        accepted = counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
        true_accepts = np.einsum("bs,sb->b", self._real, accepted[:, which].astype(np.float64))
        return _safe_ratio(true_accepts, self._real @ tail.mated_pairs())

    def fnmr_band(
        self, tail: ScoreTail, thresholds: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return pointwise 95 % limits of FNMR at fixed thresholds, two arrays of their length."""
        low, high = np.empty(thresholds.size), np.empty(thresholds.size)
        for index, threshold in enumerate(thresholds):
            accepts = tail.true_accepts(float(threshold))
            draws = 1 - self._ratio(accepts, tail.mated_pairs())
            point = 1 - accepts.sum() / tail.mated_pairs().sum()
            low[index], high[index] = percentile_interval(point, draws, tail.paired_subjects)
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
        per_subject = tail.images * (tail.images.sum() - tail.images)
        fmr = _safe_ratio(self._real @ above, (self._real @ per_subject)[:, None])
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
        """
        images = tail.images.astype(np.float64)
        totals = ((self._real @ images) ** 2 - (self._real**2) @ (images**2)) / 2
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
            if not open_draws.size or depth >= tail.top.size:
                return rejected
            depth *= 4


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
