from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize
from scipy.linalg import subspace_angles

from faceblind._errors import DataError, RankError, UsageError
from faceblind.erase import Eraser, RandomEraser
from faceblind.erase import rlace as module
from faceblind.erase.judge import Judge, LabelledRows
from faceblind.erase.rlace import RLACE, project_fantope
from strategies import labels_of, orthonormal, planted


def angle(one: np.ndarray, other: np.ndarray) -> float:
    return float(subspace_angles(one, other).max())


def concept(seed: int, *, images: int = 1500, dim: int = 12) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two groups that differ in one direction, in noise of other sizes in other directions; and the direction."""
    rng = np.random.default_rng(seed)
    axes = orthonormal(np.random.default_rng(3), dim, dim)
    group = np.repeat([0, 1], images)
    coordinates = rng.standard_normal((group.size, dim)) * np.linspace(1.0, 0.3, dim)
    coordinates[:, 5] += 1.0 * (2 * group - 1)
    return coordinates @ axes.T, np.where(group, "yes", "no"), axes[:, 5:6]


symmetric = st.builds(
    lambda seed, dim, scale: (lambda A: (A + A.T) * scale)(np.random.default_rng(seed).standard_normal((dim, dim))),
    st.integers(0, 2**16),
    st.integers(2, 9),
    st.sampled_from([1e-3, 0.3, 1.0, 50.0]),
)


@settings(max_examples=60)
@given(symmetric, st.data())
def test_projections_lie_in_the_fantope_and_stay_where_they_are(A, data):
    rank = data.draw(st.integers(1, A.shape[0]))
    P = project_fantope(A, rank)
    values = np.linalg.eigvalsh(P)
    assert values.min() > -1e-9
    assert values.max() < 1 + 1e-9
    assert np.trace(P) == pytest.approx(rank, abs=1e-9)
    np.testing.assert_allclose(P, P.T, atol=1e-12)
    np.testing.assert_allclose(project_fantope(P, rank), P, atol=1e-9)
    np.testing.assert_allclose(A @ P, P @ A, atol=1e-8 * max(1, np.abs(A).max()))  # the eigenvectors stay


@settings(max_examples=30)
@given(symmetric, st.data())
def test_no_point_of_the_fantope_is_nearer(A, data):
    dim = A.shape[0]
    rank = data.draw(st.integers(1, dim))
    P = project_fantope(A, rank)
    rng = np.random.default_rng(0)
    for _ in range(20):
        mixture = rng.dirichlet(np.ones(4))
        other = sum(
            w * (U @ U.T) for w, U in zip(mixture, (orthonormal(rng, dim, rank) for _ in range(4)), strict=True)
        )
        # the obtuse angle at the nearest point of a convex set, which is stronger than a comparison of distances
        assert np.sum((A - P) * (other - P)) <= 1e-7 * max(1.0, np.abs(A).max())
        assert np.linalg.norm(A - P) <= np.linalg.norm(A - other) + 1e-9


@settings(max_examples=40)
@given(symmetric, st.data())
def test_the_shift_is_that_of_bisection(A, data):
    rank = data.draw(st.integers(1, A.shape[0] - 1))
    values, vectors = np.linalg.eigh(A)
    shift = optimize.brentq(
        lambda t: np.clip(values - t, 0, 1).sum() - rank, values[0] - 1.5, values[-1] + 0.5, xtol=1e-14, rtol=1e-14
    )
    expected = (vectors * np.clip(values - shift, 0, 1)) @ vectors.T
    np.testing.assert_allclose(project_fantope(A, rank), expected, atol=1e-9)


@settings(max_examples=25)
@given(st.lists(st.floats(-2, 2), min_size=2, max_size=5), st.data())
def test_eigenvalues_solve_the_quadratic_programme_by_brute_force_over_its_faces(diagonal, data):
    values = np.array(diagonal)
    rank = data.draw(st.integers(1, values.size))
    best, at = np.inf, values
    for face in itertools.product((0, 1, None), repeat=values.size):  # each at a bound, or free
        free = np.array([side is None for side in face])
        point = np.array([0.0 if side is None else float(side) for side in face])
        if free.any():
            point[free] = values[free] + (rank - point[~free].sum() - values[free].sum()) / free.sum()
        if abs(point.sum() - rank) < 1e-9 and point.min() > -1e-9 and point.max() < 1 + 1e-9:
            distance = float(np.sum((point - values) ** 2))
            if distance < best:
                best, at = distance, point
    np.testing.assert_allclose(np.diag(project_fantope(np.diag(values), rank)), at, atol=1e-7)


def test_projections_in_closed_form():
    np.testing.assert_allclose(project_fantope(np.zeros((4, 4)), 1), np.eye(4) / 4, atol=1e-15)
    np.testing.assert_allclose(project_fantope(np.diag([9.0, 8.0, 1.0]), 2), np.diag([1.0, 1.0, 0.0]), atol=1e-15)
    np.testing.assert_allclose(project_fantope(np.diag([1.0, 0.8, 0.0]), 1), np.diag([0.6, 0.4, 0.0]), atol=1e-15)
    np.testing.assert_allclose(project_fantope(-np.eye(3), 3), np.eye(3), atol=1e-15)
    U = orthonormal(np.random.default_rng(0), 40, 7)
    np.testing.assert_allclose(project_fantope(U @ U.T, 7), U @ U.T, atol=1e-12)
    asymmetric = np.array([[0.0, 4.0], [0.0, 0.0]])  # its symmetric part has eigenvalues 2 and -2
    np.testing.assert_allclose(project_fantope(asymmetric, 1), np.full((2, 2), 0.5), atol=1e-12)


def test_many_equal_eigenvalues_do_not_stop_it():
    """LAPACK's evr driver fails on such matrices now and then."""
    rng = np.random.default_rng(0)
    U = orthonormal(rng, 300, 8)
    bumps = U @ np.diag(rng.uniform(0, 1e-9, 8)) @ U.T
    P = project_fantope(np.eye(300) * (8 / 300) + bumps, 8)
    assert np.trace(P) == pytest.approx(8, abs=1e-9)


