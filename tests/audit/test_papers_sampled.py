"""The sampled-impostor protocol against brute force, and against what arithmetic says of a sample maximum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from papers_cases import brute_tar

from faceblind.audit.papers.check import effective_far
from faceblind.audit.papers.sampled import (
    PrintedReading,
    draw_impostors,
    nearest_accepts,
    plain_pauc,
    sampled_pauc,
    sampled_scores,
    sampled_tar,
)
from strategies import labels_of, planted, unit_gauss


@given(st.lists(st.integers(1, 5), min_size=2, max_size=6), st.integers(1, 4), st.integers(0, 99))
def test_impostors_are_different_images_of_other_people(counts, per_image, seed):
    identity = labels_of(counts, "shuffled", np.random.default_rng(seed))
    drawn = draw_impostors(identity, per_image, 3, np.random.default_rng(seed))
    for sample in drawn:
        for row, partners in enumerate(sample):
            assert len(set(partners.tolist())) == partners.size
            assert not (identity[partners] == identity[row]).any()
    others = identity.size - max(counts)
    assert drawn.shape == (3, identity.size, min(per_image, others))


def test_every_other_image_is_as_likely():
    identity = labels_of([2, 3, 4])
    drawn = draw_impostors(identity, 1, 6000, np.random.default_rng(0))[:, :, 0]
    for row in range(identity.size):
        counts = np.bincount(drawn[:, row], minlength=identity.size)
        allowed = identity != identity[row]
        assert counts[~allowed].sum() == 0
        expected = 6000 / allowed.sum()
        assert np.abs(counts[allowed] - expected).max() < 5 * np.sqrt(expected)


@pytest.mark.parametrize("far", [1e-3, 2e-2])
def test_sampled_tar_is_what_brute_force_gives(far):
    made = planted(4, people=12, images=5, dim=16, rank=4, strength=0.5, noise=0.3)
    vectors = made.vectors / np.linalg.norm(made.vectors, axis=1, keepdims=True)
    mapped = [vectors, vectors[:, ::-1].copy(), (vectors * np.linspace(0.5, 1.5, 16)).astype(np.float32)]
    mapped[2] /= np.linalg.norm(mapped[2], axis=1, keepdims=True)
    partners = draw_impostors(made.identity, 4, 7, np.random.default_rng(1))
    found = sampled_tar(mapped, made.identity, partners, far)
    rows, columns = np.triu_indices(60, 1)
    same = made.identity[rows] == made.identity[columns]
    tars, fars = np.zeros((2, 7)), np.zeros((2, 7, 3))
    for s, space in enumerate(mapped):
        scores = space @ space.T
        for b in range(7):
            sampled = sorted((scores[i, j] for i in range(60) for j in partners[b, i]), reverse=True)
            for r, accepts in enumerate((int(far * 240), nearest_accepts(far, 240))):
                above = sampled[accepts]
                tars[r, b] += (scores[rows, columns][same] > above).mean() / 3
                fars[r, b, s] = (scores[rows, columns][~same] > above).mean()
    assert found.pairs == 240
    for spread, values in ((found.value, tars[0]), (found.variant, tars[1])):
        assert spread.first == pytest.approx(values[0])
        assert spread.mean == pytest.approx(values.mean())
        assert (spread.low, spread.high) == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])))
    for spread, values in ((found.far, fars[0]), (found.variant_far, fars[1])):
        assert spread.mean == pytest.approx(values.mean())
        assert (spread.low, spread.high) == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])))


def test_scores_are_the_same_with_and_without_the_matrix(monkeypatch):
    vectors = unit_gauss(np.random.default_rng(0), 30, 8)
    partners = draw_impostors(labels_of([5] * 6), 3, 2, np.random.default_rng(0))
    whole = sampled_scores(vectors, partners)
    monkeypatch.setattr("faceblind.audit.papers.sampled._MATRIX_ROWS", 0)
    assert np.allclose(whole, sampled_scores(vectors, partners), atol=1e-6)


def test_the_nearest_point_may_exceed_the_target():
    assert nearest_accepts(1e-4, 6_400) == 1  # 0.64 accepts: one is nearer than none, FAR 1.56e-4
    assert nearest_accepts(1e-4, 16_000) == 2
    assert nearest_accepts(1e-4, 4_000) == 0
    assert nearest_accepts(0.1, 5) == 0  # halfway: the lower one
    assert nearest_accepts(1e-4, 1_264_000) == 126


def test_true_far_of_a_sample_maximum_is_that_of_the_arithmetic():
    """Below its floor the printed FAR is not met: the threshold is a maximum of N, whose FAR is 1/(N + 1) on average."""
    mean, low, high = effective_far(6_400)
    assert mean == pytest.approx(1 / 6_401)
    assert (low, high) == pytest.approx((3.96e-6, 5.76e-4), rel=0.01)
    made = planted(4, people=50, images=4, dim=24, rank=6, strength=0.35, noise=0.2)
    vectors = made.vectors / np.linalg.norm(made.vectors, axis=1, keepdims=True)
    partners = draw_impostors(made.identity, 4, 500, np.random.default_rng(2))
    far = 0.2 / 800
    found = sampled_tar([vectors], made.identity, partners, far)
    mean, low, high = effective_far(800)
    assert found.far.mean == pytest.approx(mean, rel=0.15)
    assert found.far.low < 2 * low + 1e-4
    assert found.far.high == pytest.approx(high, rel=0.3)
    # the printed number overstates the TAR at the FAR that was named, and scatters
    exact = brute_tar(vectors @ vectors.T, made.identity, far)
    assert found.value.mean > 1.2 * exact
    assert found.value.high > 1.5 * found.value.low


def test_plain_area_is_the_mean_of_tar_over_far():
    rng = np.random.default_rng(0)
    mated, impostors = rng.normal(1, 1, 200).astype(np.float32), rng.normal(0, 1, 500).astype(np.float32)
    far_max = 0.05
    grid = (np.arange(100_000) + 0.5) / 100_000 * far_max
    ordered = np.sort(impostors)[::-1]
    tar = (mated[None, :] > ordered[np.floor(grid * 500).astype(int)][:, None]).mean(axis=1)
    assert plain_pauc(mated, impostors, far_max) == pytest.approx(tar.mean(), abs=1e-4)


def test_mated_pairs_among_the_impostors_leave_no_area():
    made = planted(4, people=13, images=6, dim=24, rank=6, strength=1.0, noise=0.05)
    vectors = made.vectors / np.linalg.norm(made.vectors, axis=1, keepdims=True)
    found = sampled_pauc([vectors], made.identity, 1e-3, resamplings=10, rng=np.random.default_rng(0))
    assert (found.pairs, found.variant_pairs) == (1_248, 1_326)
    assert found.value.mean > 0.5  # these people are easily told apart
    assert found.variant.high <= 2 / 78
    assert found.far is None


def test_small_sets_use_what_there_is():
    made = planted(4, people=5, images=3, dim=24)
    vectors = made.vectors / np.linalg.norm(made.vectors, axis=1, keepdims=True)
    found = sampled_pauc([vectors], made.identity, 0.1, resamplings=2, rng=np.random.default_rng(0))
    assert (found.pairs, found.variant_pairs) == (90, 105)


def test_a_reading_survives_json():
    made = planted(4, people=5, images=3, dim=24)
    vectors = made.vectors / np.linalg.norm(made.vectors, axis=1, keepdims=True)
    partners = draw_impostors(made.identity, 2, 3, np.random.default_rng(0))
    for found in (
        sampled_tar([vectors], made.identity, partners, 0.1),
        sampled_pauc([vectors], made.identity, 0.1, resamplings=2, rng=np.random.default_rng(0)),
    ):
        assert PrintedReading.from_dict(found.to_dict()) == found
