from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, special, stats
from score_oracle import tail_of_scores

from faceblind._errors import DataError
from faceblind.data.embeddings import unit_rows
from faceblind.measure import ScoreTail, SubjectBootstrap, extreme, score_tail, threshold_at
from faceblind.measure.extreme import Extrapolation, TailFit, extrapolate_tar
from faceblind.measure.pareto import anderson_darling, fit_pareto

ROOM = 0.6


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def pareto(drawn: np.random.Generator, n: int, k: float, end: float) -> np.ndarray:
    """Excesses with P(Y > y) = (1 - y / end)^(1 / k), in descending order."""
    return np.sort(end * (1 - drawn.uniform(size=n) ** k))[::-1]


PEOPLE, N = 40, 78_000  # 10 images each


def dealt(seed: int, n: int) -> np.ndarray:
    """The two people of each of n independent scores: every pair of people gets as many as it has pairs of images."""
    pairs = np.stack(np.tril_indices(PEOPLE, -1), axis=1)
    return rng(seed).permutation(np.repeat(pairs, n // len(pairs), axis=0))


def tail_of(nonmated: np.ndarray, pairs: np.ndarray | None = None, *, seed: int = 0) -> ScoreTail:
    """Scores of `PEOPLE` with as many images as give so many non-mated pairs; mated scores spread from 0.2 to 0.99."""
    images = math.isqrt(nonmated.size // (PEOPLE * (PEOPLE - 1) // 2))
    pairs = dealt(seed, nonmated.size) if pairs is None else pairs
    mated = np.linspace(0.2, 0.99, PEOPLE * images * (images - 1) // 2)
    tail = tail_of_scores(mated, np.arange(mated.size) % PEOPLE, nonmated, pairs, np.full(PEOPLE, images))
    assert tail.nonmated_drawn(np.ones((1, PEOPLE)))[0] == nonmated.size
    return tail


def bounded(drawn: np.random.Generator, n: int, k: float = 0.2) -> np.ndarray:
    """Scores that are Pareto all through, from 0 to 0.8."""
    return pareto(drawn, n, k, 0.8)


@pytest.fixture
def quick(monkeypatch):
    """Fewer simulations in the test of fit, where its p-value is not what is tested."""
    monkeypatch.setattr(extreme, "_SIMULATED", 39)


@pytest.mark.parametrize("k", [0.05, 0.2, 0.4])
def test_the_fit_is_that_of_scipy(k):
    for seed in range(4):
        excess = pareto(rng(seed), 800, k, 0.5)
        (end,), (found,) = fit_pareto(excess, 10.0, np.ones((1, 800)), method="likelihood", grid=2000)
        shape, _, scale = stats.genpareto.fit(excess, k and -k, floc=0, scale=k * 0.5)
        ours = stats.genpareto.logpdf(excess, -found, 0, found * end).sum()
        theirs = stats.genpareto.logpdf(excess, shape, 0, scale).sum()
        assert ours >= theirs - 0.02
        assert found == pytest.approx(-shape, abs=0.02)
        assert found * end == pytest.approx(scale, rel=0.03)


@pytest.mark.parametrize("method", ["likelihood", "moments"])
@pytest.mark.parametrize("k", [0.1, 0.3])
def test_the_fit_finds_the_distribution_its_sample_is_from(method, k):
    excess = pareto(rng(1), N, k, 0.5)
    (end,), (found,) = fit_pareto(excess, ROOM, np.ones((1, excess.size)), method=method)
    assert found == pytest.approx(k, abs=0.03)
    assert end == pytest.approx(0.5, rel=0.12)


@pytest.mark.parametrize("method", ["likelihood", "moments"])
def test_a_weight_is_as_good_as_a_repetition(method):
    excess = pareto(rng(2), 300, 0.2, 0.5)
    weights = rng(3).multinomial(300, np.full(300, 1 / 300), size=5).astype(float)
    many = fit_pareto(excess, ROOM, weights, method=method)
    for row, weight in enumerate(weights):
        repeated = np.repeat(excess, weight.astype(int))
        alone = fit_pareto(repeated, ROOM, np.ones((1, repeated.size)), method=method)
        np.testing.assert_allclose([many[0][row], many[1][row]], np.ravel(alone), rtol=0.05)


@settings(max_examples=60)
@given(
    st.integers(0, 2**16), st.integers(12, 200), st.floats(0.02, 1.5), st.sampled_from(["likelihood", "moments"]),
    st.floats(0.2, 1.0),
)  # fmt: skip
def test_no_fit_ends_beyond_the_room_or_short_of_the_data(seed, n, k, method, scale):
    excess = pareto(rng(seed), n, k, 0.55)
    weights = rng(seed).integers(0, 3, (4, n)).astype(float) + 1e-9
    end, found = fit_pareto(excess, ROOM, weights, method=method)
    assert (end <= ROOM * (1 + 1e-12)).all()
    assert (end >= excess[0]).all()
    assert (found > 0).all()
    scaled = fit_pareto(scale * excess, scale * ROOM, weights, method=method)
    np.testing.assert_allclose(scaled, [scale * end, found], rtol=1e-6)


@pytest.mark.parametrize("method", ["likelihood", "moments"])
def test_a_tail_without_end_is_made_to_end_with_the_room(method):
    excess = np.sort(rng(0).exponential(0.05, 2000))[::-1]
    excess = excess[excess < ROOM]
    (end,), (k,) = fit_pareto(excess, ROOM, np.ones((1, excess.size)), method=method)
    assert end == pytest.approx(ROOM, rel=0.25)
    assert k * end / (1 + k) == pytest.approx(excess.mean(), rel=0.03)


def test_the_distance_is_the_integral_of_anderson_and_darling():
    excess = pareto(rng(5), 30, 0.2, 0.5)

    def density(u: float) -> float:
        share = np.mean(excess <= 0.5 * (1 - (1 - u) ** 0.2))
        return (share - u) ** 2 / (u * (1 - u))

    jumps = np.sort(1 - (1 - excess / 0.5) ** 5)
    steps = [0.0, *jumps, 1.0]
    expected = 30 * sum(integrate.quad(density, *step)[0] for step in pairwise(steps))
    assert anderson_darling(excess, 0.5, 0.2) == pytest.approx(expected, rel=1e-5)
    assert anderson_darling(excess, 0.8, 0.2) > anderson_darling(excess, 0.5, 0.2)


@pytest.mark.parametrize("below", [10.0, 95.0])
def test_a_known_tail_is_read_on_to_where_it_goes(below, quick):
    """Scores with P(S > s) = (1 - s / 0.8)^5: threshold and TAR have closed forms."""
    far = 30 / N / below
    truth = 0.8 * (1 - far**0.2)
    covered, tar_covered, found = [], [], []
    for seed in range(20):
        drawn = rng(seed)
        tail = tail_of(bounded(drawn, N), seed=seed)
        result = extrapolate_tar(tail, far, bootstrap=SubjectBootstrap.of(PEOPLE, draws=150, rng=drawn), rng=drawn)
        if result.refusal is None:
            covered.append(result.threshold_low <= truth <= result.threshold_high)
            tar_covered.append(result.tar_low <= tail.tar(truth) <= result.tar_high)
            found.append(result.threshold)
            assert result.fit.end_point <= 1
    assert len(found) >= 17
    assert np.mean(covered) >= 0.9
    assert np.mean(tar_covered) >= 0.9
    assert np.mean(found) == pytest.approx(truth, abs=0.01)


def test_faces_without_identity_on_the_sphere_are_extrapolated_to_the_truth(quick):
    """Cosines of uniform directions: P(C > s) = I(1 - s^2; (d - 1) / 2, 1 / 2) / 2; pairs share people and images."""
    dim, covered = 16, []
    for seed in range(15):
        drawn = rng(seed)
        vectors = unit_rows(drawn.standard_normal((320, dim)).astype(np.float32))
        tail = score_tail(vectors, np.repeat(np.arange(40), 8), far_max=2e-2)
        far = 1 / tail.nonmated
        truth = optimize.brentq(lambda s, far=far: special.betainc((dim - 1) / 2, 0.5, 1 - s * s) / 2 - far, 0.1, 0.99)
        result = extrapolate_tar(tail, far, bootstrap=SubjectBootstrap.of(PEOPLE, draws=150, rng=drawn), rng=drawn)
        covered.append(result.refusal is None and result.threshold_low <= truth <= result.threshold_high)
    assert np.mean(covered) >= 0.85


def test_where_there_are_data_the_extrapolation_agrees_with_them(quick):
    tail = tail_of(bounded(rng(3), N))
    far = 29 / N
    result = extrapolate_tar(tail, far, bootstrap=SubjectBootstrap.of(PEOPLE, draws=100, rng=rng(1)), rng=rng(2))
    assert result.threshold == pytest.approx(threshold_at(tail.top, tail.nonmated, far), abs=0.01)
    assert result.tar == tail.tar(result.threshold)
    assert result.below_support == pytest.approx(30 / 29)


def test_thresholds_rise_and_tars_fall_as_the_far_falls(quick):
    tail = tail_of(bounded(rng(3), N))
    people = SubjectBootstrap.of(PEOPLE, draws=100, rng=rng(1))
    results = [extrapolate_tar(tail, 30 / N / b, bootstrap=people, rng=rng(2)) for b in (1.1, 5, 20, 99)]
    assert (np.diff([r.threshold for r in results]) > 0).all()
    assert (np.diff([r.tar for r in results]) < 0).all()
    assert (np.diff([r.threshold_high - r.threshold_low for r in results]) > 0).all()
    for r in results:
        assert r.threshold_low <= r.threshold <= r.threshold_high <= 1
        assert 0 <= r.tar_low <= r.tar <= r.tar_high <= 1


def test_the_test_of_fit_keeps_its_level(monkeypatch):
    monkeypatch.setattr(extreme, "_SIMULATED", 99)
    values = []
    for seed in range(60):
        tail = tail_of(bounded(rng(seed), 3120))
        result = extrapolate_tar(
            tail, 1 / 3120, bootstrap=SubjectBootstrap.of(PEOPLE, draws=2, rng=rng(0)), rng=rng(seed)
        )
        values.append(result.fit.p_value)  # of 156 scores
    assert np.mean(np.array(values) < 0.05) <= 0.12
    assert 0.3 < np.median(values) < 0.75


def refused(tail: ScoreTail, far: float | None = None, **more: float) -> Extrapolation:
    people = SubjectBootstrap.of(tail.subjects, draws=20, rng=rng(0))
    result = extrapolate_tar(tail, far or 3 / tail.nonmated, bootstrap=people, rng=rng(1), **more)
    assert result.refusal is not None
    assert result.threshold is result.threshold_low is result.threshold_high is None
    assert result.tar is result.tar_low is result.tar_high is None
    assert result.extrapolated is True
    return result


def test_a_mixture_is_refused(quick):
    """A second population in the top: 50 scores around 0.7 over a tail that ends near 0.4."""
    for seed in range(4):
        drawn = rng(seed)
        scores = np.concatenate([drawn.normal(0, 0.09, N - 50), drawn.normal(0.7, 0.01, 50)])
        result = refused(tail_of(scores))
        assert "no generalised Pareto tail fits" in result.refusal or "do not belong to the tail" in result.refusal
        assert result.fit.exceedances < 250  # all ladders were tried


def test_one_wrong_label_is_refused_and_named_as_what_to_look_for(quick):
    scores = bounded(rng(0), N)
    clean = tail_of(scores)
    people = SubjectBootstrap.of(PEOPLE, draws=20, rng=rng(0))
    assert extrapolate_tar(clean, 3 / N, bootstrap=people, rng=rng(1)).refusal is None
    dirty = np.append(scores[1:], 0.93)
    result = refused(tail_of(dirty))
    assert "look for duplicates and wrong labels" in result.refusal
    assert result.fit.p_highest < 0.01
    exact = refused(tail_of(np.append(scores[1:], 1.0)))
    assert exact.refusal == "a pair of two people scores 1: remove the duplicate image, or its wrong label"
    assert exact.fit is None


def test_a_tail_that_a_few_pairs_of_people_fill_is_refused(quick):
    scores, pairs = np.sort(bounded(rng(0), N))[::-1], dealt(1, N)
    pairs[:1500] = np.array([[0, 1], [2, 3], [4, 5]])[np.arange(1500) % 3]
    tail = tail_of(scores, pairs)
    result = refused(tail)
    assert "come from 3.0 pairs of people in effect, fewer than 10" in result.refusal


def test_far_from_the_data_nothing_is_said(quick):
    tail = tail_of(bounded(rng(0), N))
    result = refused(tail, 30 / N / 101)
    assert result.refusal.startswith("FAR 3.80807e-06 lies 101 times below the smallest supported FAR; no further than")
    assert refused(tail, 30 / N / 30, reach=20).below_support == pytest.approx(30)
    people = SubjectBootstrap.of(PEOPLE, draws=20, rng=rng(0))
    assert extrapolate_tar(tail, 30 / N / 200, bootstrap=people, rng=rng(1), reach=300).refusal is None


def test_too_few_scores_are_refused():
    result = refused(tail_of(bounded(rng(0), 780)))
    assert result.refusal == "a tail fit needs 100 scores in the highest 1/20, there are 39"
    cut = tail_of(bounded(rng(0), N))
    result = refused(replace(cut, top=cut.top[:60]))
    assert result.refusal == "a tail fit needs 100 scores in the highest 1/20, there are 59"


def test_tied_scores_have_no_tail():
    scores = np.round(bounded(rng(0), N) * 4) / 4
    result = refused(tail_of(np.minimum(scores, 0.5)))
    assert result.refusal == "the scores at 0.5 are tied: they have no tail to fit"


def test_a_far_that_can_be_measured_is_not_extrapolated_to():
    tail = tail_of(bounded(rng(0), N))
    people = SubjectBootstrap.of(PEOPLE, draws=20, rng=rng(0))
    with pytest.raises(DataError, match=r"FAR 0.001 is supported by 78000 pairs: measure it, with threshold_at"):
        extrapolate_tar(tail, 1e-3, bootstrap=people, rng=rng(1))
    for far in (0.0, -1e-9, 1.0, math.nan):
        with pytest.raises(DataError, match=r"to extrapolate to lies between 0 and 1, got"):
            extrapolate_tar(tail, far, bootstrap=people, rng=rng(1))


def test_a_draw_without_exceedances_counts_as_a_leak_and_not_as_none(quick):
    """Only pairs with person 0 are in the top: draws without it know nothing of the tail."""
    scores, pairs = np.sort(bounded(rng(0), N))[::-1], dealt(1, N)
    pairs[:2000] = np.stack([np.zeros(2000), rng(2).integers(1, PEOPLE, 2000)], axis=1)
    tail = tail_of(scores, pairs)
    people = SubjectBootstrap.of(PEOPLE, draws=200, rng=rng(0))
    result = extrapolate_tar(tail, 3 / N, bootstrap=people, rng=rng(1))
    assert result.refusal is None
    assert result.tar < 0.6
    assert (result.tar_high, result.threshold_low) == (1.0, -1.0)


def test_each_draw_is_the_extrapolation_of_the_written_out_draw(quick):
    tail = tail_of(bounded(rng(3), 38_220))
    people = SubjectBootstrap.of(PEOPLE, draws=6, rng=rng(1))
    far = 3 / 38_220
    fit = extrapolate_tar(tail, far, bootstrap=people, rng=rng(2)).fit
    weights = people.weights.astype(float)
    thresholds = extreme._thresholds(tail, fit, weights, far)
    tars = extreme._tars(tail, weights, thresholds)
    pairs = tail.pairs_of()
    excess = tail.top[: fit.exceedances].astype(float) - fit.start
    for row, w in enumerate(people.weights):
        times = w[pairs[:, 0]] * w[pairs[:, 1]]
        (end,), (k,) = fit_pareto(
            excess, 1 - fit.start, times[None, : excess.size].astype(float), method="likelihood"
        )  # a weight is as good as a repetition, see above
        share = np.mean(np.repeat(tail.top, times) > np.float32(fit.start))
        assert thresholds[row] == pytest.approx(fit.start + end * (1 - (far / share) ** k), abs=1e-9)
        accepted = np.repeat(tail.mated, w[tail.mated_subject]) >= thresholds[row]
        assert tars[row] == pytest.approx(accepted.mean(), abs=1e-12)


def test_the_record_says_extrapolated_and_cannot_be_told_otherwise(quick):
    tail = tail_of(bounded(rng(3), N))
    a, b = (
        extrapolate_tar(tail, 1e-5, bootstrap=SubjectBootstrap.of(PEOPLE, draws=50, rng=rng(1)), rng=rng(2))
        for _ in range(2)
    )
    assert a == b
    assert isinstance(a.fit, TailFit)
    record = json.loads(json.dumps(a.to_dict()))
    assert record["extrapolated"] is True
    assert record == a.to_dict()
    assert record["fit"]["end_point"] == pytest.approx(a.fit.start - a.fit.scale / a.fit.shape)
    with pytest.raises(ValueError, match="extrapolated"):
        replace(a, extrapolated=False)
    with pytest.raises(AttributeError):
        a.extrapolated = False
