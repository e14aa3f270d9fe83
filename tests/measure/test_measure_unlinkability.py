from __future__ import annotations

import importlib
import json
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate
from score_oracle import tail_of_scores

from faceblind._errors import DataError
from faceblind.data.embeddings import unit_rows
from faceblind.measure import ScoreTail, SubjectBootstrap, score_tail, template_tail
from faceblind.measure.tail import HISTOGRAM_BINS, subject_bins
from faceblind.measure.unlinkability import d_sys, unlinkability

module = importlib.import_module("faceblind.measure.unlinkability")
counts = st.lists(st.integers(0, 50), min_size=1, max_size=12)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def tail_with_histograms(mated: np.ndarray, nonmated: np.ndarray, people: int = 20) -> ScoreTail:
    """Deal scores out to people in turn; histograms as `score_tail` makes them."""
    pairs = np.array([(i, j) for i in range(people) for j in range(i + 1, people)])
    pairs = pairs[np.arange(nonmated.size) % len(pairs)]
    tail = tail_of_scores(mated, np.arange(mated.size) % people, nonmated, pairs, np.full(people, 10))
    place = np.minimum(((tail.top.astype(float) + 1) * HISTOGRAM_BINS / 2).astype(int), HISTOGRAM_BINS - 1)
    bins = subject_bins(people)
    by_subject = np.zeros((people, bins), int)
    for side in (0, 1):
        np.add.at(by_subject, (tail.pairs_of()[:, side], place // (HISTOGRAM_BINS // bins)), 1)
    return replace(tail, histogram=np.bincount(place, minlength=HISTOGRAM_BINS), subject_histogram=by_subject)


def one_by_one(mated: list[int], nonmated: list[int], omega: float) -> float:
    """The definition, bin by bin, by the likelihood ratio."""
    value = 0.0
    for a, b in zip(mated, nonmated, strict=True):
        p, q = a / sum(mated), b / sum(nonmated)
        if p == 0:
            continue
        ratio = float("inf") if q == 0 else p / q
        if ratio * omega > 1:
            value += p * (1.0 if q == 0 else 2 * omega * ratio / (1 + omega * ratio) - 1)
    return value


def gaussian_d_sys(shift: float, sd: float, mated_sd: float, omega: float) -> float:
    mated, nonmated = NormalDist(shift, mated_sd), NormalDist(0, sd)

    def local(s: float) -> float:
        p, q = omega * mated.pdf(s), nonmated.pdf(s)
        return mated.pdf(s) * max(0.0, (p - q) / (p + q)) if p + q else 0.0

    points = np.linspace(shift - 9 * mated_sd, shift + 9 * mated_sd, 20_001)
    return float(integrate.simpson([local(s) for s in points], x=points))


@settings(max_examples=100)
@given(counts, st.data(), st.sampled_from([0.1, 1.0, 7.0]))
def test_the_sum_over_bins_is_the_definition(mated, data, omega):
    nonmated = data.draw(st.lists(st.integers(0, 50), min_size=len(mated), max_size=len(mated)))
    if not sum(mated) or not sum(nonmated):
        return
    found = float(d_sys(np.array(mated), np.array(nonmated), omega=omega))
    assert found == pytest.approx(one_by_one(mated, nonmated, omega), abs=1e-12)
    assert 0 <= found <= 1
    assert float(d_sys(np.array(mated), np.array(nonmated), omega=2 * omega)) >= found - 1e-12
    merged = [np.add.reduceat(c, np.arange(0, len(mated), 2)) for c in (np.array(mated), np.array(nonmated))]
    assert float(d_sys(*merged, omega=omega)) <= found + 1e-12  # merging bins hides, never shows


def test_alike_is_zero_apart_is_one_and_rows_are_taken_one_by_one():
    a, b = np.array([5, 3, 2, 0]), np.array([0, 0, 0, 9])
    assert d_sys(a, 7 * a) == 0
    assert d_sys(a, b) == 1
    assert d_sys(0 * a, b) == d_sys(a * 0, b * 0) == 0
    both = d_sys(np.stack([a, b, a]), np.stack([a, a, a + b]))
    np.testing.assert_allclose(both, [0, 1, d_sys(a, a + b)])
    with pytest.raises(DataError, match=r"odds omega must be above 0, got 0"):
        d_sys(a, b, omega=0)


@pytest.mark.parametrize(
    ("shift", "sd", "mated_sd", "omega"), [(0.1, 0.1, 0.1, 1.0), (0.3, 0.1, 0.1, 1.0), (0.1, 0.05, 0.12, 1.0), (0.2, 0.1, 0.1, 0.1)]
)  # fmt: skip
@pytest.mark.parametrize("binning", ["width", "mass"])
def test_two_gaussians_give_the_integral(shift, sd, mated_sd, omega, binning):
    """Scores at the quantiles, so that no noise is left."""
    grid = (np.arange(20_000) + 0.5) / 20_000
    nonmated = np.array([NormalDist(0, sd).inv_cdf(u) for u in grid])
    mated = np.array([NormalDist(shift, mated_sd).inv_cdf(u) for u in grid])
    found = unlinkability(
        tail_with_histograms(mated, nonmated), rng=rng(), omega=omega, binning=binning, permutations=5
    )
    assert found.value == pytest.approx(gaussian_d_sys(shift, sd, mated_sd, omega), abs=6e-3)
    assert found.bins >= 95


@pytest.mark.parametrize(
    ("mated", "nonmated", "published"), [(500, 500, 0.099), (2000, 2000, 0.061), (15_200, 6400, 0.026)]
)
@pytest.mark.parametrize("binning", ["width", "mass"])
def test_the_known_bias_is_there_and_taken_off(mated, nonmated, published, binning):
    values, excess = [], []
    for seed in range(12):
        drawn = rng(seed)
        tail = tail_with_histograms(drawn.normal(0, 0.1, mated), drawn.normal(0, 0.1, nonmated))
        found = unlinkability(tail, rng=drawn, permutations=40, binning=binning)
        values.append(found.value)
        excess.append(found.excess)
        assert found.adjusted == pytest.approx(found.excess / (1 - found.null_mean))
        assert found.null == "scores"
    if binning == "width":
        assert np.mean(values) == pytest.approx(published, rel=0.12)
    assert np.mean(values) > 8 * abs(np.mean(excess))
    assert abs(np.mean(excess)) < 0.008


def test_no_overlap_is_one_and_a_single_value_is_nothing():
    drawn = rng()
    apart = unlinkability(
        tail_with_histograms(drawn.uniform(0.4, 0.6, 900), drawn.uniform(-0.3, 0.3, 900)),
        rng=drawn,
        bootstrap=SubjectBootstrap.of(20, draws=100, rng=drawn),
        permutations=99,
    )
    assert apart.value == pytest.approx(1)
    assert apart.adjusted == pytest.approx(1)
    assert apart.p_value == 0.01
    assert apart.high == pytest.approx(1)
    assert apart.low > 0.9
    flat = unlinkability(tail_with_histograms(np.full(50, 0.5), np.full(50, 0.5)), rng=drawn, permutations=9)
    assert (flat.value, flat.bins, flat.p_value, flat.adjusted) == (0, 1, 1, 0)


def faces(seed: int, sizes: list[int], strength: float, *, hubs: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """People with a trait of some strength; `hubs` makes some images near to everything, whoever they show."""
    drawn = rng(seed)
    identity = np.repeat(np.arange(len(sizes)), sizes)
    vectors = drawn.standard_normal((identity.size, 24)) + strength * drawn.standard_normal((len(sizes), 24))[identity]
    vectors[:, 0] += hubs * np.abs(drawn.standard_normal(identity.size))
    return unit_rows(vectors.astype(np.float32)), identity


def p_values(sizes: list[int], strength: float, hubs: float, repetitions: int) -> np.ndarray:
    found = []
    for seed in range(repetitions):
        vectors, identity = faces(seed, sizes, strength, hubs=hubs)
        tail = score_tail(vectors, identity, histogram=True)
        images = unlinkability(tail, rng=rng(seed), permutations=39, vectors=vectors, identity=identity)
        scores = unlinkability(tail, rng=rng(seed), permutations=39)
        assert (images.null, scores.null) == ("images", "scores")
        assert images.value == scores.value
        found.append((images.p_value, scores.p_value))
    return np.array(found)


def test_permuting_images_keeps_its_level_where_permuting_scores_does_not():
    """One person with 40 images among people with 3, and images that are near to everything."""
    rejected = (p_values([40] + [3] * 40, 0.0, 4.0, 40) <= 0.05).mean(axis=0)
    assert rejected[0] <= 0.13
    assert rejected[1] >= 0.2


def test_both_nulls_keep_their_level_with_equal_people_and_both_see_a_leak():
    assert ((p_values([6] * 20, 0.0, 1.0, 40) <= 0.05).mean(axis=0) <= 0.13).all()
    assert ((p_values([6] * 20, 0.5, 0.0, 8) <= 0.05).mean(axis=0) == 1).all()


def test_permuted_images_are_scored_as_the_tail_scores_them(monkeypatch):
    """With identities that are all the same size, one permutation is a new audit of shuffled labels."""
    vectors, identity = faces(3, [5] * 12, 0.6)
    tail = score_tail(vectors, identity, histogram=True)
    seen = []
    monkeypatch.setattr(module, "d_sys", lambda *given, **more: seen.append(given) or d_sys(*given, **more))
    unlinkability(tail, rng=rng(4), permutations=1, vectors=vectors, identity=identity)
    (mated, nonmated), (null_mated, null_nonmated) = seen
    shuffled = np.empty_like(identity)
    shuffled[rng(4).permutation(60)] = identity
    other = score_tail(vectors, shuffled, histogram=True)
    cells = tail.subject_histogram.shape[1]
    edges = module._edges(
        np.bincount(module._cell(tail.mated, cells), minlength=cells),
        tail.histogram.reshape(cells, -1).sum(axis=1),
        12,
        "width",
    )
    expected = np.bincount(module._cell(other.mated, cells), minlength=cells)
    np.testing.assert_array_equal(null_mated, np.add.reduceat(expected[: edges[-1]], edges[:-1]))
    np.testing.assert_array_equal(null_mated + null_nonmated, mated + nonmated)


def test_the_interval_over_people_holds_the_truth_of_many_people():
    truth = unlinkability(
        score_tail(*faces(99, [6] * 500, 0.4), histogram=True), rng=rng(), permutations=10, bins=30
    ).adjusted
    held = []
    for seed in range(40):
        tail = score_tail(*faces(seed, [6] * 40, 0.4), histogram=True)
        people = SubjectBootstrap.of(40, draws=200, rng=rng(seed))
        found = unlinkability(tail, rng=rng(seed), permutations=20, bins=30, bootstrap=people)
        assert 0 <= found.low <= found.adjusted <= found.high <= 1
        held.append(found.low <= truth <= found.high)
    assert truth > 0.1
    assert np.mean(held) >= 0.9


def test_the_interval_of_no_leak_reaches_zero_though_the_plain_value_does_not():
    reaches = []
    for seed in range(30):
        tail = score_tail(*faces(seed, [6] * 40, 0.0), histogram=True)
        people = SubjectBootstrap.of(40, draws=200, rng=rng(seed))
        found = unlinkability(tail, rng=rng(seed), permutations=50, bootstrap=people)
        assert found.value > 0.03
        reaches.append(found.low < 0.005)
    assert np.mean(reaches) >= 0.9


def test_draws_weigh_people_as_they_were_drawn():
    """Mated exactly; non-mated by per-person histograms, which is exact when everyone is drawn once."""
    vectors, identity = faces(1, [4, 7, 5, 6, 3], 0.5)
    tail = score_tail(vectors, identity, histogram=True)
    weights = np.array([[1, 1, 1, 1, 1], [3, 0, 0, 1, 1]])
    edges = np.arange(0, 4097, 128)
    found = module._draws(tail, SubjectBootstrap(weights.astype(np.int32), weights.astype(float)), edges, 1.0)
    mated = [np.repeat(tail.mated, w[tail.mated_subject]) for w in weights]
    nonmated = [np.repeat(tail.subject_histogram, w, axis=0).sum(axis=0).reshape(-1, 128).sum(axis=1) for w in weights]
    for value, m, n in zip(found, mated, nonmated, strict=True):
        assert value == pytest.approx(float(d_sys(np.histogram(m, np.linspace(-1, 1, 33))[0], n)), abs=1e-12)
    whole = tail.histogram.reshape(32, -1).sum(axis=1)
    assert found[0] == pytest.approx(float(d_sys(np.histogram(tail.mated, np.linspace(-1, 1, 33))[0], whole)))


@settings(max_examples=60)
@given(st.integers(0, 2**16), st.integers(1, 40), st.sampled_from(["width", "mass"]), st.integers(1, 60))
def test_bins_hold_every_score_once(seed, bins, binning, scores):
    drawn = rng(seed)
    mated, nonmated = np.zeros((2, 256), int)
    np.add.at(mated, drawn.integers(0, 256, scores), 1)
    np.add.at(nonmated, drawn.integers(100, 140, scores), 1)
    edges = module._edges(mated, nonmated, bins, binning)
    assert (np.diff(edges) > 0).all()
    assert edges.size - 1 <= bins
    assert module._merge(mated, edges).sum() == module._merge(nonmated, edges).sum() == scores


def test_bins_of_equal_mass_hold_equal_mass():
    drawn = rng()
    mated, nonmated = (np.histogram(drawn.normal(m, 0.1, 10**6), np.linspace(-1, 1, 4097))[0] for m in (0.2, 0.0))
    edges = module._edges(mated, nonmated, 20, "mass")
    shares = module._merge(mated, edges) / mated.sum() + module._merge(nonmated, edges) / nonmated.sum()
    np.testing.assert_allclose(shares, 0.1, atol=0.004)


def test_the_null_of_a_huge_pool_is_drawn_without_its_limit(monkeypatch):
    pool = np.array([400, 300, 200, 100]) * 10
    exact = module._null_of_scores(pool // 10, pool - pool // 10, 400, 1.0, rng())
    monkeypatch.setattr(module, "_HYPERGEOMETRIC_LIMIT", 10)
    close = module._null_of_scores(pool // 10, pool - pool // 10, 400, 1.0, rng())
    assert close.mean() == pytest.approx(exact.mean(), rel=0.15)


def test_the_same_seed_gives_the_same_result_in_plain_types():
    vectors, identity = faces(0, [6] * 20, 0.3)
    tail = score_tail(vectors, identity, histogram=True)
    a, b = (
        unlinkability(
            tail,
            rng=rng(3),
            permutations=20,
            vectors=vectors,
            identity=identity,
            bootstrap=SubjectBootstrap.of(20, draws=50, rng=rng(1)),
        )
        for _ in range(2)
    )
    assert a == b
    assert json.loads(json.dumps(a.to_dict())) == a.to_dict()


def test_what_cannot_be_measured_is_refused():
    vectors, identity = faces(0, [6] * 5, 0.3)
    tail = score_tail(vectors, identity, histogram=True)
    with pytest.raises(DataError, match=r"unlinkability needs score_tail\(..., histogram=True\)"):
        unlinkability(score_tail(vectors, identity), rng=rng())
    with pytest.raises(DataError, match="at least one permutation, got 0"):
        unlinkability(tail, rng=rng(), permutations=0)
    with pytest.raises(DataError, match="at least one bin, got 0"):
        unlinkability(tail, rng=rng(), bins=0)
    with pytest.raises(DataError, match="equal 'width' or 'mass', got 'log'"):
        unlinkability(tail, rng=rng(), binning="log")
    with pytest.raises(DataError, match="are not the rows and labels that the score tail was made of"):
        unlinkability(tail, rng=rng(), vectors=vectors[1:], identity=identity[1:])
    with pytest.raises(DataError, match="is not of all pairs of the rows: permute scores"):
        unlinkability(replace(tail, mated=tail.mated[1:]), rng=rng(), vectors=vectors, identity=identity)
    by_template = template_tail(vectors, identity, vectors, identity, histogram=True)
    with pytest.raises(DataError, match="is not of all pairs of the rows: permute scores"):
        unlinkability(by_template, rng=rng(), vectors=vectors, identity=identity)
    assert 0 < unlinkability(by_template, rng=rng()).value < 1
