"""The maps vectors go through before an attacker sees them: none, ISP, or a control of the same rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Literal

import numpy as np

from faceblind._errors import DataError, RankError
from faceblind.audit.papers.people import Bench, Group
from faceblind.erase import ISP, IdentityMoments, PCAEraser, Projector, RandomEraser
from faceblind.erase.directions import DEFAULT_RANK, Directions, default_rank

Kind = Literal["raw", "isp-w", "isp-x", "random", "pca"]
NULLS: tuple[Kind, ...] = ("random", "pca")


@dataclass(frozen=True)
class MapKey:
    """Which map: its kind, how many dimensions it removes, and how many people it was fitted on."""

    kind: Kind
    rank: int = 0
    people: int = 0


class Released:
    """What is released of one table under one map; groups pass through it when they are asked for, once."""

    def __init__(self, bench: Bench, projector: Projector | None) -> None:
        self._bench, self._projector = bench, projector
        self._made: dict[str, tuple[Group, float]] = {}
        self._lock = Lock()

    def group(self, name: str) -> Group:
        """Return a group of people as released."""
        return self._pass(name)[0]

    @property
    def energy_kept(self) -> float:
        """Share of squared length left, mean over test images."""
        return self._pass("test")[1]

    def _pass(self, name: str) -> tuple[Group, float]:
        group = self._bench.groups[name]
        if self._projector is None:
            return group, 1.0
        with self._lock:
            if name not in self._made:
                applied = self._projector.apply(group.vectors)
                self._made[name] = Group(applied.vectors, group.identity), float(applied.energy_kept.mean())
            return self._made[name]


def directions_of(bench: Bench, people: int) -> Directions:
    """Find the identity directions of the first people of a table.

    Raises
    ------
    DataError
        Fewer than two people, or nobody with two images.
    """
    group = bench.fit_group(people)
    try:
        return ISP.directions(IdentityMoments().partial_fit(group.vectors, group.identity))
    except DataError as error:
        raise DataError(f"{bench.source.path}: {error}") from error


def shared_rank(wanted: int | None, compared: Sequence[Directions]) -> tuple[int, str | None]:
    """Return the rank for all fits that are compared, and a note when it is not the one asked for (or the paper's)."""
    most = min(directions.most for directions in compared)
    rank = min(wanted or default_rank(compared[0].dim), most)
    asked = wanted or DEFAULT_RANK
    if rank == asked:
        return rank, None
    fewest = min(directions.fit_identities for directions in compared)
    limit = f"{fewest} people support no more" if rank == most else f"half of {compared[0].dim} dimensions"
    return rank, f"rank {rank} instead of {asked}: {limit}"


def projector_of(key: MapKey, bench: Bench, directions: Directions | None, seed: int) -> Projector:
    """Return the projector of a key; `directions` are those of the people ISP is fitted on.

    Raises
    ------
    RankError
        The rank is larger than the people support.
    """
    train = bench.groups["train"]
    if key.kind == "random":
        rng = np.random.default_rng([seed, 0xC0, key.rank])
        return RandomEraser(key.rank, rng=rng).fit(train.vectors).projector_
    if key.kind == "pca":
        return PCAEraser(key.rank).fit(train.vectors).projector_
    if directions is None or key.rank > directions.most:
        most = 0 if directions is None else directions.most
        raise RankError(f"rank {key.rank} is too large: {key.people} identities support at most {most}")
    return directions.projector(key.rank)
