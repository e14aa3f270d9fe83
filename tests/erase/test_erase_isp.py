from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles

from faceblind._errors import DataError, RankError
from faceblind.erase import ISP, Eraser, IdentityMoments, Projector
from faceblind.erase.directions import DEFAULT_RANK, Directions
from faceblind.erase.moments import moments_digest, people_digest
from strategies import fingerprint, labels_of, planted


def mean_differences(vectors: np.ndarray, identity: np.ndarray) -> np.ndarray:
    """M (d, m) of the paper: unweighted, from unit rows, means not renormalised."""
    wide = vectors.astype(np.float64)
    unit = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    means = np.array([unit[identity == name].mean(axis=0) for name in np.unique(identity)])
    return (means - means.mean(axis=0)).T


def angle(one: np.ndarray, other: np.ndarray) -> float:
    return float(subspace_angles(one, other).max())


@settings(max_examples=40)
@given(st.integers(0, 2**16), st.integers(3, 12), st.integers(3, 16), st.data())
def test_the_removed_span_is_that_of_numpys_svd_of_the_mean_differences(seed, people, dim, data):
    rng = np.random.default_rng(seed)
    counts = [2, *rng.integers(1, 6, people - 1).tolist()]
    identity = labels_of(counts, "shuffled", rng)
    vectors = (rng.standard_normal((identity.size, dim)) + rng.standard_normal(dim)).astype(np.float32)
    M = mean_differences(vectors, identity)
    U, s, _ = np.linalg.svd(M, full_matrices=False)
    rank = data.draw(st.integers(1, min(people - 1, dim - 1)))
    projector = ISP(rank).fit(vectors, identity).projector_
    np.testing.assert_allclose(projector.spectrum[: s.size], s, atol=1e-7)
    if s[rank - 1] - s[rank : rank + 1].sum() > 1e-3 * s[0]:  # a rank inside a tie has no one answer
        assert angle(projector.basis, U[:, :rank]) < 1e-7
    P = np.eye(dim) - projector.basis @ projector.basis.T
    np.testing.assert_allclose(P, P.T, atol=1e-12)
    np.testing.assert_allclose(P @ P, P, atol=1e-12)
    assert np.trace(P) == pytest.approx(dim - rank, abs=1e-10)
    np.testing.assert_allclose(projector.basis.T @ P, 0, atol=1e-12)
    assert projector.rank == rank


def test_at_full_rank_all_identity_means_are_equal_before_renormalising():
    made = planted(1, people=9, images=5, dim=20)
    projector = ISP(8).fit(made.vectors, made.identity).projector_
    unit = made.vectors / np.linalg.norm(made.vectors, axis=1, keepdims=True)
    for renormalise, equal in ((False, True), (True, False)):
        released = projector.apply(unit, renormalise=renormalise).vectors.astype(float)
        means = np.array([released[made.identity == name].mean(axis=0) for name in np.unique(made.identity)])
        spread = np.abs(means - means.mean(axis=0)).max()
        assert bool(spread < 1e-6) is equal  # scaling gives the exact guarantee up, as the docstring of apply says


def test_it_is_sal_on_centred_one_hot_labels_when_people_have_as_many_images():
    made = planted(2, people=30, images=4, dim=24, noise=0.5)
    unit = made.vectors.astype(float)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    onehot = (made.identity[:, None] == np.unique(made.identity)).astype(float)
    U, s, _ = np.linalg.svd((unit - unit.mean(0)).T @ (onehot - onehot.mean(0)))
    for rank in (1, 4, 12, 23):
        assert s[rank - 1] > s[rank] * (1 + 1e-4)
        assert angle(ISP(rank).fit(made.vectors, made.identity).projector_.basis, U[:, :rank]) < 1e-8


def test_identities_weigh_the_same_however_many_images_they_have():
    """Each image of one person forty times over: no mean moves, so nothing may change."""
    made = planted(3, people=12, images=4, dim=16, noise=0.4)
    many = made.identity == "p0005"
    vectors = np.concatenate([made.vectors, *[made.vectors[many]] * 39])
    identity = np.concatenate([made.identity, *[made.identity[many]] * 39])
    one, other = (ISP(3).fit(*data).projector_ for data in ((made.vectors, made.identity), (vectors, identity)))
    assert angle(one.basis, other.basis) < 1e-9
    np.testing.assert_allclose(one.spectrum, other.spectrum, atol=1e-12)
    # a mean over images instead of people would have moved
    weighted = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    plain = made.vectors / np.linalg.norm(made.vectors, axis=1, keepdims=True)
    assert np.linalg.norm(weighted.mean(0) - plain.mean(0)) > 0.05


