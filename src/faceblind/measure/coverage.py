"""Simulated audits whose truth is known, to try how often a 95 % interval holds it.

An interval is a promise about audits not yet made: of a hundred, on a hundred new sets of people, about 95 shall hold
the true rate. That can be tried where the population is made up. People differ, so that few of them carry most of
a leak, which is where intervals fail. `rate_coverage` draws each person's own accept rate; `audit_coverage` draws
vectors, scores all pairs and sets thresholds, as an audit does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from faceblind.measure.intervals import SubjectBootstrap
from faceblind.measure.limits import subject_interval
from faceblind.measure.operating import threshold_at
from faceblind.measure.scan import score_tail

_REFRESH = 50  # simulated audits that share the draws of people
_CROWD, _CROWDS = 800, 60  # people, and times as many, that stand for the population


@dataclass(frozen=True)
class Coverage:
    """How often an interval held the truth over simulated audits.

    Attributes
    ----------
    what : str
    people : int
        People per audit.
    truth : float
        The rate in the population.
    audits : int
    too_low, too_high : int
        Audits whose interval ended under the truth (the leak under-reported), and began above it.
    width : float
        Median width of the intervals.
    lost : int
        Draws, over all audits, whose threshold lay beyond the kept scores.
    """

    what: str
    people: int
    truth: float
    audits: int
    too_low: int
    too_high: int
    width: float
    lost: int = 0

    @property
    def covered(self) -> float:
        """Share of audits whose interval holds the truth."""
        return 1 - (self.too_low + self.too_high) / self.audits


def rate_coverage(
    people: int,
    rate: float,
    concentration: float,
    *,
    audits: int = 1000,
    draws: int = 1000,
    images: tuple[int, int] = (10, 20),
    seed: int = 0,
) -> Coverage:
    """Try the interval of a TAR at a fixed threshold, where each person has an accept rate of their own.

    Parameters
    ----------
    people : int
    rate : float
        TAR in the population.
    concentration : float
        Rates of people follow Beta(rate c, (1 - rate) c): at c = 20 they are alike, at c = 0.3 nearly all pairs of few
        people are accepted and none of the others.
    images : (fewest, most)
        Images per person, drawn evenly; a person has n (n - 1) / 2 mated pairs.
    """
    rng = np.random.default_rng([seed, people, int(1e6 * rate), int(1e3 * concentration)])
    found: list[tuple[float, float]] = []
    for start in range(0, audits, _REFRESH):
        weights = SubjectBootstrap.of(people, draws=draws, rng=rng).weights.astype(np.float64)
        for _ in range(min(_REFRESH, audits - start)):
            n = rng.integers(images[0], images[1] + 1, people)
            pairs = n * (n - 1) // 2
            accepted = rng.binomial(pairs, rng.beta(rate * concentration, (1 - rate) * concentration, people))
            drawn = (weights @ accepted) / (weights @ pairs)
            effective = pairs.sum() ** 2 / (pairs @ pairs)
            found.append(subject_interval(float(accepted.sum() / pairs.sum()), drawn, float(effective)))
    return _count(f"TAR, threshold fixed, concentration {concentration:g}", people, rate, found)


@dataclass(frozen=True)
class Crowd:
    """A made-up population: vectors ``s_i u_i + e``, u_i a direction of the person and e of the image.

    Attributes
    ----------
    strength : float
        Median of s_i, the share of identity in a vector.
    spread : float
        Standard deviation of ``log s_i``: few people carry most of the leak when it is large.
    images, dim : int
    """

    strength: float
    spread: float
    images: int = 8
    dim: int = 24

    def draw(self, people: int, rng: np.random.Generator) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return unit vectors (people x images, dim) and the person of each."""
        who = np.repeat(np.arange(people), self.images)
        size = self.strength * np.exp(self.spread * rng.standard_normal(people))
        person = rng.standard_normal((people, self.dim)) * size[:, None]
        # Directions are not used evenly: some people meet many others there, and are falsely accepted more often.
        vectors = (person[who] + rng.standard_normal((who.size, self.dim))) * (1 + np.arange(self.dim)) ** -0.3
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), who

    def truth(self, far: float, rng: np.random.Generator) -> tuple[float, float]:
        """Return the threshold of the population at a FAR, and its TAR there, from many more people than an audit has."""
        first = replace(self, images=1)
        above = int(far * _CROWD * (_CROWD - 1) / 2)
        scores = []
        for _ in range(_CROWDS):
            vectors, _who = first.draw(_CROWD, rng)
            found = (vectors @ vectors.T)[np.triu_indices(_CROWD, 1)]
            scores.append(np.partition(found, found.size - 4 * above)[found.size - 4 * above :])
        pool = np.concatenate(scores)
        threshold = float(np.partition(pool, pool.size - _CROWDS * above)[pool.size - _CROWDS * above])
        pairs, _who = replace(self, images=2).draw(_CROWDS * _CROWD, rng)
        mated = np.einsum("ij,ij->i", pairs[::2], pairs[1::2])
        return threshold, float((mated >= np.float32(threshold)).mean())


def audit_coverage(
    crowd: Crowd, people: int, far: float, *, audits: int = 300, draws: int = 1000, seed: int = 0
) -> tuple[Coverage, Coverage, Coverage]:
    """Try whole audits: TAR with the threshold set on test, TAR at a fixed one, and FAR at a fixed one."""
    rng = np.random.default_rng([seed, people, round(1 / far), int(1e4 * crowd.strength), int(1e4 * crowd.spread)])
    threshold, tar = crowd.truth(far, rng)
    found: tuple[list[tuple[float, float]], ...] = ([], [], [])
    lost = 0
    for start in range(0, audits, _REFRESH):
        bootstrap = SubjectBootstrap.of(people, draws=draws, rng=rng)
        for _ in range(min(_REFRESH, audits - start)):
            tail = score_tail(*crowd.draw(people, rng), far_max=far)
            calibrated = bootstrap.tar_calibrated(tail, far)
            lost += int(np.isnan(calibrated).sum())
            m = tail.effective_subjects
            point = tail.tar(threshold_at(tail.top, tail.nonmated, far))
            found[0].append(subject_interval(point, calibrated, m))
            found[1].append(subject_interval(tail.tar(threshold), bootstrap.tar_frozen(tail, threshold), m))
            rate = tail.false_accepts(threshold) / tail.nonmated
            found[2].append(subject_interval(rate, bootstrap.far_frozen(tail, threshold), people / 2))
    what = f"FAR {far:g}, spread {crowd.spread:g}"
    return (
        _count(f"TAR, threshold set on test, {what}", people, tar, found[0], lost),
        _count(f"TAR, threshold fixed, {what}", people, tar, found[1]),
        _count(f"FAR, threshold fixed, {what}", people, far, found[2]),
    )


def _count(what: str, people: int, truth: float, found: Sequence[tuple[float, float]], lost: int = 0) -> Coverage:
    low, high = np.array(found).T
    return Coverage(
        what,
        people,
        truth,
        len(found),
        too_low=int((high < truth).sum()),
        too_high=int((low > truth).sum()),
        width=float(np.median(high - low)),
        lost=lost,
    )
