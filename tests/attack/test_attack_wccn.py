from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faceblind.attack import WCCN
from faceblind.attack.scatter import total, within
from faceblind.attack.training import Training
from faceblind.attack.wccn import Whitening
from strategies import labels_of, planted, unit_gauss


def cosines(rows: np.ndarray) -> np.ndarray:
    wide = rows.astype(np.float64)
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    return wide @ wide.T


def within_covariance(X: np.ndarray, identity: np.ndarray) -> np.ndarray:
    """The textbook sum over people."""
    wide = X.astype(np.float64)
    names = np.unique(identity)
    scatter = np.zeros((X.shape[1], X.shape[1]))
    for name in names:
        own = wide[identity == name]
        scatter += (own - own.mean(axis=0)).T @ (own - own.mean(axis=0))
    return scatter / (identity.size - names.size)


def fit(attacker: WCCN, X: np.ndarray, identity: np.ndarray, k: int | None = None) -> list:
    return list(attacker.fit(X, identity, k=k, rng=np.random.default_rng(0)))


def test_training_images_have_unit_covariance_within_identities():
    made = planted(1, people=12, images=6, dim=10)
    training = Training.draw(made.vectors, made.identity, None, np.random.default_rng(0), who="x")
    whitening = Whitening(within(training))
    rows = whitening(made.vectors, 0.0)
    np.testing.assert_allclose(within_covariance(rows, made.identity), np.eye(10), atol=1e-9)
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-9)


@pytest.mark.parametrize(
    ("dim", "images"), [(10, 6), (40, 3), (100, 2)]
)  # 72 vectors of 10, 36 of 40, 24 of 100 numbers
def test_scores_are_cosines_under_the_inverse_of_the_shrunk_covariance(dim, images):
    made = planted(2, people=12, images=images, dim=dim, noise=0.4)
    new = unit_gauss(np.random.default_rng(1), 15, dim)
    S = within_covariance(made.vectors, made.identity)
    for candidate in fit(WCCN((1e-3, 0.1, 0.7)), made.vectors, made.identity):
        a = candidate.setting["shrinkage"]
        shrunk = (1 - a) * S + a * np.trace(S) / dim * np.eye(dim)
        centred = new - made.vectors.astype(float).mean(axis=0)
        gram = centred @ np.linalg.solve(shrunk, centred.T)
        expected = gram / np.sqrt(np.outer(gram.diagonal(), gram.diagonal()))
        mapped = candidate.map(new).astype(float)
        np.testing.assert_allclose(mapped @ mapped.T, expected, atol=2e-6)


@settings(max_examples=25)
@given(st.lists(st.integers(1, 5), min_size=3, max_size=8), st.integers(0, 2**16))
def test_uneven_numbers_of_images_and_people_with_one(counts, seed):
    rng = np.random.default_rng(seed)
    identity = labels_of([2, *counts], "shuffled", rng)
    X, new = unit_gauss(rng, identity.size, 4), unit_gauss(rng, 6, 4)
    (candidate,) = fit(WCCN((0.2,)), X, identity)
    S = within_covariance(X, identity)
    shrunk = 0.8 * S + 0.2 * np.trace(S) / 4 * np.eye(4)
    centred = new - X.astype(float).mean(axis=0)
    gram = centred @ np.linalg.solve(shrunk, centred.T)
    mapped = candidate.map(new).astype(float)
    np.testing.assert_allclose(mapped @ mapped.T, gram / np.sqrt(np.outer(gram.diagonal(), gram.diagonal())), atol=1e-5)


def test_without_shrinkage_no_invertible_linear_map_of_the_release_changes_a_score():
    """So multiplying vectors by a secret matrix protects nothing."""
    made = planted(3, people=20, images=6, dim=12, noise=0.4)
    new = unit_gauss(np.random.default_rng(1), 15, 12)
    secret = np.random.default_rng(2).standard_normal((12, 12))
    shift = np.random.default_rng(3).standard_normal(12)
    assert np.linalg.cond(secret) > 10
    (plain,) = fit(WCCN((0.0,)), made.vectors, made.identity)
    (turned,) = fit(WCCN((0.0,)), (made.vectors @ secret + shift).astype(np.float32), made.identity)
    np.testing.assert_allclose(
        cosines(plain.map(new)), cosines(turned.map((new @ secret + shift).astype(np.float32))), atol=1e-4
    )


def test_with_full_shrinkage_it_is_cosine_of_centred_vectors():
    for dim, images in ((10, 6), (60, 2)):
        made = planted(4, people=12, images=images, dim=dim)
        new = unit_gauss(np.random.default_rng(1), 15, dim)
        (candidate,) = fit(WCCN((1.0,)), made.vectors, made.identity)
        expected = cosines(new - made.vectors.astype(float).mean(axis=0))
        np.testing.assert_allclose(cosines(candidate.map(new)), expected, atol=1e-6)


def test_an_erased_release_scores_as_its_compact_form_does_without_shrinkage():
    made = planted(5, people=20, images=6, dim=16, rank=6)
    kept = np.linalg.qr(np.random.default_rng(5).standard_normal((16, 9)))[0]
    new = unit_gauss(np.random.default_rng(1), 15, 16)
    erased = [((X.astype(float) @ kept) @ kept.T).astype(np.float32) for X in (made.vectors, new)]
    compact = [(X.astype(float) @ kept).astype(np.float32) for X in (made.vectors, new)]
    (one,) = fit(WCCN((0.0,)), erased[0], made.identity)
    (other,) = fit(WCCN((0.0,)), compact[0], made.identity)
    np.testing.assert_allclose(cosines(one.map(erased[1])), cosines(other.map(compact[1])), atol=1e-4)


@pytest.mark.parametrize("dim", [8, 100])
def test_with_one_image_per_identity_the_covariance_of_all_images_stands_in(dim):
    made = planted(6, people=12, images=5, dim=dim)
    new = unit_gauss(np.random.default_rng(1), 15, dim)
    found = fit(WCCN((0.1, 0.5)), made.vectors, made.identity, k=1)
    whitening = Whitening(total(made.vectors))
    for candidate in found:
        assert candidate.setting["total_covariance"] == 1
        np.testing.assert_allclose(
            cosines(candidate.map(new)), cosines(whitening(new, candidate.setting["shrinkage"])), atol=1e-6
        )
    centred = made.vectors.astype(float) - made.vectors.astype(float).mean(axis=0)
    rows = Whitening(total(made.vectors))(made.vectors, 0.0)
    seen = min(dim, 59)
    assert np.linalg.matrix_rank(centred, tol=1e-4) == seen
    np.testing.assert_allclose(rows.T @ rows / 59, np.eye(seen), atol=1e-6)
    assert "total_covariance" not in fit(WCCN(), made.vectors, made.identity, k=2)[0].setting


def test_identical_images_of_each_person_leave_no_scatter_to_divide_by():
    made = planted(7, people=12, images=1, dim=6)
    X, identity = np.repeat(made.vectors, 3, axis=0), np.repeat(made.identity, 3)
    (candidate,) = fit(WCCN((0.1,)), X, identity)
    assert candidate.setting["total_covariance"] == 1