@pytest.mark.parametrize("people", [17, 33, 80])
def test_the_gram_path_for_many_people_agrees_with_the_svd(people):
    made = planted(4, people=people, images=3, dim=16, noise=0.5)
    moments = IdentityMoments().partial_fit(made.vectors, made.identity)
    found = ISP.directions(moments)
    basis, spectrum = found.reads, found.spectrum
    U, s, _ = np.linalg.svd(mean_differences(made.vectors, made.identity), full_matrices=False)
    assert basis.shape == (16, 16)
    np.testing.assert_allclose(spectrum, s, atol=1e-8)
    for rank in range(1, 16):
        if s[rank - 1] - s[rank] > 1e-3:
            assert angle(basis[:, :rank], U[:, :rank]) < 1e-8


@pytest.mark.parametrize("people", [12, 60])
def test_dimensions_that_no_mean_uses_are_not_counted_as_rank(people):
    """Means live in 5 of 16 dimensions: both paths must say so, and not offer rounding as directions."""
    rng = np.random.default_rng(5)
    flat = rng.standard_normal((people, 5))
    vectors = np.repeat(np.concatenate([flat, np.zeros((people, 11))], axis=1), 2, axis=0).astype(np.float32)
    identity = np.repeat(np.arange(people), 2)
    basis = ISP.directions(IdentityMoments().partial_fit(vectors, identity)).reads
    assert basis.shape == (16, 5)
    np.testing.assert_allclose(basis[5:], 0, atol=1e-9)
    with pytest.raises(
        RankError, match=f"rank 6 is too large: {people} identities in 16 dimensions support at most rank 5"
    ):
        ISP(6).fit(vectors, identity)


def test_the_planted_subspace_is_found():
    made = planted(6, people=300, images=8, dim=32, rank=4, noise=0.1)
    projector = ISP(4).fit(made.vectors, made.identity).projector_
    assert angle(projector.basis, made.subspace) < 0.05
    assert projector.spectrum[4] < 0.1 * projector.spectrum[3]


def test_signs_are_fixed_so_that_a_fit_gives_the_same_bytes():
    made = planted(7, people=10, images=4, dim=12)
    one, other = (ISP(5).fit(made.vectors, made.identity).projector_ for _ in range(2))
    assert one.basis.tobytes() == other.basis.tobytes()
    assert one.digest == other.digest
    largest = np.abs(one.basis).argmax(axis=0)
    assert (one.basis[largest, np.arange(5)] > 0).all()


@pytest.mark.parametrize("people", [8, 40])
def test_flipping_all_vectors_gives_the_same_basis(people):
    """M changes sign as a whole, and so do the left vectors of an SVD; the saved basis must not."""
    made = planted(8, people=people, images=4, dim=12)
    one = ISP(5).fit(made.vectors, made.identity).projector_
    other = ISP(5).fit(-made.vectors, made.identity).projector_
    np.testing.assert_allclose(one.basis, other.basis, atol=1e-9)


def test_shards_batches_and_order_give_the_same_projector_up_to_rounding():
    made = planted(9, people=20, images=6, dim=16, noise=0.4)
    whole = IdentityMoments().partial_fit(made.vectors, made.identity)
    merged = IdentityMoments()
    for rows in np.array_split(np.random.default_rng(0).permutation(120), 7):
        merged.merge(IdentityMoments().partial_fit(made.vectors[rows], made.identity[rows]))
    one, other = (ISP(6).fit_moments(m).projector_ for m in (whole, merged))
    np.testing.assert_allclose(one.basis, other.basis, atol=1e-9)
    assert one.fit_digest == other.fit_digest
    assert one.fit_people == other.fit_people
    assert one.digest == ISP(6).fit(made.vectors, made.identity).projector_.digest


def test_the_digests_tell_people_counts_and_vectors_apart():
    made = planted(10, people=4, images=3, dim=6)
    base = IdentityMoments().partial_fit(made.vectors, made.identity)
    moved = made.vectors.copy()
    moved[0] += 0.1
    renamed = np.where(made.identity == "p0001", "p0009", made.identity)
    others = {
        "vectors": IdentityMoments().partial_fit(moved, made.identity),
        "people": IdentityMoments().partial_fit(made.vectors, renamed),
        "counts": IdentityMoments().partial_fit(made.vectors[1:], made.identity[1:]),
    }
    for what, moments in others.items():
        assert moments_digest(moments) != moments_digest(base), what
        assert (people_digest(moments) == people_digest(base)) is (what == "vectors"), what


def test_the_digest_does_not_see_the_sign_of_a_mean_that_cancels():
    a = IdentityMoments().partial_fit(np.array([[1, 1e-9], [1, -2e-9]]), ["a", "a"])
    b = IdentityMoments().partial_fit(np.array([[1, -1e-9], [1, 2e-9]]), ["a", "a"])
    assert moments_digest(a) == moments_digest(b)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_precision_and_length_of_the_input_do_not_matter(dtype):
    made = planted(11, people=20, images=6, dim=16, noise=0.4)
    rounded = made.vectors.astype(dtype)
    lengths = 2.0 ** np.random.default_rng(0).integers(-6, 7, (120, 1))
    scaled = (rounded.astype(float) * lengths).astype(dtype)
    if dtype is np.float16:  # small halves lose digits: give them room
        scaled = rounded.astype(np.float32) * lengths.astype(np.float32)
    one, other = (ISP(5).fit(x, made.identity).projector_ for x in (rounded, scaled))
    assert angle(one.basis, other.basis) < 1e-8
    exact = ISP(5).fit(made.vectors.astype(float), made.identity).projector_
    assert angle(one.basis, exact.basis) < (5e-3 if dtype is np.float16 else 1e-8)


