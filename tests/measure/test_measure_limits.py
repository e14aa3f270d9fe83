from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, t

from faceblind.measure import subject_interval
from faceblind.measure.limits import carriers, limits


@pytest.mark.parametrize("people", [1, 2, 13, 62.4, 80])
def test_all_or_nothing_gives_the_exact_bound_for_that_many_people(people):
    bound = 1 - 0.025 ** (1 / people)
    assert subject_interval(0.0, np.zeros(50), people) == pytest.approx((0, bound))
    assert subject_interval(1.0, np.ones(50), people) == pytest.approx((1 - bound, 1))
    assert subject_interval(0.0, np.zeros(50), people, level=0.9)[1] == pytest.approx(1 - 0.05 ** (1 / people))


@pytest.mark.parametrize(("k", "m"), [(1, 80), (3, 80), (20, 80), (29, 30)])
def test_people_wholly_or_not_at_all_give_the_exact_binomial_interval(k, m):
    """k of m people are recognised always, the others never: m independent trials."""
    rng = np.random.default_rng(0)
    has = np.arange(m) < k
    draws = rng.multinomial(m, np.full(m, 1 / m), size=4000) @ has / m
    low, high = subject_interval(k / m, draws, m)
    assert low == pytest.approx(beta.ppf(0.025, k, m - k + 1), abs=0.006)
    assert high == pytest.approx(beta.ppf(0.975, k + 1, m - k), abs=0.006)


@pytest.mark.parametrize("pairs", [1, 2, 10, 190])
def test_one_person_with_some_accepted_pairs_never_claims_less_than_nobody(pairs):
    """80 people of 190 pairs; one of them has `pairs` accepted."""
    rng = np.random.default_rng(0)
    point = pairs / 190 / 80
    draws = rng.multinomial(80, np.full(80, 1 / 80), size=1000)[:, 0] * point
    low, high = subject_interval(point, draws, 80)
    assert high >= 1 - 0.025 ** (1 / 80)
    assert high == pytest.approx(beta.ppf(0.975, 80 * point + 1, 80 - 80 * point), rel=1e-9)
    assert low < 0.01 * 80 * point


def test_many_people_with_little_each_are_strong_evidence():
    """A leak that nearly everyone shares may be called small; the same leak of three people may not."""
    rng = np.random.default_rng(1)
    weights = rng.multinomial(80, np.full(80, 1 / 80), size=1000)
    shared = rng.uniform(0, 0.04, 80)
    few = np.where(np.arange(80) < 3, shared.sum() / 3, 0)
    wide, narrow = (subject_interval(x.mean(), weights @ x / 80, 80) for x in (few, shared))
    assert narrow[1] < 0.025 < 1 - 0.025 ** (1 / 80) < wide[1]
    assert narrow[0] > 0.015 > wide[0]


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_the_formula(level):
    """Korn and Graubard's interval with two thirds of (carriers - 1) degrees of freedom."""
    point, variance, m = 0.1, 0.0004, 80
    c = 1 / (1 / m + variance / point**2)
    assert carriers(point, variance, m) == pytest.approx(c)
    end = (1 + level) / 2
    widened = variance * (t.ppf(end, 2 * (c - 1) / 3) / t.ppf(end, 1e9)) ** 2
    n = point * (1 - point) / widened
    assert n > m
    expected = (beta.ppf(1 - end, n * point, n - n * point + 1), beta.ppf(end, n * point + 1, n - n * point))
    assert limits(point, variance, m, level=level) == pytest.approx(expected, rel=1e-6)


@given(st.floats(0, 1), st.floats(0, 0.25), st.floats(1, 1000), st.sampled_from([0.5, 0.95, 0.99]))
def test_limits_hold_the_rate_mirror_it_and_widen_with_the_level(point, variance, people, level):
    low, high = limits(point, variance, people, level=level)
    assert 0 <= low <= point <= high <= 1
    mirrored = limits(1 - point, variance, people, level=level)
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-6)
    wider = limits(point, variance, people, level=0.995)
    assert wider[0] <= low + 1e-6
    assert wider[1] >= high - 1e-6


@given(st.floats(0.001, 0.5), st.floats(1e-9, 0.01), st.floats(2, 500))
def test_more_spread_is_never_more_certain(point, variance, people):
    low, high = limits(point, variance, people)
    low2, high2 = limits(point, 2 * variance, people)
    assert low2 <= low + 1e-6
    assert high2 >= high - 1e-6


def test_unknown_draws_count_as_high():
    rng = np.random.default_rng(0)
    draws = np.clip(0.2 + 0.03 * rng.standard_normal(1000), 0, 1)
    known = subject_interval(0.2, draws, 80)
    few = draws.copy()
    few[:20] = np.nan
    low, high = subject_interval(0.2, few, 80)
    assert known[1] < high < 0.4
    assert low <= known[0]
    few[:30] = np.nan
    assert subject_interval(0.2, few, 80)[1] == 1.0
    assert subject_interval(0.2, np.full(10, np.nan), 80) == (pytest.approx(beta.ppf(0.025, 16, 65), abs=1e-6), 1.0)


def test_draws_that_do_not_vary_are_no_evidence_for_certainty():
    assert subject_interval(0.3, np.full(100, 0.3), 10) == pytest.approx(beta.ppf([0.025, 0.975], [3, 4], [8, 7]))
