"""One attacker on one release: the number of a cell, with its interval, grade and what it costs in false accepts.

Hyper-parameters are frozen on validation. The number we stand by has its threshold set on test, where the FAR is the
one that is named; the paper's, frozen on validation, stands beside it with the FAR it achieved. An attacker that learns
from validation people (because there are no others whom the eraser never saw) is tuned by two-fold cross-validation
over them, and has no frozen threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from faceblind.attack import WCCN, Attacker, Candidate, Cosine, RidgeProbe, freeze
from faceblind.audit.papers.maps import MapKey, Released
from faceblind.audit.papers.people import Group
from faceblind.audit.papers.protocol import Protocol
from faceblind.audit.papers.sampled import PrintedReading, draw_impostors, sampled_pauc, sampled_tar
from faceblind.measure import (
    OperatingPoint,
    ScoreTail,
    SubjectBootstrap,
    Threshold,
    mean_point,
    operating_point,
    partial_auc,
    score_tail,
    subject_interval,
    supported_far,
    threshold_at,
)
from faceblind.measure.pauc import partial_auc_draws

Metric = Literal["tar", "pauc"]
Pool = Literal["train", "fresh", "none"]
GRADES = ("unsupported", "indicative", "supported")
_NOTHING = 1e-6


@dataclass(frozen=True)
class Job:
    """What to measure: a table through a map, read by an attacker who learned from k images each of a pool."""

    dataset: str
    encoder: str
    map: MapKey
    attacker: str
    pool: Pool
    k: int | None
    metric: Metric
    printed: bool = False

    @property
    def label(self) -> str:
        """The attacker in words."""
        images = "" if self.k is None else f" k={self.k}"
        people = {"train": " on train people", "fresh": " on people unseen by the eraser", "none": ""}[self.pool]
        return f"{self.attacker}{images}{people}"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A measured cell; shares are 0 to 1, `frozen` ones are None where no threshold can be frozen."""

    value: float
    low: float
    high: float
    grade: str
    far: float
    achieved: float
    lift: float
    frozen: float | None
    frozen_low: float | None
    frozen_high: float | None
    frozen_far: float | None
    learned_from: int
    people: int
    mated: int
    nonmated: int
    seeds: int
    energy_kept: float
    settings: tuple[dict[str, float], ...]
    printed: PrintedReading | None = None

    @property
    def bounded(self) -> bool:
        """Whether only `high`, an upper bound, can be said."""
        return self.grade == "unsupported"

    @property
    def shown(self) -> float:
        """What the reading counts as when the worst is looked for."""
        return self.high if self.bounded else self.value

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {**asdict(self), "settings": [dict(s) for s in self.settings]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Reading:
        """Rebuild from `to_dict`."""
        printed = data["printed"]
        return cls(
            **{
                **data,
                "settings": tuple(data["settings"]),
                "printed": None if printed is None else PrintedReading.from_dict(printed),
            }
        )


def attacker_named(name: str) -> Attacker:
    """Make an attacker: cosine, ridge, wccn or mlp."""
    if name == "mlp":
        from faceblind.attack import MLPProbe

        return MLPProbe()
    known: dict[str, Callable[[], Attacker]] = {"cosine": Cosine, "ridge": RidgeProbe, "wccn": WCCN}
    return known[name]()


def measure(job: Job, released: Released, pool: tuple[str, Group], protocol: Protocol) -> Reading:
    """Train with every seed, tune, look at test once, count.

    Parameters
    ----------
    pool : (name, people)
        Whom the attacker learns from, as released; ``validation`` says that tuning must make do with the same people.
    """
    attacker = attacker_named(job.attacker)
    test, validation = released.group("test"), released.group("validation")
    bootstrap = SubjectBootstrap.of(test.people, draws=protocol.draws, rng=np.random.default_rng([protocol.seed, 0xB0]))
    mapped, looks, settings = [], [], []
    seeds = range(protocol.seeds if job.k is not None else 1)  # without a k all images are taken: nothing to draw
    for seed in seeds:
        if pool[0] == "validation" and attacker.learns:
            best, held_out = _cross_validated(attacker, pool[1], job.k, seed, protocol), None
        else:
            best = _tuned(attacker, pool[1], validation, job.k, seed, protocol)
            held_out = _tail(best, validation, protocol)
        mapped.append(best.map(test.vectors))
        look = _look_at_area if job.metric == "pauc" else _look_at_rate
        looks.append(look(mapped[-1], test, held_out, bootstrap, protocol))
        settings.append(dict(best.setting))
    value = mean_point([look.point for look in looks])
    frozen = [look.frozen for look in looks if look.frozen is not None]
    held = mean_point(frozen) if frozen else None
    first = looks[0].point
    area = job.metric == "pauc"
    return Reading(
        value=value.tar,
        low=value.low,
        high=value.high,
        grade=value.grade,
        far=protocol.pauc_far if area else protocol.far,
        achieved=value.far,
        lift=value.tar / (protocol.pauc_far / 2 if area else max(protocol.far, value.far)),
        frozen=None if held is None else held.tar,
        frozen_low=None if held is None else held.low,
        frozen_high=None if held is None else held.high,
        frozen_far=None if held is None else held.far,
        learned_from=0 if job.pool == "none" else pool[1].people,
        people=test.people,
        mated=first.mated,
        nonmated=first.nonmated,
        seeds=len(looks),
        energy_kept=released.energy_kept,
        settings=tuple(settings),
        printed=_as_printed(job, mapped, test, protocol) if job.printed else None,
    )


@dataclass(frozen=True, eq=False)
class _Look:
    """What one seed showed on test: with the threshold set there, and frozen on validation where there is one."""

    point: OperatingPoint
    frozen: OperatingPoint | None


def _look_at_rate(
    mapped: NDArray[np.float32],
    test: Group,
    held_out: ScoreTail | None,
    bootstrap: SubjectBootstrap,
    protocol: Protocol,
) -> _Look:
    kept = None if held_out is None else Threshold.set_on(held_out, protocol.far)
    tail = score_tail(
        mapped, test.identity, far_max=protocol.far, counts_at=() if kept is None else (kept.value, kept.bound_value)
    )
    point = operating_point(tail, Threshold.set_on(tail, protocol.far), bootstrap, frozen=False)
    return _Look(point, None if kept is None else operating_point(tail, kept, bootstrap, frozen=True))


def _look_at_area(
    mapped: NDArray[np.float32],
    test: Group,
    _held_out: ScoreTail | None,
    bootstrap: SubjectBootstrap,
    protocol: Protocol,
) -> _Look:
    """Measure the mean TAR over the range; where its end is unsupported, TAR at a supported FAR bounds it from above."""
    tail = score_tail(mapped, test.identity, far_max=protocol.pauc_far)
    end = operating_point(tail, Threshold.set_on(tail, protocol.pauc_far), bootstrap, frozen=False)
    area = partial_auc(tail, protocol.pauc_far).value
    if end.grade == "unsupported":
        return _Look(replace(end, tar=area), None)
    draws = partial_auc_draws(tail, bootstrap, protocol.pauc_far)
    low, high = subject_interval(area, draws, end.effective)
    return _Look(replace(end, tar=area, base=area, low=low, high=high, draws=draws), None)


def _tuned(
    attacker: Attacker, pool: Group, validation: Group, k: int | None, seed: int, protocol: Protocol
) -> Candidate:
    candidates = _fit(attacker, pool, k, seed, protocol)
    return freeze(candidates, lambda c: _objective(c, validation, protocol), attacker.patience)


def _cross_validated(attacker: Attacker, pool: Group, k: int | None, seed: int, protocol: Protocol) -> Candidate:
    names = np.unique(pool.identity)
    names = np.random.default_rng([protocol.seed, 0xF01D, seed]).permutation(names)
    halves = [pool.only(names[: names.size // 2].tolist()), pool.only(names[names.size // 2 :].tolist())]
    if attacker.patience is not None:  # stages of training have no counterpart in another run: keep one half's
        return _tuned(attacker, halves[0], halves[1], k, seed, protocol)
    totals: NDArray[np.float64] | None = None
    for own, other in (halves, halves[::-1]):
        found = np.array([_objective(c, other, protocol) for c in _fit(attacker, own, k, seed, protocol)])
        totals = found if totals is None else totals + found
    candidates = list(_fit(attacker, pool, k, seed, protocol))
    return candidates[0 if totals is None else int(np.argmax(totals))]


def _fit(attacker: Attacker, pool: Group, k: int | None, seed: int, protocol: Protocol) -> Iterable[Candidate]:
    if np.ptp(pool.vectors, axis=0).max() < _NOTHING:  # a map that erases everything leaves nothing to learn from
        return (Cosine(),)
    rng = np.random.default_rng([protocol.seed, 0xA77, seed, k or 0])
    return attacker.fit(pool.vectors, pool.identity, k=k, rng=rng)


def _objective(candidate: Candidate, group: Group, protocol: Protocol) -> float:
    tail = _tail(candidate, group, protocol)
    return tail.tar(threshold_at(tail.top, tail.nonmated, supported_far(protocol.far, tail.nonmated)))


def _tail(candidate: Candidate, group: Group, protocol: Protocol) -> ScoreTail:
    return score_tail(candidate.map(group.vectors), group.identity, far_max=protocol.far, slack=1.0)


def _as_printed(job: Job, mapped: Sequence[NDArray[np.float32]], test: Group, protocol: Protocol) -> PrintedReading:
    rng = np.random.default_rng([protocol.seed, 0x5A3])
    if job.metric == "pauc":
        return sampled_pauc(mapped, test.identity, protocol.pauc_far, resamplings=protocol.resamplings, rng=rng)
    q = protocol.impostors_for(job.dataset)
    partners = draw_impostors(test.identity, q, protocol.resamplings, rng)
    return sampled_tar(mapped, test.identity, partners, protocol.far)
