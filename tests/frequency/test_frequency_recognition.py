"""Recognition of people against all pairs in plain loops, and EER and AUC against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from faceblind._errors import DataError
from faceblind.frequency.evaluation.people import evaluate_people


def crowd(people: int, each: int, noise: float, seed: int, name: str = "p", d: int = 24):
    rng = np.random.default_rng(seed)
    identity = np.repeat([f"{name}{i:03d}" for i in range(people)], each)
    centres = np.repeat(rng.normal(size=(people, d)), each, axis=0)
    return (7 * (centres + noise * rng.normal(size=centres.shape))).astype(np.float32), identity


def all_scores(vectors, identity):
    unit = vectors / np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    scores = (unit @ unit.T).astype(np.float32)
    i, j = np.triu_indices(len(identity), 1)
    same = identity[i] == identity[j]
    return scores[i, j][same], scores[i, j][~same]


def test_rates_are_those_of_all_pairs():
    vectors, identity = crowd(40, 5, 1.2, 0)
    mated, others = all_scores(vectors, identity)
    got = evaluate_people(vectors, identity, fars=(0.1, 1e-2, 1e-3), draws=100, rng=np.random.default_rng(0))
    for point in got.points:
        allowed = int(point.threshold.far * others.size)
        level = np.sort(others)[::-1][allowed]
        assert point.false_accepts == np.count_nonzero(others > level)
        assert point.tar == pytest.approx(np.mean(mated > level), abs=2 / mated.size)
        assert point.low <= point.tar <= point.high
    ordered = (mated[:, None] > others[None, :]).mean() + (mated[:, None] == others[None, :]).mean() / 2
    assert got.auc.value == pytest.approx(ordered, abs=1e-4)
    assert got.auc.low <= got.auc.value <= got.auc.high
    levels = np.sort(others)
    fmr = 1 - np.arange(levels.size) / levels.size
    fnmr = np.array([np.mean(mated < level) for level in levels])
    cross = int(np.argmax(fmr <= fnmr))
    assert got.eer.value == pytest.approx((fmr[cross] + fnmr[cross]) / 2, abs=2e-3)
    rows = got.rows("lfw-test", noise=True)
    assert [row["far_target"] for row in rows] == [0.1, 1e-2, 1e-3]
    assert {(row["set"], row["protocol"], row["noise"], row["people"]) for row in rows} == {
        ("lfw-test", "people", True, 40)
    }
    assert rows[0]["mated"] == mated.size
    assert rows[0]["nonmated"] == others.size
    assert [row["grade"] for row in rows] == ["supported", "supported", "indicative"]
    assert rows[0]["threshold_on"] == "the same people"


def test_lengths_of_embeddings_do_not_matter():
    vectors, identity = crowd(12, 4, 0.8, 1)
    scale = np.random.default_rng(0).uniform(0.5, 2, (48, 1)).astype(np.float32)
    first, second = (
        evaluate_people(v, identity, fars=(0.05,), draws=20, rng=np.random.default_rng(0))
        for v in (vectors, vectors * scale)
    )
    assert first.points[0].tar == second.points[0].tar


def test_unsupported_rates_are_only_bounded():
    vectors, identity = crowd(12, 4, 0.8, 1)
    point = evaluate_people(vectors, identity, fars=(1e-6,), draws=20, rng=np.random.default_rng(0)).points[0]
    assert point.grade == "unsupported"
    assert point.low == 0


def test_thresholds_of_other_people_stay():
    vectors, identity = crowd(30, 4, 1.0, 1)
    others = crowd(30, 4, 1.0, 2, name="q")
    got = evaluate_people(
        vectors, identity, fars=(1e-2, 1e-4), calibrate_on=others, draws=50, rng=np.random.default_rng(0)
    )
    _, nonmated = all_scores(*others)
    level = np.sort(nonmated)[::-1][int(1e-2 * nonmated.size)]
    assert got.points[0].threshold.value == pytest.approx(level, abs=1e-5)
    _, mine = all_scores(vectors, identity)
    assert got.points[0].far == pytest.approx(np.mean(mine > level), abs=3e-4)
    assert got.rows("x", noise=False)[0]["threshold_on"] == "other people"
    with pytest.raises(DataError, match="thresholds are set on other people, but 30 are in both sets, such as 'p000'"):
        evaluate_people(vectors, identity, calibrate_on=(vectors, identity), rng=np.random.default_rng(0))


def test_chance_is_chance():
    vectors = np.random.default_rng(1).normal(size=(200, 16)).astype(np.float32)
    identity = np.repeat(np.arange(50).astype(str), 4)
    got = evaluate_people(vectors, identity, fars=(0.1,), draws=100, rng=np.random.default_rng(0))
    assert got.auc.low < 0.5 < got.auc.high
    assert got.eer.low < 0.5 < got.eer.high
    assert got.points[0].low < 0.1 < got.points[0].high


def test_bad_input_is_named():
    vectors, identity = crowd(4, 3, 0.5, 0)
    rng = np.random.default_rng(0)
    with pytest.raises(DataError, match=r"target FARs lie between 0 and 1, got 0.1, 1"):
        evaluate_people(vectors, identity, fars=(0.1, 1.0), rng=rng)
    with pytest.raises(DataError, match="12 images need one embedding each"):
        evaluate_people(vectors[:5], identity, rng=rng)
    vectors[3] = np.inf
    with pytest.raises(DataError, match="lfw: the embedding of image 3 is zero or not finite"):
        evaluate_people(vectors, identity, rng=rng, name="lfw")
    with pytest.raises(DataError, match="every identity has one"):
        evaluate_people(np.eye(4, dtype=np.float32), np.arange(4).astype(str), rng=rng)
