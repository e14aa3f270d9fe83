from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles

from faceblind._errors import DataError, ProjectorError, RankError, UsageError
from faceblind.erase import ISP, Projector, RankChoice
from faceblind.erase.angles import (
    SubspaceComparison,
    compare_projectors,
    mean_directions,
    overlap,
    pca_directions,
    principal_angles,
    principal_cosines,
)
from strategies import fingerprint, orthonormal, planted

Pairs = tuple[np.ndarray, np.ndarray]


def projector(basis: np.ndarray, **options: object) -> Projector:
    return Projector.of(basis, method="test", choice=RankChoice(rule="given"), **options)


def pure_noise(seed: int, *, people: int, images: int, dim: int, power: float = 1.0) -> Pairs:
    """Vectors without identity whose k-th coordinate has standard deviation k^-power."""
    rng = np.random.default_rng([seed, 1])
    scale = np.arange(1.0, dim + 1) ** -power
    return (rng.standard_normal((people * images, dim)) * scale).astype(np.float32), np.repeat(
        np.arange(people), images
    )


def faint_identity(seed: int, subspace: np.ndarray, *, share: float, people: int = 150, images: int = 20) -> Pairs:
    """Identity in `subspace`, too faint to be a principal component of spherical noise, found by means of 20 images."""
    rng = np.random.default_rng([seed, 2])
    who = np.repeat(np.arange(people), images)
    traits = np.sqrt(share) * rng.standard_normal((people, subspace.shape[1]))
    noise = rng.standard_normal((who.size, subspace.shape[0]))
    return (noise + traits[who] @ subspace.T).astype(np.float32), who


def compare(first: Pairs, second: Pairs, rank: int, **options: object) -> SubspaceComparison:
    one, two = (ISP(rank).fit(*side).projector_ for side in (first, second))
    return compare_projectors(one, two, rng=0, first_data=first, second_data=second, **options)


@settings(max_examples=60)
@given(st.integers(0, 2**16), st.integers(2, 12), st.data())
def test_angles_are_those_of_scipy_in_the_other_order(seed, dim, data):
    rng = np.random.default_rng(seed)
    one, two = (orthonormal(rng, dim, data.draw(st.integers(1, dim))) for _ in range(2))
    expected = subspace_angles(one, two)[::-1]
    np.testing.assert_allclose(principal_angles(one, two), expected, atol=1e-7)
    np.testing.assert_allclose(principal_angles(two, one), principal_angles(one, two), atol=1e-12)
    np.testing.assert_allclose(principal_cosines(one, two), np.cos(expected), atol=1e-12)
    assert overlap(one, two) == pytest.approx(np.mean(principal_cosines(one, two) ** 2), abs=1e-12)
    turned = two @ np.linalg.qr(rng.standard_normal((two.shape[1], two.shape[1])))[0]  # another basis, the same space
    np.testing.assert_allclose(principal_cosines(one, turned), principal_cosines(one, two), atol=1e-12)


def test_angles_from_tiny_to_right_keep_their_digits():
    angles = np.array([1e-14, 1e-12, 1e-9, 1e-5, 0.3, np.pi / 4, 1.2, np.pi / 2 - 1e-9, np.pi / 2])
    n = angles.size
    one = np.eye(2 * n)[:, :n]
    two = np.vstack([np.diag(np.cos(angles)), np.diag(np.sin(angles))])
    np.testing.assert_allclose(principal_angles(one, two), angles, rtol=1e-6)
    np.testing.assert_allclose(principal_cosines(one, two), np.cos(angles), atol=1e-15)
    found = principal_angles(one, one @ orthonormal(np.random.default_rng(0), n, n))
    assert found.max() < 1e-14


def test_overlap_in_closed_form():
    axes = np.eye(6)
    assert overlap(axes[:, :2], axes[:, :4]) == 1  # the smaller lies in the larger
    assert overlap(axes[:, :4], axes[:, :2]) == 1
    assert overlap(axes[:, :2], axes[:, 2:]) == 0
    assert overlap(axes[:, :3], axes[:, 2:5]) == pytest.approx(1 / 3)


def test_two_random_192_dimensional_subspaces_of_512_have_a_top_cosine_near_097():
    """The edge of the spectrum is sin(2 asin(sqrt(r/d))) = 0.968; nothing is shared."""
    rng = np.random.default_rng(0)
    compared = compare_projectors(*(projector(orthonormal(rng, 512, 192)) for _ in range(2)), rng=1, draws=30)
    assert compared.top == pytest.approx(0.967, abs=0.004)
    assert len(compared.cosines) == 192
    null = compared.nulls[0]
    assert null.top[0] == pytest.approx(0.967, abs=0.003)
    assert null.overlap[0] == pytest.approx(192 / 512, abs=5e-4)
    assert null.near_one == (0, 0, 0)


