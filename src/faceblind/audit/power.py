"""Detection power: plant a leak of known strength in the erased vectors and see whether the audit catches it.

Every identity gets a random code in a 16-dimensional subspace of what is left; each vector becomes ``sqrt(1 - s) z + sqrt(s) c``, so
a share s of its energy is identity. The same audit (attackers refitted, thresholds set anew) then runs on the planted
vectors. What it cannot tell from no plant, it would not have found.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from faceblind.audit.attacks import Attack, linear_screening
from faceblind.audit.entries import PlantedPoint, Power
from faceblind.audit.evaluate import calibrated_point
from faceblind.audit.parallel import each
from faceblind.audit.plan import AuditPlan
from faceblind.audit.releases import Part, Release, SplitData
from faceblind.data.embeddings import unit_rows
from faceblind.measure import OperatingPoint, SubjectBootstrap

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
    return Release("planted", release.rank, parts, release.energy)


def detection_power(
    release: Release,
    data: SplitData,
    plan: AuditPlan,
    bootstrap: SubjectBootstrap,
    *,
    removed: NDArray[np.float64] | None = None,
) -> Power:
    """Measure the planted ladder on test people, every attacker but networks each, at the smallest supported FAR."""
    attacks = linear_screening(plan, data)
    strengths = sorted(plan.planted)
    planted = [
        plant(release, strength, rng=np.random.default_rng([plan.seed, 0x97A, index]), removed=removed)
        for index, strength in enumerate(strengths)
    ]
    jobs = [(r, attack) for r in (release, *planted) for attack in attacks]
    measured = each(lambda job: calibrated_point(job[1], job[0], "test", plan, bootstrap), jobs)
    by_release = [measured[start : start + len(attacks)] for start in range(0, len(measured), len(attacks))]
    clean = by_release[0]
    points = [_point(strength, attacks, seen, clean) for strength, seen in zip(strengths, by_release[1:], strict=True)]
    most = max(clean, key=lambda point: point.high)
    return Power(
        release=release.name,
        far_target=most.threshold.far,
        unplanted_tar=most.tar,
        unplanted_tar_high=most.high,
        points=tuple(points),
        smallest_caught=_smallest_caught(points),
    )


def _point(
    strength: float, attacks: Sequence[Attack], seen: Sequence[OperatingPoint], clean: Sequence[OperatingPoint]
) -> PlantedPoint:
    """Take the attacker whose interval lies highest above its own without the plant."""
    worst = max(range(len(attacks)), key=lambda i: (seen[i].low - clean[i].high, seen[i].tar))
    return PlantedPoint(
        strength=strength,
        attacker=attacks[worst].name,
        tar=seen[worst].tar,
        tar_low=seen[worst].low,
        tar_high=seen[worst].high,
        caught=seen[worst].low > clean[worst].high,
    )


def _smallest_caught(points: list[PlantedPoint]) -> float | None:
    smallest = None
    for point in reversed(points):
        if not point.caught:
            break
        smallest = point.strength
    return smallest
