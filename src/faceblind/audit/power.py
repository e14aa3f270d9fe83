"""Detection power: plant a leak of known strength in the erased vectors and see whether the audit catches it.

Every identity gets a random code in a 16-dimensional subspace of what is left; each vector becomes ``sqrt(1 - s) z + sqrt(s) c``, so
a share s of its energy is identity. The same audit (attackers refitted, thresholds set anew) then runs on the planted
vectors. What it cannot tell from no plant, it would not have found.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from faceblind.audit.evaluate import Attack, reference_far, tail_of, tar_at, tune
from faceblind.audit.parallel import each
from faceblind.audit.plan import AuditPlan
from faceblind.audit.ranks import curve_attacks
from faceblind.audit.releases import Part, Release
from faceblind.audit.result import PlantedPoint, Power
from faceblind.data.embeddings import unit_rows
from faceblind.measure import SubjectBootstrap, percentile_interval, threshold_at

CODE_DIMENSIONS = 16


def plant(
    release: Release, strength: float, *, rng: np.random.Generator, removed: NDArray[np.float64] | None = None
) -> Release:
    """Return the release with an identity code of the given energy share added to every vector.

    Parameters
    ----------
    strength : float
        Share of each vector's energy that is the code, between 0 and 1.
    removed : (d, r), optional
        Orthonormal basis of what the release lacks. Codes avoid it: a code where no other vector has any energy would
        be found by everyone.
    """
    dim = release.test.vectors.shape[1]
    drawn = rng.standard_normal((dim, CODE_DIMENSIONS))
    if removed is not None:
        drawn -= removed @ (removed.T @ drawn)
        drawn = drawn[:, : dim - removed.shape[1]]
    subspace, _ = linalg.qr(drawn[:, :dim], mode="economic")
    parts = {}
    for name, part in release.parts.items():
        _, who = np.unique(part.identity, return_inverse=True)
        codes = rng.standard_normal((int(who.max()) + 1, subspace.shape[1])) @ subspace.T
        codes /= np.linalg.norm(codes, axis=1, keepdims=True)
        mixed = np.sqrt(1 - strength) * part.vectors + np.sqrt(strength) * codes[who]
        parts[name] = Part(unit_rows(mixed), part.identity)
    return Release("planted", release.rank, parts, release.energy_kept)


def detection_power(
    release: Release,
    plan: AuditPlan,
    bootstrap: SubjectBootstrap,
    *,
    removed: NDArray[np.float64] | None = None,
) -> Power:
    """Measure the planted ladder on test people, worst attacker each, at the smallest supported FAR."""
    attacks = curve_attacks(plan)
    clean = each(lambda a: _measure(a, release, plan, bootstrap), attacks)
    unplanted = dict(zip(attacks, clean, strict=True))
    far = _far(release, plan)

    def measure(case: tuple[int, float]) -> PlantedPoint:
        index, strength = case
        rng = np.random.default_rng([plan.seed, 0x97A, index])
        planted = plant(release, strength, rng=rng, removed=removed)
        seen = {a: _measure(a, planted, plan, bootstrap) for a in attacks}
        worst = max(attacks, key=lambda a: (seen[a][1] - unplanted[a][2], seen[a][0]))
        point, low, high = seen[worst]
        return PlantedPoint(
            strength=strength,
            attacker=worst.attacker.name,
            tar=point,
            tar_low=low,
            tar_high=high,
            caught=low > unplanted[worst][2],
        )

    points = each(measure, enumerate(sorted(plan.planted)))
    most = max(clean, key=lambda measured: measured[2])
    return Power(
        release=release.name,
        far_target=far,
        unplanted_tar=most[0],
        unplanted_tar_high=most[2],
        points=tuple(points),
        smallest_caught=_smallest_caught(points),
    )


def _measure(
    attack: Attack, release: Release, plan: AuditPlan, bootstrap: SubjectBootstrap
) -> tuple[float, float, float]:
    best, _ = tune(attack.train(release, 0, plan), release.validation, plan)
    tail = tail_of(best, release.test, plan)
    far = reference_far(plan.fars, tail.nonmated)
    point = tar_at(tail, threshold_at(tail.top, tail.nonmated, far))
    return point, *percentile_interval(point, bootstrap.tar_calibrated(tail, far), tail.paired_subjects)


def _far(release: Release, plan: AuditPlan) -> float:
    _, images = np.unique(release.test.identity, return_counts=True)
    n = int(images.sum())
    return reference_far(plan.fars, (n * n - int((images**2).sum())) // 2)


def _smallest_caught(points: list[PlantedPoint]) -> float | None:
    smallest = None
    for point in reversed(points):
        if not point.caught:
            break
        smallest = point.strength
    return smallest
