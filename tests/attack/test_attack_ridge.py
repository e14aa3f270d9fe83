from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from faceblind._errors import DataError
from faceblind.attack import RidgeProbe, draw_images
from faceblind.attack.ridge import LAMBDAS
from strategies import labels_of, orthonormal, planted, unit_gauss


def cosines(rows: np.ndarray) -> np.ndarray:
    wide = rows.astype(np.float64)
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    return wide @ wide.T


def direct(X: np.ndarray, identity: np.ndarray, lam: float, new: np.ndarray) -> np.ndarray:
    """Outputs for new rows by solving the normal equations with one-hot labels, as the paper writes them."""
    Z = X.astype(np.float64)
    mean = Z.mean(axis=0)
    Z = Z - mean
    Y = (identity[:, None] == np.unique(identity)).astype(float)
    Y -= Y.mean(axis=0)
    d = Z.shape[1]
    W = np.linalg.solve(Z.T @ Z + lam * np.trace(Z.T @ Z) / d * np.eye(d), Z.T @ Y)
    return (new.astype(np.float64) - mean) @ W


@pytest.mark.parametrize(
    ("people", "images", "dim", "k"),
    [
        (8, 6, 12, 6),  # more images than dimensions
        (8, 6, 60, 4),  # fewer: the N x N Gram matrix
        (30, 4, 12, 3),  # more people than dimensions: the d-column factor
        (30, 1, 60, 1),  # one image each
        (40, 3, 40, 1),  # as many people, images and dimensions
        (2, 5, 7, 9),  # k larger than anybody's images
    ],
)
def test_each_lambda_scores_like_the_normal_equations(people, images, dim, k):
    made = planted(1, people=people, images=images, dim=dim, noise=0.4)
    candidates = RidgeProbe().fit(made.vectors, made.identity, k=k, rng=np.random.default_rng(7))
    rows = draw_images(made.identity, k, np.random.default_rng(7))
    new = unit_gauss(np.random.default_rng(2), 40, dim)
    assert [c.setting["lambda"] for c in candidates] == list(LAMBDAS)
    for candidate, lam in zip(candidates, LAMBDAS, strict=True):
        expected = cosines(direct(made.vectors[rows], made.identity[rows], lam, new))
        found = candidate.map(new)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found.astype(float) @ found.T, expected, atol=2e-6)
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(("people", "images", "dim"), [(8, 6, 12), (8, 6, 60), (30, 2, 12)])
def test_covariance_of_all_images_with_labels_of_the_drawn_ones(people, images, dim):
    made = planted(1, people=people, images=images, dim=dim, noise=0.4)
    new = unit_gauss(np.random.default_rng(2), 20, dim)
    for k in (1, 2):
        rows = draw_images(made.identity, k, np.random.default_rng(7))
        X = made.vectors.astype(np.float64)
        mean, drawn = X.mean(axis=0), X[rows] - X[rows].mean(axis=0)
        Y = (made.identity[rows][:, None] == np.unique(made.identity)).astype(float)
        S = (X - mean).T @ (X - mean)
        probe = RidgeProbe((1e-3, 0.1), covariance="all")
        for candidate in probe.fit(made.vectors, made.identity, k=k, rng=np.random.default_rng(7)):
            W = np.linalg.solve(S + candidate.setting["lambda"] * np.trace(S) / dim * np.eye(dim), drawn.T @ Y)
            mapped = candidate.map(new).astype(float)
            np.testing.assert_allclose(mapped @ mapped.T, cosines((new - mean) @ W), atol=5e-6)


def test_with_all_images_labelled_both_covariances_are_the_same():
    made = planted(2, people=8, images=6, dim=12)
    new = unit_gauss(np.random.default_rng(2), 20, 12)
    fits = [
        RidgeProbe(covariance=which).fit(made.vectors, made.identity, k=None, rng=np.random.default_rng(0))
        for which in ("drawn", "all")
    ]
    for one, other in zip(*fits, strict=True):
        a, b = one.map(new), other.map(new)
        np.testing.assert_allclose(a @ a.T, b @ b.T, atol=1e-5)