@pytest.mark.parametrize(("dim", "ranks"), [(24, (6, 6)), (24, (3, 12)), (24, (12, 3)), (20, (15, 15))])
def test_random_subspaces_overlap_by_the_larger_rank_over_the_dimension(dim, ranks):
    rng = np.random.default_rng(2)
    one, two = (projector(orthonormal(rng, dim, rank)) for rank in ranks)
    null = compare_projectors(one, two, rng=3, draws=800).nulls[0]
    assert null.overlap[0] == pytest.approx(max(ranks) / dim, abs=0.01)
    drawn = [overlap(orthonormal(rng, dim, ranks[0]), orthonormal(rng, dim, ranks[1])) for _ in range(800)]
    np.testing.assert_allclose(null.overlap[1:], np.quantile(drawn, [0.025, 0.975]), atol=0.02)


def test_two_subspaces_of_rank_256_in_384_dimensions_share_128_directions_whoever_they_are_of():
    rng = np.random.default_rng(4)
    compared = compare_projectors(*(projector(orthonormal(rng, 384, 256)) for _ in range(2)), rng=5, draws=3)
    cosines = np.array(compared.cosines)
    assert int((cosines > 1 - 1e-12).sum()) == 128
    assert cosines[128] < 0.9999
    assert compared.nulls[0].near_one[1] >= 128


def test_means_of_pure_noise_share_dozens_of_directions_and_this_is_called_no_evidence():
    """The published criterion, cosines above 0.99, is met by data in which nobody is anybody."""
    sides = [pure_noise(seed, people=160, images=20, dim=256) for seed in (0, 1)]
    compared = compare(*sides, 96, draws=20, permutations=4)
    assert compared.top > 0.999
    assert compared.near_one >= 20
    assert compared.overlap > 0.6
    random, label_free, permuted = compared.nulls
    assert random.overlap[2] < 0.4
    assert label_free.overlap[0] > compared.overlap
    assert permuted.overlap[0] == pytest.approx(compared.overlap, abs=0.02)
    assert permuted.near_one[0] >= 18
    assert compared.evidence is False
    assert "label-free" in compared.not_exceeded
    assert "random" not in compared.not_exceeded
    assert "not evidence" in compared.sentence()


def test_a_planted_subspace_that_variance_does_not_show_is_above_every_null():
    shared = orthonormal(np.random.default_rng(6), 48, 5)
    compared = compare(*(faint_identity(seed, shared, share=0.1) for seed in (0, 1)), 5)
    assert [null.name for null in compared.nulls] == ["random", "label-free", "permuted identities"]
    assert compared.evidence is True
    assert compared.not_exceeded == ()
    assert compared.overlap > 0.5 > 2 * max(null.overlap[2] for null in compared.nulls)
    assert "exceeds every one of them" in compared.sentence()


def test_different_planted_subspaces_are_not_above_the_nulls():
    rng = np.random.default_rng(7)
    axes = orthonormal(rng, 48, 10)
    compared = compare(faint_identity(0, axes[:, :5], share=0.3), faint_identity(1, axes[:, 5:], share=0.3), 5)
    assert compared.evidence is False
    assert compared.overlap < 0.1


def test_nulls_that_need_data_are_left_out_and_the_sentence_says_so():
    rng = np.random.default_rng(8)
    basis = orthonormal(rng, 30, 4)
    alone = compare_projectors(projector(basis), projector(basis), rng=0)
    assert [null.name for null in alone.nulls] == ["random"]
    assert alone.evidence is None
    assert "missing comparison: label-free and permuted identities" in alone.sentence()
    vectors = rng.standard_normal((60, 30))
    half = compare_projectors(
        projector(basis), projector(basis), rng=0, first_data=(vectors, None), second_data=(vectors[:40] + 1, None)
    )
    assert [null.name for null in half.nulls] == ["random", "label-free"]
    assert half.evidence is None
    assert "missing comparison: permuted identities" in half.sentence()
    apart = compare_projectors(projector(np.eye(30)[:, :4]), projector(np.eye(30)[:, 4:8]), rng=0)
    assert apart.evidence is False  # below what chance gives: no other null can change that


def test_the_label_free_null_is_that_of_principal_components():
    sides = [pure_noise(seed, people=40, images=5, dim=20, power=0.3) for seed in (2, 3)]
    compared = compare(*sides, 6, draws=5, permutations=2)
    bases = []
    for vectors, _ in sides:
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        bases.append(np.linalg.svd(unit - unit.mean(axis=0))[2][:6].T)
    assert compared.nulls[1].overlap == pytest.approx((overlap(*bases),) * 3, abs=1e-5)
    assert compared.nulls[1].draws == 1


