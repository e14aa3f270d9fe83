from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal, spearmanr

from faceblind.attack import PLDA, WCCN
from faceblind.attack.plda import between_variances
from strategies import labels_of, orthonormal, unit_gauss


def people_of(seed: int, counts: list[int], dim: int, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draw from the model itself: identities with the given spread in a turned space, images with unequal noise."""
    rng = np.random.default_rng(seed)
    identity = labels_of(counts)
    _, who = np.unique(identity, return_inverse=True)
    person = rng.standard_normal((len(counts), dim)) * spread
    noise = rng.standard_normal((who.size, dim)) * np.linspace(0.5, 2, dim)
    return ((person[who] + noise) @ orthonormal(rng, dim, dim)).astype(np.float32), identity


def moments(X: np.ndarray, identity: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, within- and between-identity covariance by analysis of variance, sum by sum."""
    wide, names = X.astype(np.float64), np.unique(identity)
    mean, n, m = wide.mean(axis=0), identity.size, names.size
    inside = np.zeros((X.shape[1], X.shape[1]))
    outside = np.zeros_like(inside)
    counts = []
    for name in names:
        own = wide[identity == name]
        centre = own.mean(axis=0)
        inside += (own - centre).T @ (own - centre)
        outside += len(own) * np.outer(centre - mean, centre - mean)
        counts.append(len(own))
    inside /= n - m
    effective = (n - np.sum(np.square(counts)) / n) / (m - 1)
    return mean, inside, (outside / (m - 1) - inside) / effective


class BruteForce:
    """The log likelihood ratio of a pair from two joint Gaussians of both images."""

    def __init__(self, mean: np.ndarray, inside: np.ndarray, between: np.ndarray) -> None:
        whole, none = inside + between, np.zeros_like(between)
        both = np.concatenate([mean, mean])
        self.same = multivariate_normal(both, np.block([[whole, between], [between, whole]]))
        self.two = multivariate_normal(both, np.block([[whole, none], [none, whole]]))

    def __call__(self, one: np.ndarray, other: np.ndarray) -> float:
        pair = np.concatenate([one, other])
        return float(self.same.logpdf(pair) - self.two.logpdf(pair))


def exact(X: np.ndarray, identity: np.ndarray):
    (candidate,) = PLDA((0.0,), (0.0,)).fit(X, identity, k=None, rng=np.random.default_rng(0))
    return candidate


@pytest.mark.parametrize("counts", [[6] * 60, [2, 9, 5, 1, 4] * 20])
def test_inner_products_are_the_pair_term_of_the_likelihood_ratio(counts):
    """The terms of a single image cancel in f(x,y) - f(x,0) - f(0,y) + f(0,0), and the pair term is left."""
    X, identity = people_of(1, counts, 5, np.array([3.0, 2.5, 2.0, 2.0, 3.0]))
    mean, inside, between = moments(X, identity)
    assert np.linalg.eigvalsh(between)[0] > 0  # nothing is cut off at zero
    ratio = BruteForce(mean, inside, between)
    new = np.random.default_rng(2).standard_normal((6, 5)).astype(np.float32) * 2
    rows = exact(X, identity).rows(new)
    for i in range(6):
        for j in range(6):
            expected = ratio(new[i], new[j]) - ratio(new[i], mean) - ratio(mean, new[j]) + ratio(mean, mean)
            assert rows[i] @ rows[j] == pytest.approx(expected, abs=1e-6)


def test_cosines_order_pairs_of_equal_lengths_as_the_likelihood_ratio_does():
    """Equally strong identity everywhere: equal lengths then mean equal single-image terms, and the order is exact."""
    X, identity = people_of(3, [6] * 400, 4, np.linspace(0.5, 2, 4) * 1.5)
    mean, inside, between = moments(X, identity)
    candidate = exact(X, identity)
    psi = np.linalg.eigvals(np.linalg.solve(inside, between)).real
    assert np.ptp(psi) / psi.mean() < 0.4
    rng = np.random.default_rng(4)
    white = np.linalg.cholesky(inside)
    new = (unit_gauss(rng, 24, 4) * 2.5) @ white.T + mean
    ratio = BruteForce(mean, inside, between)
    pairs = np.array(np.triu_indices(24, 1)).T
    mapped = candidate.map(new.astype(np.float32))
    found = [mapped[i] @ mapped[j] for i, j in pairs]
    expected = [ratio(new[i], new[j]) for i, j in pairs]
    assert spearmanr(found, expected).statistic > 0.99


@pytest.mark.parametrize(("strength", "least"), [(0.5, 0.85), (4.0, 0.6)])
def test_cosines_order_most_pairs_of_any_length_as_the_likelihood_ratio_does(strength, least):
    """The stronger identity is, the more the single-image terms matter that a cosine cannot have."""
    X, identity = people_of(5, [6] * 80, 8, np.linspace(strength, strength / 8, 8))
    mean, inside, between = moments(X, identity)
    values, vectors = np.linalg.eigh(between)
    between = (vectors * np.clip(values, 0, None)) @ vectors.T
    ratio, mapped = BruteForce(mean, inside, between), exact(X, identity).map(X)
    rng = np.random.default_rng(6)
    pairs = rng.integers(0, X.shape[0], (400, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    found = [mapped[i] @ mapped[j] for i, j in pairs]
    expected = [ratio(X[i], X[j]) for i, j in pairs]
    assert spearmanr(found, expected).statistic > least


def test_the_noise_of_identity_means_is_taken_off():
    """Mean squares of 20,000 identities: 1 within, so a ratio of 1 + images times psi."""
    rng = np.random.default_rng(7)
    counts = np.repeat([2, 4, 9], 7000)
    psi = np.array([0.0, 0.3, 2.0])
    means = rng.standard_normal((counts.size, 3)) * np.sqrt(psi + 1 / counts[:, None])
    grand = np.average(means, axis=0, weights=counts)
    ratios = (counts[:, None] * (means - grand) ** 2).sum(axis=0) / (counts.size - 1)
    np.testing.assert_allclose(between_variances(ratios, counts), psi, atol=0.05)


@pytest.mark.parametrize("dim", [8, 80])
def test_full_between_shrinkage_is_wccn(dim):
    X, identity = people_of(8, [4] * 15, dim, np.linspace(3, 0.1, dim))
    new = unit_gauss(np.random.default_rng(1), 9, dim)
    (one,) = PLDA((0.2,), (1.0,)).fit(X, identity, k=None, rng=np.random.default_rng(0))
    (other,) = WCCN((0.2,)).fit(X, identity, k=None, rng=np.random.default_rng(0))
    one, other = one.map(new).astype(float), other.map(new).astype(float)
    np.testing.assert_allclose(one @ one.T, other @ other.T, atol=1e-6)


@pytest.mark.parametrize("dim", [8, 80])
def test_directions_weigh_what_the_shrunk_model_says(dim):
    """The concatenated rows against one product with the weighted, complete set of directions."""
    X, identity = people_of(9, [4] * 15, dim, np.linspace(3, 0.1, dim))
    mean, inside, _ = moments(X, identity)
    a, b = 0.3, 0.4
    within = (1 - a) * inside + a * np.trace(inside) / dim * np.eye(dim)
    half = np.linalg.inv(np.linalg.cholesky(within))
    means = np.array([X[identity == name].astype(float).mean(axis=0) - mean for name in np.unique(identity)])
    values, turned = np.linalg.eigh(half @ (4 * means.T @ means / 14) @ half.T)
    psi = np.clip((values - 1) / 4, 0, None)
    psi = (1 - b) * psi + b * psi.mean()
    weigh = (turned * (psi / (2 * psi + 1))) @ turned.T
    new = unit_gauss(np.random.default_rng(1), 9, dim)
    (candidate,) = PLDA((a,), (b,)).fit(X, identity, k=None, rng=np.random.default_rng(0))
    rows = candidate.rows(new)
    white = (new - mean) @ half.T
    np.testing.assert_allclose(rows @ rows.T, white @ weigh @ white.T, rtol=1e-6, atol=1e-8)


def test_where_identities_do_not_differ_all_directions_count_alike():
    """Means that vary less than chance would have them: no ratio above 1, nothing to weigh by."""
    rng = np.random.default_rng(10)
    noise = rng.standard_normal((40, 5))
    identity = labels_of([4] * 10)
    for start in range(0, 40, 4):
        noise[start : start + 4] -= noise[start : start + 4].mean(axis=0)
    X = noise.astype(np.float32)
    found = PLDA((0.2,), (0.0, 0.5)).fit(X, identity, k=None, rng=rng)
    assert [dict(c.setting) for c in found] == [{"shrinkage": 0.2, "between": 1.0}]
    (other,) = WCCN((0.2,)).fit(X, identity, k=None, rng=rng)
    np.testing.assert_allclose(found[0].map(X) @ found[0].map(X).T, other.map(X) @ other.map(X).T, atol=1e-6)


def test_with_one_image_per_identity_it_is_whitening_by_the_covariance_of_all_images():
    X, identity = people_of(11, [4] * 10, 5, np.ones(5))
    found = PLDA((0.2,)).fit(X, identity, k=1, rng=np.random.default_rng(0))
    (other,) = WCCN((0.2,)).fit(X, identity, k=1, rng=np.random.default_rng(0))
    assert [dict(c.setting) for c in found] == [{"shrinkage": 0.2, "total_covariance": 1.0}]
    np.testing.assert_array_equal(found[0].map(X), other.map(X))
