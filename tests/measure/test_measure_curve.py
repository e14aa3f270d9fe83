from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from score_oracle import all_pairs, tail_of_scores

from faceblind._errors import DataError
from faceblind.data.embeddings import unit_rows
from faceblind.measure import ScoreTail, SubjectBootstrap, det_curve, score_tail
from faceblind.measure.curve import bin_edges
from faceblind.measure.tail import HISTOGRAM_BINS, subject_bins
from strategies import planted, unit_gauss


def with_histograms(tail: ScoreTail) -> ScoreTail:
    """Add the histograms that `score_tail` would have made of the scores in `top`."""
    place = np.minimum(((tail.top.astype(float) + 1) * HISTOGRAM_BINS / 2).astype(int), HISTOGRAM_BINS - 1)
    bins = subject_bins(tail.subjects)
    by_subject = np.zeros((tail.subjects, bins), int)
    for side in (0, 1):
        np.add.at(by_subject, (tail.pairs_of()[:, side], place // (HISTOGRAM_BINS // bins)), 1)
    return replace(tail, histogram=np.bincount(place, minlength=HISTOGRAM_BINS), subject_histogram=by_subject)


def gaussian_tail(mated_mean: float, mated_sd: float, mean: float, sd: float) -> ScoreTail:
    """Scores at the quantiles of two Gaussians, dealt out to 20 people in turn."""
    people = 20
    n, p = 190 * 30**2, 20 * 435  # all pairs of 20 people with 30 images each
    nonmated = np.array([NormalDist(mean, sd).inv_cdf((i + 0.5) / n) for i in range(n)])
    mated = np.array([NormalDist(mated_mean, mated_sd).inv_cdf((i + 0.5) / p) for i in range(p)])
    pairs = np.array([(i, j) for i in range(people) for j in range(i + 1, people)])
    return with_histograms(
        tail_of_scores(mated, np.arange(p) % people, nonmated, pairs[np.arange(n) % len(pairs)], np.full(people, 30))
    )


@pytest.fixture(scope="module")
def leaking() -> tuple[np.ndarray, np.ndarray]:
    made = planted(3, people=40, images=8, dim=24, rank=6, noise=0.5)
    return unit_rows(made.vectors), made.identity


@pytest.mark.parametrize("far_max", [1e-3, 1e-2, 1.0])
def test_every_point_of_the_det_lies_on_the_roc_of_all_scores(leaking, far_max):
    metrics = pytest.importorskip("sklearn.metrics")
    tail = score_tail(*leaking, far_max=far_max, histogram=True)
    full = score_tail(*leaking, far_max=1.0)
    scores = np.concatenate([full.mated, full.top])
    truth = np.concatenate([np.ones(full.mated.size), np.zeros(full.top.size)])
    fpr, tpr, thresholds = metrics.roc_curve(truth, scores, drop_intermediate=False)
    curve = det_curve(tail)
    assert curve.far.size > 30
    assert (np.diff(curve.far) >= 0).all()
    assert (np.diff(curve.fnmr) <= 0).all()
    assert curve.far[0] == 1 / full.nonmated
    assert curve.far[-1] == pytest.approx(0.6, rel=2e-3)
    for far, fnmr, threshold in zip(curve.far, curve.fnmr, curve.thresholds, strict=True):
        point = np.searchsorted(-thresholds, -threshold, side="right") - 1  # the last threshold >= this one
        assert far == pytest.approx(fpr[point], abs=1e-12)
        assert fnmr == pytest.approx(1 - tpr[point], abs=1e-12)
        assert far == np.count_nonzero(full.top >= threshold) / full.nonmated


def test_the_far_of_a_point_never_exceeds_its_target(leaking):
    tail = score_tail(*leaking, histogram=True)
    curve = det_curve(tail, points_per_decade=5)
    decades = int(np.ceil(5 * np.log10(0.6 * tail.nonmated)))
    targets = np.geomspace(1 / tail.nonmated, 0.6, decades + 1)
    for far in curve.far:
        assert (far <= targets * (1 + 1e-9)).any()
    # each target has a point that uses it up to a bin of the histogram
    for target in targets:
        best = curve.far[curve.far <= target * (1 + 1e-9)].max()
        assert best == pytest.approx(target, rel=0.01, abs=1 / tail.nonmated)


def test_the_eer_is_where_the_curves_of_scikit_learn_cross(leaking):
    metrics = pytest.importorskip("sklearn.metrics")
    full = score_tail(*leaking, far_max=1.0, histogram=True)
    scores = np.concatenate([full.mated, full.top])
    truth = np.concatenate([np.ones(full.mated.size), np.zeros(full.top.size)])
    fpr, tpr, _ = metrics.roc_curve(truth, scores, drop_intermediate=False)
    cross = np.argmax(fpr >= 1 - tpr)
    low, high = sorted((fpr[cross - 1], 1 - tpr[cross]))
    eer = det_curve(full).eer
    assert low - 2e-3 <= eer <= high + 2e-3
    assert 0.02 < eer < 0.3
    drawn = SubjectBootstrap.of(full.subjects, draws=4, rng=np.random.default_rng(0))
    ones = SubjectBootstrap(np.ones_like(drawn.weights), np.ones_like(drawn.weights, dtype=float))
    np.testing.assert_allclose(ones.eer(full), eer, atol=2e-3)  # nobody resampled: the coarser grid only


@pytest.mark.parametrize(("shift", "sd"), [(0.0, 0.1), (0.1, 0.1), (0.2, 0.1), (0.3, 0.06)])
def test_gaussian_scores_give_the_closed_form(shift, sd):
    tail = gaussian_tail(0.1 + shift, sd, 0.1, sd)
    curve = det_curve(tail)
    unit = NormalDist()
    assert curve.eer == pytest.approx(unit.cdf(-shift / (2 * sd)), abs=3e-4)
    for far, fnmr in zip(curve.far, curve.fnmr, strict=True):  # the score rejected next is a half rank further in
        expected = unit.cdf(unit.inv_cdf(1 - far - 0.5 / tail.nonmated) - shift / sd)
        assert fnmr == pytest.approx(expected, abs=2e-4)
    ones = np.ones((2, tail.subjects))
    flat = SubjectBootstrap(ones.astype(np.int32), ones)
    np.testing.assert_allclose(flat.eer(tail), curve.eer, atol=1e-3)


def test_the_eer_of_unequal_spreads():
    """FNMR = FMR at (m1 s0 + m0 s1) / (s0 + s1), which is the rate Phi((m0 - m1) / (s0 + s1))."""
    tail = gaussian_tail(0.45, 0.12, 0.1, 0.05)
    assert det_curve(tail).eer == pytest.approx(NormalDist().cdf(-0.35 / 0.17), abs=3e-4)


def test_perfect_separation_has_no_error_and_reversed_scores_have_nothing_else():
    identity = np.repeat(np.arange(4), 3)
    rows = np.eye(4, dtype=np.float32)[identity]
    apart = score_tail(rows, identity, histogram=True)
    flat = SubjectBootstrap(np.ones((1, 4), np.int32), np.ones((1, 4)))
    assert det_curve(apart).eer == 0
    assert flat.eer(apart) == 0
    reversed_tail = with_histograms(
        tail_of_scores(np.full(12, -0.5), identity, np.full(54, 0.5), np.tile([0, 1], (54, 1)), np.full(4, 3))
    )
    assert det_curve(reversed_tail).eer == 1
    assert flat.eer(reversed_tail) == 1


def test_an_encoder_that_gives_one_vector_for_everything_leaks_nothing_and_is_not_called_worse_than_chance():
    """All scores are 1: any threshold errs on all of one kind, half and half in the middle."""
    rows = np.full((20, 4), 0.5, np.float32)
    tail = score_tail(rows, np.repeat(np.arange(5), 4), histogram=True)
    assert det_curve(tail).eer == pytest.approx(0.5)
    drawn = SubjectBootstrap.of(5, draws=20, rng=np.random.default_rng(0))
    np.testing.assert_allclose(drawn.eer(tail), 0.5)


def test_scores_that_all_lie_in_the_last_bin_still_give_a_true_curve():
    """A collapsed encoder: all cosines above 0.9999, yet the far of each point must be that of its threshold."""
    rng = np.random.default_rng(1)
    vectors = unit_rows(np.eye(16)[0] + 1e-3 * unit_gauss(rng, 120, 16))
    identity = np.repeat(np.arange(30), 4)
    tail = score_tail(vectors, identity, histogram=True)
    assert tail.histogram[-1] == tail.nonmated
    curve = det_curve(tail)
    truth = all_pairs(vectors, identity)
    for far, threshold in zip(curve.far, curve.thresholds, strict=True):
        if threshold <= tail.top[-1]:
            assert far == 1
        else:
            assert far == pytest.approx(np.count_nonzero(truth.nonmated >= threshold) / tail.nonmated, abs=0.01)
    assert 0 <= curve.eer <= 0.55


def test_a_mated_score_at_the_threshold_itself_is_accepted():
    """Scores on the edges of bins, beyond the tail: thresholds from the histogram then meet scores exactly."""
    rng = np.random.default_rng(0)
    mated, nonmated = rng.integers(-400, 600, 240) / 32_768, rng.integers(-500, 500, 5400) / 32_768
    pairs = rng.permuted(np.tile([0, 1], (5400, 1)), axis=1)
    tail = with_histograms(tail_of_scores(mated, np.arange(240) % 2, nonmated, pairs, np.array([16, 16])))
    curve = det_curve(replace(tail, top=tail.top[:50]))
    assert np.isin(curve.thresholds, mated.astype(np.float32)).sum() > 5
    for far, fnmr, threshold in zip(curve.far, curve.fnmr, curve.thresholds, strict=True):
        assert fnmr == np.mean(mated < threshold)
        assert far == np.mean(nonmated >= threshold)


def test_the_edges_of_bins_are_exact():
    edges = bin_edges(HISTOGRAM_BINS)
    assert edges.dtype == np.float32
    np.testing.assert_array_equal(edges.astype(float), np.arange(HISTOGRAM_BINS + 1) / 32_768 - 1)


def test_a_tail_without_histograms_is_refused(leaking):
    tail = score_tail(*leaking)
    with pytest.raises(DataError, match=r"a DET curve needs score_tail.*histogram=True"):
        det_curve(tail)
    with pytest.raises(DataError, match=r"equal error rate needs score_tail.*histogram=True"):
        SubjectBootstrap.of(tail.subjects, draws=2, rng=np.random.default_rng(0)).eer(tail)