def test_provenance_goes_into_the_projector():
    made = planted(12, people=6, images=3, dim=8)
    moments = IdentityMoments().partial_fit(made.vectors, made.identity)
    projector = ISP(2).fit_moments(moments, encoder=fingerprint(dim=8), synthetic=True).projector_
    assert (projector.method, projector.fit_identities, projector.fit_images) == ("isp", 6, 18)
    assert projector.encoder == fingerprint(dim=8)
    assert projector.synthetic is True
    assert projector.choice.rule == "given"
    assert isinstance(ISP(1), Eraser)
    released = ISP(2).fit(made.vectors, made.identity).transform(made.vectors)
    np.testing.assert_array_equal(released, projector.apply(made.vectors).vectors)


@pytest.mark.parametrize(
    ("people", "images", "dim", "rank", "most"),
    [(5, 3, 16, 5, 4), (30, 3, 6, 6, 5), (30, 3, 6, 400, 5), (2, 2, 2, 2, 1)],
)
def test_a_rank_beyond_the_data_is_refused_with_the_most_it_supports(people, images, dim, rank, most):
    made = planted(13, people=people, images=images, dim=dim, rank=min(dim, 4), noise=0.5)
    message = f"rank {rank} is too large: {people} identities in {dim} dimensions support at most rank {most}; use rank {most}"
    with pytest.raises(RankError, match=message):
        ISP(rank).fit(made.vectors, made.identity)
    assert ISP(most).fit(made.vectors, made.identity).projector_.rank == most


@pytest.mark.parametrize("rank", [0, -1])
def test_a_rank_below_one_is_refused_everywhere(rank):
    with pytest.raises(RankError, match=f"at least 1, got {rank}"):
        ISP(rank)
    made = planted(14, people=5, images=3, dim=8)
    moments = IdentityMoments().partial_fit(made.vectors, made.identity)
    found = ISP.directions(moments)
    with pytest.raises(RankError, match=f"1 to 4 here, got {rank}"):
        found.projector(rank)
    with pytest.raises(RankError, match=f"1 to 4 here, got {rank}"):
        found.settle(rank)


def settle(rank, basis, *, identities):
    return Directions(method="isp", reads=basis, spectrum=np.zeros(0), fit_identities=identities).settle(rank)


def test_the_default_rank_is_capped_by_the_data_and_says_so():
    basis = np.eye(512)[:, :250]
    assert settle(None, basis, identities=400) == (DEFAULT_RANK, "rank 192 by default")
    assert settle(7, basis, identities=400) == (7, "rank 7 as asked for")
    assert settle(None, basis[:, :192], identities=193)[0] == 192
    rank, note = settle(None, basis[:, :191], identities=192)
    assert rank == 191
    assert note == "rank 191: capped from the default 192, 192 identities support no more"
    assert settle(None, np.eye(40), identities=400) == (20, "rank 20 by default")  # half of few dimensions
    with pytest.raises(RankError, match="rank 251 is too large"):
        settle(251, basis, identities=400)


@pytest.mark.parametrize(
    ("vectors", "identity", "message"),
    [
        (np.eye(4), ["a"] * 4, "at least two identities, got 1"),
        (np.eye(4), list("abcd"), "all 4 identities have a single image.*PCA.*several photographs each"),
        (np.ones((4, 3)), list("aabb"), "all identities have the same mean vector: there is nothing to remove"),
        (np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]), list("aabb"), "the same mean vector"),
        (np.zeros((4, 3)), list("aabb"), "row 0 holds only zeros"),
        (np.zeros((0, 3)), [], "got 0"),
    ],
)
def test_tables_without_identity_to_find_are_refused(vectors, identity, message):
    with pytest.raises(DataError, match=message):
        ISP(1).fit(vectors, identity)


def test_two_people_with_the_same_mean_among_others_cost_one_direction():
    vectors = np.repeat(np.array([[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]], float), 2, axis=0)
    found = ISP.directions(IdentityMoments().partial_fit(vectors, list("aabbccdd")))
    basis, spectrum = found.reads, found.spectrum
    assert basis.shape == (4, 2)
    np.testing.assert_allclose(basis[3], 0, atol=1e-12)
    assert isinstance(ISP(2).fit(vectors, list("aabbccdd")).projector_, Projector)
    assert spectrum[2] < 1e-12