@pytest.mark.parametrize(
    ("matrix", "rank", "error", "message"),
    [
        (np.zeros((2, 3)), 1, DataError, r"square matrices, got shape \(2, 3\)"),
        (np.zeros(3), 1, DataError, "square"),
        (np.diag([1.0, np.nan]), 1, DataError, "NaN"),
        (np.eye(3), 0, RankError, "from 1 to 3, got 0"),
        (np.eye(3), 4, RankError, "from 1 to 3, got 4"),
    ],
)
def test_what_has_no_projection_is_refused(matrix, rank, error, message):
    with pytest.raises(error, match=message):
        project_fantope(matrix, rank)


@pytest.mark.parametrize("start", ["means", "uniform"])
def test_a_planted_direction_is_found_and_groups_fall_to_the_majority_on_fresh_images(start):
    vectors, group, direction = concept(0)
    fresh, fresh_group, _ = concept(1)
    fitted = RLACE(1, start=start, stop_at_chance=False, turns=60).fit(vectors, group)
    assert isinstance(fitted, Eraser)
    assert angle(fitted.directions_, direction) < 0.15
    data = LabelledRows.of(fresh, fresh_group)
    judge = Judge.of(data, np.argsort(data.codes, kind="stable"))
    assert judge is not None
    random = RandomEraser(1, rng=np.random.default_rng(0)).fit(vectors).projector_.basis
    assert judge.accuracy(random) > 0.85
    assert judge.accuracy(fitted.projector_.basis) < 0.56


def test_from_a_uniform_start_it_is_the_game_that_finds_it():
    vectors, group, direction = concept(2)
    fitted = RLACE(1, start="uniform", turns=40).fit(vectors, group)
    assert fitted.chosen_ > 0
    assert fitted.turns_ >= fitted.chosen_
    assert fitted.accuracies_[0] > 0.85  # before
    assert fitted.accuracies_[1] > 0.85  # removing the first axis
    assert min(fitted.accuracies_) < 0.58
    assert angle(fitted.directions_, direction) < 0.15
    assert fitted.losses_[-1] > fitted.losses_[0]
    spectrum = fitted.projector_.spectrum
    assert spectrum.sum() == pytest.approx(1, abs=1e-9)
    assert (np.diff(spectrum) <= 1e-12).all()
    assert spectrum[0] > 0.9


def test_sal_at_full_rank_is_already_an_answer():
    """The best classifier of the fitted images then knows class frequencies only: no move of P raises its loss."""
    made = planted(1, people=6, images=20, dim=14, rank=8, noise=0.4)
    everything = (made.vectors, made.identity)
    fitted = RLACE(5, stop_at_chance=False, turns=30).fit(*everything, validation=everything)
    assert fitted.chosen_ == 0
    assert fitted.losses_ == (pytest.approx(np.log(6), abs=1e-6),)
    assert "reduced to class frequencies" in fitted.stopped_
    np.testing.assert_array_equal(fitted.projector_.spectrum, [1] * 5 + [0] * 9)
    Z = made.vectors / np.linalg.norm(made.vectors, axis=1, keepdims=True)
    labels = (made.identity[:, None] == np.unique(made.identity)).astype(float)
    sal = np.linalg.svd((Z - Z.mean(axis=0)).T @ (labels - labels.mean(axis=0)))[0][:, :5]
    assert angle(fitted.directions_, sal) < 1e-6


