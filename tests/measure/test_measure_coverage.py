"""95 % intervals hold the truth in about 95 of 100 simulated audits, of people who differ.

Where few people carry a leak no interval covers exactly: it has to allow for a carrier who was not among the people
tested. There it must err upwards: the upper end lies under the truth in at most about one audit in thirty.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import beta, binom

from faceblind.measure import SubjectBootstrap, percentile_interval, subject_interval
from faceblind.measure.coverage import Coverage, Crowd, audit_coverage, rate_coverage

AUDITS = 300


def within(covered: int, audits: int, least: float, most: float) -> bool:
    """Whether a count is possible (at 1 in 1,000) for some coverage between `least` and `most`."""
    return binom.ppf(0.001, audits, least) <= covered <= binom.ppf(0.999, audits, most)


def held(found: Coverage) -> int:
    return found.audits - found.too_low - found.too_high


@pytest.mark.parametrize("people", [30, 80, 300])
@pytest.mark.parametrize("rate", [0.02, 0.07, 0.2, 0.6])
@pytest.mark.parametrize("concentration", [1, 4, 20])
def test_intervals_at_a_fixed_threshold_cover(people, rate, concentration):
    found = rate_coverage(people, rate, concentration, audits=AUDITS, draws=200)
    rarer = min(rate, 1 - rate)
    # People who carry the rate: m / (1 + var / rate^2), with the variance of the beta distribution.
    carry = people / (1 + rate * (1 - rate) / (concentration + 1) / rarer**2)
    assert found.truth == rate
    assert within(held(found), AUDITS, 0.92, 0.98 if carry >= 10 else 1.0), found
    if carry < 10:
        assert within(AUDITS - found.too_low, AUDITS, 0.965, 1.0), found


@pytest.mark.parametrize("people", [30, 80, 300])
@pytest.mark.parametrize("concentration", [0.3, 1, 4])
def test_small_leaks_of_few_people_are_not_under_reported(people, concentration):
    """At 0.5 % most audits see one carrier or none. The upper end may be too high there, but not too low."""
    found = rate_coverage(people, 0.005, concentration, audits=AUDITS, draws=200)
    assert within(AUDITS - found.too_low, AUDITS, 0.965, 1.0), found
    assert within(held(found), AUDITS, 0.92, 1.0), found


def test_the_upper_end_holds_when_the_ease_of_people_is_normal():
    """A true TAR of 2 %, accept rates Phi((-2.2 + 0.9 z) / 0.6) of 80 people: percentiles end too low in one of six."""
    truth = float(ndtr(-2.2 / math.hypot(0.9, 0.6)))
    rng = np.random.default_rng(2024)
    weights = SubjectBootstrap.of(80, draws=300, rng=rng).weights.astype(float)
    held = np.zeros(2)
    for _ in range(AUDITS):
        pairs = rng.integers(10, 21, 80)
        pairs = pairs * (pairs - 1) // 2
        accepted = rng.binomial(pairs, ndtr((-2.2 + 0.9 * rng.standard_normal(80)) / 0.6))
        point, drawn = accepted.sum() / pairs.sum(), (weights @ accepted) / (weights @ pairs)
        held += [subject_interval(point, drawn, 80)[1] >= truth, percentile_interval(point, drawn, 80)[1] >= truth]
    assert within(int(held[0]), AUDITS, 0.95, 1.0)
    assert held[1] < 0.9 * AUDITS


def test_percentiles_and_pairs_do_not_cover():
    """What this replaces, in the same simulated audits: 80 people of which few carry a true TAR of 2 %."""
    rng = np.random.default_rng(0)
    weights = SubjectBootstrap.of(80, draws=300, rng=rng).weights.astype(float)
    by_percentile = by_pairs = 0
    for _ in range(AUDITS):
        accepted = rng.binomial(190, rng.beta(0.02, 0.98, 80))
        point = accepted.sum() / (80 * 190)
        by_percentile += percentile_interval(point, weights @ accepted / (80 * 190), 80)[1] < 0.02
        by_pairs += beta.ppf(0.975, accepted.sum() + 1, 80 * 190 - accepted.sum()) < 0.02
    assert by_percentile > 0.08 * AUDITS
    assert by_pairs > 0.4 * AUDITS


@pytest.mark.parametrize(
    ("crowd", "people", "far"),
    [
        (Crowd(0.6, 0.5, images=5), 50, 1e-2),
        (Crowd(0.3, 1.0, images=5), 80, 1e-3),
    ],
)
def test_whole_audits_cover_with_thresholds_set_on_test_or_elsewhere(crowd, people, far):
    found = audit_coverage(crowd, people, far, audits=60, draws=200)
    assert [one.what.split(",")[0] for one in found] == ["TAR", "TAR", "FAR"]
    for one in found:
        assert within(held(one), 60, 0.92, 1.0), one
        assert within(60 - one.too_low, 60, 0.94, 1.0), one
    calibrated, frozen, of_far = found
    assert calibrated.truth == frozen.truth
    assert of_far.truth == far
    assert calibrated.lost < 0.001 * 60 * 200
    # not by being wide without end
    assert frozen.width < 3 * 2 * 1.96 * math.sqrt(frozen.truth * (1 - frozen.truth) / people)
    assert of_far.width < 2 * far


def test_the_same_seed_simulates_the_same_audits():
    a, b, other = (rate_coverage(30, 0.2, 4, audits=60, draws=50, seed=seed) for seed in (1, 1, 2))
    assert a == b != other
    assert a.covered == 1 - (a.too_low + a.too_high) / 60
