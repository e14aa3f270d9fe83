"""LEACE: the theorems of its paper, and many identities."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles

from faceblind._errors import DataError, RankError, UsageError
from faceblind.erase import LEACE, SAL, IdentityMoments, Projector
from strategies import orthonormal, planted


def people(seed: int = 0, people: int = 12, images: int = 25, dim: int = 32, *, uneven: bool = True):
    """(unit float64 rows, names): correlated noise, so that oblique and orthogonal maps differ."""
    made = planted(seed, people=people, images=images, dim=dim, rank=min(8, dim), noise=0.0)
    rng = np.random.default_rng([seed, 1])
    X = made.vectors + 0.6 * rng.standard_normal(made.vectors.shape) @ rng.standard_normal((dim, dim)) / np.sqrt(dim)
    X += 0.5 * rng.standard_normal(dim)
    keep = rng.permutation(len(X))[: len(X) * 3 // 4] if uneven else np.arange(len(X))
    X, identity = X[keep], made.identity[keep]
    return X / np.linalg.norm(X, axis=1, keepdims=True), identity


def moments_of(X, identity) -> IdentityMoments:
    return IdentityMoments(scatter=True).partial_fit(X, identity)


def matrix(projector: Projector) -> np.ndarray:
    lift = projector.basis if projector.lift is None else projector.lift
    return np.eye(projector.dim) - lift @ projector.basis.T


def released(projector: Projector, Z: np.ndarray) -> np.ndarray:
    """Images of unit float64 rows, in float64 and not renormalised."""
    mean = np.zeros(projector.dim) if projector.mean is None else projector.mean
    return (Z - mean) @ matrix(projector).T + mean


def eta2(Z: np.ndarray, codes: np.ndarray) -> float:
    """Share of variance that lies between identities, less what luck puts there."""
    counts = np.bincount(codes).astype(float)
    sums = np.zeros((counts.size, Z.shape[1]))
    np.add.at(sums, codes, Z)
    centred = Z - Z.mean(axis=0)
    between = (sums**2 / counts[:, None]).sum() - Z.sum(axis=0) @ Z.sum(axis=0) / len(Z)
    within = (centred**2).sum() - between
    return 1 - (within / (len(Z) - counts.size)) / ((centred**2).sum() / (len(Z) - 1))


@pytest.mark.parametrize("options", [{}, {"shrinkage": None}, {"shrinkage": 0.3, "ridge": 0.1}, {"affine": False}])
@pytest.mark.parametrize("dim", [16, 32])
def test_at_full_rank_vectors_have_no_covariance_with_identity(options, dim):
    X, identity = people(dim=dim)
    eraser = LEACE(**options).fit(X, identity)
    projector, moments = eraser.projector_, moments_of(X, identity)
    assert projector.rank == 11
    assert projector.form == ("oblique affine" if options.get("affine", True) else "oblique")
    P, cross = matrix(projector), moments.cross_covariance()
    assert np.linalg.norm(P @ cross) < 1e-10 * np.linalg.norm(cross)
    np.testing.assert_allclose(P @ P, P, atol=1e-10)
    assert np.trace(P) == pytest.approx(dim - 11)
    sal = SAL(11).fit(X, identity).projector_
    kernel = np.linalg.svd(projector.lift, full_matrices=False)[0]
    assert subspace_angles(kernel, sal.basis).max() < 1e-7  # removed: the same, by whatever whitening
    means = IdentityMoments().partial_fit(X, identity).means()
    spread = released(projector, means) if options.get("affine", True) else means @ P.T
    assert np.abs(spread - spread.mean(axis=0)).max() < 1e-10
    np.testing.assert_allclose(spread.mean(axis=0), released(projector, moments.mean()[None])[0], atol=1e-10)


def test_the_mean_stays_where_it_is_when_affine():
    X, identity = people(1)
    for affine in (True, False):
        projector = LEACE(affine=affine).fit(X, identity).projector_
        Z = X / np.linalg.norm(X, axis=1, keepdims=True)
        moved = np.abs(released(projector, Z).mean(axis=0) - Z.mean(axis=0)).max()
        assert bool(moved < 1e-12) is affine
        applied = projector.apply(X, renormalise=False).vectors
        np.testing.assert_allclose(applied, released(projector, Z), atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_no_map_that_erases_changes_vectors_less(seed):
    X, identity = people(seed)
    leace = LEACE(shrinkage=None).fit(X, identity).projector_
    mean = X.mean(axis=0)
    edit = lambda P: float((((X - mean) @ (np.eye(32) - P).T) ** 2).sum())  # noqa: E731
    P = matrix(leace)
    orthogonal = matrix(SAL(11).fit(X, identity).projector_)
    assert edit(P) < 0.99 * edit(orthogonal)
    # Any other projection with this kernel: I - L B' with B' L = I.
    kernel, rng = leace.lift, np.random.default_rng(seed)
    aside = np.linalg.qr(kernel, mode="complete")[0][:, 11:]
    for size in (1e-3, 1e-1, 1):
        other = np.eye(32) - kernel @ (leace.basis + size * aside @ rng.standard_normal((21, 11)) / 5).T
        assert np.linalg.norm(other @ moments_of(X, identity).cross_covariance()) < 1e-10
        assert edit(other) > edit(P)


def test_a_linear_classifier_finds_nothing_on_the_fitted_images():
    X, identity = people(2)
    names, codes = np.unique(identity, return_inverse=True)
    onehot = np.eye(names.size)[codes]
    before = X - X.mean(axis=0)
    erased = released(LEACE().fit(X, identity).projector_, X)
    after, target = erased - erased.mean(axis=0), onehot - onehot.mean(axis=0)
    found = {}
    for name, Z in (("before", before), ("after", after)):
        weights = np.linalg.lstsq(Z, target, rcond=1e-9)[0]
        found[name] = float(((Z @ weights) ** 2).sum() / (target**2).sum()), float(np.abs(weights).max())
    assert found["before"][0] > 0.4
    assert found["after"][0] < 1e-10
    assert found["after"][1] < 1e-6


def test_logistic_regression_says_the_most_frequent_person():
    linear = pytest.importorskip("sklearn.linear_model")
    X, identity = people(3, people=5, images=40, dim=12)
    most = np.unique(identity, return_counts=True)[1].max() / identity.size
    erased = released(LEACE().fit(X, identity).projector_, X)
    model = lambda Z: linear.LogisticRegression(C=1e6, max_iter=2_000, tol=1e-8).fit(Z, identity)  # noqa: E731
    before, after = model(X), model(erased)
    assert before.score(X, identity) > most + 0.3
    assert after.score(erased, identity) == pytest.approx(most)
    assert np.ptp(after.predict_proba(erased), axis=0).max() < 0.01


def test_canonical_correlations_are_the_spectrum():
    X, identity = people(4)
    spectrum = LEACE.directions(moments_of(X, identity), shrinkage=None).spectrum
    Z = X - X.mean(axis=0)
    onehot = (identity[:, None] == np.unique(identity)).astype(float)
    orthonormal_of = [np.linalg.svd(A, full_matrices=False) for A in (Z, onehot - onehot.mean(axis=0))]
    bases = [U[:, s > 1e-9 * s[0]] for U, s, _ in orthonormal_of]
    expected = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)
    np.testing.assert_allclose(spectrum[: expected.size], expected, atol=1e-10)
    assert (spectrum <= 1 + 1e-12).all()


@pytest.mark.parametrize(("dim", "planted_rank"), [(16, 6), (32, 10)])
def test_ten_thousand_people_and_more_are_no_no_op(dim, planted_rank):
    """An absolute cut-off on one-hot covariances would keep no direction here and return the identity map."""
    who, rng = np.repeat(np.arange(12_000), 2), np.random.default_rng(0)
    subspace = orthonormal(rng, dim, planted_rank)
    X = rng.standard_normal((12_000, planted_rank))[who] @ subspace.T + 0.1 * rng.standard_normal((24_000, dim))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    moments = moments_of(X, who)
    directions = LEACE.directions(moments)
    assert directions.usable == dim
    assert directions.spectrum[0] > 0.9
    with pytest.raises(RankError, match=f"erase everything: the means of 12000 identities span all {dim} dimensions"):
        LEACE().fit_moments(moments)
    rank, note = directions.settle(None)
    assert rank == dim // 2
    assert "a truncated one makes no guarantee" in note
    projector = directions.projector(planted_rank)
    assert eta2(X, who) > 0.9
    erased = projector.apply(X, renormalise=False).vectors.astype(float)
    assert eta2(erased, who) < 0.02
    assert projector.apply(X).energy_kept.mean() < 0.2
    plain = moments.cross_covariance()
    one_hot = np.linalg.svd(np.linalg.inv(np.linalg.cholesky(moments.total_covariance())) @ plain, compute_uv=False)
    assert one_hot.max() < 0.01  # what the cut-off of the published code sees


def test_full_rank_works_for_many_people_whose_means_leave_room():
    rng = np.random.default_rng(1)
    means = 0.3 * rng.standard_normal((2_000, 5))
    noise = rng.standard_normal((2_000, 19))
    X = np.concatenate([means, noise], axis=1)
    X = np.concatenate([X, np.concatenate([means, -noise], axis=1)])  # means differ in five dimensions and no other
    who = np.tile(np.arange(2_000), 2)
    projector = LEACE().fit(X, who).projector_
    assert projector.rank == 5
    cross = moments_of(X, who).cross_covariance()
    assert np.linalg.norm(matrix(projector) @ cross) < 1e-6 * np.linalg.norm(cross)


@settings(max_examples=15)
@given(st.integers(0, 99), st.integers(1, 7))
def test_turning_all_vectors_turns_the_map(seed, rank):
    X, identity = people(seed, people=8, images=9, dim=10)
    Q = orthonormal(np.random.default_rng(seed), 10, 10)
    one, other = (LEACE(rank).fit(Z, identity).projector_ for Z in (X, X @ Q.T))
    np.testing.assert_allclose(matrix(other), Q @ matrix(one) @ Q.T, atol=1e-7)
    np.testing.assert_allclose(other.mean, Q @ one.mean, atol=1e-10)
    np.testing.assert_allclose(other.spectrum, one.spectrum, atol=1e-9)


@settings(max_examples=15)
@given(st.integers(0, 99), st.sampled_from([None, 3, 7]), st.integers(1, 5))
def test_shards_and_the_order_of_rows_make_no_difference(seed, rank, shards):
    X, identity = people(seed, people=8, images=9, dim=10)
    whole = LEACE(rank).fit_moments(moments_of(X, identity)).projector_
    merged = IdentityMoments(scatter=True)
    for rows in np.array_split(np.random.default_rng(seed).permutation(len(X)), shards):
        merged.merge(moments_of(X[rows], identity[rows]))
    other = LEACE(rank).fit_moments(merged).projector_
    np.testing.assert_allclose(matrix(other), matrix(whole), atol=1e-10)
    np.testing.assert_allclose(other.mean, whole.mean, atol=1e-12)
    assert other.fit_digest == whole.fit_digest
    assert other.fit_people == whole.fit_people


def test_ranks_are_nested_and_the_first_are_the_largest_correlations():
    X, identity = people(5)
    directions = LEACE.directions(moments_of(X, identity))
    assert (np.diff(directions.spectrum) <= 1e-12).all()
    inner, outer = directions.projector(4), directions.projector(9)
    for name in ("basis", "lift"):
        assert subspace_angles(getattr(inner, name), getattr(outer, name)).min() < 1e-8
        joint = np.linalg.matrix_rank(np.concatenate([getattr(inner, name), getattr(outer, name)], axis=1), tol=1e-8)
        assert joint == 9, name
    np.testing.assert_allclose(inner.basis.T @ inner.lift, np.eye(4), atol=1e-12)


def test_shrinkage_and_ridge_change_what_is_kept_and_are_recorded():
    X, identity = people(6)
    maps = {}
    for shrinkage, ridge in ((None, 0.0), ("auto", 0.0), (0.5, 0.0), (None, 1.0), (1.0, 0.0)):
        projector = LEACE(shrinkage=shrinkage, ridge=ridge).fit(X, identity).projector_
        maps[shrinkage, ridge] = projector
        assert projector.settings["ridge"] == ridge
        assert 0 <= projector.settings["shrinkage"] <= 1
    assert 0 < maps["auto", 0.0].settings["shrinkage"] < 0.2
    # one unit of ridge weighs the sphere as much as the sample: the same whitening, up to scale, as half of each
    np.testing.assert_allclose(matrix(maps[None, 1.0]), matrix(maps[0.5, 0.0]), atol=1e-10)
    assert np.abs(matrix(maps[None, 0.0]) - matrix(maps[0.5, 0.0])).max() > 0.01
    orthogonal = matrix(SAL(11).fit(X, identity).projector_)
    np.testing.assert_allclose(matrix(maps[1.0, 0.0]), orthogonal, atol=1e-10)  # all sphere: no whitening at all


def test_it_is_saved_and_read_back_and_transforms(tmp_path):
    X, identity = people(7)
    eraser = LEACE(6).fit(X, identity)
    eraser.projector_.save(tmp_path / "p")
    loaded = Projector.load(tmp_path / "p")
    assert loaded.describe() == eraser.projector_.describe()
    assert (loaded.method, loaded.form, loaded.fit_identities) == ("leace", "oblique affine", 12)
    np.testing.assert_array_equal(loaded.apply(X).vectors, eraser.transform(X))
    compact = loaded.apply(X, compact=True).vectors
    np.testing.assert_allclose(compact @ compact.T, eraser.transform(X) @ eraser.transform(X).T, atol=2e-6)


def test_fewer_images_than_dimensions():
    X, identity = people(8, people=4, images=4, dim=40, uneven=False)
    for shrinkage in (None, "auto"):
        projector = LEACE(shrinkage=shrinkage).fit(X, identity).projector_
        cross = moments_of(X, identity).cross_covariance()
        assert projector.rank == 3
        assert np.linalg.norm(matrix(projector) @ cross) < 1e-8 * np.linalg.norm(cross)


@pytest.mark.parametrize(
    ("vectors", "identity", "message"),
    [
        (np.eye(4), ["a"] * 4, "at least two identities, got 1"),
        (np.eye(4), list("abcd"), "all 4 identities have a single image"),
        (np.ones((4, 3)), list("aabb"), "all identities have the same mean vector: there is nothing to remove"),
        (np.tile([0.1, 0.7, 0.3], (5, 1)), list("aabbb"), "the same mean vector"),
        (np.zeros((4, 3)), list("aabb"), "row 0 holds only zeros"),
        (np.full((4, 3), np.nan), list("aabb"), "row 0 holds NaN"),
        (np.zeros((0, 3)), [], "got 0"),
    ],
)
def test_tables_without_identity_to_find_are_refused(vectors, identity, message):
    with pytest.raises(DataError, match=message):
        LEACE().fit(vectors, identity)


def test_settings_and_ranks_that_make_no_sense_are_refused():
    with pytest.raises(UsageError, match="shrinkage is 'auto'"):
        LEACE(shrinkage=2.0)
    for ridge in (-1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="ridge is a share of the mean variance: 0 or more"):
            LEACE(ridge=ridge)
    with pytest.raises(RankError, match="at least 1, got 0"):
        LEACE(0)
    X, identity = people(9)
    with pytest.raises(RankError, match="rank 12 is too large: 12 identities in 32 dimensions support at most rank 11"):
        LEACE(12).fit(X, identity)
    with pytest.raises(DataError, match="keep no scatter"):
        LEACE().fit_moments(IdentityMoments().partial_fit(X, identity))


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(("seed", "people_"), [(0, 2), (1, 7), (2, 30)])
def test_it_equals_the_published_implementation_at_full_rank(seed, people_, affine):
    """concept-erasure 0.2.4 without shrinkage, and with its cut-off so low that it cuts nothing."""
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it still uses torch.jit
        peer = pytest.importorskip("concept_erasure")
    X, identity = people(seed, people=people_, images=20, dim=40)
    names, codes = np.unique(identity, return_inverse=True)
    onehot = torch.from_numpy(np.eye(names.size)[codes])
    theirs = peer.LeaceFitter.fit(torch.from_numpy(X), onehot, shrinkage=False, svd_tol=1e-10, affine=affine).eraser
    ours = LEACE(shrinkage=None, affine=affine).fit(X, identity).projector_
    np.testing.assert_allclose(matrix(ours), theirs.P.numpy(), atol=1e-9)
    np.testing.assert_allclose(released(ours, X), theirs(torch.from_numpy(X)).numpy(), atol=1e-9)
    applied = ours.apply(X, renormalise=False).vectors
    np.testing.assert_allclose(applied, theirs(torch.from_numpy(X)).numpy(), atol=2e-6)
