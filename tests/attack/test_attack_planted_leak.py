"""The whole numeric path on a leak of known place and strength: seen before, gone after, and not by accident."""

from __future__ import annotations

import numpy as np
import pytest

from faceblind.attack import LDA, PLDA, WCCN, Cosine, RidgeProbe, freeze
from faceblind.data.embeddings import unit_rows
from faceblind.erase import ISP, LinearEraser, PCAEraser, RandomEraser
from faceblind.measure import ScoreTail, det_curve, score_tail, threshold_at
from strategies import Planted, planted

FAR, RANK, DIM = 1e-2, 6, 32


def people(seed: int, count: int, prefix: str) -> Planted:
    return planted(seed, people=count, images=8, dim=DIM, rank=RANK, strength=0.5, noise=0.15, prefix=prefix)


@pytest.fixture(scope="module")
def parts() -> dict[str, Planted]:
    return {
        name: people(i, n, name)
        for i, (name, n) in enumerate({"fit": 300, "attack": 60, "val": 40, "test": 60}.items())
    }


def audit(parts: dict[str, Planted], eraser: LinearEraser | None, attacker) -> ScoreTail:
    """Release everything, learn from `attack`, freeze on `val`, score `test`."""

    def released(name: str) -> np.ndarray:
        return unit_rows(parts[name].vectors) if eraser is None else eraser.transform(parts[name].vectors)

    def tar(candidate) -> float:
        tail = score_tail(candidate.map(released("val")), parts["val"].identity)
        return float(np.mean(tail.mated >= threshold_at(tail.top, tail.nonmated, FAR)))

    candidates = attacker.fit(released("attack"), parts["attack"].identity, k=8, rng=np.random.default_rng(0))
    best = freeze(candidates, tar)
    return score_tail(best.map(released("test")), parts["test"].identity, histogram=True)


def tar_of(tail: ScoreTail) -> float:
    return float(np.mean(tail.mated >= threshold_at(tail.top, tail.nonmated, FAR)))


@pytest.mark.parametrize("attacker", [Cosine(), RidgeProbe(), WCCN(), LDA(), PLDA()], ids=lambda a: a.name)
def test_the_planted_leak_is_seen_and_gone_once_its_subspace_is_removed(parts, attacker):
    fit = parts["fit"]
    raw = audit(parts, None, attacker)
    erased = audit(parts, ISP(RANK).fit(fit.vectors, fit.identity), attacker)
    random = audit(parts, RandomEraser(RANK, rng=np.random.default_rng(0)).fit(fit.vectors), attacker)
    assert tar_of(raw) > 0.3
    assert tar_of(random) > 0.2  # the same number of dimensions without knowing identity: the leak stays
    assert tar_of(erased) < 2.5 * FAR  # chance is FAR
    assert det_curve(raw).eer < 0.15
    assert det_curve(erased).eer > 0.46


def test_a_rank_short_of_the_subspace_leaves_a_leak_and_ridge_finds_it(parts):
    fit = parts["fit"]
    leaks = [tar_of(audit(parts, ISP(r).fit(fit.vectors, fit.identity), RidgeProbe())) for r in (2, 3, 4, 6)]
    assert leaks[0] > leaks[1] > leaks[2] > leaks[3]
    assert leaks[2] > 3 * FAR


def test_where_identity_is_the_main_variance_pca_removes_it_too(parts):
    """So the control matters: here removing identity and removing variance cannot be told apart."""
    erased = audit(parts, PCAEraser(RANK).fit(parts["fit"].vectors), RidgeProbe())
    assert tar_of(erased) < 2.5 * FAR


def test_without_a_planted_leak_nothing_is_seen_by_anyone():
    empty = {
        name: planted(i, people=n, images=8, dim=DIM, strength=0.0, noise=1.0, prefix=name)
        for i, (name, n) in enumerate({"attack": 60, "val": 40, "test": 60}.items())
    }
    for attacker in (Cosine(), RidgeProbe(), WCCN(), LDA(), PLDA()):
        tail = audit(empty, None, attacker)
        assert tar_of(tail) < 2.5 * FAR
        assert det_curve(tail).eer == pytest.approx(0.5, abs=0.03)