def test_it_ends_when_a_fresh_classifier_is_at_chance_on_images_held_out():
    made = planted(9, people=40, images=8, dim=32, rank=4, noise=0.1)
    fitted = RLACE(6).fit(made.vectors, made.identity)
    assert "judge is at chance" in fitted.stopped_
    assert fitted.turns_ == fitted.chosen_ == 0  # SAL did it
    assert fitted.accuracies_[0] > 0.6
    assert fitted.accuracies_[1] < 0.08
    assert fitted.chance_ == pytest.approx(1 / 40)


def test_below_full_rank_the_game_raises_the_loss_of_the_classifier_it_plays_with():
    made = planted(2, people=12, images=12, dim=20, rank=8, noise=0.3)
    game = RLACE(4, start="uniform", stop_at_chance=False, turns=60).fit(made.vectors, made.identity)
    assert game.losses_[-1] > 1.5 * game.losses_[0]
    assert game.turns_ == 60
    assert len(game.accuracies_) == 2 + 6


def test_the_gradient_is_that_of_the_loss():
    made = planted(3, people=5, images=8, dim=7, noise=0.5)
    data = LabelledRows.of(made.vectors, made.identity)
    game = module._Game(data, np.arange(40), penalty=0.1, rng=np.random.default_rng(0))
    rng = np.random.default_rng(1)
    P = project_fantope(rng.standard_normal((7, 7)), 3)
    _, gradient = game.move(P)
    direction = rng.standard_normal((7, 7))
    direction += direction.T

    def loss(at: np.ndarray) -> float:
        _, codes, left = game._facing(at)
        return game._read(left, codes)[0]

    slope = (loss(P + 1e-5 * direction) - loss(P - 1e-5 * direction)) / 2e-5
    assert np.sum(gradient * direction) == pytest.approx(slope, rel=1e-5)


def test_the_judge_is_on_images_that_the_game_did_not_use(monkeypatch):
    made = planted(4, people=20, images=8, dim=16)
    seen: list[np.ndarray] = []
    load = module._Game._load
    monkeypatch.setattr(module._Game, "_load", lambda self, rows: seen.append(rows) or load(self, rows))
    RLACE(3, turns=3).fit(made.vectors, made.identity)
    assert np.concatenate(seen).size == 20 * 6
    seen.clear()
    RLACE(3, turns=3).fit(made.vectors, made.identity, validation=(made.vectors, made.identity))
    assert np.concatenate(seen).size == 160


def test_many_images_are_played_in_batches(monkeypatch):
    monkeypatch.setattr(module, "_BATCH", 150)
    vectors, group, direction = concept(5)
    fitted = RLACE(1, start="uniform", stop_at_chance=False, turns=40).fit(vectors, group)
    assert angle(fitted.directions_, direction) < 0.3


def test_the_same_seed_gives_the_same_bytes():
    made = planted(6, people=15, images=6, dim=16, rank=8)
    one, two = (RLACE(5, rng=3, turns=10).fit(made.vectors, made.identity) for _ in range(2))
    assert one.projector_.digest == two.projector_.digest
    assert one.losses_ == two.losses_
    assert one.accuracies_ == two.accuracies_


def test_without_four_images_of_anybody_the_last_turn_is_kept_and_it_says_so():
    made = planted(7, people=20, images=3, dim=16, rank=8)
    fitted = RLACE(4, turns=12).fit(made.vectors, made.identity)
    assert fitted.chosen_ == 12
    assert "no judge" in fitted.stopped_
    assert fitted.accuracies_ == ()
    assert fitted.chance_ is None


def test_bad_input_is_refused():
    for options, message in (
        ({"turns": 0}, "at least one turn, got 0"),
        ({"penalty": 0.0}, "positive, got 0.0"),
        ({"penalty": float("nan")}, "positive"),
        ({"start": "zeros"}, "'means' or 'uniform', got 'zeros'"),
    ):
        with pytest.raises(UsageError, match=message):
            RLACE(2, **options)
    made = planted(8, people=5, images=6, dim=12)
    with pytest.raises(RankError, match="5 identities in 12 dimensions support at most rank 4"):
        RLACE(5).fit(made.vectors, made.identity)
    with pytest.raises(DataError, match="same mean"):
        RLACE(1).fit(np.ones((6, 3)), labels_of([3, 3]))
    with pytest.raises(DataError, match="row 4 holds only zeros"):
        RLACE(1).fit(np.where(np.arange(30)[:, None] == 4, 0, made.vectors), made.identity)
