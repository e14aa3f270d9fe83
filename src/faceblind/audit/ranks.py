"""The rank-privacy-utility curve on validation people, and the choice of a rank from it.

One factorisation of the identity means serves every rank. At each rank the worst of all attackers asked for counts,
each refitted on what that rank releases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import UsageError
from faceblind.audit.attacks import Attack, screening
from faceblind.audit.entries import RankPoint
from faceblind.audit.evaluate import calibrated_point, reference_far
from faceblind.audit.parallel import each
from faceblind.audit.plan import AuditPlan
from faceblind.audit.releases import Release, SplitData
from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.split import IdentitySplit
from faceblind.erase import Directions, Projector, RankChoice, smallest_rank
from faceblind.erase.methods import directions_from
from faceblind.measure import TAR, Condition, OperatingPoint, SubjectBootstrap
from faceblind.utility import neighbour_overlap


@dataclass(frozen=True, eq=False)
class WorstPoint:
    """The attacker that reads most on validation people at one FAR."""

    attack: Attack
    point: OperatingPoint


def rank_grid(most: int, points: int, *, include: int | None = None) -> tuple[int, ...]:
    """Return increasing ranks from small to `most`, about evenly spaced on a square-root scale."""
    grid = {max(1, round(most * share**2)) for share in np.linspace(0, 1, points + 1)[1:]}
    return tuple(sorted(grid | ({include} if include else set())))


def rank_curve(data: SplitData, directions: Directions, rank: int, plan: AuditPlan) -> tuple[RankPoint, ...]:
    """Measure privacy and utility on validation people at rank 0 and a grid of ranks up to the most supported."""
    most = directions.most
    raw = data.raw()
    bootstrap = validation_bootstrap(raw, plan)
    far = reference_far(plan.fars, _nonmated(raw.validation.identity))
    ranks = rank_grid(most, plan.rank_points, include=min(rank, most))
    releases = [raw, *(data.through(directions.projector(r), directions.method) for r in ranks)]
    worst = worst_on_validation(releases, far, data, plan, bootstrap)
    return tuple(_rank_point(far, found, raw, release) for release, found in zip(releases, worst, strict=True))


def _rank_point(far: float, worst: WorstPoint, raw: Release, release: Release) -> RankPoint:
    overlap, _ = neighbour_overlap(raw.validation.vectors, release.validation.vectors)
    return RankPoint(
        rank=release.rank,
        far_target=far,
        attacker=worst.attack.name,
        trained_on=worst.attack.trained_on,
        k=worst.attack.k,
        tar=worst.point.tar,
        tar_low=worst.point.low,
        tar_high=worst.point.high,
        neighbour_overlap=overlap,
        energy_kept=float(release.energy["validation"].mean()),
    )


def worst_on_validation(
    releases: list[Release], far: float, data: SplitData, plan: AuditPlan, bootstrap: SubjectBootstrap
) -> list[WorstPoint]:
    """Return the worst attacker on validation people for each release; an unsupported FAR is bounded by the smallest supported one."""
    attacks = screening(plan, data)
    todo = [(release, attack) for release in releases for attack in attacks]
    points = each(lambda job: calibrated_point(job[1], job[0], "validation", plan, bootstrap, far), todo)
    found = [WorstPoint(attack, point) for (_, attack), point in zip(todo, points, strict=True)]
    size = len(attacks)
    return [_worst(found[start : start + size]) for start in range(0, len(found), size)]


def _worst(found: list[WorstPoint]) -> WorstPoint:
    """Return the point with the highest upper end, which a target has to hold for.

    Attacks with too few comparisons for the FAR count only where all have too few.
    """
    deciding = [worst for worst in found if worst.point.grade != "unsupported"] or found
    return max(deciding, key=lambda worst: (worst.point.high, worst.point.tar))


def choose_rank(
    embeddings: EmbeddingSet,
    split: IdentitySplit,
    target: Condition,
    plan: AuditPlan,
    *,
    points: int = 16,
    progress: Callable[[str, int, int], None] = lambda _what, _done, _of: None,
) -> Projector:
    """Fit the plan's eraser on the fit split at the smallest rank whose upper bound on validation people meets the target.

    Raises
    ------
    UsageError
        The target is not an upper limit on a TAR, or the eraser has no nested directions.
    RankError
        No rank meets it; the message shows the curve.
    """
    if not isinstance(target.metric, TAR) or not target.is_upper:
        raise UsageError(f"a target limits a TAR from above, for example 'TAR@FAR(1e-4) <= 5%'; got {target}")
    far = target.metric.far
    data = SplitData.of(embeddings, split)
    directions = directions_from(plan.eraser, data.moments)
    most = directions.most
    directions.check(1)
    bootstrap = validation_bootstrap(data.raw(), plan)

    def bounds(rank: int) -> tuple[float, float, float]:
        progress(f"rank {rank}", rank, most)
        release = data.through(directions.projector(rank), directions.method)
        (worst,) = worst_on_validation([release], far, data, plan, bootstrap)
        return worst.point.tar, worst.point.low, worst.point.high

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
    attackers = ", ".join(dict.fromkeys(attack.name for attack in screening(plan, data)))
    choice = RankChoice(
        rule="target",
        target=str(target),
        curve=tuple((r, *curve[r]) for r in sorted(curve)),
        note=f"smallest rank tried whose upper 95 % bound on {people} validation identities meets the target for every one of "
        f"{attackers} (those that learn: trained on attack and on fit people)",
    )
    return directions.projector(rank, encoder=embeddings.encoder, synthetic=embeddings.meta.synthetic, choice=choice)


def validation_bootstrap(release: Release, plan: AuditPlan) -> SubjectBootstrap:
    """Return draws of the validation people."""
    people = np.unique(release.validation.identity).size
    return SubjectBootstrap.of(people, draws=plan.draws, rng=np.random.default_rng([plan.seed, 0xB0, 1]))


def _nonmated(identity: NDArray[np.str_]) -> int:
    images = np.unique(identity, return_counts=True)[1].astype(np.int64)
    return int((images.sum() ** 2 - (images**2).sum()) // 2)
