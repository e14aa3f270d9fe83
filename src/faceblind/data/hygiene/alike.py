"""Identities that are as like each other as the images of one person are: probably one person under two names.

The cross similarity c of two identities is compared with what each has within, w: r = c / sqrt(w w') estimates the
cosine of their true means, free of image noise, and is 1 for one person. A pair is listed when r stands out of the bulk of all pairs
(one false entry in a hundred), and is near 1 or its images are not significantly nearer to their own name than to the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind.data.hygiene.bulk import Bulk, discoveries
from faceblind.data.hygiene.people import People

FALSE_SHARE = 0.01
"""Share of false pairs that the list is held to."""

_SAMPLE = 300_000
_BLOCK = 2048
_CANDIDATE = 3.5
_MOST = 2000
_ONE_PERSON = 0.75
_APART = 3.0
_SURE = 0.9
_FLOOR = 0.5
_KNOWN_SPREAD = 4
_SIGNAL = 5.0
_HOPELESS = 10.0
_TELLING = 0.05


@dataclass(frozen=True, eq=False)
class Alike:
    """Pairs of identities that look like one person.

    Attributes
    ----------
    pairs : (p, 2) int
        Codes, most alike first; with two tables the second column counts in the second.
    ratio : (p,) float64
        Estimated cosine of the true means.
    by_chance : float
        Pairs of different people expected to look like one person among all: how little the encoder can tell.
    """

    pairs: NDArray[np.intp]
    ratio: NDArray[np.float64]
    by_chance: float

    @property
    def can_tell(self) -> bool:
        """Whether one person under two names would stand out."""
        return self.by_chance <= _TELLING


def find_alike(people: People, other: People | None = None, *, seed: int = 0) -> Alike:
    """Compare all pairs of identities with two images or more, within a table or across two."""
    second = people if other is None else other
    left, right = _Side.of(people), _Side.of(second)
    tests = left.codes.size * (left.codes.size - 1) // 2 if other is None else left.codes.size * right.codes.size
    if tests < 1 or min(left.signal, right.signal) < _SIGNAL:
        return Alike(np.empty((0, 2), dtype=np.intp), np.empty(0), math.inf)
    a, b = _some_pairs(left.codes.size, right.codes.size, other is None, seed)
    sizes = _sizes(left.counts[a], right.counts[b])
    bulk = Bulk.of(_ratios(left, right, a, b), sizes, "high", wide=True)
    by_chance = tests * float(np.mean(bulk.p(np.ones(sizes.size), sizes)))
    if by_chance > _HOPELESS:
        return Alike(np.empty((0, 2), dtype=np.intp), np.empty(0), by_chance)

    found: list[tuple[float, float, int, int]] = []
    for i, j, ratio in _blocks(left, right, within=other is None):
        size = _sizes(left.counts[i], right.counts[j])
        z = bulk.z(ratio, size)
        rows, columns = np.nonzero((z >= _CANDIDATE) & (ratio >= _ONE_PERSON))
        if other is None:
            upper = i[rows, 0] < j[0, columns]
            rows, columns = rows[upper], columns[upper]
        p = bulk.p(ratio[rows, columns], size[rows, columns])
        found += zip(
            p.tolist(), ratio[rows, columns].tolist(), i[rows, 0].tolist(), j[0, columns].tolist(), strict=True
        )
        found = sorted(found)[:_MOST]
    kept = [  # close relatives stand out of the bulk too, but each is nearer to its own name
        item
        for item in found
        if item[1] >= _SURE or _apart(people, second, int(left.codes[item[2]]), int(right.codes[item[3]])) <= _APART
    ]
    listed = discoveries(np.array([item[0] for item in kept]), tests, FALSE_SHARE)
    chosen = [item for item, yes in zip(kept, listed, strict=True) if yes]
    pairs = np.array([[left.codes[i], right.codes[j]] for _, _, i, j in chosen], dtype=np.intp).reshape(-1, 2)
    return Alike(pairs, np.array([item[1] for item in chosen]), by_chance)


@dataclass(frozen=True, eq=False)
class _Side:
    """Identities with two images or more: codes, counts, means, and cohesion drawn towards the typical one by its noise.

    `signal` is the mean cohesion in standard errors: whether there is any identity in the vectors.
    """

    codes: NDArray[np.intp]
    counts: NDArray[np.intp]
    means: NDArray[np.float32]
    cohesion: NDArray[np.float64]
    signal: float

    @classmethod
    def of(cls, people: People) -> _Side:
        codes = np.flatnonzero(people.counts > 1)
        if not codes.size:
            return cls(codes, codes, np.empty((0, people.vectors.shape[1]), np.float32), np.empty(0), 0.0)
        counts, raw = people.counts[codes], people.cohesion()[codes]
        squares = np.bincount(people.codes, weights=np.nan_to_num(people.own) ** 2, minlength=people.names.size)[codes]
        variance = np.maximum(squares / counts - raw**2, 0)
        # few images do not show their own spread: take the typical one of those with enough
        usual = float(np.median(variance[counts >= min(_KNOWN_SPREAD, counts.max())]))
        noise = 4 * usual / counts
        typical = float(raw.mean())
        real = max(float(raw.var()) - float(noise.mean()), 1e-9)
        drawn = typical + (raw - typical) * real / (real + noise)
        signal = typical / max(float(raw.std()) / math.sqrt(codes.size), 1e-9)
        floor = _FLOOR * max(typical, 1e-9)
        return cls(codes, counts, people.means()[codes].astype(np.float32), np.maximum(drawn, floor), signal)


def _sizes(first: NDArray[np.intp], second: NDArray[np.intp]) -> NDArray[np.float64]:
    return np.asarray(1 / (1 / first + 1 / second))


def _ratios(left: _Side, right: _Side, a: NDArray[np.intp], b: NDArray[np.intp]) -> NDArray[np.float64]:
    cross = np.empty(a.size)
    for start in range(0, a.size, 8 * _BLOCK):
        part = slice(start, start + 8 * _BLOCK)
        cross[part] = np.einsum("ij,ij->i", left.means[a[part]], right.means[b[part]])
    return np.asarray(cross / np.sqrt(left.cohesion[a] * right.cohesion[b]))


def _some_pairs(first: int, second: int, within: bool, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """All pairs, or a sample of them."""
    if first * second <= 2 * _SAMPLE:
        a, b = np.indices((first, second)).reshape(2, -1)
    else:
        rng = np.random.default_rng([seed, 0xA11])
        a, b = rng.integers(0, first, _SAMPLE), rng.integers(0, second, _SAMPLE)
    return (a[a < b], b[a < b]) if within else (a, b)


def _blocks(
    left: _Side, right: _Side, *, within: bool
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]]:
    for i in range(0, left.codes.size, _BLOCK):
        rows = np.arange(i, min(i + _BLOCK, left.codes.size))[:, None]
        for j in range(i if within else 0, right.codes.size, _BLOCK):
            columns = np.arange(j, min(j + _BLOCK, right.codes.size))[None]
            cross = left.means[rows[:, 0]] @ right.means[columns[0]].T
            scale = np.sqrt(np.outer(left.cohesion[rows[:, 0]], right.cohesion[columns[0]]))
            yield rows, columns, cross / scale


def _apart(first: People, second: People, a: int, b: int) -> float:
    """How many standard errors the images of two identities are nearer to their own name than to the other."""
    mine, theirs = first.codes == a, second.codes == b
    differences = np.concatenate(
        [
            first.own[mine] - first.vectors[mine].astype(np.float64) @ (second.sums[b] / second.counts[b]),
            second.own[theirs] - second.vectors[theirs].astype(np.float64) @ (first.sums[a] / first.counts[a]),
        ]
    )
    # images share the means that they are compared with: twice the variance of as many independent differences
    error = float(differences.std(ddof=1)) * math.sqrt(2 / differences.size)
    return float(differences.mean()) / max(error, 1e-9)
