from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from score_oracle import AllPairs, all_pairs, tail_of_scores

from faceblind._errors import DataError
from faceblind.data.embeddings import unit_rows
from faceblind.measure import (
    SubjectBootstrap,
    far_interval,
    percentile_interval,
    score_tail,
    subject_interval,
    threshold_at,
)
from strategies import planted


def resampled(truth: AllPairs, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Write out the mated and the non-mated scores of one draw, every pair as often as it was drawn."""
    times = weights[truth.nonmated_pair[:, 0]] * weights[truth.nonmated_pair[:, 1]]
    return np.repeat(truth.mated, weights[truth.mated_subject]), np.repeat(truth.nonmated, times)


def tar_of_draw(truth: AllPairs, weights: np.ndarray, far: float) -> float:
    mated, nonmated = resampled(truth, weights)
    allowed = math.floor(far * nonmated.size * (1 + 1e-12))
    rejected = np.sort(nonmated)[::-1][allowed] if allowed < nonmated.size else -np.inf
    return float((mated > rejected).mean()) if mated.size else 0.0


def eer_of_draw(truth: AllPairs, weights: np.ndarray) -> float:
    mated, nonmated = resampled(truth, weights)
    edges = np.linspace(-1, 1, 4001)
    fmr = 1 - np.searchsorted(np.sort(nonmated), edges) / nonmated.size
    fnmr = np.searchsorted(np.sort(mated), edges) / mated.size
    at = np.argmax(fmr <= fnmr)
    return float(fmr[at] + fnmr[at]) / 2


def people_table(
    seed: int, people: int, images: int, *, look_alikes: int = 0, uneven: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    made = planted(seed, people=people, images=images, dim=16, rank=6, noise=0.6)
    vectors, identity = made.vectors.copy(), made.identity
    alike = np.isin(identity, [f"p{i:04d}" for i in range(look_alikes)])
    noise = 0.05 * np.random.default_rng(0).standard_normal((int(alike.sum()), 16))
    vectors[alike] = (vectors[0] + noise).astype(np.float32)
    if uneven:
        keep = np.random.default_rng(seed).random(identity.size) < 0.6
        vectors, identity = vectors[keep], identity[keep]
    return unit_rows(vectors), identity


@pytest.mark.parametrize(
    ("people", "images", "look_alikes", "far"),
    [
        (10, 5, 0, 0.2),
        (10, 5, 0, 0.01),
        (10, 5, 0, 1e-9),
        (20, 4, 4, 0.05),  # a draw without the look-alikes finds its threshold far down the tail
        (20, 4, 4, 0.01),
        (24, 4, 6, 0.02),
    ],
)
def test_tar_per_draw_equals_writing_out_the_resampled_pairs(people, images, look_alikes, far):
    vectors, identity = people_table(1, people, images, look_alikes=look_alikes)
    tail = score_tail(vectors, identity, far_max=max(5 * far, 0.1))
    truth = all_pairs(vectors, identity)
    bootstrap = SubjectBootstrap.of(people, draws=60, rng=np.random.default_rng(3))
    expected = [tar_of_draw(truth, weights, far) for weights in bootstrap.weights]
    np.testing.assert_allclose(bootstrap.tar_calibrated(tail, far), expected, atol=1e-12)
    assert np.ptp(expected) > 0 or far < 1e-6


@settings(max_examples=40)
@given(st.integers(0, 2**16), st.floats(0.001, 0.99), st.lists(st.integers(2, 5), min_size=3, max_size=6))
def test_ties_are_resampled_by_the_same_rule(seed, far, images):
    """Three distinct scores only: thresholds fall on ties nearly always."""
    rng = np.random.default_rng(seed)
    pairs = np.array([(i, j) for i in range(len(images)) for j in range(i) for _ in range(images[i] * images[j])])
    who = np.repeat(np.arange(len(images)), [n * (n - 1) // 2 for n in images])
    nonmated = rng.choice([0.0, 0.25, 0.5], len(pairs)).astype(np.float32)
    mated = rng.choice([0.0, 0.25, 0.5, 0.75], len(who)).astype(np.float32)
    tail = tail_of_scores(mated, who, nonmated, pairs, np.array(images))
    truth = AllPairs(mated, who, nonmated, pairs, np.array(images))
    bootstrap = SubjectBootstrap.of(len(images), draws=15, rng=rng)
    several = (bootstrap.weights > 0).sum(axis=1) > 1  # one person alone has no non-mated pair
    expected = np.array(
        [tar_of_draw(truth, w, far) if ok else 0 for w, ok in zip(bootstrap.weights, several, strict=True)]
    )
    np.testing.assert_allclose(bootstrap.tar_calibrated(tail, far)[several], expected[several], atol=1e-12)


@pytest.mark.parametrize("threshold", [-0.5, 0.1, 0.3, 0.8, 1.1])
def test_tar_at_a_frozen_threshold_equals_writing_out_the_resampled_pairs(threshold):
    vectors, identity = people_table(2, 14, 7, uneven=True)
    tail = score_tail(vectors, identity)
    truth = all_pairs(vectors, identity)
    assert np.unique(tail.images).size > 1
    bootstrap = SubjectBootstrap.of(tail.subjects, draws=80, rng=np.random.default_rng(3))
    for weights, found in zip(bootstrap.weights, bootstrap.tar_frozen(tail, threshold), strict=True):
        mated = np.repeat(truth.mated, weights[truth.mated_subject])
        assert found == pytest.approx((mated >= np.float32(threshold)).mean(), abs=1e-12)


def test_long_tails_are_thinned_without_bias():
    """Beyond 4,000 scores every stride-th stands for its neighbours: the interval must not move."""
    vectors, identity = people_table(4, 50, 8)
    tail = score_tail(vectors, identity, far_max=0.1)
    assert tail.top.size > 12_000
    bootstrap = SubjectBootstrap.of(50, draws=600, rng=np.random.default_rng(0))
    found = bootstrap.tar_calibrated(tail, 0.1)
    scores, (first, second) = tail.top, tail.pairs_of().T
    exact = []
    for weights in bootstrap.weights.astype(float):
        total = ((weights @ tail.images) ** 2 - (weights**2) @ tail.images**2) / 2
        spent = np.cumsum(weights[first] * weights[second])
        rejected = scores[np.argmax(spent > math.floor(0.1 * total))]
        exact.append(np.average(tail.mated > rejected, weights=weights[tail.mated_subject]))
    assert abs(np.mean(found - exact)) < 0.002
    np.testing.assert_allclose(np.quantile(found, [0.025, 0.975]), np.quantile(exact, [0.025, 0.975]), atol=0.015)


def test_the_eer_per_draw_follows_the_one_of_the_written_out_draw():
    vectors, identity = people_table(5, 50, 5)
    tail = score_tail(vectors, identity, histogram=True)
    truth = all_pairs(vectors, identity)
    bootstrap = SubjectBootstrap.of(50, draws=60, rng=np.random.default_rng(0))
    found = bootstrap.eer(tail)
    expected = np.array([eer_of_draw(truth, weights) for weights in bootstrap.weights])
    assert abs(np.mean(found - expected)) < 0.01
    assert np.corrcoef(found, expected)[0, 1] > 0.9
    assert 0.9 < found.std() / expected.std() < 1.1


def test_draws_are_of_people_with_replacement_and_seeded():
    a, b = (SubjectBootstrap.of(30, draws=2000, rng=np.random.default_rng(8)) for _ in range(2))
    np.testing.assert_array_equal(a.weights, b.weights)
    assert a.weights.shape == (2000, 30)
    assert (a.weights.sum(axis=1) == 30).all()
    assert (a.weights == 0).mean() == pytest.approx((29 / 30) ** 30, abs=0.01)
    assert np.abs(a.weights.mean(axis=0) - 1).max() < 0.12


def test_the_fnmr_band_is_the_interval_of_the_draws_at_each_threshold():
    vectors, identity = people_table(2, 14, 7)
    tail = score_tail(vectors, identity)
    bootstrap = SubjectBootstrap.of(14, draws=200, rng=np.random.default_rng(3))
    thresholds = np.array([1.5, 0.5, 0.2, -1.5], np.float32)
    low, high = bootstrap.fnmr_band(tail, thresholds)
    for i, threshold in enumerate(thresholds):
        fnmr = 1 - bootstrap.tar_frozen(tail, float(threshold))
        point = float(np.mean(tail.mated < threshold))
        expected = subject_interval(point, fnmr, tail.effective_subjects)
        assert (low[i], high[i]) == pytest.approx(expected, abs=1e-9)
        assert low[i] - 1e-12 <= point <= high[i] + 1e-12
    assert high[0] == 1
    assert low[0] == pytest.approx(0.025 ** (1 / tail.effective_subjects))  # nobody accepted: FNMR 1 is not certain
    assert low[3] == 0
    assert high[3] == pytest.approx(1 - 0.025 ** (1 / tail.effective_subjects))


@pytest.mark.parametrize("people", [1, 2, 13, 80])
def test_all_or_nothing_gives_the_exact_bound_for_that_many_people(people):
    bound = 1 - 0.025 ** (1 / people)
    assert percentile_interval(0.0, np.zeros(50), people) == pytest.approx((0, bound))
    assert percentile_interval(1.0, np.ones(50), people) == pytest.approx((1 - bound, 1))
    # it is the exact binomial bound: zero of `people` events have probability 2.5 % there
    assert (1 - bound) ** people == pytest.approx(0.025)
    assert percentile_interval(0.0, np.zeros(50), people, level=0.9)[1] == pytest.approx(1 - 0.05 ** (1 / people))


def test_an_interval_holds_its_point_and_the_percentiles():
    draws = np.linspace(0, 1, 1001)
    assert percentile_interval(0.5, draws, 9) == pytest.approx((0.025, 0.975))
    assert percentile_interval(0.01, draws, 9) == pytest.approx((0.01, 0.975))
    assert percentile_interval(0.99, draws, 9) == pytest.approx((0.025, 0.99))
    assert percentile_interval(0.5, draws, 9, level=0.5) == pytest.approx((0.25, 0.75))
    assert percentile_interval(0.0, np.array([0.0, 0.1] * 50), 9) == pytest.approx((0.0, 0.1))


def far_of_draw(truth: AllPairs, weights: np.ndarray, threshold: float) -> float:
    nonmated = resampled(truth, weights)[1]
    return float((nonmated >= np.float32(threshold)).mean())


@pytest.mark.parametrize("threshold", [0.2, 0.5])
def test_far_per_draw_is_that_of_the_written_out_pairs_brought_to_a_fair_spread(threshold):
    vectors, identity = people_table(2, 14, 7, uneven=True)
    tail, truth = score_tail(vectors, identity, far_max=1.0), all_pairs(vectors, identity)
    bootstrap = SubjectBootstrap.of(tail.subjects, draws=300, rng=np.random.default_rng(3))
    raw = np.array([far_of_draw(truth, weights, threshold) for weights in bootstrap.weights])
    found = bootstrap.far_frozen(tail, threshold)
    # The same draws up to their scale and their place: nothing but the spread is changed.
    assert np.corrcoef(raw, found)[0, 1] > 1 - 1e-9
    assert found.mean() == pytest.approx(tail.false_accepts(threshold) / tail.nonmated, abs=1e-12)
    rate = truth.count(threshold) / tail.nonmated
    m = tail.subjects
    cell = np.zeros((m, m))
    for score, (a, b) in zip(truth.nonmated, truth.nonmated_pair, strict=True):
        cell[a, b] += (score >= np.float32(threshold)) - rate
        cell[b, a] = cell[a, b]
    squares = (cell**2).sum() / 2
    expected = max((cell.sum(axis=1) ** 2).sum() - squares / 2, squares) / tail.nonmated**2
    assert found.var() == pytest.approx(expected * (m - 1) / m, rel=1e-9)
    assert found.std() < raw.std()


def test_a_person_drawn_twice_is_no_stranger_to_itself():
    """Two people who look alike: drawn as (2, 0) there is no non-mated pair, and FAR is not 1."""
    vectors = np.array([[1, 0], [1, 0], [1, 0], [1, 0], [0, 1], [0, 1]], np.float32)
    tail = score_tail(vectors, np.array([0, 0, 1, 1, 2, 2]), far_max=1.0)
    np.testing.assert_array_equal(tail.nonmated_drawn(np.array([[3.0, 0, 0], [2, 1, 0], [1, 1, 1]])), [0, 8, 12])
    bootstrap = SubjectBootstrap.of(3, draws=400, rng=np.random.default_rng(0))
    draws = bootstrap.far_frozen(tail, 0.9)
    alone = (bootstrap.weights == 3).any(axis=1)
    assert alone.any()
    assert (draws[alone] == draws.min()).all()


def test_far_needs_the_scores_above_its_threshold():
    vectors, identity = people_table(4, 50, 8)
    tail = score_tail(vectors, identity, far_max=1e-4, slack=1, counts_at=[-0.5])
    bootstrap = SubjectBootstrap.of(50, draws=20, rng=np.random.default_rng(0))
    with pytest.raises(DataError, match=r"tail ends at .* cannot count at -0.5.*larger far_max"):
        bootstrap.far_frozen(tail, -0.5)
    assert far_interval(tail, -0.5, bootstrap) == (None, None)
    assert far_interval(tail, 1.5, bootstrap) == (0.0, pytest.approx(1 - 0.025 ** (1 / 25)))  # nothing accepted


def test_a_draw_whose_threshold_is_beyond_the_tail_says_so():
    """All kept scores belong to two look-alikes: a draw without one of them finds no threshold there."""
    vectors, identity = people_table(1, 20, 4, look_alikes=4)
    tail = score_tail(vectors, identity, far_max=0.01, slack=1)
    whole = score_tail(vectors, identity, far_max=1.0)
    bootstrap = SubjectBootstrap.of(20, draws=200, rng=np.random.default_rng(3))
    found, full = bootstrap.tar_calibrated(tail, 0.03), bootstrap.tar_calibrated(whole, 0.03)
    lost = np.isnan(found)
    assert 0 < lost.sum() < 200
    np.testing.assert_array_equal(found[~lost], full[~lost])
    assert not np.isnan(full).any()
    # They are those that need a lower threshold than the tail has: TAR is no lower than at its end.
    end = bootstrap.tar_frozen(tail, float(tail.top[-1]))
    assert (full[lost] >= end[lost] - 1e-12).all()
    point = tail.tar(threshold_at(tail.top, tail.nonmated, 0.03))
    assert subject_interval(point, found, 20)[1] == 1.0  # more than one draw in forty is unknown
