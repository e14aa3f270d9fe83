"""Labels that slipped by a row against the vectors: a skipped header, an image that failed, a list joined by position.

Every row is given the label of the row `shift` places further on, and its similarity to the other rows of that label is
compared with that under the label given. Where another shift fits better over a long stretch, labels slipped there.
Only rows whose label changes count. The gain of a stretch is judged by its self-normalised sum (sum of gains over the root of
the sum of squares, by pieces of one identity), which for labels that fit neither way exceeds z with a chance below exp(-z^2 / 2); all
stretches and shifts are allowed for. It takes some twenty identities in a row to see a shift up to the end of the table, and some thirty
to see one that ends earlier. With m images of everybody,
a shift by s and one by s - m give the same groups: the smaller one is told.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind.data.hygiene.people import People, own_similarity, sums_by_code

SHIFTS = (-3, -2, -1, 1, 2, 3)
_CHANCE = 0.01
_PIECES = 20_000
_SWITCH = 3.0


@dataclass(frozen=True)
class Shift:
    """Rows `start` up to `end` (exclusive) fit the labels of the rows `by` places further on."""

    start: int
    end: int
    by: int
    z: float


def find_shifts(people: People) -> list[Shift]:
    """Look for stretches of the table, in its order, where labels moved by one to three rows fit better."""
    n = people.codes.size
    edges = _edges(people.codes)
    if edges.size < 3:
        return []
    gains = np.stack([np.add.reduceat(_gain(people, by), edges[:-1]) for by in SHIFTS], axis=1)  # (pieces, shifts)
    path = _best_path(gains)
    changes = np.flatnonzero(np.r_[True, path[1:] != path[:-1]])
    found = []
    pieces = len(gains)
    for first, last in zip(changes.tolist(), [*changes[1:].tolist(), pieces], strict=True):
        if not path[first]:
            continue
        gain = gains[first:last, path[first] - 1]
        z = float(gain.sum() / max(math.sqrt(float(gain @ gain)), 1e-12))
        # half of the chance is kept for stretches up to the end, which are few
        stretches = 2 * pieces if last == pieces else pieces * (pieces + 1)
        if z > 0 and len(SHIFTS) * stretches * math.exp(-z * z / 2) <= _CHANCE:
            found.append(Shift(int(edges[first]), int(min(edges[last], n)), SHIFTS[path[first] - 1], z))
    return found


def _gain(people: People, by: int) -> NDArray[np.float64]:
    """How much nearer each row is to the other rows of the label that stands `by` rows further on than to its own."""
    codes = np.full_like(people.codes, -1)
    if by > 0:
        codes[:-by] = people.codes[by:]
    else:
        codes[-by:] = people.codes[:by]
    counts = np.bincount(codes[codes >= 0], minlength=people.names.size)
    sums = sums_by_code(people.vectors, codes, people.names.size)
    moved = own_similarity(people.vectors, codes, sums, counts)
    return np.where((codes >= 0) & (codes != people.codes), np.nan_to_num(moved) - np.nan_to_num(people.own), 0.0)


def _edges(codes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Cut the table where the label changes, thinned out to at most `_PIECES` pieces."""
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
    if starts.size > _PIECES:
        starts = starts[np.unique(np.linspace(0, starts.size - 1, _PIECES).astype(np.intp))]
    return np.append(starts, codes.size)


def _best_path(gains: NDArray[np.float64]) -> NDArray[np.intp]:
    """Choose a shift per piece (0: none, else 1 + its place in `SHIFTS`) so that gains less the cost of changes are largest."""
    pieces, shifts = gains.shape
    scores = np.concatenate([np.zeros((pieces, 1)), gains], axis=1)
    cost = _SWITCH * float(np.sqrt(np.mean(np.square(gains)))) + 1e-12
    value = scores[0] - np.r_[0, np.full(shifts, cost)]
    came = np.zeros((pieces, shifts + 1), dtype=np.intp)
    for piece in range(1, pieces):
        best = int(np.argmax(value))
        stay = value >= value[best] - cost
        came[piece] = np.where(stay, np.arange(shifts + 1), best)
        value = np.where(stay, value, value[best] - cost) + scores[piece]
    path = np.empty(pieces, dtype=np.intp)
    path[-1] = int(np.argmax(value))
    for piece in range(pieces - 1, 0, -1):
        path[piece - 1] = came[piece, path[piece]]
    return path
