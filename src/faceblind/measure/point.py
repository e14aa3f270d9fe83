"""An operating point measured once, the same way for everyone who asks: audits, rank curves, planted leaks.

A threshold is set on some tail at a target FAR (`Threshold.set_on`), then people are measured with it
(`operating_point`): on other people at the frozen value, or on the same people with the threshold set anew in every
draw. A FAR that the data do not support has no interval of its own: the one at the smallest supported FAR bounds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.measure.intervals import SubjectBootstrap
from faceblind.measure.limits import subject_interval
from faceblind.measure.operating import grade_of, supported_far, threshold_at
from faceblind.measure.tail import ScoreTail

Grade = Literal["unsupported", "indicative", "supported"]
_GRADES: tuple[Grade, ...] = get_args(Grade)


@dataclass(frozen=True)
class Threshold:
    """A threshold set at a target FAR, and the one at the smallest supported FAR, which bounds it from above.

    Attributes
    ----------
    far : float
        The target.
    value : float
    bound_far, bound_value : float
        The same as `far` and `value` where those are supported or indicative.
    nonmated : int
        Non-mated pairs of the tail it was set on.
    """

    far: float
    value: float
    bound_far: float
    bound_value: float
    nonmated: int

    @classmethod
    def set_on(cls, tail: ScoreTail, far: float) -> Threshold:
        """Set the threshold on a tail.

        Raises
        ------
        DataError
            The tail is too short for this FAR.
        """
        wide = supported_far(far, tail.nonmated)
        return cls(
            far,
            threshold_at(tail.top, tail.nonmated, far),
            wide,
            threshold_at(tail.top, tail.nonmated, wide),
            tail.nonmated,
        )


@dataclass(frozen=True, eq=False)
class OperatingPoint:
    """TAR at one threshold with its 95 % interval, the FAR it was reached at, and the draws behind the interval.

    Attributes
    ----------
    threshold : Threshold
    frozen : bool
        Whether the threshold stays as it is in every draw (set on other people), or is set anew (set on these).
    grade : str
        ``supported``, ``indicative`` or ``unsupported``: the weaker of where it was set and where it is measured.
    tar, low, high : float
        When unsupported, `low` is 0 and `high` the upper end at the smallest supported FAR.
    far, false_accepts, ties : float, int, int
        Achieved FAR, and its counts.
    far_low, far_high : float or None
        95 % interval of the achieved FAR over people on both sides, for frozen thresholds that the tail reaches.
    draws : (b,) float64
        TAR per draw of people, at the supported FAR when unsupported; NaN where a draw's threshold is not known.
    base : float
        The rate that `draws` are draws of: `tar`, or TAR at the supported FAR.
    effective : float
        Number of people that the interval rests on (`ScoreTail.effective_subjects`).
    people, nonmated, mated, true_accepts : int
        People with a mated pair, and counts of pairs.
    """

    threshold: Threshold
    frozen: bool
    grade: Grade
    tar: float
    low: float
    high: float
    far: float
    false_accepts: int
    ties: int
    far_low: float | None
    far_high: float | None
    draws: NDArray[np.float64]
    base: float
    effective: float
    people: int
    nonmated: int
    mated: int
    true_accepts: int

    @property
    def lost_draws(self) -> int:
        """Number of draws whose threshold lies beyond the scores that were kept; they count as high."""
        return int(np.isnan(self.draws).sum())


@dataclass(frozen=True, eq=False)
class MeanPoint:
    """The mean of one operating point over seeds; `grade` is the weakest of them, draws are averaged draw by draw."""

    tar: float
    low: float
    high: float
    far: float
    grade: Grade
    seeds: int
    draws: NDArray[np.float64]
    base: float
    effective: float


def operating_point(
    tail: ScoreTail, threshold: Threshold, bootstrap: SubjectBootstrap, *, frozen: bool
) -> OperatingPoint:
    """Measure people at a threshold.

    Parameters
    ----------
    tail : ScoreTail
        Of the people measured. For a frozen threshold make it with ``counts_at=[threshold.value]``.
    threshold : Threshold
        Set on other people (`frozen`), or on this very tail.
    bootstrap : SubjectBootstrap
        Draws of the tail's people.
    frozen : bool

    Raises
    ------
    DataError
        The bootstrap draws another number of people, or the tail does not know the count at the threshold.
    """
    if bootstrap.weights.shape[1] != tail.subjects:
        raise DataError(
            f"the bootstrap draws {bootstrap.weights.shape[1]} people and the tail has {tail.subjects}: make it with "
            "SubjectBootstrap.of(tail.subjects, ...)"
        )
    grade = worse_grade(grade_of(threshold.far, threshold.nonmated), grade_of(threshold.far, tail.nonmated))
    bounded = grade == "unsupported"
    at = threshold
    if bounded and not frozen:
        at = Threshold.set_on(tail, threshold.far)
    value, far = (at.bound_value, at.bound_far) if bounded else (at.value, at.far)
    tar, base = tail.tar(threshold.value), tail.tar(value)
    draws = bootstrap.tar_frozen(tail, value) if frozen else bootstrap.tar_calibrated(tail, far)
    low, high = subject_interval(base, draws, tail.effective_subjects)
    accepts = tail.false_accepts(threshold.value)
    far_low, far_high = far_interval(tail, threshold.value, bootstrap) if frozen else (None, None)
    return OperatingPoint(
        threshold=threshold,
        frozen=frozen,
        grade=grade,
        tar=tar,
        low=0.0 if bounded else low,
        high=max(tar, high),
        far=accepts / tail.nonmated,
        false_accepts=accepts,
        ties=tail.ties(threshold.value),
        far_low=far_low,
        far_high=far_high,
        draws=draws,
        base=base,
        effective=tail.effective_subjects,
        people=tail.paired_subjects,
        nonmated=tail.nonmated,
        mated=int(tail.mated.size),
        true_accepts=int(np.count_nonzero(tail.mated >= np.float32(threshold.value))),
    )


def far_interval(
    tail: ScoreTail, threshold: float, bootstrap: SubjectBootstrap
) -> tuple[float, float] | tuple[None, None]:
    """Return the 95 % interval of FAR at a fixed threshold, or two times None when the tail does not reach it.

    People on both sides are resampled. m people hold only m / 2 pairs that share nobody, and that is the number the
    interval falls back on: when nothing is accepted, FAR is bounded by ``1 - 0.025^(2/m)``, far above three in the number
    of comparisons, because someone who resembles many may not be among the m.
    """
    if not tail.reaches(threshold):
        return None, None
    rate = tail.false_accepts(threshold) / tail.nonmated
    return subject_interval(rate, bootstrap.far_frozen(tail, threshold), max(1.0, tail.subjects / 2))


def mean_point(points: Sequence[OperatingPoint]) -> MeanPoint:
    """Average one operating point over seeds, within each draw of people; the points share their bootstrap.

    Raises
    ------
    DataError
        No point, points of another target FAR or calibration, or of other draws.
    """
    if not points:
        raise DataError("a mean over seeds needs at least one operating point, got none")
    first = points[0]
    for point in points:
        if (point.threshold.far, point.frozen, point.draws.size) != (
            first.threshold.far,
            first.frozen,
            first.draws.size,
        ):
            raise DataError(
                f"points of one target FAR, calibration and bootstrap are averaged; got FAR {first.threshold.far:g} and "
                f"{point.threshold.far:g}, frozen {first.frozen} and {point.frozen}, "
                f"{first.draws.size} and {point.draws.size} draws"
            )
    grade = min((point.grade for point in points), key=_GRADES.index)
    tar = float(np.mean([point.tar for point in points]))
    draws = np.mean([point.draws for point in points], axis=0)
    # Seeds share their people: however many there are, the mean rests on no more people than each of them.
    base = float(np.mean([point.base for point in points]))
    effective = min(point.effective for point in points)
    low, high = subject_interval(base, draws, effective)
    if grade == "unsupported":  # no point to be near: only the bound speaks
        low, high = 0.0, max(high, float(np.mean([point.high for point in points])))
    return MeanPoint(
        tar=tar,
        low=min(low, tar),
        high=max(high, tar),
        far=float(np.mean([point.far for point in points])),
        grade=grade,
        seeds=len(points),
        draws=draws,
        base=base,
        effective=effective,
    )


def worse_grade(a: str, b: str) -> Grade:
    """Return the weaker of two grades: an operating point is as good as its calibration and its test."""
    return _GRADES[min(_GRADES.index(a), _GRADES.index(b))]
