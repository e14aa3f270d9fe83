from __future__ import annotations

import numpy as np
import pytest

from faceblind.attack import PLDA, BestEffort
from faceblind.attack import best_effort as module
from faceblind.attack.expansion import Expansion, Ramps, leading
from strategies import planted, unit_gauss


def test_closed_forms_come_first_and_networks_are_not_trained_before_they_are_asked_for(monkeypatch):
    trained = []
    true_train = module._Trainer.train
    monkeypatch.setattr(module._Trainer, "train", lambda self, steps: trained.append(steps) or true_train(self, steps))
    made = planted(1, people=12, images=6, dim=40)
    stream = iter(BestEffort().fit(made.vectors, made.identity, k=4, rng=np.random.default_rng(0)))
    kinds = []
    for candidate in stream:
        kinds.append(next((key for key in ("network", "products_of", "ramps_of") if key in candidate.setting), "plda"))
        if kinds[-1] == "network":
            break
        assert not trained
    assert kinds == ["plda"] * 20 + ["products_of"] * 18 + ["ramps_of"] * 4 + ["network"]
    assert len(kinds) - 1 < BestEffort().patience
    assert trained == [module.ROUND]


def test_its_first_candidates_are_those_of_plda():
    made = planted(2, people=12, images=6, dim=10)
    new = unit_gauss(np.random.default_rng(1), 5, 10)
    stream = iter(BestEffort().fit(made.vectors, made.identity, k=None, rng=np.random.default_rng(0)))
    for plain in PLDA().fit(made.vectors, made.identity, k=None, rng=np.random.default_rng(0)):
        np.testing.assert_array_equal(plain.map(new), next(stream).map(new))


def test_networks_end_after_their_rounds_and_stand_alone_and_beside_wccn(monkeypatch):
    monkeypatch.setattr(module, "ROUNDS", 2)
    made = planted(3, people=12, images=6, dim=10)
    candidates = list(BestEffort().fit(made.vectors, made.identity, k=None, rng=np.random.default_rng(0)))
    settings = [dict(c.setting) for c in candidates if "network" in c.setting]
    assert [(s["network"], s["steps"], s["beside_wccn"]) for s in settings] == [
        (number, steps, beside) for steps in (24, 48) for number in (1, 2) for beside in (0, 1)
    ]
    alone, beside = candidates[-2], candidates[-1]
    new = unit_gauss(np.random.default_rng(1), 5, 10)
    rows, linear, both = alone.map(new), beside.beside.map(new), beside.map(new)
    np.testing.assert_allclose(both @ both.T, (rows @ rows.T + linear @ linear.T) / 2, atol=1e-6)


def test_with_one_image_per_identity_only_the_linear_part_is_left():
    made = planted(4, people=12, images=6, dim=10)
    candidates = list(BestEffort().fit(made.vectors, made.identity, k=1, rng=np.random.default_rng(0)))
    assert all(c.setting["total_covariance"] == 1 for c in candidates)
    assert len(candidates) == 5


def test_leading_directions_are_principal_and_have_variance_one():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((200, 6)) * [5.0, 3.0, 1.0, 0.5, 0.1, 1e-12] + 2
    for size, kept in ((2, 2), (9, 5)):  # the sixth holds rounding only
        rows = leading(X, size)(X.astype(np.float32))
        assert rows.shape == (200, kept)
        np.testing.assert_allclose(rows.T @ rows / 200, np.eye(kept), atol=1e-4)
        assert abs(np.corrcoef(rows[:, 0], X[:, 0])[0, 1]) > 0.99


def test_features_are_all_products_or_ramps_of_leading_coordinates():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((30, 4)).astype(np.float32)
    projection = leading(X.astype(np.float64), 3)
    z = projection(X)
    products = Expansion(projection, None)(X)
    expected = [z[:, i] * z[:, j] for i in range(3) for j in range(i, 3)]
    np.testing.assert_allclose(products, np.array(expected).T, atol=1e-6)
    ramps = Ramps.draw(3, 11, rng)
    found = Expansion(projection, ramps)(X)
    np.testing.assert_allclose(found, np.maximum(z @ ramps.directions + ramps.offsets, 0), atol=1e-6)


def test_products_do_not_change_with_the_sign_of_an_image():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((30, 4))
    X = np.concatenate([X, -X]).astype(np.float32)  # mean zero
    features = Expansion(leading(X.astype(np.float64), 4), None)(X)
    np.testing.assert_allclose(features[:30], features[30:], atol=1e-5)


@pytest.mark.parametrize("ramps", [False, True])
def test_rows_of_zeros_have_no_features(ramps):
    rng = np.random.default_rng(8)
    X = rng.standard_normal((10, 4)).astype(np.float32)
    made = Ramps.draw(3, 5, rng) if ramps else None
    expansion = Expansion(leading(X.astype(np.float64), 3), made)
    X[3] = 0
    features = expansion(X)
    assert not features[3].any()
    assert features[[0, 1, 2, 4]].any(axis=1).all()
