from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from faceblind._errors import DataError
from faceblind.measure import PairedDifference, SubjectBootstrap, paired_difference
from faceblind.measure.limits import limits

PAIRS = 100


class Study:
    """People with an ease of being recognised that A and B partly share; rates of both at a fixed threshold."""

    def __init__(self, people: int, seed: int, draws: int = 200) -> None:
        self.people, self.rng = people, np.random.default_rng(seed)
        self.weights = SubjectBootstrap.of(people, draws=draws, rng=self.rng).weights.astype(float)

    def compare(self, rate_a: float, rate_b: float, *, shared: float = 0.7, spread: float = 0.6) -> PairedDifference:
        ease = self.rng.standard_normal((3, self.people))
        found = []
        for rate, own in ((rate_a, ease[1]), (rate_b, ease[2])):
            mean = NormalDist().inv_cdf(rate) * math.hypot(1, spread)
            z = math.sqrt(shared) * ease[0] + math.sqrt(1 - shared) * own
            accepted = self.rng.binomial(PAIRS, ndtr(mean + spread * z))
            found += [accepted.mean() / PAIRS, self.weights @ accepted / (self.people * PAIRS)]
        return paired_difference(*found, self.people)


@pytest.mark.parametrize(("people", "rate"), [(30, 0.02), (30, 0.3), (80, 0.02), (80, 0.3)])
def test_under_the_null_p_values_are_about_uniform_and_never_too_small(people, rate):
    study = Study(people, seed=1)
    found = [study.compare(rate, rate) for _ in range(400)]
    p = np.array([one.p_value for one in found])
    for level in (0.01, 0.025, 0.05, 0.1, 0.25):
        assert np.count_nonzero(p <= level) <= binom.ppf(0.999, 400, level), level
    # about uniform: where the normal approximation holds they are not idle either
    for level in (0.25, 0.5, 0.75):
        assert np.count_nonzero(p <= level) >= binom.ppf(0.001, 400, 0.75 * level), level
    covered = sum(one.low <= 0 <= one.high for one in found)
    assert covered >= binom.ppf(0.001, 400, 0.95)
    assert sum(one.ratio_low <= 1 <= one.ratio_high for one in found) >= binom.ppf(0.001, 400, 0.95)


def test_a_leak_of_few_is_not_taken_for_less_than_one_of_all():
    """Both leak 2 %: A the pairs of two people in a hundred, B a little of everyone. Most audits see none of A's."""
    rng = np.random.default_rng(3)
    weights = SubjectBootstrap.of(80, draws=200, rng=rng).weights.astype(float)
    p = []
    for _ in range(200):
        a, b = PAIRS * rng.binomial(1, 0.02, 80), rng.binomial(PAIRS, 0.02, 80)
        drawn = [x for one in (a, b) for x in (one.mean() / PAIRS, weights @ one / (80 * PAIRS))]
        p.append(paired_difference(*drawn, 80).p_value)
    assert np.mean(np.array(p) <= 0.05) <= binom.ppf(0.999, 200, 0.05) / 200


def test_power_grows_with_the_difference_with_people_and_with_what_is_shared():
    def power(people: int, rate: float, **how: float) -> float:
        study = Study(people, seed=2)
        return float(np.mean([study.compare(rate, 0.3, **how).p_value <= 0.05 for _ in range(120)]))

    by_difference = [power(60, rate) for rate in (0.3, 0.26, 0.22, 0.16)]
    assert by_difference == sorted(by_difference)
    assert by_difference[0] < 0.15 < 0.9 < by_difference[-1]
    assert power(25, 0.24) + 0.15 < power(150, 0.24)
    assert power(60, 0.25, shared=0.1) + 0.15 < power(60, 0.25, shared=0.95)


def test_intervals_of_a_real_difference_cover():
    study = Study(80, seed=5)
    found = [study.compare(0.1, 0.2) for _ in range(300)]
    assert sum(one.low <= -0.1 <= one.high for one in found) >= binom.ppf(0.001, 300, 0.93)
    assert sum(one.ratio_low <= 0.5 <= one.ratio_high for one in found) >= binom.ppf(0.001, 300, 0.93)
    assert np.median([one.high - one.low for one in found]) < 0.13


