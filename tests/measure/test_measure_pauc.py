from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from score_oracle import AllPairs, tail_of_scores

from faceblind._errors import DataError
from faceblind.data.embeddings import unit_rows
from faceblind.measure import ScoreTail, SubjectBootstrap, score_tail, subject_interval, template_tail, threshold_at
from faceblind.measure.pauc import partial_auc, partial_auc_draws
from strategies import planted


def random_scores(seed: int, images: list[int], levels: int | None) -> AllPairs:
    """Scores of people with these numbers of images; few distinct ones when `levels` is given."""
    rng = np.random.default_rng(seed)
    pairs = np.array([(i, j) for i in range(len(images)) for j in range(i) for _ in range(images[i] * images[j])])
    who = np.repeat(np.arange(len(images)), [n * (n - 1) // 2 for n in images])
    nonmated, mated = rng.normal(0, 0.2, len(pairs)), rng.normal(0.2, 0.2, len(who))
    if levels:
        nonmated, mated = np.round(nonmated * levels) / levels, np.round(mated * levels) / levels
    return AllPairs(mated.astype(np.float32), who, nonmated.astype(np.float32), pairs, np.array(images))


def tail_of(truth: AllPairs) -> ScoreTail:
    return tail_of_scores(truth.mated, truth.mated_subject, truth.nonmated, truth.nonmated_pair, truth.images)


def step_area(mated: np.ndarray, nonmated: np.ndarray, far_max: float) -> float:
    """Integrate TAR(f) = share of mated scores at or above the threshold of f, one step of 1/n after the other."""
    ordered = np.sort(nonmated)[::-1]
    span = far_max * nonmated.size
    area, allowed = 0.0, 0
    while allowed < span:
        width = min(1.0, span - allowed)
        area += width * np.mean(mated >= threshold_at(ordered, nonmated.size, allowed / nonmated.size))
        allowed += 1
    return area / span


def written_out(truth: AllPairs, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    times = weights[truth.nonmated_pair[:, 0]] * weights[truth.nonmated_pair[:, 1]]
    return np.repeat(truth.mated, weights[truth.mated_subject]), np.repeat(truth.nonmated, times)


people = st.lists(st.integers(2, 4), min_size=3, max_size=5)
spans = st.one_of(st.floats(1e-4, 1.0), st.sampled_from([0.05, 0.1, 0.25, 0.5, 1.0]))


@settings(max_examples=60)
@given(st.integers(0, 2**16), people, st.sampled_from([None, 3, 8]), spans)
def test_the_area_under_the_steps_of_the_threshold_rule(seed, images, levels, far_max):
    truth = random_scores(seed, images, levels)
    found = partial_auc(tail_of(truth), far_max)
    assert found.value == pytest.approx(step_area(truth.mated, truth.nonmated, far_max), abs=1e-6)
    assert 0 <= found.value <= 1
    assert found.value <= partial_auc(tail_of(truth), far_max, ties="trapezoid").value + 1e-12


@settings(max_examples=60)
@given(st.integers(0, 2**16), people, st.sampled_from([None, 3, 8]), st.floats(1e-4, 0.999))
def test_across_ties_the_trapezoid_is_the_area_of_scikit_learn(seed, images, levels, far_max):
    metrics = pytest.importorskip("sklearn.metrics")
    truth = random_scores(seed, images, levels)
    labels = np.repeat([1, 0], [truth.mated.size, truth.nonmated.size])
    standardised = metrics.roc_auc_score(labels, np.concatenate([truth.mated, truth.nonmated]), max_fpr=far_max)
    found = partial_auc(tail_of(truth), far_max, ties="trapezoid")
    least, most = far_max**2 / 2, far_max
    area = least + (most - least) * (2 * standardised - 1)
    assert found.value == pytest.approx(area / far_max, abs=1e-9)
    assert found.standardised == pytest.approx(standardised, abs=1e-9)
    if levels is None:
        assert partial_auc(tail_of(truth), far_max).value == pytest.approx(found.value, abs=1e-12)


@settings(max_examples=40)
@given(st.integers(0, 2**16), people, st.sampled_from([None, 3, 8]), spans, st.sampled_from(["at_most", "trapezoid"]))
def test_each_draw_equals_writing_out_the_resampled_pairs(seed, images, levels, far_max, ties):
    truth = random_scores(seed, images, levels)
    bootstrap = SubjectBootstrap.of(len(images), draws=12, rng=np.random.default_rng(seed))
    found = partial_auc_draws(tail_of(truth), bootstrap, far_max, ties=ties)
    for value, weights in zip(found, bootstrap.weights, strict=True):
        mated, nonmated = written_out(truth, weights)
        if not nonmated.size:  # one person alone
            assert value == 0
            continue
        alone = tail_of_scores(mated, np.zeros(mated.size), nonmated, np.tile([0, 1], (nonmated.size, 1)), np.ones(2))
        assert value == pytest.approx(partial_auc(alone, far_max, ties=ties).value, abs=1e-9)
        if ties == "at_most":
            assert value == pytest.approx(step_area(mated, nonmated, far_max), abs=1e-6)


@settings(max_examples=40)
@given(st.integers(0, 2**16), people, st.sampled_from([None, 3, 8]), spans, st.sampled_from(["at_most", "trapezoid"]))
def test_only_the_order_of_the_scores_counts(seed, images, levels, far_max, ties):
    truth = random_scores(seed, images, levels)
    distinct, rank = np.unique(np.concatenate([truth.mated, truth.nonmated]), return_inverse=True)
    mapped = np.sort(np.random.default_rng(seed).uniform(-1, 1, distinct.size))[rank]
    other = replace(truth, mated=mapped[: truth.mated.size], nonmated=mapped[truth.mated.size :])
    bootstrap = SubjectBootstrap.of(len(images), draws=8, rng=np.random.default_rng(1))
    a, b = (partial_auc(tail_of(t), far_max, bootstrap=bootstrap, ties=ties) for t in (truth, other))
    assert a == b


@settings(max_examples=40)
@given(st.integers(0, 2**16), people, st.sampled_from([None, 3]), st.lists(st.floats(1e-3, 1), min_size=2, max_size=5))
def test_area_and_mean_grow_with_the_range(seed, images, levels, ends):
    tail = tail_of(random_scores(seed, images, levels))
    values = [partial_auc(tail, end).value for end in sorted(ends)]
    areas = [end * value for end, value in zip(sorted(ends), values, strict=True)]
    assert (np.diff(areas) >= -1e-12).all()
    assert (np.diff(values) >= -1e-12).all()  # TAR grows with FAR, so its mean does


def test_scores_that_know_nothing_give_chance_and_perfect_ones_give_one():
    n = 50_000
    grid = (np.arange(n) + 0.5) / n
    pairs = np.tile([0, 1], (n, 1))
    equal = tail_of_scores(grid, np.arange(n) % 2, grid, pairs, np.array([5, 5]))
    for far_max in (1e-3, 1e-2, 0.3):
        found = partial_auc(equal, far_max, ties="trapezoid")
        assert found.value == pytest.approx(found.chance, rel=1e-9 + 1 / (far_max * n))
        assert found.standardised == pytest.approx(0.5, abs=1e-4)
        assert found.chance == far_max / 2
    flat = tail_of_scores(np.full(9, 0.5), np.arange(9) % 2, np.full(9, 0.5), pairs[:9], np.array([5, 5]))
    assert partial_auc(flat, 1e-3, ties="trapezoid").value == pytest.approx(5e-4)
    assert partial_auc(flat, 1e-3).value == 0
    apart = tail_of_scores(np.full(9, 0.6), np.arange(9) % 2, np.full(9, 0.5), pairs[:9], np.array([5, 5]))
    assert partial_auc(apart, 1e-3).value == partial_auc(apart, 1e-3).standardised == 1


def test_power_law_scores_give_the_closed_form():
    """TAR = FAR**a integrates to far_max**a / (a + 1) after division by far_max."""
    n = 200_000
    far = (np.arange(n) + 0.5) / n
    for exponent in (0.25, 0.5):
        tar = (np.arange(4000) + 0.5) / 4000
        tail = tail_of_scores(
            1 - tar ** (1 / exponent), np.zeros(4000), 1 - far, np.tile([0, 1], (n, 1)), np.array([90, 90])
        )
        assert partial_auc(tail, 0.05).value == pytest.approx(0.05**exponent / (exponent + 1), rel=2e-3)


@pytest.fixture(scope="module")
def leaking() -> tuple[np.ndarray, np.ndarray]:
    made = planted(3, people=40, images=8, dim=24, rank=6, noise=0.5)
    return unit_rows(made.vectors), made.identity


def test_a_short_tail_gives_what_all_scores_give(leaking):
    bootstrap = SubjectBootstrap.of(40, draws=100, rng=np.random.default_rng(0))
    full = partial_auc(score_tail(*leaking, far_max=1.0), 1e-3, bootstrap=bootstrap)
    short = partial_auc(score_tail(*leaking, far_max=1e-3), 1e-3, bootstrap=bootstrap)
    assert full == short
    assert full.low < full.value < full.high
    assert full.steps == math.floor(1e-3 * full.nonmated) == 49
    draws = partial_auc_draws(score_tail(*leaking, far_max=1e-3), bootstrap, 1e-3)
    assert (full.low, full.high) == subject_interval(full.value, draws, 40)


def test_a_draw_that_needs_more_than_the_tail_holds_is_not_guessed(leaking):
    tail = score_tail(*leaking, far_max=1.0)
    bootstrap = SubjectBootstrap.of(40, draws=200, rng=np.random.default_rng(0))
    expected = partial_auc_draws(tail, bootstrap, 1e-3)
    cut = replace(tail, top=tail.top[:52])  # the point needs 50
    found = partial_auc_draws(cut, bootstrap, 1e-3)
    weights = bootstrap.weights.astype(float)
    first, second = tail.pairs_of(slice(52)).T
    short = (weights[:, first] * weights[:, second]).sum(axis=1) < 1e-3 * tail.nonmated_drawn(weights)
    assert 0 < short.sum() < 200
    np.testing.assert_array_equal(np.isnan(found), short)
    np.testing.assert_allclose(found[~short], expected[~short], rtol=1e-12)
    assert partial_auc(cut, 1e-3, bootstrap=bootstrap).high == 1  # as `subject_interval` has it


def test_templates_are_measured_by_the_same_rule(leaking):
    order = np.argsort(leaking[1], kind="stable")
    vectors, identity = leaking[0][order], leaking[1][order]
    support = np.arange(identity.size) % 8 < 3
    tail = template_tail(vectors[~support], identity[~support], vectors[support], identity[support], far_max=1.0)
    found = partial_auc(tail, 0.01, bootstrap=SubjectBootstrap.of(40, draws=50, rng=np.random.default_rng(0)))
    assert found.nonmated == tail.nonmated == tail.top.size
    assert found.value == pytest.approx(step_area(tail.mated, tail.top, 0.01), abs=1e-6)
    assert found.low < found.value < found.high
    weights = SubjectBootstrap.of(40, draws=5, rng=np.random.default_rng(1))
    pairs = tail.pairs_of()
    for value, w in zip(partial_auc_draws(tail, weights, 0.01), weights.weights, strict=True):
        nonmated = np.repeat(tail.top, w[pairs[:, 0]] * w[pairs[:, 1]])
        assert value == pytest.approx(step_area(np.repeat(tail.mated, w[tail.mated_subject]), nonmated, 0.01), abs=1e-6)


def test_long_tails_are_worked_through_in_pieces(leaking, monkeypatch):
    from faceblind.measure import pauc

    tail = score_tail(*leaking, far_max=0.2)
    bootstrap = SubjectBootstrap.of(40, draws=30, rng=np.random.default_rng(0))
    expected = partial_auc_draws(tail, bootstrap, 0.2)
    monkeypatch.setattr(pauc, "_PIECE", 97)
    monkeypatch.setattr(pauc, "_CELLS", 700)
    np.testing.assert_allclose(partial_auc_draws(tail, bootstrap, 0.2), expected, rtol=1e-12)
    assert np.ptp(expected) > 0.01


def test_the_mean_over_the_range_is_that_of_tar_at_each_far(leaking):
    tail = score_tail(*leaking, far_max=1e-2)
    fars = (np.arange(400) + 0.5) / 400 * 1e-2
    bootstrap = SubjectBootstrap.of(40, draws=50, rng=np.random.default_rng(0))
    mean = np.mean([bootstrap.tar_calibrated(tail, far) for far in fars], axis=0)
    np.testing.assert_allclose(partial_auc_draws(tail, bootstrap, 1e-2), mean, atol=1e-3)


@pytest.mark.parametrize(
    ("far_max", "grade", "noisy"), [(1e-3, "supported", False), (5e-4, "indicative", True), (1e-6, "unsupported", True)]
)
def test_a_range_with_few_steps_is_called_noise(leaking, far_max, grade, noisy):
    found = partial_auc(score_tail(*leaking), far_max)
    assert (found.grade, found.noise_dominated) == (grade, noisy)
    assert found.low is found.high is None
    assert json.loads(json.dumps(found.to_dict()))["noise_dominated"] is noisy
    if grade == "unsupported":  # less than one step: TAR with no false accept at all
        tail = score_tail(*leaking)
        assert found.value == pytest.approx(np.mean(tail.mated > tail.top[0]))


def test_the_same_call_gives_the_same_result(leaking):
    tail = score_tail(*leaking)
    a, b = (
        partial_auc(tail, bootstrap=SubjectBootstrap.of(40, draws=40, rng=np.random.default_rng(5))) for _ in range(2)
    )
    assert a == b


@pytest.mark.parametrize("far_max", [0.0, -0.1, 1.5, math.nan])
def test_a_range_that_is_none_is_refused(leaking, far_max):
    with pytest.raises(DataError, match=r"ends above 0 and at most at 1, got far_max="):
        partial_auc(score_tail(*leaking), far_max)


def test_a_tail_that_ends_inside_the_range_is_refused(leaking):
    tail = score_tail(*leaking, far_max=1e-3)
    with pytest.raises(DataError, match=r"up to FAR 0.5 needs the \d+ highest of 49920 scores, only \d+ were kept"):
        partial_auc(tail, 0.5)
    with pytest.raises(DataError, match=r"'at_most' or 'trapezoid', got 'midpoint'"):
        partial_auc(tail, 1e-3, ties="midpoint")
