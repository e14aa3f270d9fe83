"""Tuning on validation, templates, and points averaged over seeds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import faceblind as fb
from faceblind.attack import Cosine
from faceblind.audit.attacks import Attack, attacks_of, screening
from faceblind.audit.evaluate import calibrated_point, run_seed, summarise, tail_of, tune
from faceblind.audit.plan import ATTACKERS, AuditPlan
from faceblind.audit.releases import Part, SplitData
from faceblind.audit.templates import enroll
from faceblind.measure import SubjectBootstrap
from strategies import planted

PLAN = AuditPlan(fars=(1e-1, 1e-2), ks=(1, 3), attacker_seeds=2, draws=200)


@pytest.fixture(scope="module")
def data():
    made = planted(3, people=60, images=6, rank=6, strength=0.5, noise=0.2)
    people = fb.EmbeddingSet.of(made.vectors, made.identity)
    return SplitData.of(people, fb.IdentitySplit.draw(people, seed=0))


@pytest.fixture(scope="module")
def bootstrap(data):
    people = np.unique(data.parts["test"].identity).size
    return SubjectBootstrap.of(people, draws=200, rng=np.random.default_rng(0))


def test_each_attacker_that_learns_is_trained_on_both_kinds_of_people(data):
    attacks = attacks_of(AuditPlan(attackers=ATTACKERS, ks=(1, 3)), data)
    for attacker, found in itertools.groupby(attacks, key=lambda a: a.name):
        people = {attack.trained_on for attack in found}
        assert people == ({None} if attacker in ("cosine", "class-mean") else {"attack", "fit"})
    assert {attack.name for attack in attacks} == set(ATTACKERS)


def test_templates_need_images_left_to_recognise(data):
    plan = AuditPlan(attackers=("class-mean", "ridge-template"), ks=(1, 5, 6))
    assert {a.k for a in attacks_of(plan, data) if a.protocol == "templates"} == {1, 5}  # six images a person


def test_screening_runs_every_attacker_once_with_the_most_images(data):
    chosen = screening(AuditPlan(ks=(1, 4, 16)), data)
    assert {(a.name, a.k) for a in chosen} >= {("cosine", None), ("class-mean", 4), ("ridge", 16), ("wccn", None)}
    assert all(a.seeds(PLAN) == range(1) for a in chosen)


def test_the_candidate_with_the_highest_validation_tar_is_frozen(data):
    class Upside:
        """Offers the vectors, and noise."""

        name, learns, patience = "upside", False, None

        def fit(self, X, identity, *, k, rng):
            noise = rng.standard_normal((X.shape[1], X.shape[1]))

            class Noise:
                def __init__(self):
                    self.setting = {"noise": 1.0}

                def map(self, X):
                    return Cosine().map(np.sin(50 * X @ noise).astype(np.float32))

            return (Noise(), Cosine(), Noise())

        def describe(self):
            return {"name": "upside"}

    attack = Attack(Upside(), None, 2)
    raw = data.raw()
    best, _ = tune(attack, attack.train(raw, 0, PLAN), raw.validation, 0, PLAN)
    assert isinstance(best, Cosine)


def test_candidates_made_one_by_one_are_not_mistaken_for_each_other(data):
    """A candidate that was dropped frees its place for the next one, which must not inherit its score."""

    class Fresh:
        def __init__(self, noise):
            self.setting, self.noise = {"noise": noise}, noise

        def map(self, X):
            rng = np.random.default_rng(0)
            return Cosine().map((X + self.noise * rng.standard_normal(X.shape)).astype(np.float32))

    class OneByOne:
        name, learns, patience = "one by one", False, 10

        def fit(self, X, identity, *, k, rng):
            for noise in (5.0, 9.0, 9.5, 0.0, 9.7, 9.9):
                yield Fresh(noise)

        def describe(self):
            return {"name": self.name}

    attack = Attack(OneByOne(), None, 2)
    raw = data.raw()
    for _ in range(5):
        best, tail = tune(attack, attack.train(raw, 0, PLAN), raw.validation, 0, PLAN)
        assert best.setting == {"noise": 0.0}
        assert tail.tar(0.5) == tail_of(attack, best, raw.validation, 0, PLAN).tar(0.5)


def test_enrolled_templates_are_means_and_queries_are_the_others():
    rng = np.random.default_rng(0)
    identity = np.array(["a"] * 4 + ["b"] * 2 + ["c"] * 5)
    part = Part(rng.standard_normal((11, 3)).astype(np.float32), identity)
    gallery = enroll(part, 3, np.random.default_rng(1))
    assert gallery.names.tolist() == ["a", "b", "c"]
    assert np.unique(gallery.queries.identity, return_counts=True)[1].tolist() == [1, 2]  # b has none left
    for name, template in zip(gallery.names, gallery.templates, strict=True):
        used = [v for v in part.vectors[identity == name] if not (gallery.queries.vectors == v).all(axis=1).any()]
        assert len(used) == min(3, (identity == name).sum())
        np.testing.assert_allclose(template, np.mean(used, axis=0), atol=1e-6)


def test_template_scores_equal_brute_force(data):
    attack = Attack(Cosine(), None, 3, "templates")
    part = data.parts["test"]
    tail = tail_of(attack, Cosine(), part, 7, PLAN)
    gallery = enroll(part, 3, attack.support(part, 7, PLAN))
    unit = gallery.templates / np.linalg.norm(gallery.templates, axis=1, keepdims=True)
    scores = gallery.queries.vectors @ unit.T
    same = gallery.queries.identity[:, None] == gallery.names[None, :]
    assert tail.mated.size == same.sum()
    assert tail.nonmated == (~same).sum()
    np.testing.assert_allclose(np.sort(tail.mated), np.sort(scores[same]), atol=1e-6)
    top = np.sort(scores[~same])[::-1]
    np.testing.assert_allclose(tail.top[:5], top[:5], atol=1e-6)


def test_seeds_of_templates_draw_other_support_images(data):
    attack = Attack(Cosine(), None, 2, "templates")
    part = data.parts["test"]
    first, second, again = (tail_of(attack, Cosine(), part, seed, PLAN) for seed in (0, 1, 0))
    assert not np.array_equal(np.sort(first.mated), np.sort(second.mated))
    np.testing.assert_array_equal(first.mated, again.mated)


def test_rows_and_summary_agree_with_the_points_behind_them(data, bootstrap):
    attack = next(a for a in attacks_of(PLAN, data) if a.name == "ridge" and a.k == 3)
    outcomes = [run_seed(attack, data.raw(), seed, PLAN, bootstrap) for seed in (0, 1)]
    averaged = summarise(outcomes)
    assert len(averaged) == 4  # two FARs, frozen and set on test
    for index, item in enumerate(averaged):
        rows = [outcome.rows[index] for outcome in outcomes]
        assert item.summary.tar == pytest.approx(np.mean([row.tar for row in rows]))
        assert item.summary.far_achieved == pytest.approx(np.mean([row.far_achieved for row in rows]))
        assert item.summary.tar_low <= item.summary.tar <= item.summary.tar_high
        paid = max(item.summary.far_target, item.summary.far_achieved)
        assert item.summary.lift == pytest.approx(item.summary.tar / paid)
        frozen = rows[0].calibration == "validation"
        assert (rows[0].far_low is not None) is frozen
        if frozen:
            assert rows[0].far_low <= rows[0].far_achieved <= rows[0].far_high


def test_a_single_run_is_the_first_seed(data, bootstrap):
    attack = next(a for a in attacks_of(PLAN, data) if a.name == "ridge" and a.k == 3)
    point = calibrated_point(attack, data.raw(), "test", PLAN, bootstrap, 1e-1)
    row = next(
        r
        for r in run_seed(attack, data.raw(), 0, PLAN, bootstrap).rows
        if r.calibration == "test" and r.far_target == 1e-1
    )
    assert (point.tar, point.low, point.high) == (row.tar, row.tar_low, row.tar_high)
