"""Intervals of a rate that hold what they promise, also when few people carry a small leak.

Percentiles of a bootstrap end too low for small, skewed rates: whoever leaks most was perhaps not among the people
tested, and no resampling of the others shows it (at a true TAR of 2 % that few of 80 people carry, one audit in six
ended under the truth). And with nothing accepted the draws do not vary at all. Here the spread of the draws is
translated into the number of independent trials it stands for, and the exact binomial limits (Clopper and Pearson) of
that many trials are taken, as survey statistics do for proportions in clusters (E. L. Korn and B. I. Graubard,
Confidence intervals for proportions with small expected number of positive counts estimated from survey data, Survey
Methodology 24, 1998). Two things are added:

- A spread that rests on few people is itself uncertain. How many carry the rate follows from the spread: c people who
  share it equally among m give a variance of ``p^2 (1/c - 1/m)``. The spread is widened by Student's t with 2 (c - 1) / 3
  degrees of freedom (the factor makes simulated audits with very unequal people cover; see `faceblind.measure.coverage`).
- No rate of people varies more than one that each has wholly or not at all, so there are never fewer trials than
  people. With one carrier or none that is all there is to go by: the limits are the exact ones for so many people. A
  leak of nothing among m people is bounded by ``1 - 0.025^(1/m)``, and one accepted pair never claims less.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

LEVEL = 0.95
_FREEDOM = 2 / 3
_MOST = 1e9  # trials: more than any audit has, few enough for the beta function
_LEAST = 1e-300


def subject_interval(
    point: float, draws: NDArray[np.float64], people: float, *, level: float = LEVEL
) -> tuple[float, float]:
    """Return the interval of a rate from its bootstrap draws over people.

    Parameters
    ----------
    point : float
        The rate measured, 0 to 1.
    draws : (b,) float64
        The rate in each draw of people; of several seeds, their mean within each draw. NaN marks a draw whose
        threshold lies beyond the scores that were kept: its rate is higher than any kept threshold gives. Such draws
        count as the highest of the others, and when more than one end of the interval may hold, the upper end is 1.
    people : float
        How many people the rate rests on, at least 1; `ScoreTail.effective_subjects` of a TAR.
    level : float

    Returns
    -------
    low, high : float
        With ``low <= point <= high``.
    """
    low, high = limits(point, variance_of(draws, people), people, level=level)
    if np.isnan(draws).mean() > (1 - level) / 2:
        high = 1.0
    return low, high


def limits(point: float, variance: float, people: float, *, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of a rate from its variance over people; see `subject_interval`."""
    tail = (1 - level) / 2
    trials = _trials(point, variance, people, level)
    low = 0.0 if point <= 0 else float(special.betaincinv(point * trials, (1 - point) * trials + 1, tail))
    high = 1.0 if point >= 1 else float(special.betaincinv(point * trials + 1, (1 - point) * trials, 1 - tail))
    return min(low, point), max(high, point)


def carriers(point: float, variance: float, people: float) -> float:
    """Return how many people carry a rate (or its complement, when those are fewer), from its variance over draws."""
    square = min(point, 1 - point) ** 2
    total = square / people + variance
    return square / total if total > 0 else 0.0


def variance_of(draws: NDArray[np.float64], people: float) -> float:
    """Return the variance over draws, freed of the bootstrap's factor (m - 1) / m; NaN counts as the highest draw."""
    unknown = np.isnan(draws)
    if unknown.all() or people <= 1:
        return 0.0
    if unknown.any():
        draws = np.where(unknown, draws[~unknown].max(), draws)
    return float(draws.var()) * people / (people - 1)


def _trials(point: float, variance: float, people: float, level: float) -> float:
    """Return the number of independent trials that have this variance, at least one for each of the people."""
    freedom = _FREEDOM * (carriers(point, variance, people) - 1)
    if variance <= 0 or freedom <= 0:
        return people
    end = (1 + level) / 2
    widening = float(special.stdtrit(freedom, end) / special.ndtri(end))
    return max(people, min(point * (1 - point) / max(variance * widening**2, _LEAST), _MOST))
