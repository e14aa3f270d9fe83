"""One attacker on one release: tune on validation, freeze, look at test once, count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from faceblind.attack import Candidate, freeze
from faceblind.audit.attacks import Attack
from faceblind.audit.entries import Row, Summary
from faceblind.audit.plan import AuditPlan
from faceblind.audit.releases import Part, Release
from faceblind.audit.templates import enroll
from faceblind.measure import (
    MeanPoint,
    OperatingPoint,
    ScoreTail,
    SubjectBootstrap,
    Threshold,
    grade_of,
    mean_point,
    operating_point,
    score_tail,
    supported_far,
    template_tail,
    threshold_at,
)


@dataclass(frozen=True, eq=False)
class SeedOutcome:
    """Rows of one seed, with the operating points behind them (in the same order)."""

    rows: tuple[Row, ...]
    points: tuple[OperatingPoint, ...]
    setting: dict[str, float]


@dataclass(frozen=True, eq=False)
class Averaged:
    """A summary and the point behind it, whose draws of people it shares with every other one on the same people."""

    summary: Summary
    point: MeanPoint = field(repr=False)


def tune(
    attack: Attack, candidates: Iterable[Candidate], validation: Part, seed: int, plan: AuditPlan
) -> tuple[Candidate, ScoreTail]:
    """Freeze the candidate with the highest validation TAR at the smallest FAR that validation supports."""
    # The candidate is kept with its tail: another one could otherwise be made where it lay, and be taken for it.
    seen: dict[int, tuple[Candidate, ScoreTail]] = {}

    def tail(candidate: Candidate) -> ScoreTail:
        if id(candidate) not in seen:
            seen[id(candidate)] = candidate, tail_of(attack, candidate, validation, seed, plan)
        return seen[id(candidate)][1]

    def objective(candidate: Candidate) -> float:
        found = tail(candidate)
        far = reference_far(plan.fars, found.nonmated)
        return found.tar(threshold_at(found.top, found.nonmated, far))

    best = freeze(candidates, objective, attack.attacker.patience)
    return best, tail(best)


def tail_of(
    attack: Attack,
    candidate: Candidate,
    part: Part,
    seed: int,
    plan: AuditPlan,
    *,
    counts_at: Sequence[float] = (),
    histogram: bool = False,
) -> ScoreTail:
    """Score all pairs of a part under a candidate: images with images, or with templates."""
    far_max = max(plan.fars)
    if attack.protocol == "pairs":
        mapped = candidate.map(part.vectors)
        return score_tail(mapped, part.identity, far_max=far_max, counts_at=counts_at, histogram=histogram)
    gallery = enroll(part, attack.k or 1, attack.support(part, seed, plan))
    return template_tail(
        candidate.map(gallery.queries.vectors),
        gallery.queries.identity,
        candidate.map(gallery.templates),
        gallery.names,
        far_max=far_max,
        counts_at=counts_at,
        histogram=histogram,
    )


def reference_far(fars: Sequence[float], nonmated: int) -> float:
    """Return the smallest FAR asked for that is supported, else the largest one at or above its support."""
    supported = [far for far in fars if grade_of(far, nonmated) == "supported"]
    return min(supported) if supported else supported_far(max(fars), nonmated)


def calibrated_point(
    attack: Attack, release: Release, part: str, plan: AuditPlan, bootstrap: SubjectBootstrap, far: float | None = None
) -> OperatingPoint:
    """Measure one run of an attack on a part, with the threshold set there at `far`, or at the part's reference FAR."""
    best, tail = tune(attack, attack.train(release, 0, plan), release.validation, 0, plan)
    if part != "validation":
        tail = tail_of(attack, best, release.parts[part], 0, plan)
    target = reference_far(plan.fars, tail.nonmated) if far is None else far
    return operating_point(tail, Threshold.set_on(tail, target), bootstrap, frozen=False)


def run_seed(attack: Attack, release: Release, seed: int, plan: AuditPlan, bootstrap: SubjectBootstrap) -> SeedOutcome:
    """Train, tune and freeze on validation, then measure on test at every FAR under both calibrations."""
    best, validation = tune(attack, attack.train(release, seed, plan), release.validation, seed, plan)
    frozen = [Threshold.set_on(validation, far) for far in plan.fars]
    counts_at = sorted({value for threshold in frozen for value in (threshold.value, threshold.bound_value)})
    test = tail_of(attack, best, release.test, seed, plan, counts_at=counts_at)
    points = [
        *(operating_point(test, threshold, bootstrap, frozen=True) for threshold in frozen),
        *(operating_point(test, Threshold.set_on(test, far), bootstrap, frozen=False) for far in plan.fars),
    ]
    rows = tuple(_row(point, attack, release, seed) for point in points)
    return SeedOutcome(rows, tuple(points), dict(best.setting))


def _row(point: OperatingPoint, attack: Attack, release: Release, seed: int) -> Row:
    return Row(
        release=release.name,
        rank=release.rank,
        attacker=attack.name,
        trained_on=attack.trained_on,
        k=attack.k,
        seed=seed if attack.repeats else None,
        calibration="validation" if point.frozen else "test",
        far_target=point.threshold.far,
        far_achieved=point.far,
        far_low=point.far_low,
        far_high=point.far_high,
        false_accepts=point.false_accepts,
        nonmated=point.nonmated,
        true_accepts=point.true_accepts,
        mated=point.mated,
        tar=point.tar,
        tar_low=point.low,
        tar_high=point.high,
        threshold=point.threshold.value,
        ties=point.ties,
        grade=point.grade,
    )


def summarise(outcomes: Sequence[SeedOutcome]) -> tuple[Averaged, ...]:
    """Average seeds per operating point; seeds are averaged within each draw of people."""
    found = []
    for index, first in enumerate(outcomes[0].rows):
        points = [outcome.points[index] for outcome in outcomes]
        mean = mean_point(points)
        summary = Summary(
            release=first.release,
            rank=first.rank,
            attacker=first.attacker,
            trained_on=first.trained_on,
            k=first.k,
            seeds=mean.seeds,
            calibration=first.calibration,
            far_target=first.far_target,
            far_achieved=mean.far,
            tar=mean.tar,
            tar_low=mean.low,
            tar_high=mean.high,
            lift=mean.tar / max(first.far_target, mean.far),
            grade=mean.grade,
            people=min(point.people for point in points),
            mated=first.mated,
            nonmated=first.nonmated,
        )
        found.append(Averaged(summary, mean))
    return tuple(found)
