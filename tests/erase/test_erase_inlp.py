from __future__ import annotations

import sys
from itertools import product

import numpy as np
import pytest
from scipy.linalg import subspace_angles

from faceblind._errors import DataError, MissingExtraError, RankError, UsageError
from faceblind.erase import Eraser, RandomEraser
from faceblind.erase.inlp import INLP
from strategies import labels_of, orthonormal, planted, unit_gauss


def angle(one: np.ndarray, other: np.ndarray) -> float:
    return float(subspace_angles(one, other).max())


def centred(vectors: np.ndarray) -> np.ndarray:
    wide = vectors.astype(float)
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    return wide - wide.mean(axis=0)


def onehot(identity: np.ndarray) -> np.ndarray:
    labels = (identity[:, None] == np.unique(identity)).astype(float)
    return labels - labels.mean(axis=0)


def sal(vectors: np.ndarray, identity: np.ndarray) -> np.ndarray:
    """All directions of the covariance with labels: what SAL removes at full rank."""
    return np.linalg.svd(centred(vectors).T @ onehot(identity))[0][:, : np.unique(identity).size - 1]


def everything(rank: int, **options: object) -> INLP:
    return INLP(rank, stop_at_chance=False, **options)  # type: ignore[arg-type]


def two_blocks() -> tuple[np.ndarray, np.ndarray]:
    """72 unit rows in 2 x 3 dimensions; their covariance S maps span(e0, e3) to itself, and s lies in it.

    Class one draws (cos f p, sin f q), p and q independently from (e, e, f, -f, g, -g); class two has the opposite.
    """
    steps = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], dtype=float)
    one = np.array([np.concatenate([0.6 * p, 0.8 * q]) for p, q in product(steps, steps)])
    return np.vstack([one, -one]), labels_of([36, 36])


def test_exact_least_squares_on_two_identities_in_spherical_noise_removes_sals_direction_and_ends():
    """S = delta^2 uu' + c (I - uu'): it leaves u, the difference of means, in place."""
    rng = np.random.default_rng(0)
    axes = orthonormal(rng, 9, 9)
    noise = np.vstack([axes[:, 1:].T, -axes[:, 1:].T])
    vectors = np.vstack([0.6 * axes[:, 0] + 0.8 * noise, -0.6 * axes[:, 0] + 0.8 * noise])
    identity = labels_of([16, 16])
    fitted = everything(5, ridge=0).fit(vectors, identity)
    assert fitted.rounds_ == 1
    assert fitted.projector_.rank == 1
    assert "no linear trace" in fitted.stopped_
    assert "1 of 5" in fitted.projector_.choice.note
    assert angle(fitted.directions_, sal(vectors, identity)) < 1e-12


def test_in_general_it_ends_only_when_sals_direction_is_in_a_larger_span():
    vectors, identity = two_blocks()
    fitted = everything(5, ridge=0).fit(vectors, identity)
    direction = sal(vectors, identity)
    assert fitted.rounds_ == 2
    assert angle(fitted.directions_, np.eye(6)[:, [0, 3]]) < 1e-10
    assert angle(fitted.directions_[:, :1], direction) > 0.1  # one round is not enough, and is not SAL
    assert np.linalg.norm(direction - fitted.directions_ @ (fitted.directions_.T @ direction)) < 1e-10
    assert "no linear trace" in fitted.stopped_


def test_rounds_of_exact_least_squares_span_a_krylov_space():
    made = planted(1, people=2, images=60, dim=8, noise=1.0)
    Z, Y = centred(made.vectors), onehot(made.identity)
    inverse, s = np.linalg.inv(Z.T @ Z), (Z.T @ Y)[:, :1]
    fitted = everything(4, ridge=0).fit(made.vectors, made.identity)
    krylov = np.hstack([np.linalg.matrix_power(inverse, k) @ s for k in (1, 2, 3, 4)])
    for rounds in (1, 2, 3, 4):
        assert (
            angle(fitted.directions_[:, :rounds], krylov[:, :rounds] / np.linalg.norm(krylov[:, :rounds], axis=0))
            < 1e-6
        )
    assert fitted.stopped_ == "rank 4 was reached"


