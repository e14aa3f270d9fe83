from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from faceblind._errors import DataError
from faceblind.measure import subject_interval
from faceblind.measure.multiple import benjamini_hochberg, holm, simultaneous_upper

p_lists = st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.01, 0.02, 0.5, 1.0])), max_size=7)


def closed_testing(p: list[float]) -> list[float]:
    """A hypothesis falls when every set that holds it does, each tested by Bonferroni: so Holm's method is derived."""
    sets = [s for size in range(1, len(p) + 1) for s in combinations(range(len(p)), size)]
    return [max(min(1.0, len(s) * min(p[j] for j in s)) for s in sets if i in s) for i in range(len(p))]


def false_discovery(p: list[float]) -> list[float]:
    """The least level at which the step-up procedure rejects each, by trying every level at which anything changes."""
    m, found = len(p), [1.0] * len(p)
    ranked = sorted(p)
    for level in sorted({min(1.0, m * ranked[j] / (j + 1)) for j in range(m)}, reverse=True):
        passed = [j for j in range(m) if ranked[j] <= (j + 1) * level / m * (1 + 1e-12)]
        cut = ranked[max(passed)] if passed else -1.0
        for i in range(m):
            if p[i] <= cut:
                found[i] = level
    return found


@settings(max_examples=150)
@given(p_lists)
def test_holm_is_closed_testing(p):
    np.testing.assert_allclose(holm(p).adjusted, closed_testing(p), atol=1e-12)


@settings(max_examples=150)
@given(p_lists)
def test_benjamini_and_hochberg_is_the_step_up_procedure_and_that_of_scipy(p):
    found = benjamini_hochberg(p).adjusted
    np.testing.assert_allclose(found, false_discovery(p), atol=1e-9)
    if p:
        np.testing.assert_allclose(found, stats.false_discovery_control(p), atol=1e-9)


@settings(max_examples=150)
@given(p_lists, st.randoms(use_true_random=False))
def test_adjusted_values_are_no_smaller_in_the_same_order_and_no_matter_in_which(p, random):
    order = list(range(len(p)))
    random.shuffle(order)
    for adjust in (holm, benjamini_hochberg):
        found = adjust(p)
        adjusted = np.array(found.adjusted)
        assert found.raw == tuple(p)
        assert (adjusted >= p).all()
        assert ((adjusted >= 0) & (adjusted <= 1)).all()
        rank = np.argsort(p, kind="stable")
        assert (np.diff(adjusted[rank]) >= 0).all()
        assert adjust([p[i] for i in order]).adjusted == tuple(adjusted[order])
        assert found.rejected(0.3) == tuple(adjusted <= 0.3)
    assert (np.array(holm(p).adjusted) >= np.array(benjamini_hochberg(p).adjusted) - 1e-15).all()


def test_adjusted_values_worked_out_by_hand():
    p = [0.01, 0.04, 0.03, 0.005]
    assert holm(p).adjusted == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert benjamini_hochberg(p).adjusted == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert holm(p).rejected() == (True, False, False, True)
    assert json.loads(json.dumps(holm(p).to_dict())) == {
        "raw": p,
        "adjusted": list(holm(p).adjusted),
        "method": "holm",
    }
    assert (holm([]).adjusted, benjamini_hochberg([0.2]).adjusted, holm([0.2]).adjusted) == ((), (0.2,), (0.2,))


@pytest.mark.parametrize("bad", [[0.1, 1.2], [-0.1], [np.nan], [[0.1, 0.2]]])
@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
def test_what_is_no_p_value_is_refused(adjust, bad):
    with pytest.raises(DataError, match="p-values are one row of numbers between 0 and 1, got"):
        adjust(bad)


def audit(
    rng: np.random.Generator, people: int, means: np.ndarray, together: float, draws: int = 250
) -> tuple[np.ndarray, np.ndarray]:
    """Rates of attackers on the same people, whose traits they share in part, and joint draws of these people."""
    traits = np.sqrt(together) * rng.standard_normal((people, 1)) + np.sqrt(1 - together) * rng.standard_normal(
        (people, means.size)
    )
    rates = rng.binomial(45, 1 / (1 + np.exp(-(means + 1.2 * traits)))) / 45
    weights = rng.multinomial(people, np.full(people, 1 / people), size=draws) / people
    return rates.mean(axis=0), (weights @ rates).T


def true_rates(means: np.ndarray) -> np.ndarray:
    return np.array(
        [integrate.quad(lambda z, m=m: stats.norm.pdf(z) / (1 + np.exp(-(m + 1.2 * z))), -8, 8)[0] for m in means]
    )


@pytest.mark.parametrize(
    ("means", "together"),
    [
        (np.full(6, -2.0), 0.0),
        (np.full(6, -2.0), 0.9),
        (np.array([-2.0, -5, -5, -5, -5, -5]), 0.5),  # one attacker stands out: nothing is gained by choosing
        (np.linspace(-6, -3.5, 8), 0.3),
    ],
)
def test_the_true_rates_lie_under_their_ends_together(means, together):
    truth, rng, trials = true_rates(means), np.random.default_rng(0), 200
    worst = every = alone = 0
    for _ in range(trials):
        points, draws = audit(rng, 50, means, together)
        found = simultaneous_upper(points, draws, people=50)
        worst += truth.max() <= found.bound
        every += bool((truth <= np.array(found.upper)).all())
        alone += bool((truth <= np.array(found.pointwise)).all())
    assert worst >= 0.93 * trials
    assert every >= 0.93 * trials
    assert alone <= every


