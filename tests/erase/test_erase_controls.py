from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import subspace_angles

from faceblind._errors import DataError, RankError
from faceblind.erase import ISP, IdentityMoments, PCAEraser, PermutedISP, RandomEraser
from strategies import planted


@pytest.fixture(scope="module")
def people():
    return planted(1, people=20, images=5, dim=16, noise=0.4)


def controls(rank: int, seed: int = 0) -> list:
    return [
        RandomEraser(rank, rng=np.random.default_rng(seed)),
        PCAEraser(rank),
        PermutedISP(rank, rng=np.random.default_rng(seed)),
    ]


@pytest.mark.parametrize("rank", [1, 7, 15])
def test_all_controls_have_the_rank_of_what_they_control(people, rank):
    for eraser in [ISP(rank), *controls(rank)]:
        projector = eraser.fit(people.vectors, people.identity).projector_
        assert projector.rank == rank
        np.testing.assert_allclose(projector.basis.T @ projector.basis, np.eye(rank), atol=1e-12)
        released = eraser.transform(people.vectors)
        assert np.linalg.matrix_rank(released.astype(float), tol=1e-4) == 16 - rank
    assert [e.fit(people.vectors, people.identity).projector_.method for e in controls(1)] == [
        "random",
        "pca",
        "permuted",
    ]


def test_the_random_subspace_is_seeded_and_of_no_preferred_direction():
    X = np.ones((3, 6))
    one, other, third = (RandomEraser(2, rng=np.random.default_rng(seed)).fit(X).projector_.basis for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, other)
    assert np.abs(one - third).max() > 0.1
    rng = np.random.default_rng(5)
    bases = np.array([RandomEraser(2, rng=rng).fit(X).projector_.basis for _ in range(3000)])
    mean = np.einsum("bik,bjk->ij", bases, bases) / 3000  # E[U U'] = r/d I for Haar subspaces
    np.testing.assert_allclose(mean, np.eye(6) / 3, atol=0.02)
    # squared cosine to a fixed direction is Beta(1, 2): mean 1/3, variance 1/18
    cosines = (bases[:, 0, :] ** 2).sum(axis=1)
    assert cosines.var() == pytest.approx(1 / 18, rel=0.1)


def test_the_random_subspace_does_not_look_at_the_data(people):
    one = RandomEraser(3, rng=np.random.default_rng(0)).fit(people.vectors, people.identity).projector_
    other = RandomEraser(3, rng=np.random.default_rng(0)).fit(np.zeros((2, 16))).projector_
    np.testing.assert_array_equal(one.basis, other.basis)


@pytest.mark.parametrize("rank", [1, 3, 10])
def test_pca_is_that_of_the_unit_vectors_without_labels(people, rank):
    unit = people.vectors.astype(float)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    centred = unit - unit.mean(axis=0)
    _, s, Vt = np.linalg.svd(centred, full_matrices=False)
    lengths = np.random.default_rng(0).uniform(0.1, 10, (100, 1)).astype(np.float32)
    projector = PCAEraser(rank).fit(people.vectors * lengths, people.identity[::-1]).projector_
    assert s[rank - 1] > s[rank] * 1.001
    assert subspace_angles(projector.basis, Vt[:rank].T).max() < 1e-4
    np.testing.assert_allclose(projector.spectrum, s, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(PCAEraser(rank).fit(people.vectors * lengths).projector_.basis, projector.basis)


def test_permuted_identities_keep_the_sizes_of_groups_and_are_isp_on_them(people):
    identity = people.identity.copy()
    identity[:30] = "big"
    found = PermutedISP(4, rng=np.random.default_rng(3)).fit(people.vectors, identity).projector_
    shuffled = np.random.default_rng(3).permutation(identity)
    moments = IdentityMoments().partial_fit(people.vectors, shuffled)
    expected = ISP.directions(moments)
    np.testing.assert_array_equal(found.basis, expected.reads[:, :4])
    np.testing.assert_array_equal(found.spectrum, expected.spectrum)
    sizes = IdentityMoments().partial_fit(people.vectors, identity).counts()
    np.testing.assert_array_equal(moments.counts(), sizes)
    again = PermutedISP(4, rng=np.random.default_rng(3)).fit(people.vectors, identity).projector_
    assert again.digest == found.digest
    other = PermutedISP(4, rng=np.random.default_rng(4)).fit(people.vectors, identity).projector_
    assert subspace_angles(other.basis, found.basis).max() > 0.1


def test_only_isp_finds_an_identity_that_is_small_beside_other_variance():
    """Scenes vary ten times as much as identity, in other dimensions: PCA and permuted labels go there."""
    made = planted(2, people=100, images=40, dim=32, rank=4, strength=0.3, noise=0.05)
    rng = np.random.default_rng(0)
    away = rng.standard_normal((32, 4))
    scene = np.linalg.qr(away - made.subspace @ (made.subspace.T @ away))[0]
    vectors = made.vectors + (rng.standard_normal((4000, 4)) @ scene.T).astype(np.float32)
    found = {
        name: eraser.fit(vectors, made.identity).projector_.basis
        for name, eraser in zip(("isp", "random", "pca", "permuted"), [ISP(4), *controls(4)], strict=True)
    }
    share = {name: np.linalg.norm(basis.T @ made.subspace) ** 2 / 4 for name, basis in found.items()}
    assert share["isp"] > 0.9
    assert share["random"] < 0.35
    assert share["pca"] < 0.05
    assert share["permuted"] < 0.2
    assert subspace_angles(found["pca"], scene).max() < 0.15


@pytest.mark.parametrize("rank", [16, 400])
def test_controls_refuse_ranks_that_leave_nothing(people, rank):
    for eraser in controls(rank):
        with pytest.raises(RankError, match=f"rank {rank} is too large.*at most rank 15"):
            eraser.fit(people.vectors, people.identity)
        with pytest.raises(RankError, match="at least 1, got 0"):
            type(eraser)(0, **({} if isinstance(eraser, PCAEraser) else {"rng": np.random.default_rng(0)}))


def test_pca_has_no_more_components_than_rows_and_permuted_needs_people():
    with pytest.raises(RankError, match="at most rank 3"):
        PCAEraser(4).fit(np.random.default_rng(0).standard_normal((4, 16)))
    with pytest.raises(DataError, match="at least two identities"):
        PermutedISP(1, rng=np.random.default_rng(0)).fit(np.eye(4), ["a"] * 4)
