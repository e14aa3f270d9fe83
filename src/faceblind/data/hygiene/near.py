"""Near-duplicate vectors in a table of any size, in memory that does not grow with the number of pairs.

Up to `EXACT_ROWS` rows all pairs are compared, block by block. Beyond that rows are sorted into buckets by the signs of
random projections (Charikar 2002), and only rows that share a bucket are compared. Two vectors at an angle t agree in one sign with
probability 1 - t / pi whatever the data look like, so the number of bucketings is chosen for the recall wanted at the
threshold; pairs that are nearer are found more surely, identical ones always. Every pair reported has been compared exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import UsageError
from faceblind.measure.blocks import score_blocks

EXACT = 1 - 1e-6
"""Cosine from which two vectors are the same but for rounding."""
NEAR = 0.98
"""Cosine from which two images are called near duplicates."""
EXACT_ROWS = 20_000
RECALL = 0.999

Progress = Callable[[str, int, int], None]
"""Called with what is being done, steps done, and all steps."""

_BUCKET = 64
_MOST_SIGNS = 52  # a bucket's number stays exact in float64
_WINDOW = 8192
_SAMPLE = 1500
_CHUNK = 16_384
_BLOCK = 2048


@dataclass(frozen=True, eq=False)
class NearPairs:
    """Pairs found: `pairs` (p, 2) with i < j, nearest first, their `scores` (p,), and `count`, also beyond the limit."""

    pairs: NDArray[np.int64]
    scores: NDArray[np.float32]
    count: int
    recall: float
    """Least probability with which a pair exactly at the threshold is found; 1 when all pairs were compared."""
    cut: bool
    """Whether more pairs than the limit were found, or a crowd was compared only in part: `count` is a lower bound."""


def require_cosine(near: float) -> None:
    """Raise `UsageError` unless `near` is a cosine that can mean a near duplicate."""
    if not 0 < near <= 1:
        raise UsageError(
            f"near is {near:g}: it is a cosine, above 0 and up to 1, from which two images are near duplicates"
        )


def near_pairs(
    vectors: NDArray[np.float32],
    threshold: float,
    *,
    labels: NDArray[Any],
    limit: int = 100_000,
    exact_rows: int = EXACT_ROWS,
    recall: float = RECALL,
    seed: int = 0,
    progress: Progress | None = None,
) -> NearPairs:
    """Find pairs of different labels whose cosine is at least `threshold`.

    Parameters
    ----------
    vectors : (n, d) float32, unit rows
    labels : (n,)
        Pairs of one label are not looked for.
    limit : int
        Keep this many pairs, the nearest; the others are counted.
    exact_rows : int
        Compare all pairs up to this many rows.
    recall : float
        Beyond it, find a pair at the threshold with at least this probability.

    Notes
    -----
    Cost beyond `exact_rows`, for a threshold of 0.98 and unrelated rows near a right angle: about 15 bucketings, each
    of n log n and some 60 comparisons a row: 20 s for 200,000 x 512 on one core, where all pairs take ten minutes. When the threshold is so low that bucketing costs more, all pairs are compared.
    """
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    codes = np.unique(labels, return_inverse=True)[1]
    keep = _Nearest(limit)
    plan = None if len(vectors) <= exact_rows else _plan(vectors, threshold, recall, seed)
    if plan is None:
        _compare_all(vectors, codes, threshold, keep, progress)
        return keep.result(1.0)
    signs, rounds = plan
    rng = np.random.default_rng([seed, 0x11A5])
    for done in range(rounds):
        if progress is not None:
            progress("near duplicates", done, rounds)
        planes = rng.standard_normal((vectors.shape[1], signs)).astype(np.float32)
        for rows in _buckets(_keys(vectors, planes)):
            _compare_bucket(vectors, codes, rows, threshold, keep)
        keep.tidy(distinct=True)
    return keep.result(recall)


class _Nearest:
    """The nearest pairs so far. Bucketing meets a pair more than once, so pairs are told apart by their rows."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.pairs = np.empty((0, 2), dtype=np.int64)
        self.scores = np.empty(0, dtype=np.float32)
        self.seen = 0
        self.cut = False
        self.waiting: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = []
        self.held = 0

    def add(self, pairs: NDArray[np.int64], scores: NDArray[np.float32], *, distinct: bool) -> None:
        if not scores.size:
            return
        self.waiting.append((pairs, scores))
        self.held += scores.size
        self.seen += scores.size
        if self.held > 2 * self.limit + 1_000_000:
            self.tidy(distinct=distinct)

    def tidy(self, *, distinct: bool) -> None:
        if not self.waiting:
            return
        pairs = np.concatenate([self.pairs, *(p for p, _ in self.waiting)])
        scores = np.concatenate([self.scores, *(s for _, s in self.waiting)])
        self.waiting, self.held = [], 0
        if distinct:
            pairs, first = np.unique(pairs, axis=0, return_index=True)
            scores = scores[first]
        order = np.lexsort((pairs[:, 1], pairs[:, 0], -scores))
        self.cut |= order.size > self.limit
        self.pairs, self.scores = pairs[order[: self.limit]], scores[order[: self.limit]]

    def result(self, recall: float) -> NearPairs:
        self.tidy(distinct=recall < 1)
        count = self.seen if recall == 1 else self.scores.size
        return NearPairs(self.pairs, self.scores, count, recall, self.cut)


