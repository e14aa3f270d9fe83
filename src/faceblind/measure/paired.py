"""Does A leak less than B? On the same test people, compared draw by draw.

Two intervals that overlap say little: people who are easy to recognise under one eraser are so under the other, and
both rates rise and fall with who was tested. Here both are measured in the same draws of people, so what they share
cancels.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.measure.limits import LEVEL, limits, variance_of

_HALVINGS = 30


@dataclass(frozen=True)
class PairedDifference:
    """Rates of A and B on the same people, with their difference and ratio.

    Attributes
    ----------
    a, b : float
    difference : float
        ``a - b``: negative when A leaks less; `low` and `high` its interval.
    ratio : float
        ``a / b``, infinity when only b is 0 and NaN when both are; `ratio_low` and `ratio_high` its interval.
    p_value : float
        One-sided: small when the data speak against "A leaks at least as much as B". Never under 1 / (draws + 1).
    people : float
        People that the rates rest on.
    draws, lost : int
        Draws of people, and those in which one of the two is not known; they count against the claim.
    level : float
    """

    a: float
    b: float
    difference: float
    low: float
    high: float
    ratio: float
    ratio_low: float
    ratio_high: float
    p_value: float
    people: float
    draws: int
    lost: int
    level: float

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in plain JSON types; a ratio without a finite value is None."""
        return {k: v if not isinstance(v, float) or math.isfinite(v) else None for k, v in asdict(self).items()}


def paired_difference(
    a: float,
    draws_a: NDArray[np.float64],
    b: float,
    draws_b: NDArray[np.float64],
    people: float,
    *,
    level: float = LEVEL,
) -> PairedDifference:
    """Compare two rates of the same people.

    The interval of the difference joins those of the two rates (`subject_interval`) with their correlation over the
    draws (G. Y. Zou and A. Donner, Construction of confidence limits about effect measures, Statistics in Medicine
    27, 2008), so it stays honest when one of them is zero. The p-value is the largest of three: the share of draws in
    which A does not leak less, the share in which the difference strays from the measured one by as much as that is
    from zero (both counted with the measurement itself, so never 0), and the level at which the interval would reach
    zero.

    Parameters
    ----------
    a, b : float
        The two rates, 0 to 1.
    draws_a, draws_b : (n,) float64
        Their draws, from one `SubjectBootstrap` and in its order; of several seeds, the mean within each draw.
    people : float
        `ScoreTail.effective_subjects`; the smaller one if they differ.

    Raises
    ------
    DataError
        The numbers of draws differ, or there are none.
    """
    if draws_a.shape != draws_b.shape or draws_a.ndim != 1 or draws_a.size == 0:
        raise DataError(
            f"a paired comparison needs two rows of draws from one bootstrap, got shapes {draws_a.shape} and {draws_b.shape}"
        )
    known = ~(np.isnan(draws_a) | np.isnan(draws_b))
    pair = _Pair(
        a, variance_of(draws_a, people), b, variance_of(draws_b, people), _correlation(draws_a, draws_b, known), people
    )
    low, high = pair.difference(level)
    lost = int(draws_a.size - known.sum())
    if lost > (1 - level) / 2 * draws_a.size:  # rates of which too little is known to compare them
        low, high = -1.0, 1.0
    ratio_low, ratio_high = pair.ratio(level) if low > -1 or high < 1 else (0.0, math.inf)
    return PairedDifference(
        a=a,
        b=b,
        difference=a - b,
        low=low,
        high=high,
        ratio=a / b if b > 0 else (math.inf if a > 0 else math.nan),
        ratio_low=ratio_low,
        ratio_high=ratio_high,
        p_value=max(_share(a - b, draws_a[known] - draws_b[known], lost, people), pair.p_value()),
        people=people,
        draws=int(draws_a.size),
        lost=lost,
        level=level,
    )


@dataclass(frozen=True)
class _Pair:
    a: float
    variance_a: float
    b: float
    variance_b: float
    correlation: float
    people: float

    def ends(self, level: float) -> tuple[float, float, float, float]:
        """Return how far the limits of a lie below and above it, and those of b."""
        low_a, high_a = limits(self.a, self.variance_a, self.people, level=level)
        low_b, high_b = limits(self.b, self.variance_b, self.people, level=level)
        return self.a - low_a, high_a - self.a, self.b - low_b, high_b - self.b

    def difference(self, level: float) -> tuple[float, float]:
        below_a, above_a, below_b, above_b = self.ends(level)
        d, r = self.a - self.b, self.correlation
        return d - _joined(below_a, above_b, r), d + _joined(above_a, below_b, r)

    def ratio(self, level: float) -> tuple[float, float]:
        """Return the factors t between which ``a - t b`` could be zero."""
        below_a, above_a, below_b, above_b = self.ends(level)
        if self.b <= 0:
            return (0.0, math.inf)
        low = _root(self.a, self.b, below_a, above_b, self.correlation, lower=True)
        return low, _root(self.a, self.b, above_a, below_b, self.correlation, lower=False)

    def p_value(self) -> float:
        """Return the level at which a one-sided limit of the difference is zero: above a half when A leaks more."""
        inside, outside = 0.0, 1.0
        for _ in range(_HALVINGS):
            level = (inside + outside) / 2
            low, high = self.difference(level)
            if high < 0 or low > 0:
                inside = level
            else:
                outside = level
        return (1 - inside) / 2 if self.a < self.b else (1 + inside) / 2


def _joined(first: float, second: float, correlation: float) -> float:
    return math.sqrt(max(0.0, first**2 + second**2 - 2 * correlation * first * second))


def _root(a: float, b: float, off_a: float, off_b: float, correlation: float, *, lower: bool) -> float:
    """Solve ``(a - t b)^2 = off_a^2 + t^2 off_b^2 - 2 t correlation off_a off_b`` on one side of a / b."""
    square = b**2 - off_b**2
    half = a * b - correlation * off_a * off_b
    rest = a**2 - off_a**2
    under = math.sqrt(max(0.0, half**2 - square * rest))
    if lower:  # written so that it holds for every sign of `square`
        return max(0.0, rest / (half + under)) if half + under > 0 else 0.0
    return (half + under) / square if square > 0 else math.inf


def _correlation(a: NDArray[np.float64], b: NDArray[np.float64], known: NDArray[np.bool_]) -> float:
    x, y = a[known], b[known]
    if x.size < 2 or x.std() == 0 or y.std() == 0:
        return 0.0
    return float(np.clip(np.mean((x - x.mean()) * (y - y.mean())) / (x.std() * y.std()), -1, 1))


def _share(measured: float, drawn: NDArray[np.float64], lost: int, people: float) -> float:
    """Return the larger of the two shares of draws, each counted with the measurement itself."""
    scale = math.sqrt(people / (people - 1)) if people > 1 else 1.0
    strayed = scale * (drawn - measured)
    rounding = 1e-12
    not_less = int(np.count_nonzero(measured + strayed >= -rounding))
    as_far = int(np.count_nonzero(strayed <= measured + rounding))
    return (1 + lost + max(not_less, as_far)) / (1 + lost + drawn.size)
