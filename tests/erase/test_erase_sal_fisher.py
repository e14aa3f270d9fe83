"""SAL and the forms of ISP that know noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eigh, subspace_angles

from faceblind._errors import DataError, UsageError
from faceblind.erase import ISP, SAL, FisherISP, IdentityMoments, RatioISP
from faceblind.erase.scatter import shrunk
from strategies import planted


def unit(vectors: np.ndarray) -> np.ndarray:
    Z = vectors.astype(float)
    return Z / np.linalg.norm(Z, axis=1, keepdims=True)


def moments_of(vectors, identity) -> IdentityMoments:
    return IdentityMoments(scatter=True).partial_fit(vectors, identity)


def noisy(seed: int, *, people: int = 40, images: int = 6, dim: int = 24):
    """Identity in four dimensions, weak; in four others photographs of one person scatter strongly."""
    made = planted(seed, people=people, images=images, dim=dim, rank=4, strength=0.25, noise=0.06)
    rng = np.random.default_rng([seed, 9])
    away = rng.standard_normal((dim, 4))
    scene = np.linalg.qr(away - made.subspace @ (made.subspace.T @ away))[0]
    vectors = made.vectors + (rng.standard_normal((len(made.vectors), 4)) @ scene.T).astype(np.float32)
    return vectors, made.identity, made.subspace, scene


@pytest.mark.parametrize("rank", [1, 4, 12, 23])
def test_sal_is_isp_when_people_have_as_many_images(rank):
    made = planted(2, people=30, images=4, dim=24, noise=0.5)
    one, other = (eraser(rank).fit(made.vectors, made.identity).projector_ for eraser in (SAL, ISP))
    assert subspace_angles(one.basis, other.basis).max() < 1e-8
    np.testing.assert_allclose(one.spectrum[:23], other.spectrum[:23] / 30, atol=1e-9)
    assert one.method == "sal"


@pytest.mark.parametrize("people", [20, 70])
def test_sal_is_the_svd_of_the_covariance_with_one_hot_labels(people):
    made = planted(3, people=people, images=7, dim=24, noise=0.5)
    keep = np.random.default_rng(0).permutation(len(made.vectors))[: 4 * people]  # uneven
    Z, identity = unit(made.vectors[keep]), made.identity[keep]
    onehot = (identity[:, None] == np.unique(identity)).astype(float)
    U, s, _ = np.linalg.svd((Z - Z.mean(0)).T @ (onehot - onehot.mean(0)) / len(Z))
    directions = SAL.directions(IdentityMoments().partial_fit(made.vectors[keep], identity))
    assert directions.usable == min(24, np.unique(identity).size - 1)
    np.testing.assert_allclose(directions.spectrum[: directions.usable], s[: directions.usable], atol=1e-9)
    for rank in (1, 3, 8, 15):
        if s[rank - 1] > s[rank] * 1.001:
            assert subspace_angles(directions.projector(rank).basis, U[:, :rank]).max() < 1e-7
    assert subspace_angles(directions.projector(3).basis, ISP(3).fit(Z, identity).projector_.basis).max() > 1e-3


@pytest.mark.parametrize("shrinkage", ["auto", None, 0.2])
@pytest.mark.parametrize("people", [12, 80])
def test_fisher_directions_are_those_of_the_generalised_eigenproblem(people, shrinkage):
    """S_w^1/2 u with u left vectors of S_w^-1/2 M: S_w w for the discriminants w of (M M', S_w)."""
    vectors, identity, *_ = noisy(0, people=people)
    moments = moments_of(vectors, identity)
    directions = FisherISP.directions(moments, shrinkage=shrinkage)
    means = moments.means()
    M = (means - means.mean(axis=0)).T
    within = shrunk(moments.within_covariance(), directions.settings["shrinkage"])
    values, discriminants = eigh(M @ M.T, within)
    usable = min(24, people - 1)
    np.testing.assert_allclose(directions.spectrum[:usable] ** 2, values[::-1][:usable], rtol=1e-6)
    for rank in (1, 3, usable - 1):
        expected = within @ discriminants[:, ::-1][:, :rank]
        assert subspace_angles(directions.reads[:, :rank], expected).max() < 1e-6
    np.testing.assert_allclose(directions.reads.T @ directions.reads, np.eye(usable), atol=1e-12)
    assert directions.settings["shrinkage"] == pytest.approx({None: 1e-6, 0.2: 0.2}.get(shrinkage, 0.05), abs=0.05)


@pytest.mark.parametrize("eraser", [FisherISP, RatioISP])
def test_at_full_rank_they_remove_what_isp_removes(eraser):
    vectors, identity, *_ = noisy(1, people=10)
    one, other = (e(9).fit(vectors, identity).projector_ for e in (eraser, ISP))
    assert subspace_angles(one.basis, other.basis).max() < 1e-7
    means = IdentityMoments().partial_fit(vectors, identity).means()
    np.testing.assert_allclose((means - means.mean(0)) @ (np.eye(24) - one.basis @ one.basis.T), 0, atol=1e-10)


@pytest.mark.parametrize("eraser", [FisherISP, RatioISP])
def test_they_find_identity_that_is_small_beside_noise_where_isp_removes_noise(eraser):
    vectors, identity, subspace, scene = noisy(2, people=60, images=3)
    share = lambda basis, of: np.linalg.norm(basis.T @ of) ** 2 / 4  # noqa: E731
    plain = ISP(4).fit(vectors, identity).projector_.basis
    found = eraser(4).fit(vectors, identity).projector_.basis
    assert share(plain, scene) > 0.8
    assert share(found, subspace) > (0.8 if eraser is FisherISP else 0.6)
    assert share(found, scene) < 0.2


def test_ratio_keeps_the_directions_of_isp_and_sorts_them():
    vectors, identity, *_ = noisy(3)
    moments = moments_of(vectors, identity)
    directions, plain = RatioISP.directions(moments), ISP.directions(moments)
    overlap = np.abs(plain.reads.T @ directions.reads)
    np.testing.assert_allclose(np.sort(overlap, axis=0)[-1], 1, atol=1e-12)  # a permutation
    np.testing.assert_allclose(np.sort(overlap, axis=1)[:, -1], 1, atol=1e-12)
    means = moments.means()
    between = np.cov(means.T, bias=True)
    within = shrunk(moments.within_covariance(), directions.settings["shrinkage"])
    ratio = [(u @ between @ u) / (u @ within @ u) for u in directions.reads.T]
    np.testing.assert_allclose(directions.spectrum, ratio, rtol=1e-8)
    assert (np.diff(ratio) <= 0).all()
    assert not np.array_equal(overlap.argmax(axis=0), np.arange(24))


@pytest.mark.parametrize("eraser", [FisherISP, RatioISP])
def test_with_spherical_noise_they_are_isp(eraser):
    made = planted(4, people=40, images=6, dim=16, rank=4, noise=0.2)
    one, other = eraser(4, shrinkage=1.0), ISP(4)
    bases = [e.fit(made.vectors, made.identity).projector_.basis for e in (one, other)]
    assert subspace_angles(*bases).max() < 1e-9


@pytest.mark.parametrize("eraser", [FisherISP, RatioISP])
def test_few_images_in_many_dimensions_are_no_trouble(eraser):
    made = planted(5, people=5, images=2, dim=40, noise=0.3)
    for shrinkage in ("auto", None):
        projector = eraser(4, shrinkage=shrinkage).fit(made.vectors, made.identity).projector_
        assert subspace_angles(projector.basis, ISP(4).fit(made.vectors, made.identity).projector_.basis).max() < 1e-5
        assert projector.settings["shrinkage"] >= 1e-6
        assert projector.form == "orthogonal"


@pytest.mark.parametrize("eraser", [FisherISP, RatioISP, SAL])
@pytest.mark.parametrize(
    ("vectors", "identity", "message"),
    [
        (np.eye(4), ["a"] * 4, "at least two identities, got 1"),
        (np.eye(4), list("abcd"), "all 4 identities have a single image"),
        (np.ones((4, 3)), list("aabb"), "all identities have the same mean vector: there is nothing to remove"),
        (np.tile([0.1, 0.7, 0.3], (5, 1)), list("aabbb"), "the same mean vector"),
    ],
)
def test_tables_without_identity_to_find_are_refused(eraser, vectors, identity, message):
    with pytest.raises(DataError, match=message):
        eraser(1).fit(vectors, identity)


@pytest.mark.parametrize("eraser", [FisherISP, RatioISP])
def test_scatter_and_a_real_weight_are_needed(eraser):
    made = planted(6, people=5, images=3, dim=8)
    with pytest.raises(DataError, match="keep no scatter"):
        eraser(2).fit_moments(IdentityMoments().partial_fit(made.vectors, made.identity))
    with pytest.raises(UsageError, match="shrinkage is 'auto'"):
        eraser(2, shrinkage=-1)
    copies = np.repeat(np.eye(8), 2, axis=0)  # no scatter within any person at all
    with pytest.raises(DataError, match=r"photographs of each person are one and the same vector.*use ISP or SAL"):
        eraser(3).fit(copies, np.repeat(np.arange(8), 2))