def test_with_a_large_ridge_one_full_round_is_sal_at_full_rank_for_any_number_of_identities():
    made = planted(2, people=7, images=5, dim=16, rank=6, noise=0.5)
    fitted = everything(12, ridge=1e12, per_round=10).fit(made.vectors, made.identity)
    assert fitted.rounds_ == 1
    assert fitted.projector_.rank == 6
    assert angle(fitted.directions_, sal(made.vectors, made.identity)) < 1e-7


def test_when_it_ends_by_itself_no_least_squares_weight_is_left():
    made = planted(3, people=4, images=10, dim=12, noise=0.4)
    vectors, identity = made.vectors, made.identity
    fitted = everything(11, ridge=1e6, per_round=2).fit(vectors, identity)
    assert "no linear trace" in fitted.stopped_
    Z, Y = centred(vectors), onehot(identity)
    assert np.abs(np.linalg.lstsq(Z, Y, rcond=None)[0]).max() > 1e-2  # before
    Z -= Z @ fitted.directions_ @ fitted.directions_.T
    assert np.abs(Z.T @ Y).max() < 1e-5


def test_a_round_removes_the_top_directions_of_a_dense_ridge_classifier_of_what_is_left():
    made = planted(4, people=9, images=6, dim=14, rank=8, noise=0.3)
    fitted = everything(6, ridge=0.5, per_round=3).fit(made.vectors, made.identity)
    Z, Y, found = centred(made.vectors), onehot(made.identity), np.zeros((14, 0))
    for _ in range(2):
        left = Z - Z @ found @ found.T
        gram = left.T @ left
        W = np.linalg.inv(gram + 0.5 * np.trace(gram) / 14 * np.eye(14)) @ left.T @ Y
        found = np.hstack([found, np.linalg.svd(W)[0][:, :3]])
        assert angle(fitted.directions_[:, : found.shape[1]], found) < 1e-8
    assert fitted.rounds_ == 2
    np.testing.assert_allclose(fitted.directions_.T @ fitted.directions_, np.eye(6), atol=1e-14)


def test_directions_are_nested_and_the_same_seed_gives_the_same_bytes():
    made = planted(5, people=25, images=6, dim=24, rank=12)
    large, small = (everything(rank).fit(made.vectors, made.identity) for rank in (19, 11))
    np.testing.assert_array_equal(large.directions_[:, :11], small.directions_)
    assert large.rounds_ == 3  # 8, 8 and 3
    one, two = (INLP(5, rng=4).fit(made.vectors, made.identity) for _ in range(2))
    assert one.projector_.digest == two.projector_.digest
    assert one.accuracies_ == two.accuracies_


def test_it_stops_when_a_fresh_classifier_is_at_chance_on_images_held_out():
    made = planted(6, people=40, images=8, dim=32, rank=4, noise=0.1)
    fitted = INLP(24, per_round=2, ridge=100.0).fit(made.vectors, made.identity)
    assert "judge is at chance" in fitted.stopped_
    assert 4 <= fitted.projector_.rank <= 8
    assert len(fitted.accuracies_) == fitted.rounds_ + 1
    assert fitted.accuracies_[0] > 0.6
    assert fitted.accuracies_[-1] < 0.08
    assert fitted.chance_ == pytest.approx(1 / 40)
    assert angle(made.subspace, fitted.directions_) < 0.2
    matched = INLP(24, per_round=2, stop_at_chance=False).fit(made.vectors, made.identity)
    assert matched.projector_.rank == 24
    assert matched.accuracies_ == ()


def test_validation_decides_when_given():
    made = planted(7, people=40, images=6, dim=32, rank=6, noise=0.1)
    others = planted(8, people=40, images=6, dim=32, rank=6, noise=0.1, prefix="q")
    strangers = (others.vectors, others.identity)
    noise = (unit_gauss(np.random.default_rng(2), 200, 32), labels_of([5] * 40))
    fitted = INLP(20, per_round=3).fit(made.vectors, made.identity, validation=strangers)
    assert "at chance" in fitted.stopped_
    assert fitted.accuracies_[0] > 0.9
    with pytest.raises(DataError, match="nothing to remove: the judge is at chance"):
        INLP(20).fit(made.vectors, made.identity, validation=noise)
    assert INLP(20, stop_at_chance=False).fit(made.vectors, made.identity, validation=noise).projector_.rank == 20


