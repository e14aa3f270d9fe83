from __future__ import annotations

import numpy as np
import pytest

from faceblind.attack import MLPProbe
from faceblind.attack.mlp import Standard, snapshots
from strategies import planted, unit_gauss


def test_candidates_come_close_together_at_first_and_at_the_end_of_training():
    assert sorted(snapshots(100, steps_per_epoch=1)) == [32, 64, 100]
    assert sorted(snapshots(100, steps_per_epoch=24)) == [1, 3, 5, 11, 21, 43, 85, 100]
    assert max(snapshots(7, steps_per_epoch=1)) == 7  # too short for a first candidate: the last is offered anyway
    assert snapshots(3, steps_per_epoch=1000) == {1, 2, 3}


def test_training_goes_on_only_as_far_as_candidates_are_asked_for(monkeypatch):
    steps = []
    monkeypatch.setattr("faceblind.attack.mlp.AdamW.step", lambda self, gradients: steps.append(1))
    made = planted(1, people=8, images=8, dim=10)
    stream = iter(MLPProbe().fit(made.vectors, made.identity, k=None, rng=np.random.default_rng(0)))
    assert not steps
    assert next(stream).setting == {"epoch": 32}
    assert len(steps) == 32
    assert next(stream).setting == {"epoch": 64}
    assert len(steps) == 64


def test_training_ends_when_its_people_are_learned():
    made = planted(9, people=4, images=4, dim=40, noise=0.01)
    settings = [c.setting for c in MLPProbe().fit(made.vectors, made.identity, k=None, rng=np.random.default_rng(0))]
    assert settings[-1]["epoch"] < 40
    assert len(settings) <= 2


def test_it_learns_to_name_its_people_and_its_hidden_layer_tells_new_ones_apart():
    made = planted(2, people=60, images=8, dim=20, rank=8, noise=0.6)
    new = planted(3, people=40, images=8, dim=20, rank=8, noise=0.6, subspace=made.subspace)
    same = new.identity[:, None] == new.identity[None, :]
    upper = np.triu(np.ones_like(same), 1)

    def gap(rows: np.ndarray) -> float:
        scores = rows @ rows.T
        mated, others = scores[same & upper], scores[~same & upper]
        return float((mated.mean() - others.mean()) / np.sqrt((mated.var() + others.var()) / 2))

    candidates = list(MLPProbe(epochs=12).fit(made.vectors, made.identity, k=None, rng=np.random.default_rng(0)))
    gaps = [gap(c.map(new.vectors)) for c in candidates]
    assert max(gaps) > 1.1 * gap(new.vectors / np.linalg.norm(new.vectors, axis=1, keepdims=True))


def test_the_embedding_is_the_last_hidden_layer_less_its_training_mean():
    made = planted(4, people=8, images=5, dim=6)
    (candidate,) = MLPProbe((7, 5), epochs=1).fit(made.vectors, made.identity, k=None, rng=np.random.default_rng(0))
    X = made.vectors.astype(np.float64)
    rows = (X - X.mean(axis=0)) / np.sqrt(np.mean((X - X.mean(axis=0)) ** 2))
    for weight, bias in candidate.layers:
        rows = np.maximum(rows @ weight + bias, 0)
    assert rows.shape == (40, 5)
    rows -= rows.mean(axis=0)
    np.testing.assert_allclose(
        candidate.map(made.vectors), rows / np.linalg.norm(rows, axis=1, keepdims=True), atol=1e-5
    )


def test_one_number_scales_all_dimensions():
    """Null directions of an erased release must stay small."""
    X = np.random.default_rng(5).standard_normal((50, 3)) * [1.0, 2.0, 1e-9] + 7
    rows = Standard.of(X)(X)
    assert np.mean(rows.astype(float) ** 2) == pytest.approx(1, rel=1e-6)
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-6)
    assert rows[:, 2].std() < 1e-8
    assert rows[:, 1].std() / rows[:, 0].std() == pytest.approx(X[:, 1].std() / X[:, 0].std(), rel=1e-5)


def test_it_learns_from_k_images_only():
    made = planted(6, people=8, images=5, dim=6)
    probe, rng = MLPProbe((7, 5), epochs=3), np.random.default_rng
    new = unit_gauss(rng(1), 4, 6)
    few, some, all_of_them = (
        next(iter(probe.fit(made.vectors, made.identity, k=k, rng=rng(0)))).map(new) for k in (1, 3, None)
    )
    assert not np.allclose(few, some)
    assert not np.allclose(some, all_of_them)
