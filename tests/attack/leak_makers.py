"""Leaks of known kind: people whose identity is held in a way that some attackers can read and others cannot.

Each maker returns (vectors, labels); the basis and what is not identity stay the same, seeds draw other people.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from faceblind.attack import freeze
from faceblind.measure import ScoreTail, det_curve, score_tail, threshold_at
from strategies import orthonormal

Table = tuple[np.ndarray, np.ndarray]
Maker = Callable[[int, int, int], Table]


def linear_leak(identity: np.ndarray, nuisance: np.ndarray, *, turned: bool = True) -> Maker:
    """Gaussian people and Gaussian images: standard deviations of each coordinate between and within identities."""
    dim = identity.size
    basis = orthonormal(np.random.default_rng(9), dim, dim) if turned else np.eye(dim)

    def make(seed: int, people: int, images: int) -> Table:
        rng = np.random.default_rng([seed, 1])
        who = np.repeat(np.arange(people), images)
        person = rng.standard_normal((people, dim)) * identity
        rows = person[who] + rng.standard_normal((who.size, dim)) * nuisance
        return _table(rows @ basis.T, who, rng)

    return make


def sizes_leak(code: int, dim: int, noise: float = 0.05, nuisance: float = 0.3) -> Maker:
    """Identity is the size of `code` coordinates; their signs are new in every image."""

    def make(seed: int, people: int, images: int) -> Table:
        rng = np.random.default_rng([seed, 2])
        who = np.repeat(np.arange(people), images)
        sizes = np.abs(rng.standard_normal((people, code)))[who]
        held = sizes * rng.choice([-1.0, 1.0], sizes.shape) + noise * rng.standard_normal(sizes.shape)
        return _hidden(held, dim, nuisance, who, rng)

    return make


def products_leak(bits: int, dim: int, noise: float = 0.1, nuisance: float = 0.3) -> Maker:
    """Identity is whether two coordinates have the same sign, for each of `bits` pairs (XOR)."""

    def make(seed: int, people: int, images: int) -> Table:
        rng = np.random.default_rng([seed, 3])
        who = np.repeat(np.arange(people), images)
        bit = rng.choice([-1.0, 1.0], (people, bits))[who]
        first = rng.choice([-1.0, 1.0], bit.shape)
        held = np.concatenate([first, first * bit], axis=1)
        return _hidden(held + noise * rng.standard_normal(held.shape), dim, nuisance, who, rng)

    return make


def _hidden(held: np.ndarray, dim: int, nuisance: float, who: np.ndarray, rng: np.random.Generator) -> Table:
    rest = nuisance * rng.standard_normal((who.size, dim - held.shape[1]))
    basis = orthonormal(np.random.default_rng(9), dim, dim)
    return _table(np.concatenate([held, rest], axis=1) @ basis.T, who, rng)


def _table(rows: np.ndarray, who: np.ndarray, rng: np.random.Generator) -> Table:
    order = rng.permutation(who.size)
    return rows[order].astype(np.float32), np.array([f"p{i:04d}" for i in who])[order]


def reads(
    attacker, make: Maker, *, people: int = 60, images: int = 8, far: float = 1e-2, k: int | None = None
) -> tuple[float, float]:
    """TAR at `far` and EER on new people, after learning from `people` and tuning on forty others."""
    learn, tune, test = make(1, people, images), make(2, 40, 8), make(3, 60, 8)

    def tail_of(candidate, table: Table) -> ScoreTail:
        return score_tail(candidate.map(table[0]), table[1], histogram=True)

    def tar(tail: ScoreTail) -> float:
        return float(np.mean(tail.mated >= threshold_at(tail.top, tail.nonmated, far)))

    candidates = attacker.fit(*learn, k=k, rng=np.random.default_rng(0))
    best = freeze(candidates, lambda c: tar(tail_of(c, tune)), attacker.patience)
    tail = tail_of(best, test)
    return tar(tail), det_curve(tail).eer
