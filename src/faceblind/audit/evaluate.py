"""One attacker on one release: tune on validation, freeze, look at test once, count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind.attack import Attacker, Candidate, Cosine, freeze
from faceblind.audit.plan import AuditPlan
from faceblind.audit.releases import Part, Release
from faceblind.audit.result import Calibration, Curve, Grade, Row, Summary, TrainedOn
from faceblind.measure import (
    ScoreTail,
    SubjectBootstrap,
    det_curve,
    grade_of,
    percentile_interval,
    score_tail,
    supported_far,
    threshold_at,
)

_NOTHING = 1e-6
_GRADES: tuple[Grade, ...] = ("unsupported", "indicative", "supported")


@dataclass(frozen=True)
class Attack:
    """An attacker with the people and images it learns from."""

    attacker: Attacker
    trained_on: TrainedOn | None
    k: int | None

    def seeds(self, plan: AuditPlan) -> range:
        """Seeds to run: one when there is nothing to draw."""
        return range(plan.attacker_seeds if self.attacker.learns else 1)

    def train(self, release: Release, seed: int, plan: AuditPlan) -> Sequence[Candidate]:
        """Fit on what was released; the same seed draws the same images on every release."""
        part = release.parts[self.trained_on or "attack"]
        if np.ptp(part.vectors, axis=0).max() < _NOTHING:  # a map that erases everything leaves nothing to learn from
            return (Cosine(),)
        rng = np.random.default_rng([plan.seed, 0xA77, seed, self.k or 0])
        return self.attacker.fit(part.vectors, part.identity, k=self.k or 1, rng=rng)


@dataclass(frozen=True, eq=False)
class SeedOutcome:
    """Rows of one seed, with the bootstrap draws behind them (in the same order)."""

    rows: tuple[Row, ...]
    draws: tuple[NDArray[np.float64], ...]
    setting: dict[str, float]


def tune(candidates: Sequence[Candidate], validation: Part, plan: AuditPlan) -> tuple[Candidate, ScoreTail]:
    """Freeze the candidate with the highest validation TAR at the smallest FAR that validation supports."""
    tails = {id(c): tail_of(c, validation, plan) for c in candidates}

    def objective(candidate: Candidate) -> float:
        tail = tails[id(candidate)]
        far = reference_far(plan.fars, tail.nonmated)
        return tar_at(tail, threshold_at(tail.top, tail.nonmated, far))

    best = freeze(candidates, objective)
    return best, tails[id(best)]


def tail_of(
    candidate: Candidate,
    part: Part,
    plan: AuditPlan,
    *,
    counts_at: Sequence[float] = (),
    histogram: bool = False,
) -> ScoreTail:
    """Score all pairs of a part under a candidate."""
    return score_tail(
        candidate.map(part.vectors),
        part.identity,
        far_max=max(plan.fars),
        counts_at=counts_at,
        histogram=histogram,
    )


def reference_far(fars: Sequence[float], nonmated: int) -> float:
    """Return the smallest FAR asked for that is supported, else the largest one at or above its support."""
    supported = [far for far in fars if grade_of(far, nonmated) == "supported"]
    return min(supported) if supported else supported_far(max(fars), nonmated)


def tar_at(tail: ScoreTail, threshold: float) -> float:
    """Return TAR at a threshold."""
    return float(tail.true_accepts(threshold).sum() / tail.mated.size)


def run_seed(attack: Attack, release: Release, seed: int, plan: AuditPlan, bootstrap: SubjectBootstrap) -> SeedOutcome:
    """Train, tune and freeze on validation, then measure on test at every FAR under both calibrations."""
    best, validation = tune(attack.train(release, seed, plan), release.validation, plan)
    frozen = [_Point.frozen(far, validation) for far in plan.fars]
    counts_at = sorted({threshold for point in frozen for threshold in (point.threshold, point.bound_threshold)})
    test = tail_of(best, release.test, plan, counts_at=counts_at)
    rows, draws = [], []
    for point in (*frozen, *(_Point.calibrated(far, test) for far in plan.fars)):
        row, drawn = _measure(point, attack, release, seed, test, bootstrap)
        rows.append(row)
        draws.append(drawn)
    return SeedOutcome(tuple(rows), tuple(draws), dict(best.setting))


@dataclass(frozen=True)
class _Point:
    """An operating point to measure, and the one that bounds it from above when it is not supported."""

    calibration: Calibration
    far: float
    threshold: float
    bound_far: float
    bound_threshold: float
    nonmated: int
    """Non-mated pairs of the set the threshold was set on."""

    @classmethod
    def frozen(cls, far: float, validation: ScoreTail) -> _Point:
        return cls._on("validation", far, validation)

    @classmethod
    def calibrated(cls, far: float, test: ScoreTail) -> _Point:
        return cls._on("test", far, test)

    @classmethod
    def _on(cls, calibration: Calibration, far: float, tail: ScoreTail) -> _Point:
        wide = supported_far(far, tail.nonmated)
        return cls(
            calibration,
            far,
            threshold_at(tail.top, tail.nonmated, far),
            wide,
            threshold_at(tail.top, tail.nonmated, wide),
            tail.nonmated,
        )

    def draws(self, test: ScoreTail, bootstrap: SubjectBootstrap, *, bound: bool) -> NDArray[np.float64]:
        if self.calibration == "validation":
            return bootstrap.tar_frozen(test, self.bound_threshold if bound else self.threshold)
        return bootstrap.tar_calibrated(test, self.bound_far if bound else self.far)


def _measure(
    point: _Point, attack: Attack, release: Release, seed: int, test: ScoreTail, bootstrap: SubjectBootstrap
) -> tuple[Row, NDArray[np.float64]]:
    """Count one operating point on test; an unsupported one gets the bound of the smallest supported FAR."""
    grade = worse_grade(grade_of(point.far, point.nonmated), grade_of(point.far, test.nonmated))
    tar = tar_at(test, point.threshold)
    drawn = point.draws(test, bootstrap, bound=grade == "unsupported")
    if grade == "unsupported":
        bound = tar_at(test, point.bound_threshold)
        low, high = 0.0, max(tar, percentile_interval(bound, drawn, test.paired_subjects)[1])
    else:
        low, high = percentile_interval(tar, drawn, test.paired_subjects)
    accepts = test.false_accepts(point.threshold)
    row = Row(
        release=release.name,
        rank=release.rank,
        attacker=attack.attacker.name,
        trained_on=attack.trained_on,
        k=attack.k,
        seed=seed if attack.attacker.learns else None,
        calibration=point.calibration,
        far_target=point.far,
        far_achieved=accepts / test.nonmated,
        false_accepts=accepts,
        nonmated=test.nonmated,
        true_accepts=int(test.true_accepts(point.threshold).sum()),
        mated=int(test.mated.size),
        tar=tar,
        tar_low=low,
        tar_high=high,
        threshold=point.threshold,
        ties=test.ties(point.threshold),
        grade=grade,
    )
    return row, drawn


def worse_grade(a: str, b: str) -> Grade:
    """Return the weaker of two grades: an operating point is as good as its calibration and its test."""
    return _GRADES[min(_GRADES.index(a), _GRADES.index(b))]


def summarise(outcomes: Sequence[SeedOutcome], people: int) -> tuple[Summary, ...]:
    """Average seeds per operating point; seeds are averaged within each draw of people."""
    summaries = []
    for index, first in enumerate(outcomes[0].rows):
        rows = [outcome.rows[index] for outcome in outcomes]
        point = float(np.mean([row.tar for row in rows]))
        achieved = float(np.mean([row.far_achieved for row in rows]))
        low, high = percentile_interval(point, np.mean([o.draws[index] for o in outcomes], axis=0), people)
        if first.grade == "unsupported":  # no point to be near: only the bound speaks
            low, high = 0.0, max(high, float(np.mean([row.tar_high for row in rows])))
        summaries.append(
            Summary(
                release=first.release,
                rank=first.rank,
                attacker=first.attacker,
                trained_on=first.trained_on,
                k=first.k,
                seeds=len(rows),
                calibration=first.calibration,
                far_target=first.far_target,
                far_achieved=achieved,
                tar=point,
                tar_low=low,
                tar_high=high,
                lift=point / max(first.far_target, achieved),
                grade=first.grade,
                people=people,
                mated=first.mated,
                nonmated=first.nonmated,
            )
        )
    return tuple(summaries)


def curve_of(attack: Attack, release: Release, plan: AuditPlan, bootstrap: SubjectBootstrap) -> Curve:
    """Draw the DET curve of an attacker's first seed on test people, with pointwise limits and the EER."""
    best, _ = tune(attack.train(release, 0, plan), release.validation, plan)
    tail = tail_of(best, release.test, plan, histogram=True)
    curve = det_curve(tail)
    low, high = bootstrap.fnmr_band(tail, curve.thresholds)
    eer_low, eer_high = (float(q) for q in np.quantile(bootstrap.eer(tail), [0.025, 0.975]))
    return Curve(
        release=release.name,
        rank=release.rank,
        attacker=attack.attacker.name,
        trained_on=attack.trained_on,
        k=attack.k,
        far=tuple(curve.far.tolist()),
        fnmr=tuple(curve.fnmr.tolist()),
        fnmr_low=tuple(low.tolist()),
        fnmr_high=tuple(high.tolist()),
        eer=curve.eer,
        eer_low=min(eer_low, curve.eer),
        eer_high=max(eer_high, curve.eer),
        far_floor=min(1.0, 30 / tail.nonmated),
    )