def test_swapping_a_and_b_mirrors_everything():
    study = Study(50, seed=7)
    weights = study.weights
    a, b = (study.rng.binomial(PAIRS, study.rng.beta(1, 9, 50)) for _ in range(2))
    rates = [x for one in (a, b) for x in (one.mean() / PAIRS, weights @ one / (50 * PAIRS))]
    one, other = paired_difference(*rates, 50), paired_difference(*rates[2:], *rates[:2], 50)
    assert other.difference == -one.difference
    assert (other.low, other.high) == pytest.approx((-one.high, -one.low), abs=1e-12)
    assert (other.ratio_low, other.ratio_high) == pytest.approx((1 / one.ratio_high, 1 / one.ratio_low), rel=1e-6)
    assert 1 <= one.p_value + other.p_value <= 1.1


def test_nothing_on_either_side_says_nothing():
    none = np.zeros(100)
    bound = 1 - 0.025 ** (1 / 40)
    found = paired_difference(0.0, none, 0.0, none, 40)
    assert (found.low, found.high) == pytest.approx((-bound, bound))
    assert math.isnan(found.ratio)
    assert (found.ratio_low, found.ratio_high) == (0.0, math.inf)
    assert found.p_value == 1.0
    assert found.to_dict()["ratio"] is None
    assert found.to_dict()["ratio_high"] is None


def test_the_same_rates_do_not_differ():
    draws = np.random.default_rng(0).uniform(0.1, 0.3, 200)
    found = paired_difference(0.2, draws, 0.2, draws, 50)
    assert found.low <= 0 <= found.high
    low, high = limits(0.2, draws.var() * 50 / 49, 50)
    assert found.high - found.low < 0.35 * (high - low)  # all that moves one moves the other
    assert found.ratio == 1
    assert found.p_value >= 0.5


def test_p_values_are_never_zero_and_intervals_agree_with_them():
    rng = np.random.default_rng(0)
    weights = SubjectBootstrap.of(80, draws=99, rng=rng).weights.astype(float)
    a, b = rng.uniform(0, 0.02, 80), rng.uniform(0.4, 0.6, 80)
    found = paired_difference(a.mean(), weights @ a / 80, b.mean(), weights @ b / 80, 80)
    assert found.p_value == pytest.approx(1 / 100)
    assert found.high < 0
    assert found.ratio_high < 0.1


def test_the_interval_joins_those_of_the_two_rates():
    rng = np.random.default_rng(0)
    weights = SubjectBootstrap.of(80, draws=500, rng=rng).weights.astype(float)
    a, b = rng.beta(1, 9, 80), rng.beta(2, 8, 80)
    draws = [weights @ x / 80 for x in (a, b)]
    found = paired_difference(a.mean(), draws[0], b.mean(), draws[1], 80)
    (la, ua), (lb, ub) = (limits(x.mean(), d.var() * 80 / 79, 80) for x, d in zip((a, b), draws, strict=True))
    r = np.corrcoef(*draws)[0, 1]
    u, v = a.mean() - la, ub - b.mean()
    assert found.low == pytest.approx(found.difference - math.sqrt(u**2 + v**2 - 2 * r * u * v))
    w, x = ua - a.mean(), b.mean() - lb
    assert found.high == pytest.approx(found.difference + math.sqrt(w**2 + x**2 - 2 * r * w * x))
    # the ends of the ratio solve the same equation for a - t b
    t = found.ratio_low
    assert (a.mean() - t * b.mean()) ** 2 == pytest.approx(u**2 + t**2 * v**2 - 2 * r * t * u * v)
    t = found.ratio_high
    assert (a.mean() - t * b.mean()) ** 2 == pytest.approx(w**2 + t**2 * x**2 - 2 * r * t * w * x)


def test_unknown_draws_count_against_the_claim():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.1, 0.01, 400), rng.normal(0.3, 0.01, 400)
    known = paired_difference(0.1, a, 0.3, b, 80)
    a[:8] = np.nan
    some = paired_difference(0.1, a, 0.3, b, 80)
    assert some.lost == 8
    assert some.p_value == pytest.approx(9 / 401)
    assert known.p_value == pytest.approx(1 / 401)
    a[:20] = np.nan
    many = paired_difference(0.1, a, 0.3, b, 80)
    assert (many.low, many.high) == (-1.0, 1.0)
    assert (many.ratio_low, many.ratio_high) == (0.0, math.inf)


def test_draws_of_two_bootstraps_are_refused():
    with pytest.raises(DataError, match=r"two rows of draws from one bootstrap, got shapes \(3,\) and \(4,\)"):
        paired_difference(0.1, np.zeros(3), 0.1, np.zeros(4), 10)
    with pytest.raises(DataError, match="two rows of draws"):
        paired_difference(0.1, np.zeros(0), 0.1, np.zeros(0), 10)