def _compare_all(
    vectors: NDArray[np.float32], codes: NDArray[np.intp], threshold: float, keep: _Nearest, progress: Progress | None
) -> None:
    steps = math.ceil(len(vectors) / _BLOCK)
    steps = steps * (steps + 1) // 2
    for done, part in enumerate(score_blocks(vectors, block=_BLOCK)):
        if progress is not None:
            progress("near duplicates", done, steps)
        rows, columns = np.nonzero(part.scores >= threshold)
        scores = part.scores[rows, columns]
        rows, columns = rows + part.i0, columns + part.j0
        wanted = (rows < columns) & (codes[rows] != codes[columns])
        keep.add(np.stack([rows[wanted], columns[wanted]], axis=1), scores[wanted], distinct=False)


def _compare_bucket(
    vectors: NDArray[np.float32], codes: NDArray[np.intp], rows: NDArray[np.intp], threshold: float, keep: _Nearest
) -> None:
    """Compare the rows of a bucket with each other; in a crowd each with the next few thousand only."""
    for start in range(0, rows.size, _BLOCK):
        left = rows[start : start + _BLOCK]
        right = rows[start : start + _WINDOW]
        keep.cut |= start + _WINDOW < rows.size
        scores = vectors[left] @ vectors[right].T
        i, j = np.nonzero(scores >= threshold)
        later = i < j
        i, j = i[later], j[later]
        a, b = left[i], right[j]
        different = codes[a] != codes[b]
        a, b = a[different], b[different]
        pairs = np.stack([np.minimum(a, b), np.maximum(a, b)], axis=1).astype(np.int64)
        keep.add(pairs, scores[i[different], j[different]], distinct=True)


def _plan(vectors: NDArray[np.float32], threshold: float, recall: float, seed: int) -> tuple[int, int] | None:
    """Signs per bucket number and how many bucketings; None when comparing all pairs is cheaper."""
    n, dim = vectors.shape
    rng = np.random.default_rng([seed, 0x5A3])
    some = vectors[np.sort(rng.choice(n, min(n, _SAMPLE), replace=False))]
    cosines = (some @ some.T)[np.triu_indices(len(some), 1)]
    agree = 1 - np.arccos(np.clip(cosines, -1, 1)) / np.pi
    signs, together = 1, agree.copy()  # chance that two random rows share a bucket
    while n * together.mean() > _BUCKET and signs < _MOST_SIGNS:
        together *= agree
        signs += 1
    hit = (1 - math.acos(min(threshold, 1.0)) / math.pi) ** signs
    rounds = 1 if hit >= 1 else math.ceil(math.log(1 - recall) / math.log1p(-hit))
    cost = rounds * n * dim * (signs + 4 * n * float(together.mean()))  # gathering rows is slower than a large product
    return (signs, rounds) if cost < n * n * dim / 2 else None


def _keys(vectors: NDArray[np.float32], planes: NDArray[np.float32]) -> NDArray[np.float64]:
    powers = 2.0 ** np.arange(planes.shape[1])
    return np.concatenate(
        [(vectors[i : i + _CHUNK] @ planes > 0).astype(np.float64) @ powers for i in range(0, len(vectors), _CHUNK)]
    )


def _buckets(keys: NDArray[np.float64]) -> Iterator[NDArray[np.intp]]:
    """Yield the rows of every bucket with two rows or more."""
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.r_[True, keys[order][1:] != keys[order][:-1]])
    ends = np.r_[starts[1:], keys.size]
    for start, end in zip(starts[ends - starts > 1].tolist(), ends[ends - starts > 1].tolist(), strict=True):
        yield order[start:end]
