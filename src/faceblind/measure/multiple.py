"""Several comparisons at once: adjusted p-values, and an upper end that holds for the worst of several attackers.

Ten attackers are ten chances to read high by luck, and ten controls ten chances of a small p-value. Holm's adjustment
bounds the chance of any false finding, Benjamini and Hochberg's the share of false ones among the findings. For the
rates of attackers that were measured on the same people, the joint bootstrap draws tell how far they go together, and
so by how much less than Bonferroni's correction each interval has to be widened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faceblind._errors import DataError
from faceblind.measure.limits import LEVEL, subject_interval


@dataclass(frozen=True)
class AdjustedPValues:
    """P-values in the order given, and what is left of them when all are looked at together.

    Attributes
    ----------
    raw, adjusted : tuple of float
        Reject those whose adjusted value is at most the level.
    method : {"holm", "benjamini-hochberg"}
        What the level then bounds: the chance of any false rejection, or the expected share of false rejections.
    """

    raw: tuple[float, ...]
    adjusted: tuple[float, ...]
    method: Literal["holm", "benjamini-hochberg"]

    def rejected(self, level: float = 1 - LEVEL) -> tuple[bool, ...]:
        """Tell which hypotheses are rejected at `level`."""
        return tuple(p <= level for p in self.adjusted)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in plain JSON types."""
        return {"raw": list(self.raw), "adjusted": list(self.adjusted), "method": self.method}


def holm(p_values: ArrayLike) -> AdjustedPValues:
    """Adjust p-values so that the chance of any false rejection stays under the level, however they depend.

    With p_(1) <= ... <= p_(m): ``adjusted_(i) = max over j <= i of min(1, (m - j + 1) p_(j))``.

    Parameters
    ----------
    p_values : (m,)
        Between 0 and 1.

    Notes
    -----
    S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979).
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(np.minimum((p.size - np.arange(p.size)) * p[order], 1.0))
    return _in_order(p, order, stepped, "holm")


def benjamini_hochberg(p_values: ArrayLike) -> AdjustedPValues:
    """Adjust p-values so that the expected share of false rejections among all rejections stays under the level.

    With p_(1) <= ... <= p_(m): ``adjusted_(i) = min over j >= i of min(1, m p_(j) / j)``. Holds for independent or
    positively dependent tests; the attackers of one audit are usually the latter.

    Parameters
    ----------
    p_values : (m,)
        Between 0 and 1.

    Notes
    -----
    Y. Benjamini and Y. Hochberg, Controlling the false discovery rate, Journal of the Royal Statistical Society B 57
    (1995).
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    steps = np.minimum(p.size * p[order] / np.arange(1, p.size + 1), 1.0)
    # Not under the raw value: m p / m rounds.
    stepped = np.maximum(np.minimum.accumulate(steps[::-1])[::-1], p[order])
    return _in_order(p, order, stepped, "benjamini-hochberg")


