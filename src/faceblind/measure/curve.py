"""The detection-error trade-off (DET) and the equal error rate, from all pairs.

Thresholds in the tail are exact; above `far_max` they come from a histogram of 65,536 bins, so that FAR is exact at
the bin's edge and the score is known to 3e-5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.measure.operating import allowed_false_accepts, threshold_at
from faceblind.measure.tail import ScoreTail


@dataclass(frozen=True, eq=False)
class DetCurve:
    """FNMR over FAR at increasing FAR, with the thresholds that give it; and the equal error rate."""

    far: NDArray[np.float64]
    fnmr: NDArray[np.float64]
    thresholds: NDArray[np.float32]
    eer: float


def bin_edges(bins: int) -> NDArray[np.float32]:
    """Return the ``bins + 1`` edges of equal bins over the cosines, [-1, 1]."""
    return np.linspace(-1, 1, bins + 1).astype(np.float32)


def det_curve(tail: ScoreTail, *, points_per_decade: int = 12, far_top: float = 0.6) -> DetCurve:
    """Compute the DET curve from the smallest FAR with one false accept up to `far_top`.

    Raises
    ------
    DataError
        The tail holds no histogram.
    """
    if tail.histogram is None:
        raise DataError("a DET curve needs score_tail(..., histogram=True)")
    edges = bin_edges(tail.histogram.size)
    above = tail.histogram[::-1].cumsum()[::-1]  # non-mated scores >= edges[i]
    decades = max(1, int(np.ceil(points_per_decade * np.log10(far_top * tail.nonmated))))
    targets = np.unique(np.geomspace(1 / tail.nonmated, far_top, decades + 1))
    thresholds = np.array([_threshold(tail, edges, above, float(f)) for f in targets], dtype=np.float32)
    thresholds = np.unique(thresholds)[::-1]
    far = np.array([_false_accepts(tail, edges, above, t) for t in thresholds]) / tail.nonmated
    some = far > 0  # a tie at the very top leaves nothing to accept there
    thresholds, far = thresholds[some], far[some]
    mated = np.sort(tail.mated)
    fnmr = np.searchsorted(mated, thresholds, side="left") / mated.size
    return DetCurve(far, fnmr, thresholds, _eer(edges, above, mated, tail.nonmated))


def _threshold(tail: ScoreTail, edges: NDArray[np.float32], above: NDArray[np.int64], far: float) -> np.float32:
    if allowed_false_accepts(far, tail.nonmated) < tail.top.size:
        return np.float32(threshold_at(tail.top, tail.nonmated, far))
    allowed = allowed_false_accepts(far, tail.nonmated)
    within = above <= allowed
    return np.float32(edges[int(np.argmax(within)) if within.any() else above.size - 1])


def _false_accepts(tail: ScoreTail, edges: NDArray[np.float32], above: NDArray[np.int64], threshold: np.float32) -> int:
    if tail.top.size == tail.nonmated or (tail.top.size and tail.top[-1] < threshold):
        return int(np.count_nonzero(tail.top >= threshold))
    return int(above[min(int(np.searchsorted(edges, threshold)), above.size - 1)])


def _eer(edges: NDArray[np.float32], above: NDArray[np.int64], mated: NDArray[np.float32], nonmated: int) -> float:
    # One more point beyond the last edge, where nothing is accepted: there the curves have crossed.
    fmr = np.append(above / nonmated, 0.0)
    fnmr = np.append(np.searchsorted(mated, edges[:-1], side="left") / mated.size, 1.0)
    after = int(np.argmax(fmr <= fnmr))
    before = max(after - 1, 0)
    gap0, gap1 = fmr[before] - fnmr[before], fmr[after] - fnmr[after]
    share = gap0 / (gap0 - gap1) if gap0 > gap1 else 0.0
    return float(fmr[before] + share * (fmr[after] - fmr[before]))
