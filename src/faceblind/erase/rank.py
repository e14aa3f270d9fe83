"""Choosing the rank from held-out evidence: the smallest whose upper bound meets the target.

Rules that look only at the fitted spectrum (a permutation test, a share of variance) pick ranks two to ten times too
large, so the default is the validation rule. The bound is the upper end of the interval on validation identities:
a point estimate under the target is not evidence that the leak is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from faceblind._errors import RankError
from faceblind.measure import Condition


@dataclass(frozen=True, kw_only=True)
class RankChoice:
    """How the rank was chosen: ``given``, or ``target`` with the condition and the validation curve."""

    rule: str
    target: str | None = None
    curve: tuple[tuple[int, float, float, float], ...] = ()
    """(rank, point, low, high) of the metric on validation identities."""
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {
            "rule": self.rule,
            "target": self.target,
            "curve": [[int(r), float(p), float(lo), float(hi)] for r, p, lo, hi in self.curve],
            "note": self.note,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RankChoice:
        """Rebuild from `to_dict`."""
        curve = tuple((int(r), float(p), float(lo), float(hi)) for r, p, lo, hi in data["curve"])
        return cls(rule=data["rule"], target=data["target"], curve=curve, note=data["note"])


def smallest_rank(
    ranks: Sequence[int], bounds: Callable[[int], tuple[float, float, float]], target: Condition
) -> tuple[int, dict[int, tuple[float, float, float]]]:
    """Return the smallest rank that shows the target, and the curve (point, low, high) at every rank tried.

    Leakage need not fall with every step of the rank, so ranks are tried upwards and the first that meets the target
    wins; all ranks below it are known to fail.

    Parameters
    ----------
    ranks : increasing ranks to try
    bounds : rank -> (point, low, high) of the metric on validation identities, worst attacker

    Raises
    ------
    RankError
        No rank meets the target; the message shows the curve.
    """
    curve: dict[int, tuple[float, float, float]] = {}
    for rank in ranks:
        point, low, high = bounds(rank)
        curve[rank] = (point, low, high)
        if target.shown_by(low, high):
            return rank, curve
    raise RankError(
        f"no rank up to {ranks[-1]} shows {target} on validation identities; the curve is\n"
        + "\n".join(
            f"  rank {r:>4}: {100 * p:.2f} % (95 % interval {100 * lo:.2f} to {100 * hi:.2f} %)"
            for r, (p, lo, hi) in curve.items()
        )
        + "\nmore fit identities allow larger ranks, more validation identities narrower intervals"
    )