@dataclass(frozen=True)
class SimultaneousUpper:
    """Upper ends for several attackers, of which all hold at once.

    Attributes
    ----------
    points, upper : tuple of float
        Rates as measured, and their simultaneous upper ends.
    pointwise : tuple of float
        Upper ends of the intervals that look at one attacker alone.
    worst : int
        The attacker whose upper end is highest; not always the one that reads most.
    level : float
        Level of the two-sided interval whose upper end this is: any true rate exceeds its end with a chance of
        ``(1 - level) / 2``.
    miss : float
        Chance of a miss left to each attacker alone; between ``(1 - level) / 2`` divided by the number of attackers,
        as Bonferroni has it, and ``(1 - level) / 2``, when all go together.
    """

    points: tuple[float, ...]
    upper: tuple[float, ...]
    pointwise: tuple[float, ...]
    worst: int
    level: float
    miss: float

    @property
    def bound(self) -> float:
        """The highest upper end: no attacker's true rate is above it."""
        return self.upper[self.worst]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in plain JSON types."""
        return {
            "points": list(self.points),
            "upper": list(self.upper),
            "pointwise": list(self.pointwise),
            "worst": self.worst,
            "bound": self.bound,
            "level": self.level,
            "miss": self.miss,
        }


def simultaneous_upper(
    points: ArrayLike, draws: NDArray[np.float64], *, people: ArrayLike, level: float = LEVEL
) -> SimultaneousUpper:
    """Return upper ends of several rates that hold together, from their joint bootstrap draws.

    Every draw is ranked among the draws of its attacker. The chance of a miss given to each attacker is the share of
    ranks above which no attacker's draw lies in all but ``(1 - level) / 2`` of the draws: the same for all, as R. Beran
    has it (Balanced simultaneous confidence sets, JASA 83, 1988), and not tied to symmetric spreads, as a maximum of
    studentised deviations is. Each end is then that of `subject_interval` at this smaller chance.

    The highest of the *pointwise* ends already covers the highest true rate at the pointwise level, because the attacker
    who truly reads most is not chosen by the data. What it does not cover is the choice of one attacker: the end of the
    attacker that reads most in this sample may lie under the true rate of another. The simultaneous ends let each
    attacker, and the worst, be read off at once, and err to the high side for the worst alone.

    Parameters
    ----------
    points : (a,)
        Rate of each attacker, 0 to 1.
    draws : (a, b) float64
        Rate of each attacker in each draw of people, the same people in a column. NaN stands for higher than any kept
        threshold gives.
    people : float, or (a,)
        How many people the rates rest on; `ScoreTail.effective_subjects`.
    level : float
        Of the two-sided interval.

    Raises
    ------
    DataError
        Shapes do not fit together, or there are no draws.
    """
    rates = np.asarray(points, dtype=np.float64).reshape(-1)
    if draws.ndim != 2 or draws.shape[0] != rates.size or not draws.size:
        raise DataError(
            f"draws of {rates.size} rates come as one row for each, at least one column, got shape {draws.shape}"
        )
    if not ((rates >= 0) & (rates <= 1)).all():
        raise DataError(f"rates lie between 0 and 1, got {rates.tolist()}")
    if not 0 < level < 1:
        raise DataError(f"a level lies between 0 and 1, got {level}")
    counted = np.asarray(people, dtype=np.float64).reshape(-1)
    if counted.size not in (1, rates.size):
        raise DataError(f"people are one number or one for each of {rates.size} rates, got {counted.size}")
    counted = np.broadcast_to(counted, rates.size)
    alone = (1 - level) / 2
    miss = _miss(draws, alone)
    pointwise = [subject_interval(p, d, m, level=level)[1] for p, d, m in zip(rates, draws, counted, strict=True)]
    joint = [subject_interval(p, d, m, level=1 - 2 * miss)[1] for p, d, m in zip(rates, draws, counted, strict=True)]
    upper = [max(ends) for ends in zip(pointwise, joint, strict=True)]
    return SimultaneousUpper(
        points=tuple(rates.tolist()),
        upper=tuple(float(u) for u in upper),
        pointwise=tuple(float(u) for u in pointwise),
        worst=int(np.argmax(upper)),
        level=level,
        miss=miss,
    )


def _miss(draws: NDArray[np.float64], alone: float) -> float:
    """Return the share of each attacker's draws that may lie above its end."""
    attackers, count = (int(size) for size in draws.shape)
    filled = np.where(np.isnan(draws), np.inf, draws)
    ordered = np.sort(filled, axis=1)
    varied = np.flatnonzero(ordered[:, 0] < ordered[:, -1])
    if not varied.size:
        return alone / attackers
    # Share of an attacker's draws that are as high, to the middle of the step.
    above = [count - 0.5 - np.searchsorted(ordered[a], filled[a], side="left") for a in varied]
    rarest = np.min(above, axis=0) / count
    # Attackers whose draws never vary are not known to go with the others: they get their own part of the chance.
    part = alone * varied.size / attackers
    return float(np.clip(np.quantile(rarest, part, method="hazen"), alone / attackers, alone))


def _checked(p_values: ArrayLike) -> NDArray[np.float64]:
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise DataError(f"p-values are one row of numbers between 0 and 1, got {p.tolist()}")
    return p


def _in_order(
    p: NDArray[np.float64],
    order: NDArray[np.intp],
    stepped: NDArray[np.float64],
    method: Literal["holm", "benjamini-hochberg"],
) -> AdjustedPValues:
    adjusted = np.empty(p.size)
    adjusted[order] = stepped
    return AdjustedPValues(tuple(p.tolist()), tuple(adjusted.tolist()), method)
