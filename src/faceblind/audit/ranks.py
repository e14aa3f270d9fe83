"""The rank-privacy-utility curve on validation people, and the choice of a rank from it.

One factorisation of the identity means serves every rank. At each rank the worst of plain cosine and the ridge probe
(trained on attack and on fit people) counts, refitted on what that rank releases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import UsageError
from faceblind.attack import Cosine, RidgeProbe
from faceblind.audit.evaluate import Attack, reference_far, tar_at, tune
from faceblind.audit.parallel import each
from faceblind.audit.plan import AuditPlan
from faceblind.audit.releases import Release, SplitData
from faceblind.audit.result import RankPoint
from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.split import IdentitySplit
from faceblind.erase import ISP, Projector, RankChoice, smallest_rank
from faceblind.erase.isp import check_rank, identity_directions, most_rank, projector_of
from faceblind.measure import (
    TAR,
    Condition,
    ScoreTail,
    SubjectBootstrap,
    grade_of,
    percentile_interval,
    supported_far,
    threshold_at,
)
from faceblind.utility import neighbour_overlap


@dataclass(frozen=True)
class WorstPoint:
    """The attacker that reads most on validation people at one FAR."""

    attack: Attack
    tar: float
    low: float
    high: float


def curve_attacks(plan: AuditPlan) -> tuple[Attack, ...]:
    """Attackers of the rank curve: cosine, and the ridge probe with the most images, on both kinds of people."""
    ridge, k = RidgeProbe(), max(plan.ks)
    return (Attack(Cosine(), None, None), Attack(ridge, "attack", k), Attack(ridge, "fit", k))


def rank_grid(most: int, points: int, *, include: int | None = None) -> tuple[int, ...]:
    """Return increasing ranks from small to `most`, about evenly spaced on a square-root scale."""
    grid = {max(1, round(most * share**2)) for share in np.linspace(0, 1, points + 1)[1:]}
    return tuple(sorted(grid | ({include} if include else set())))


def rank_curve(data: SplitData, basis: NDArray[np.float64], rank: int, plan: AuditPlan) -> tuple[RankPoint, ...]:
    """Measure privacy and utility on validation people at rank 0 and a grid of ranks up to the most supported."""
    most = most_rank(basis)
    raw = data.raw()
    bootstrap = _validation_bootstrap(raw, plan)

    def measure(r: int) -> RankPoint:
        release = raw if r == 0 else _release(data, basis, r)
        tail = tune(curve_attacks(plan)[0].train(release, 0, plan), release.validation, plan)[1]
        far = reference_far(plan.fars, tail.nonmated)
        worst = worst_on_validation(release, far, plan, bootstrap)
        overlap, _ = neighbour_overlap(raw.validation.vectors, release.validation.vectors)
        kept = 1.0 if r == 0 else _energy_kept(basis[:, :r], raw.validation.vectors)
        return RankPoint(
            rank=r,
            far_target=far,
            attacker=worst.attack.attacker.name,
            trained_on=worst.attack.trained_on,
            k=worst.attack.k,
            tar=worst.tar,
            tar_low=worst.low,
            tar_high=worst.high,
            neighbour_overlap=overlap,
            energy_kept=kept,
        )

    return tuple(each(measure, (0, *rank_grid(most, plan.rank_points, include=min(rank, most)))))


def worst_on_validation(release: Release, far: float, plan: AuditPlan, bootstrap: SubjectBootstrap) -> WorstPoint:
    """Return the worst attacker on validation people; an unsupported FAR is bounded by the smallest supported one."""

    def measure(attack: Attack) -> WorstPoint:
        _, tail = tune(attack.train(release, 0, plan), release.validation, plan)
        return WorstPoint(attack, *_tar_interval(tail, far, bootstrap))

    found = each(measure, curve_attacks(plan))
    return max(found, key=lambda worst: (worst.high, worst.tar))


def choose_rank(
    embeddings: EmbeddingSet,
    split: IdentitySplit,
    target: Condition,
    plan: AuditPlan,
    *,
    points: int = 16,
    progress: Callable[[str, int, int], None] = lambda _what, _done, _of: None,
) -> Projector:
    """Fit ISP on the fit split at the smallest rank whose upper bound on validation people meets the target.

    Raises
    ------
    UsageError
        The target is not an upper limit on a TAR.
    RankError
        No rank meets it; the message shows the curve.
    """
    if not isinstance(target.metric, TAR) or not target.is_upper:
        raise UsageError(f"a target limits a TAR from above, for example 'TAR@FAR(1e-4) <= 5%'; got {target}")
    far = target.metric.far
    data = SplitData.of(embeddings, split)
    moments = data.moments
    basis, spectrum = identity_directions(moments)
    most = most_rank(basis)
    check_rank(1, basis.shape[1], basis.shape[0], identities=int(moments.counts().size))
    bootstrap = _validation_bootstrap(data.raw(), plan)

    def bounds(rank: int) -> tuple[float, float, float]:
        progress(f"rank {rank}", rank, most)
        worst = worst_on_validation(_release(data, basis, rank), far, plan, bootstrap)
        return worst.tar, worst.low, worst.high

    # A coarse pass upwards, then every rank between the last that fails and the first that meets the target.
    coarse = rank_grid(most, points)
    rank, curve = smallest_rank(coarse, bounds, target)
    below = max((r for r in coarse if r < rank), default=0)
    step = max(1, (rank - below) // 8)
    fine = tuple(range(below + step, rank, step))
    if fine:
        rank, finer = smallest_rank((*fine, rank), lambda r: curve.get(r) or bounds(r), target)
        curve |= finer
    people = np.unique(data.parts["validation"].identity).size
    choice = RankChoice(
        rule="target",
        target=str(target),
        curve=tuple((r, *curve[r]) for r in sorted(curve)),
        note=f"smallest rank tried whose upper 95 % bound on {people} validation identities meets the target for the worst of "
        "cosine and ridge (trained on attack and on fit people)",
    )
    return projector_of(
        basis,
        spectrum,
        rank,
        moments,
        method=ISP.method,
        encoder=embeddings.encoder,
        synthetic=embeddings.meta.synthetic,
        choice=choice,
    )


def _tar_interval(tail: ScoreTail, far: float, bootstrap: SubjectBootstrap) -> tuple[float, float, float]:
    point = tar_at(tail, threshold_at(tail.top, tail.nonmated, far))
    if grade_of(far, tail.nonmated) != "unsupported":
        return point, *percentile_interval(point, bootstrap.tar_calibrated(tail, far), tail.paired_subjects)
    wide = supported_far(far, tail.nonmated)
    bound = tar_at(tail, threshold_at(tail.top, tail.nonmated, wide))
    return point, 0.0, percentile_interval(bound, bootstrap.tar_calibrated(tail, wide), tail.paired_subjects)[1]


def _validation_bootstrap(release: Release, plan: AuditPlan) -> SubjectBootstrap:
    people = np.unique(release.validation.identity).size
    return SubjectBootstrap.of(people, draws=plan.draws, rng=np.random.default_rng([plan.seed, 0xB0, 1]))


def _release(data: SplitData, basis: NDArray[np.float64], rank: int) -> Release:
    return data.through(Projector.of(basis[:, :rank], method=ISP.method, choice=RankChoice(rule="given")), ISP.method)


def _energy_kept(basis: NDArray[np.float64], unit: NDArray[np.float32]) -> float:
    removed = unit.astype(np.float64) @ basis
    return max(0.0, float(1 - np.einsum("ij,ij->i", removed, removed).mean()))