def test_pointwise_ends_do_not_hold_together():
    means, rng = np.full(8, -2.0), np.random.default_rng(1)
    truth = true_rates(means)
    ends = [simultaneous_upper(*audit(rng, 50, means, 0.0), people=50) for _ in range(150)]
    assert np.mean([(truth <= np.array(e.pointwise)).all() for e in ends]) < 0.9


def normal_draws(seed: int, attackers: int, together: float, count: int = 4000) -> np.ndarray:
    rng = np.random.default_rng(seed)
    z = np.sqrt(together) * rng.standard_normal(count) + np.sqrt(1 - together) * rng.standard_normal((attackers, count))
    return 0.3 + 0.02 * z


def test_attackers_that_go_together_need_no_correction_and_independent_ones_that_of_sidak():
    one = normal_draws(0, 1, 0.0)
    assert simultaneous_upper([0.3], one, people=80).miss == pytest.approx(0.025, abs=1e-6)
    alike = simultaneous_upper([0.3] * 5, np.repeat(one, 5, axis=0), people=80)
    assert alike.miss == pytest.approx(0.025, abs=1e-6)
    assert alike.upper == alike.pointwise == (subject_interval(0.3, one[0], 80)[1],) * 5
    apart = [simultaneous_upper([0.3] * 5, normal_draws(seed, 5, 0.0), people=80).miss for seed in range(20)]
    assert np.mean(apart) == pytest.approx(1 - 0.975 ** (1 / 5), rel=0.08)
    between = simultaneous_upper([0.3] * 5, normal_draws(1, 5, 0.9), people=80)
    assert np.mean(apart) < between.miss < 0.025


def test_the_ends_are_those_of_the_interval_of_a_rate_at_the_smaller_chance():
    draws = normal_draws(0, 4, 0.3)
    points = [0.28, 0.3, 0.3, 0.31]
    found = simultaneous_upper(points, draws, people=[80, 80, 60, 70.5])
    for point, row, people, end in zip(points, draws, [80, 80, 60, 70.5], found.upper, strict=True):
        assert end == subject_interval(point, row, people, level=1 - 2 * found.miss)[1]
    assert found.bound == max(found.upper) == found.upper[found.worst]


def test_attackers_that_read_nothing_are_bounded_as_by_bonferroni():
    found = simultaneous_upper([0.0] * 4, np.zeros((4, 100)), people=80)
    assert found.miss == pytest.approx(0.025 / 4)
    assert found.bound == pytest.approx(1 - (0.025 / 4) ** (1 / 80))
    mixed = simultaneous_upper([0.3, 0.0], np.vstack([normal_draws(0, 1, 0.0), np.zeros((1, 4000))]), people=80)
    assert mixed.miss == pytest.approx(0.0125, abs=1e-6)


def test_draws_beyond_the_tail_count_as_high():
    draws = normal_draws(0, 3, 0.0)
    draws[1, :400] = np.nan
    found = simultaneous_upper([0.3] * 3, draws, people=80)
    assert found.upper[1] == 1.0
    assert found.worst == 1
    assert found.upper[0] < 0.5


@settings(max_examples=60)
@given(st.integers(0, 2**16), st.integers(1, 6), st.floats(0, 1), st.floats(0.5, 0.99), st.booleans())
def test_ends_are_rates_above_the_pointwise_ones(seed, attackers, together, level, coarse):
    rng = np.random.default_rng(seed)
    draws = np.clip(normal_draws(seed, attackers, together, 80) + rng.uniform(-0.3, 0.6, (attackers, 1)), 0, 1)
    if coarse:
        draws = np.round(draws, 1)
    points = draws.mean(axis=1)
    found = simultaneous_upper(points, draws, people=40, level=level)
    alone = (1 - level) / 2
    assert alone / attackers <= found.miss * (1 + 1e-12)
    assert found.miss <= alone * (1 + 1e-12)
    for point, single, joint in zip(found.points, found.pointwise, found.upper, strict=True):
        assert 0 <= point <= single <= joint <= 1
    order = rng.permutation(attackers)
    shuffled = simultaneous_upper(points[order], draws[order], people=40, level=level)
    assert shuffled.upper == tuple(np.array(found.upper)[order])
    assert json.loads(json.dumps(found.to_dict()))["bound"] == found.bound


def test_what_does_not_fit_together_is_refused():
    draws = np.zeros((2, 5))
    for bad in (draws[:1], draws[:, :0], draws[0]):
        with pytest.raises(
            DataError, match="draws of 2 rates come as one row for each, at least one column, got shape"
        ):
            simultaneous_upper([0.1, 0.2], bad, people=9)
    with pytest.raises(DataError, match=r"rates lie between 0 and 1, got \[0.1, 1.5\]"):
        simultaneous_upper([0.1, 1.5], draws, people=9)
    with pytest.raises(DataError, match="one number or one for each of 2 rates, got 3"):
        simultaneous_upper([0.1, 0.2], draws, people=[9, 9, 9])
    with pytest.raises(DataError, match="a level lies between 0 and 1, got 1"):
        simultaneous_upper([0.1, 0.2], draws, people=9, level=1)
