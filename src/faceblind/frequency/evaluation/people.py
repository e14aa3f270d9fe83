"""Recognition of people at low false-accept rates: every pair of images, exact thresholds, intervals over people.

The suite that audits use (`faceblind.measure`), for embeddings of faces. Thresholds are set on other people where those
are given, as whoever runs a system must; else on the people themselves, anew in each draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.frequency.evaluation.draws import Draws, digest_of
from faceblind.frequency.evaluation.tenfold import unit_rows
from faceblind.measure.curve import det_curve
from faceblind.measure.intervals import SubjectBootstrap
from faceblind.measure.limits import subject_interval
from faceblind.measure.point import OperatingPoint, Threshold, operating_point
from faceblind.measure.scan import score_tail
from faceblind.measure.tail import ScoreTail

FARS = (1e-2, 1e-3, 1e-4)
_CHUNK = 64


@dataclass(frozen=True)
class Rate:
    """A rate with its 95 % interval over people."""

    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        """Return plain JSON types."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True, eq=False)
class PeopleEvaluation:
    """What is recognised of a set of people.

    Attributes
    ----------
    points : one `OperatingPoint` for each target FAR
    eer : equal error rate
    auc : probability that a pair of one person scores above one of two people
    people : people measured, also those with one image
    of : digest of the people and the draws; see `faceblind.frequency.evaluation.draws`
    """

    points: tuple[OperatingPoint, ...]
    eer: Rate
    auc: Rate
    people: int
    of: str

    def rows(self, name: str, *, noise: bool) -> list[dict[str, Any]]:
        """Return the rows of the record for a set of this name, one for each target FAR."""
        return [
            {
                **point_row(point, self.of),
                "set": name,
                "protocol": "people",
                "noise": noise,
                "threshold_on": "other people" if point.frozen else "the same people",
                "eer": self.eer.to_dict(),
                "auc": self.auc.to_dict(),
            }
            for point in self.points
        ]


def evaluate_people(
    embeddings: NDArray[np.float32],
    identity: NDArray[np.str_] | Sequence[str],
    *,
    fars: Sequence[float] = FARS,
    calibrate_on: tuple[NDArray[np.float32], NDArray[np.str_]] | None = None,
    draws: int = 1000,
    rng: np.random.Generator,
    name: str = "faces",
) -> PeopleEvaluation:
    """Score every pair of images and measure TAR at each FAR, EER and AUC.

    Parameters
    ----------
    embeddings : (n, d)
        Of any length; they are brought to length 1.
    identity : (n,) labels
    fars
        Target FARs.
    calibrate_on
        Embeddings and identities of other people; thresholds are set on them and stay.
    draws : int
        Draws of people.

    Raises
    ------
    DataError
        Fewer than two people, nobody with two images, rows that are not finite or are zero, no FAR or one outside of 0 to 1,
        or people that are in both sets.
    """
    if not fars or not all(0 < far < 1 for far in fars):
        raise DataError(f"target FARs lie between 0 and 1, got {', '.join(f'{far:g}' for far in fars) or 'none'}")
    labels = np.asarray(identity)
    unit = unit_rows(embeddings, labels.size, name).astype(np.float32)
    thresholds: list[Threshold] = []
    if calibrate_on is not None:
        others = np.asarray(calibrate_on[1])
        shared = np.intersect1d(others, labels)
        if shared.size:
            raise DataError(
                f"thresholds are set on other people, but {shared.size} are in both sets, such as {str(shared[0])!r}"
            )
        known = unit_rows(calibrate_on[0], others.size, f"{name} (calibration)").astype(np.float32)
        calibration = score_tail(known, others, far_max=max(fars))
        thresholds = [Threshold.set_on(calibration, far) for far in fars]
    at = [value for threshold in thresholds for value in (threshold.value, threshold.bound_value)]
    tail = score_tail(unit, labels, far_max=max(fars), counts_at=at, histogram=True)
    frozen = bool(thresholds)
    if not frozen:
        thresholds = [Threshold.set_on(tail, far) for far in fars]
    of = digest_of(rng, labels)
    bootstrap = SubjectBootstrap.of(tail.subjects, draws=draws, rng=rng)
    return PeopleEvaluation(
        points=tuple(operating_point(tail, threshold, bootstrap, frozen=frozen) for threshold in thresholds),
        eer=_rate(det_curve(tail).eer, bootstrap.eer(tail), tail),
        auc=_auc(tail, bootstrap),
        people=tail.subjects,
        of=of,
    )


def point_row(point: OperatingPoint, of: str) -> dict[str, Any]:
    """Return what the record says about an operating point; `of` says whose draws are behind it, see `Draws`."""
    drawn = Draws(point.base, point.effective, point.draws, of)
    return {
        "far_target": point.threshold.far,
        "far": point.far,
        "tar": point.tar,
        "low": point.low,
        "high": point.high,
        "grade": point.grade,
        "threshold": point.threshold.value,
        "false_accepts": point.false_accepts,
        "ties": point.ties,
        "people": point.people,
        "mated": point.mated,
        "nonmated": point.nonmated,
        "draws": None if point.grade == "unsupported" else drawn.to_dict(),
    }


def _rate(value: float, draws: NDArray[np.float64], tail: ScoreTail) -> Rate:
    return Rate(value, *subject_interval(value, draws, tail.effective_subjects))


def _auc(tail: ScoreTail, bootstrap: SubjectBootstrap) -> Rate:
    """Return the area under the curve from scores in bins (3e-5 wide; in draws as wide as the tail's bins of people).

    Within a bin, pairs of one person and of two count as equal: half of them as ordered rightly.
    """
    if tail.histogram is None or tail.subject_histogram is None:
        raise DataError("the area under the curve needs score_tail(..., histogram=True)")
    value = float(_area(_binned(tail, tail.histogram.size).sum(axis=0)[None, :], tail.histogram[None, :])[0])
    mated = _binned(tail, tail.subject_histogram.shape[1]).astype(np.float64)
    nonmated = tail.subject_histogram.astype(np.float64)
    draws = np.empty(bootstrap.weights.shape[0])
    for start in range(0, draws.size, _CHUNK):
        weights = bootstrap.weights[start : start + _CHUNK].astype(np.float64)
        draws[start : start + _CHUNK] = _area(weights @ mated, weights @ nonmated)
    return _rate(value, draws, tail)


def _binned(tail: ScoreTail, bins: int) -> NDArray[np.int64]:
    """Count mated scores per subject in equal bins over [-1, 1], as the tail does those of two people."""
    place = (np.clip(tail.mated, -1, 1).astype(np.float64) + 1) * (bins / 2)
    column = np.minimum(place.astype(np.int64), bins - 1)
    flat = np.bincount(tail.mated_subject * np.int64(bins) + column, minlength=tail.subjects * bins)
    return flat.reshape(tail.subjects, bins).astype(np.int64)


def _area(mated: NDArray[Any], nonmated: NDArray[Any]) -> NDArray[np.float64]:
    """Return the area per row of two histograms, (b, bins) each; 1/2 where a row has no pairs of one kind."""
    below = nonmated.cumsum(axis=1) - nonmated / 2
    total = mated.sum(axis=1) * nonmated.sum(axis=1)
    right = np.einsum("ij,ij->i", mated.astype(np.float64), below)
    area: NDArray[np.float64] = np.divide(right, total, out=np.full(total.size, 0.5), where=total > 0)
    return area
