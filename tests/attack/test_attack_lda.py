from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eigh, subspace_angles

from faceblind.attack import LDA
from faceblind.attack.lda import discriminants
from faceblind.attack.scatter import within
from faceblind.attack.training import Training
from strategies import labels_of, planted, unit_gauss

sklearn_lda = pytest.importorskip("sklearn.discriminant_analysis")


def fit(attacker: LDA, X: np.ndarray, identity: np.ndarray, k: int | None = None) -> list:
    return list(attacker.fit(X, identity, k=k, rng=np.random.default_rng(0)))


def scatter_of(X: np.ndarray, identity: np.ndarray):
    return within(Training.draw(X, identity, None, np.random.default_rng(0), who="x"))


@pytest.mark.parametrize("people", [6, 40])  # fewer and more than dimensions
def test_directions_and_their_order_are_those_of_scikit_learn(people):
    made = planted(1, people=people, images=7, dim=15, rank=5, noise=0.4)
    X = made.vectors.astype(np.float64)
    theirs = sklearn_lda.LinearDiscriminantAnalysis(solver="eigen").fit(X, made.identity)
    found = discriminants(scatter_of(made.vectors, made.identity), 0.0)
    most = min(people - 1, 15)
    assert found.ratios.size == most
    for size in (1, 3, most):
        assert subspace_angles(found.projection.basis[:, :size], theirs.scalings_[:, :size]).max() < 1e-6
    shares = found.ratios / found.ratios.sum()
    np.testing.assert_allclose(shares, theirs.explained_variance_ratio_[:most], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("people", [6, 40])
def test_with_shrinkage_they_are_generalised_eigenvectors(people):
    """scikit-learn shrinks the total covariance as well, so the oracle is the definition."""
    made = planted(1, people=people, images=7, dim=15, rank=5, noise=0.4)
    X, names = made.vectors.astype(np.float64), np.unique(made.identity)
    means = np.array([X[made.identity == name].mean(axis=0) for name in names])
    residuals = X - means[np.searchsorted(names, made.identity)]
    inside = residuals.T @ residuals / (X.shape[0] - people)
    shrunk = 0.6 * inside + 0.4 * np.trace(inside) / 15 * np.eye(15)
    centred = means - X.mean(axis=0)
    values, vectors = eigh(7 * centred.T @ centred / (people - 1), shrunk)
    found = discriminants(scatter_of(made.vectors, made.identity), 0.4)
    np.testing.assert_allclose(found.ratios, values[::-1][: found.ratios.size], rtol=1e-8)
    for size in (1, 3, found.ratios.size):
        assert subspace_angles(found.projection.basis[:, :size], vectors[:, ::-1][:, :size]).max() < 1e-6


def test_uneven_numbers_of_images_weigh_as_in_scikit_learn():
    rng = np.random.default_rng(2)
    identity = labels_of([9, 2, 5, 3, 7], "shuffled", rng)
    X = unit_gauss(rng, 26, 6)
    theirs = sklearn_lda.LinearDiscriminantAnalysis(solver="eigen").fit(X.astype(np.float64), identity)
    found = discriminants(scatter_of(X, identity), 0.0)
    assert subspace_angles(found.projection.basis, theirs.scalings_[:, :4]).max() < 1e-6


@pytest.mark.parametrize("dim", [10, 90])
def test_coordinates_are_white_within_identities_and_uncorrelated_between_them(dim):
    made = planted(3, people=14, images=5, dim=dim, noise=0.4)
    scatter = scatter_of(made.vectors, made.identity)
    found = discriminants(scatter, 0.3)
    rows = found.projection(made.vectors)
    names, codes = np.unique(made.identity, return_inverse=True)
    means = np.array([rows[made.identity == name].mean(axis=0) for name in names])
    between = 5 * means.T @ means / 13
    np.testing.assert_allclose(between, np.diag(found.ratios), atol=1e-8 * found.ratios[0])
    shrunk = (rows - means[codes]).T @ (rows - means[codes]) / (70 - 14) * 0.7
    extra = 0.3 * scatter.mean_variance * found.projection.basis.T @ found.projection.basis
    np.testing.assert_allclose(shrunk + extra, np.eye(found.ratios.size), atol=1e-8)


def test_the_grid_is_cut_to_what_the_people_support():
    made = planted(4, people=6, images=5, dim=30)
    settings = [dict(c.setting) for c in fit(LDA((0.1, 0.5), (2, 4, 64, 128)), made.vectors, made.identity)]
    assert settings == [{"shrinkage": a, "dimensions": size} for a in (0.1, 0.5) for size in (2, 4, 5)]


def test_fewer_dimensions_are_the_first_of_more():
    made = planted(5, people=12, images=5, dim=9)
    new = unit_gauss(np.random.default_rng(1), 6, 9)
    two, all_of_them = fit(LDA((0.1,), (2, 99)), made.vectors, made.identity)
    rows = all_of_them.projection(new)[:, :2]
    np.testing.assert_allclose(two.map(new), rows / np.linalg.norm(rows, axis=1, keepdims=True), atol=1e-6)


def test_with_one_image_per_identity_main_directions_are_kept():
    made = planted(6, people=12, images=5, dim=8)
    (candidate,) = fit(LDA((0.0,), (3,)), made.vectors, made.identity, k=1)
    assert candidate.setting == {"shrinkage": 0.0, "dimensions": 3, "total_covariance": 1.0}
    centred = made.vectors.astype(float) - made.vectors.astype(float).mean(axis=0)
    main = np.linalg.svd(centred)[2][:3].T
    assert subspace_angles(candidate.projection.basis[:, :3], main).max() < 1e-5