def test_recipes_give_what_the_erasers_give():
    made = planted(1, people=30, images=5, dim=16, rank=8, noise=0.4)
    basis = mean_directions(made.vectors, made.identity, 6)
    assert subspace_angles(basis, ISP(6).fit(made.vectors, made.identity).projector_.basis).max() < 1e-7
    np.testing.assert_allclose(basis.T @ basis, np.eye(6), atol=1e-12)
    many, few = np.random.default_rng(0).standard_normal((200, 16)), np.random.default_rng(1).standard_normal((9, 16))
    assert pca_directions(many, 16).shape == (16, 16)
    assert pca_directions(few, 8).shape == (16, 8)


def test_another_recipe_makes_the_permuted_null():
    sides = [pure_noise(seed, people=20, images=5, dim=12) for seed in (4, 5)]
    calls = []

    def recipe(vectors: np.ndarray, identity: np.ndarray, rank: int) -> np.ndarray:
        calls.append((vectors.shape, np.bincount(identity.astype(int)).tolist(), rank))
        return np.eye(12)[:, :rank]

    compared = compare(*sides, 3, recipe=recipe, draws=2, permutations=3)
    assert calls == [((100, 12), [5] * 20, 3)] * 6  # groups keep their sizes
    assert compared.nulls[2].overlap == (1, 1, 1)


def test_of_an_oblique_projector_it_is_the_kernel_that_counts():
    rng = np.random.default_rng(9)
    reads, lifts = orthonormal(rng, 10, 2), rng.standard_normal((10, 2))
    lifts = lifts @ np.linalg.inv(reads.T @ lifts)
    compared = compare_projectors(projector(reads, lift=lifts), projector(np.linalg.qr(lifts)[0]), rng=0, draws=5)
    assert compared.overlap == pytest.approx(1)


def test_records_are_plain_json_and_the_same_seed_gives_the_same_record():
    sides = [pure_noise(seed, people=20, images=5, dim=12) for seed in (6, 7)]
    one, two = (compare(*sides, 4, draws=10, permutations=3) for _ in range(2))
    assert one == two
    record = json.loads(json.dumps(one.to_dict()))
    assert record == one.to_dict()
    assert len(record["cosines"]) == 4
    assert record["near_one"] == sum(cosine > 0.99 for cosine in record["cosines"])
    assert record["sentence"] == one.sentence()
    assert [null["name"] for null in record["nulls"]] == ["random", "label-free", "permuted identities"]


def test_bad_input_is_named():
    rng = np.random.default_rng(10)
    basis, vectors = orthonormal(rng, 8, 2), rng.standard_normal((12, 8))
    who = np.repeat(["a", "b", "c"], 4)
    for one, two, message in (
        (basis, orthonormal(rng, 9, 2), r"\(8, 2\) and \(9, 2\)"),
        (basis[:, 0], basis, "same space"),
        (basis[:, :0], basis, "same space"),
        (2 * basis, basis, "not orthonormal"),
        (basis, np.where(basis == basis[0, 0], np.nan, basis), "not orthonormal"),
    ):
        with pytest.raises(ProjectorError, match=message):
            principal_angles(one, two)
    p = projector(basis)
    with pytest.raises(ProjectorError, match="8 and 9 features"):
        compare_projectors(p, projector(orthonormal(rng, 9, 2)), rng=0)
    with pytest.raises(ProjectorError, match="different encoders"):
        compare_projectors(
            projector(basis, encoder=fingerprint(dim=8)),
            projector(basis, encoder=fingerprint(dim=8, pooling="mean")),
            rng=0,
        )
    with pytest.raises(UsageError, match="both sides or of neither"):
        compare_projectors(p, p, rng=0, first_data=(vectors, who))
    with pytest.raises(UsageError, match="draws=1"):
        compare_projectors(p, p, rng=0, draws=1)
    good = (vectors, who)
    bad_row = np.where(np.arange(12)[:, None] == 3, np.inf, vectors)
    for side, error, message in (
        ((vectors[:, :7], who), DataError, r"second projector is for 8 features, its vectors have shape \(12, 7\)"),
        ((bad_row, who), DataError, "row 3 of the second vectors"),
        ((vectors, who[:5]), DataError, "one entry per vector"),
        ((vectors[:2], None), RankError, "2 vectors do not support rank 2"),
        ((vectors, np.where(who == "c", "b", who)), RankError, "2 identities do not support rank 2"),
    ):
        with pytest.raises(error, match=message):
            compare_projectors(p, p, rng=0, first_data=good, second_data=side, draws=2, permutations=2)
