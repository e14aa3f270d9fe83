from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from faceblind._errors import DataError
from faceblind.erase import judge as module
from faceblind.erase.judge import Judge, LabelledRows, class_sums, ridge_weights
from strategies import labels_of, layouts, planted


def set_up(seed: int = 1, **options: object) -> tuple[LabelledRows, np.ndarray, Judge]:
    made = planted(seed, **({"people": 30, "images": 8, "dim": 20} | options))  # type: ignore[arg-type]
    data = LabelledRows.of(made.vectors, made.identity)
    rows, judge = Judge.set_up(data, None, 0, wanted=True)
    assert judge is not None
    return data, rows, judge


@settings(max_examples=40)
@given(layouts(), st.integers(0, 2**16))
def test_moments_are_those_of_dense_one_hot_labels(identity, seed):
    vectors = np.random.default_rng(seed).standard_normal((identity.size, 5)).astype(np.float32)
    data = LabelledRows.of(vectors, identity)
    unit = vectors.astype(float) / np.linalg.norm(vectors.astype(float), axis=1, keepdims=True)
    onehot = (identity[:, None] == np.unique(identity)).astype(float)
    centred = unit - unit.mean(axis=0)
    rows = np.arange(identity.size)
    np.testing.assert_allclose(data.scatter(rows), centred.T @ centred, atol=1e-12)
    np.testing.assert_allclose(class_sums(centred, data.codes, data.people), onehot.T @ centred, atol=1e-12)
    mean, variance = data.mean_and_variance(rows)
    np.testing.assert_allclose(mean, unit.mean(axis=0), atol=1e-12)
    assert variance == pytest.approx(np.mean(np.sum(centred**2, axis=1)), abs=1e-12)
    left, values = data.cross_directions(rows)
    product = centred.T @ onehot
    np.testing.assert_allclose((left * values**2) @ left.T, product @ product.T, atol=1e-10)


def test_blocks_of_rows_give_the_same_moments(monkeypatch):
    data, rows, _ = set_up()
    whole = data.scatter(rows), data.cross_directions(rows)[1]
    monkeypatch.setattr(module, "_BLOCK", 7)
    np.testing.assert_allclose(data.scatter(rows), whole[0], atol=1e-12)
    np.testing.assert_allclose(data.cross_directions(rows)[1], whole[1], atol=1e-12)


def test_ridge_weights_solve_the_normal_equations():
    rng = np.random.default_rng(0)
    Z, Y = rng.standard_normal((30, 6)), rng.standard_normal((30, 3))
    for ridge in (1e-3, 1.0, 50.0):
        penalty = ridge * np.trace(Z.T @ Z) / 6
        stacked = np.vstack([Z, np.sqrt(penalty) * np.eye(6)])
        expected = np.linalg.lstsq(stacked, np.vstack([Y, np.zeros((6, 3))]), rcond=None)[0]
        np.testing.assert_allclose(ridge_weights(Z.T @ Z, Z.T @ Y, ridge), expected, atol=1e-10)