def test_one_eigendecomposition_serves_all_seeds_and_numbers_of_images(monkeypatch):
    calls = []
    eigh = np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda a: calls.append(a.shape) or eigh(a))
    made = planted(3, people=8, images=20, dim=24)
    probe = RidgeProbe(covariance="all")

    def fit(case: tuple[int, int]) -> bytes:
        candidates = probe.fit(made.vectors.copy(), made.identity, k=case[1], rng=np.random.default_rng(case[0]))
        return b"".join(c.map(made.vectors[:5]).tobytes() for c in candidates)

    cases = [(seed, k) for seed in range(5) for k in (1, 4, 16)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(fit, cases))
    assert calls == [(24, 24)]
    monkeypatch.undo()
    assert together == [
        b"".join(
            c.map(made.vectors[:5]).tobytes()
            for c in RidgeProbe(covariance="all").fit(made.vectors, made.identity, k=k, rng=np.random.default_rng(seed))
        )
        for seed, k in cases
    ]


def test_uneven_numbers_of_images():
    rng = np.random.default_rng(3)
    identity = labels_of([1, 2, 7, 3, 5], "shuffled", rng)
    X, new = unit_gauss(rng, 18, 6), unit_gauss(rng, 20, 6)
    (candidate,) = RidgeProbe((0.03,)).fit(X, identity, k=99, rng=rng)
    mapped = candidate.map(new).astype(float)
    np.testing.assert_allclose(mapped @ mapped.T, cosines(direct(X, identity, 0.03, new)), atol=2e-6)


def test_an_endless_lambda_compares_along_the_directions_of_the_identity_means():
    made = planted(4, people=12, images=5, dim=16, noise=0.4)
    (candidate,) = RidgeProbe((1e9,)).fit(made.vectors, made.identity, k=5, rng=np.random.default_rng(0))
    X = made.vectors.astype(float)
    mean = X.mean(axis=0)
    directions = np.array([X[made.identity == name].mean(axis=0) - mean for name in np.unique(made.identity)])
    new = unit_gauss(np.random.default_rng(1), 30, 16)
    mapped = candidate.map(new).astype(float)
    np.testing.assert_allclose(mapped @ mapped.T, cosines((new - mean) @ directions.T), atol=1e-6)


@pytest.mark.parametrize("dim", [10, 50])
def test_scale_rotation_and_shift_of_the_released_space_do_not_matter(dim):
    made = planted(5, people=10, images=4, dim=dim, noise=0.4)
    new = unit_gauss(np.random.default_rng(1), 20, dim)
    turn = orthonormal(np.random.default_rng(2), dim, dim)
    maps = {
        "scale": lambda x: (x.astype(float) * 1000).astype(np.float32),
        "rotation": lambda x: (x.astype(float) @ turn).astype(np.float32),
        "shift": lambda x: (x.astype(float) + 0.5).astype(np.float32),
    }
    base = RidgeProbe().fit(made.vectors, made.identity, k=3, rng=np.random.default_rng(0))
    for name, change in maps.items():
        moved = RidgeProbe().fit(change(made.vectors), made.identity, k=3, rng=np.random.default_rng(0))
        for one, other in zip(base, moved, strict=True):
            a, b = one.map(new), other.map(change(new))
            np.testing.assert_allclose(a @ a.T, b @ b.T, atol=2e-4, err_msg=name)