def test_shuffled_identities_are_refused_since_there_is_nothing_to_remove():
    made = planted(9, people=40, images=6, dim=16)
    with pytest.raises(DataError, match="stop_at_chance=False"):
        INLP(4).fit(made.vectors, np.random.default_rng(0).permutation(made.identity))


def test_three_images_each_leave_no_judge_and_it_says_so():
    made = planted(10, people=20, images=3, dim=16)
    fitted = INLP(5).fit(made.vectors, made.identity)
    assert fitted.stopped_ == "rank 5 was reached; nobody has four images: no judge"
    assert fitted.accuracies_ == ()
    assert fitted.chance_ is None


def test_it_beats_a_random_subspace_of_the_same_rank_and_is_an_eraser():
    made = planted(11, people=40, images=8, dim=32, rank=6, noise=0.2)
    fresh = planted(12, people=40, images=8, dim=32, rank=6, noise=0.2)
    fitted = everything(6, per_round=2).fit(made.vectors, made.identity)
    random = RandomEraser(6, rng=np.random.default_rng(0)).fit(made.vectors)
    assert isinstance(fitted, Eraser)

    def between(released: np.ndarray) -> float:
        means = np.array([released[fresh.identity == name].mean(axis=0) for name in np.unique(fresh.identity)])
        return float(means.var(axis=0).sum() / released.var(axis=0).sum())

    assert between(fitted.transform(fresh.vectors)) < 0.25 < 0.8 < between(random.transform(fresh.vectors))


def test_ten_thousand_identities_are_not_a_silent_no_op():
    """A whitened covariance with one-hot labels has values below 1/sqrt(c): an absolute tolerance would drop them all."""
    made = planted(13, people=10_000, images=2, dim=12, rank=3)
    fitted = everything(3, per_round=3).fit(made.vectors, made.identity)
    assert angle(fitted.directions_, made.subspace) < 0.02


def test_softmax_regression_finds_what_is_planted():
    pytest.importorskip("sklearn")
    made = planted(14, people=12, images=12, dim=12, rank=3, noise=0.2)
    fitted = INLP(6, classifier="logistic", per_round=3, ridge=0.1).fit(made.vectors, made.identity)
    assert angle(fitted.directions_[:, :3], made.subspace) < 0.15
    two = planted(15, people=2, images=40, dim=8, rank=1, noise=0.3)
    assert everything(3, classifier="logistic").fit(two.vectors, two.identity).rounds_ == 3  # one direction each


def test_softmax_regression_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    made = planted(16, people=3, images=4, dim=8)
    with pytest.raises(MissingExtraError, match="scikit-learn"):
        everything(1, classifier="logistic").fit(made.vectors, made.identity)


def test_bad_settings_are_refused():
    for options, message in (
        ({"classifier": "svm"}, "'ridge' or 'logistic', got 'svm'"),
        ({"per_round": 0}, "per_round=0"),
        ({"ridge": -1.0}, "got -1.0"),
        ({"ridge": float("nan")}, "got nan"),
        ({"classifier": "logistic", "ridge": 0}, "more than zero for 'logistic'"),
    ):
        with pytest.raises(UsageError, match=message):
            INLP(3, **options)
    with pytest.raises(RankError, match="at least 1, got 0"):
        INLP(0)
    made = planted(17, people=3, images=4, dim=8)
    with pytest.raises(RankError, match="12 vectors of 8 features allow 7"):
        everything(8).fit(made.vectors, made.identity)
    with pytest.raises(DataError, match="row 1 holds NaN"):
        INLP(1).fit(np.where(np.arange(12)[:, None] == 1, np.nan, made.vectors), made.identity)
