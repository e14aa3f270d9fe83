"""What can be said about several attackers and several releases at once, on the same test people.

Looking at many attackers and quoting the one that reads most asks for a bound that holds for all of them together; and
asking of many pairs of releases which leaks less asks for p-values corrected for their number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from faceblind.audit.entries import Comparison, Worst
from faceblind.audit.evaluate import Averaged
from faceblind.audit.plan import CONTROLS
from faceblind.audit.verdict import bounding, worst_of
from faceblind.measure import holm, paired_difference, simultaneous_upper

SHOWN = 0.025
"""One-sided level of a comparison: that of one end of a 95 % interval."""


def decisive(points: Sequence[Averaged], release: str, far: float) -> Averaged | None:
    """Return the attacker that decides for a release at a FAR: see `faceblind.audit.verdict.worst_of`."""
    top = worst_of([a.summary for a in points], release, far)
    return next((a for a in points if a.summary is top), None)


def worst_entries(points: Sequence[Averaged]) -> tuple[Worst, ...]:
    """Return the worst attacker on every release at every FAR, with a bound for all attackers at once."""
    found = []
    for release in dict.fromkeys(a.summary.release for a in points):
        for far in dict.fromkeys(a.summary.far_target for a in points):
            top = decisive(points, release, far)
            if top is None:
                continue
            mine = _bounded(points, release, far)
            bounds = simultaneous_upper(
                np.array([a.point.base for a in mine]),
                np.stack([a.point.draws for a in mine]),
                people=min(a.point.effective for a in mine),
            )
            s = top.summary
            found.append(
                Worst(
                    release=release,
                    rank=s.rank,
                    far_target=far,
                    attacker=s.attacker,
                    trained_on=s.trained_on,
                    k=s.k,
                    tar=s.tar,
                    tar_low=s.tar_low,
                    tar_high=s.tar_high,
                    bound=max(float(bounds.bound), s.tar_high, *(a.summary.tar_high for a in mine)),
                    attackers=len(mine),
                    grade=s.grade,
                )
            )
    return tuple(found)


def comparisons(points: Sequence[Averaged], audited: str, others: Sequence[str]) -> tuple[Comparison, ...]:
    """Compare the audited release with raw and the controls, and with other erasers; and those with raw.

    Only supported and indicative FARs are compared. Holm's correction is over two families at each FAR: what the verdict
    is about (the audited release against raw and controls), and everything about other erasers. So looking
    at more erasers does not weaken what is said about the audited one.
    """
    names = list(dict.fromkeys(a.summary.release for a in points))
    families = (
        [(audited, name) for name in names if name in ("raw", *CONTROLS) and name != audited],
        [(audited, name) for name in others if name in names] + [(name, "raw") for name in others if name in names],
    )
    found: list[Comparison] = []
    for far in dict.fromkeys(a.summary.far_target for a in points):
        for pairs in families:
            made = [c for a, b in pairs if (c := _compare(points, a, b, far)) is not None]
            adjusted = holm([c["p_value"] for c in made]).adjusted if made else ()
            found += [
                Comparison(**c, p_adjusted=float(p), leaks_less=bool(p <= SHOWN))
                for c, p in zip(made, adjusted, strict=True)
            ]
    return tuple(found)


def _compare(points: Sequence[Averaged], release: str, against: str, far: float) -> dict[str, Any] | None:
    a, b = decisive(points, release, far), decisive(points, against, far)
    if a is None or b is None or "unsupported" in (a.summary.grade, b.summary.grade):
        return None
    pair = paired_difference(
        a.point.base, a.point.draws, b.point.base, b.point.draws, min(a.point.effective, b.point.effective)
    )
    return {
        "release": release,
        "against": against,
        "rank": a.summary.rank,
        "rank_against": b.summary.rank,
        "far_target": far,
        "attacker": a.summary.attacker,
        "attacker_against": b.summary.attacker,
        "tar": a.summary.tar,
        "tar_against": b.summary.tar,
        "difference": pair.difference,
        "low": pair.low,
        "high": pair.high,
        "ratio": pair.ratio if math.isfinite(pair.ratio) else None,
        "p_value": pair.p_value,
    }


def _bounded(points: Sequence[Averaged], release: str, far: float) -> list[Averaged]:
    """Return the points that the bound has to hold for."""
    found = {id(a.summary): a for a in points}
    return [found[id(s)] for s in bounding([a.summary for a in points], release, far)]
