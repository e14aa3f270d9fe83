"""Brute force: every pair looked at one by one, with no blocks, no sorting by person and no running bound."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from faceblind.measure import ScoreTail
from faceblind.measure.survivors import PairPlaces


@dataclass(frozen=True)
class AllPairs:
    """Scores of all pairs; subjects are coded in sorted order of their labels."""

    mated: np.ndarray
    mated_subject: np.ndarray
    nonmated: np.ndarray
    nonmated_pair: np.ndarray
    images: np.ndarray

    def count(self, threshold: float) -> int:
        return int(sum(score >= np.float32(threshold) for score in self.nonmated))


def all_pairs(vectors: np.ndarray, labels: np.ndarray) -> AllPairs:
    names = sorted(set(labels.tolist()))
    code = {name: i for i, name in enumerate(names)}
    wide = vectors.astype(np.float64)
    mated: list[tuple[float, int]] = []
    nonmated: list[tuple[float, int, int]] = []
    scores = wide @ wide.T
    for i in range(len(labels)):
        for j in range(i + 1, len(labels)):
            a, b = sorted((code[labels[i]], code[labels[j]]))
            if a == b:
                mated.append((scores[i, j], a))
            else:
                nonmated.append((scores[i, j], a, b))
    nonmated.sort(key=lambda item: -item[0])
    return AllPairs(
        np.array([m[0] for m in mated], dtype=np.float32),
        np.array([m[1] for m in mated], dtype=np.int64),
        np.array([m[0] for m in nonmated], dtype=np.float32),
        np.array([m[1:] for m in nonmated], dtype=np.int64).reshape(-1, 2),
        np.array([int((labels == name).sum()) for name in names]),
    )


def tail_of_scores(
    mated: np.ndarray, mated_subject: np.ndarray, nonmated: np.ndarray, pairs: np.ndarray, images: np.ndarray
) -> ScoreTail:
    """A `ScoreTail` that holds every given score, for tests of what reads it."""
    order = np.argsort(-nonmated, kind="stable")
    people = int(images.size)  # one row each, in one block
    places = pairs[order, 0].astype(np.int64) * people + pairs[order, 1]
    return ScoreTail(
        mated=mated.astype(np.float32),
        mated_subject=mated_subject.astype(np.int32),
        top=nonmated[order].astype(np.float32),
        places=PairPlaces(places, np.array([[0, 0, people]])),
        subject_of_row=np.arange(people, dtype=np.int32),
        nonmated=int(nonmated.size),
        images=images.astype(np.int64),
        at={},
    )


def multiset(*columns: np.ndarray) -> Counter[tuple[float, ...]]:
    return Counter(zip(*(column.tolist() for column in columns), strict=True))


def smallest_threshold(nonmated: np.ndarray, allowed: int) -> float:
    """The smallest float32 from -1 up with at most `allowed` scores at or above it, by trying them all."""
    tried = {np.float32(-1.0), *nonmated, *(np.nextafter(s, np.float32(np.inf)) for s in nonmated)}
    return float(min(t for t in tried if t >= -1 and np.count_nonzero(nonmated >= t) <= allowed))