@pytest.mark.parametrize(("images", "held"), [(3, 0), (4, 2), (7, 2), (8, 2), (20, 5)])
def test_a_quarter_of_the_images_are_held_out_and_never_fewer_than_two(images, held):
    made = planted(3, people=5, images=images, dim=8)
    data = LabelledRows.of(made.vectors, made.identity)
    rows, judge = Judge.set_up(data, None, 0, wanted=True)
    assert np.unique(rows).size == rows.size == 5 * (images - held)
    assert (judge is None) is (held == 0)
    if judge is not None:
        assert np.bincount(judge.codes).tolist() == [held] * 5
        assert np.bincount(judge.codes[judge.second]).tolist() == [held // 2] * 5
        assert judge.chance == pytest.approx(1 / 5)
        fitted = {tuple(row) for row in data.unit(rows)}
        assert not fitted & {tuple(row) for row in judge.rows}


def test_nothing_is_held_out_when_no_judge_is_wanted():
    data, _, _ = set_up()
    rows, judge = Judge.set_up(data, None, 0, wanted=False)
    assert judge is None
    assert rows.size == data.codes.size


def test_validation_may_hold_other_people_and_then_nothing_is_held_out():
    data, _, _ = set_up()
    others = planted(9, people=7, images=3, dim=20, prefix="q")
    labels = np.append(others.identity, "lonely")
    vectors = np.vstack([others.vectors, np.ones(20)])
    rows, judge = Judge.set_up(data, (vectors, labels), 0, wanted=False)
    assert rows.size == data.codes.size
    assert judge is not None
    assert judge.people == 7  # a person with one image cannot be learned and named
    assert judge.codes.size == 21


def test_it_names_people_by_the_planted_subspace_and_only_by_it():
    _, _, judge = set_up(people=40, noise=0.1)
    subspace = planted(1, people=2, dim=20).subspace
    assert judge.accuracy(np.zeros((20, 0))) > 0.7
    assert judge.at_chance(judge.accuracy(subspace))
    assert not judge.at_chance(judge.accuracy(subspace[:, :1]))


def test_accuracy_is_that_of_a_dense_ridge_classifier_learned_on_either_half():
    _, _, judge = set_up(noise=0.6)
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((20, 3)))[0]
    Z = judge.rows @ (np.eye(20) - basis @ basis.T)
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    hits = 0
    for learn in (judge.second, ~judge.second):
        mean, Y = Z[learn].mean(axis=0), np.eye(judge.people)[judge.codes[learn]]
        C = Z[learn] - mean
        W = np.linalg.inv(C.T @ C + np.trace(C.T @ C) / 20 * np.eye(20)) @ C.T @ (Y - Y.mean(axis=0))
        hits += int((((Z[~learn] - mean) @ W + Y.mean(axis=0)).argmax(axis=1) == judge.codes[~learn]).sum())
    assert 0 < hits < judge.codes.size
    assert judge.accuracy(basis) == hits / judge.codes.size


def test_with_everything_removed_the_most_frequent_person_is_named():
    made = planted(2, people=2, images=40, dim=6)
    identity = np.where(np.arange(80) < 60, "often", "seldom")
    data = LabelledRows.of(made.vectors, identity)
    _, judge = Judge.set_up(data, None, 0, wanted=True)
    assert judge is not None
    assert judge.chance == pytest.approx(15 / 20)
    assert judge.accuracy(np.eye(6)) == judge.chance


def test_chance_is_a_one_sided_binomial_test():
    _, _, judge = set_up(people=50)
    n = judge.codes.size
    for hits in range(12):
        by_luck = stats.binomtest(hits, n, judge.chance, alternative="greater").pvalue
        assert judge.at_chance(hits / n) == (by_luck > 0.05)


def test_the_judge_of_a_huge_table_stays_small(monkeypatch):
    monkeypatch.setattr(module, "_PEOPLE", 10)
    monkeypatch.setattr(module, "_ROWS", 40)
    made = planted(4, people=25, images=40, dim=8)
    data = LabelledRows.of(made.vectors, made.identity)
    rows, judge = Judge.set_up(data, None, 0, wanted=True)
    assert judge is not None
    assert judge.people == 10
    assert judge.codes.size == 40
    assert rows.size == 1000 - 40


def test_seeds_decide_who_is_held_out():
    data, rows, judge = set_up()
    again = Judge.set_up(data, None, 0, wanted=True)
    other = Judge.set_up(data, None, 1, wanted=True)
    np.testing.assert_array_equal(rows, again[0])
    assert again[1] is not None
    np.testing.assert_array_equal(judge.rows, again[1].rows)
    assert not np.array_equal(rows, other[0])


def test_bad_input_is_named():
    good, names = np.eye(4, dtype=np.float32), np.array(["a", "a", "b", "b"])
    broken, empty = good.copy(), good.copy()
    broken[2, 1] = np.nan
    empty[3] = 0
    for vectors, identity, message in (
        (good[0], names, "table of numbers"),
        (good.astype(str), names, "table of numbers"),
        (broken, names, "row 2 holds NaN"),
        (empty, names, "row 3 holds only zeros"),
        (good, names[:3], "one entry per vector"),
        (good, ["a"] * 4, "at least two identities, got 1"),
        (good, list("abcd"), "all 4 identities have a single image"),
    ):
        with pytest.raises(DataError, match=message):
            LabelledRows.of(vectors, identity)
    data = LabelledRows.of(good, names)
    with pytest.raises(DataError, match="3 features"):
        Judge.set_up(data, (np.eye(3), ["a", "a", "b"]), 0, wanted=True)
    with pytest.raises(DataError, match="two people with two images"):
        Judge.set_up(data, (good, ["a", "a", "b", "c"]), 0, wanted=True)
    same = LabelledRows.of(np.ones((8, 3)), labels_of([4, 4]))
    with pytest.raises(DataError, match="same mean"):
        same.cross_directions(np.arange(8))