def test_it_reads_identity_where_plain_cosine_drowns_in_other_variance():
    made = planted(6, people=60, images=8, dim=24, rank=4, strength=0.4, noise=0.05)
    scene = orthonormal(np.random.default_rng(0), 24, 3)
    rng = np.random.default_rng(1)
    vectors = made.vectors + (2 * rng.standard_normal((480, 3)) @ scene.T).astype(np.float32)
    learned = np.isin(made.identity, [f"p{i:04d}" for i in range(40)])
    probe = RidgeProbe((1e-3,)).fit(vectors[learned], made.identity[learned], k=8, rng=rng)[0]
    new, who = vectors[~learned], made.identity[~learned]
    same, upper = who[:, None] == who[None, :], np.triu(np.ones((160, 160), bool), 1)

    def gap(rows: np.ndarray) -> float:
        scores = cosines(rows)
        mated, others = scores[same & upper], scores[~same & upper]
        return float((mated.mean() - others.mean()) / others.std())

    assert gap(probe.map(new)) > 1.7  # at most about 2: identity has four dimensions
    assert gap(new) < 0.2


def test_the_same_seed_learns_the_same_and_another_draws_other_images():
    made = planted(7, people=10, images=6, dim=12)
    new = unit_gauss(np.random.default_rng(1), 5, 12)
    one, again, other = (
        RidgeProbe((0.1,)).fit(made.vectors, made.identity, k=2, rng=np.random.default_rng(seed))[0].map(new)
        for seed in (0, 0, 1)
    )
    assert one.tobytes() == again.tobytes()
    assert np.abs(one - other).max() > 1e-3


def test_rows_of_zeros_stay_zeros_and_are_no_match_for_each_other():
    """Emptied rows would all become the same point: cosine 1, false accepts that hide everybody else's leak."""
    made = planted(8, people=6, images=4, dim=10)
    new = unit_gauss(np.random.default_rng(1), 6, 10)
    new[[1, 4]] = 0
    for candidate in RidgeProbe().fit(made.vectors, made.identity, k=4, rng=np.random.default_rng(0)):
        mapped = candidate.map(new)
        assert not mapped[[1, 4]].any()
        np.testing.assert_allclose(np.linalg.norm(mapped[[0, 2, 3, 5]], axis=1), 1, atol=1e-6)


def test_candidates_see_what_an_array_holds_now_and_not_what_it_held():
    """They share one rotation, kept between calls: it must not answer for an array that was changed in place."""
    made = planted(9, people=6, images=4, dim=10)
    one, other = RidgeProbe((0.1, 10.0)).fit(made.vectors, made.identity, k=4, rng=np.random.default_rng(0))
    new = unit_gauss(np.random.default_rng(1), 6, 10)
    before = one.map(new)
    expected = other.map(new[::-1].copy())
    new[:] = new[::-1].copy()
    np.testing.assert_array_equal(other.map(new), expected)
    np.testing.assert_allclose(one.map(new), before[::-1], atol=1e-6)


def test_outputs_far_from_one_are_scaled_before_they_lose_their_digits():
    made = planted(10, people=6, images=4, dim=10)
    tiny = (made.vectors.astype(float) * 1e-30).astype(np.float32)
    base = RidgeProbe((1e2,)).fit(made.vectors, made.identity, k=4, rng=np.random.default_rng(0))[0]
    small = RidgeProbe((1e2,)).fit(tiny, made.identity, k=4, rng=np.random.default_rng(0))[0]
    np.testing.assert_allclose(np.abs(small.map(tiny)), np.abs(base.map(made.vectors)), atol=1e-4)


def test_what_cannot_be_learned_is_refused():
    X = np.ones((4, 3), np.float32)
    with pytest.raises(DataError, match="at least two training identities, got 1"):
        RidgeProbe().fit(X, np.array(list("aaaa")), k=2, rng=np.random.default_rng(0))
    for value in (1.0, 0.1, 1 / 3):
        for dim in (3, 9):
            with pytest.raises(DataError, match="all training vectors are the same"):
                RidgeProbe().fit(
                    np.full((4, dim), value, np.float32), np.array(list("aabb")), k=2, rng=np.random.default_rng(0)
                )


def test_the_recipe_is_recorded():
    described = RidgeProbe((0.5, 2.0)).describe()
    assert described["name"] == "ridge"
    assert described["grid"] == {"lambda": [0.5, 2.0]}
    assert RidgeProbe().learns
