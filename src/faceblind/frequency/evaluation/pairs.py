"""Pairs of faces to verify: which two, whether they show one person, which fold, and who the people are.

Where it is known who is on the faces, intervals can be made of draws of people. Published pair files name people, or
let them be found out (`linked_people`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from faceblind._errors import DataError


@dataclass(frozen=True, eq=False, kw_only=True)
class PairSet:
    """Pairs of images of one set.

    Attributes
    ----------
    name : str
    first, second : (n,) int64
        Rows of the images of the set.
    same : (n,) bool
        Whether a pair shows one person.
    fold : (n,) int64
        Numbers from 0.
    images : int
        How many images the set has.
    people : (images,) str or None
        Who is on each image; None when nobody knows.
    note : str
        What is to be said about people or folds; empty when nothing.

    Raises
    ------
    DataError
        Arrays of other lengths, rows that do not exist, no pair of one kind, folds that are not 0, 1, 2 ..., or people that
        contradict `same`.
    """

    name: str
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    same: NDArray[np.bool_]
    fold: NDArray[np.int64]
    images: int
    people: NDArray[np.str_] | None = None
    note: str = ""

    def __post_init__(self) -> None:
        n = self.same.size
        if not n or {self.first.shape, self.second.shape, self.same.shape, self.fold.shape} != {(n,)}:
            raise DataError(
                f"{self.name}: pairs need a first, a second, a label and a fold each, and there must be some"
            )
        rows = np.concatenate([self.first, self.second])
        if rows.min() < 0 or rows.max() >= self.images:
            raise DataError(f"{self.name}: pairs name image {rows.max()}, but there are {self.images}")
        if self.same.all() or not self.same.any():
            raise DataError(f"{self.name}: all {n:,} pairs are of {'one person' if self.same.all() else 'two people'}")
        if not np.array_equal(np.unique(self.fold), np.arange(self.folds)):
            raise DataError(
                f"{self.name}: folds are numbered 0, 1, 2 ... without gaps, got {np.unique(self.fold)[:12]}"
            )
        if self.people is not None and self.people.shape != (self.images,):
            raise DataError(f"{self.name}: {self.images} images need one person each, got {self.people.shape}")

    def __len__(self) -> int:
        return int(self.same.size)

    @property
    def folds(self) -> int:
        """Number of folds."""
        return int(self.fold.max()) + 1


def contiguous_folds(pairs: int, folds: int) -> NDArray[np.int64]:
    """Cut pairs into folds as they stand; the first ones get one more where it does not come out even (KFold)."""
    return np.repeat(np.arange(folds), [pairs // folds + (fold < pairs % folds) for fold in range(folds)])


def folds_within(same: NDArray[np.bool_], folds: int) -> NDArray[np.int64]:
    """Cut the pairs of one person, and those of two, into folds as they stand.

    The same as `contiguous_folds` where files come fold by fold, and sound where they list one kind after the other.
    """
    fold = np.empty(same.size, dtype=np.int64)
    for kind in (same, ~same):
        fold[kind] = contiguous_folds(int(kind.sum()), folds)
    return fold


def linked_people(first: NDArray[np.int64], second: NDArray[np.int64], images: int) -> NDArray[np.int64]:
    """Give people numbers from 0: images that pairs of one person link, directly or through others, are one's.

    Parameters
    ----------
    first, second : (p,) int
        Images of the pairs that show one person.

    Returns
    -------
    (images,) int64
    """
    links = sparse.coo_array((np.ones(first.size, dtype=np.int8), (first, second)), shape=(images, images))
    numbers: NDArray[np.int64] = csgraph.connected_components(links.tocsr(), directed=False)[1].astype(np.int64)
    return numbers


def make_pairs(
    identity: Sequence[str] | NDArray[np.str_],
    pairs: int = 6000,
    *,
    folds: int = 10,
    rng: np.random.Generator,
    name: str = "pairs",
) -> PairSet:
    """Draw verification pairs of any set of people, half of them of one person, in folds that share no person.

    Each person with two images has about as many pairs of its own as any other, and of each two people about as many are
    drawn as of any other two; no pair is drawn twice. When a fold runs out of pairs it gets fewer, as many of either kind.

    Parameters
    ----------
    identity : (n,) labels
        Rows of the pairs are rows of this.
    pairs : int
        At most so many.
    folds : int

    Raises
    ------
    DataError
        Fewer than two people, or nobody with two images.

    Notes
    -----
    With fewer than two people with two images for each fold, folds share people; `PairSet.note` says so.
    """
    who = np.asarray(identity, dtype=np.str_)
    names, codes, counts = np.unique(who, return_inverse=True, return_counts=True)
    rich = int((counts >= 2).sum())
    if names.size < 2 or not rich:
        raise DataError(
            f"pairs need two people and one with two images, got {names.size} people, {rich} of them with two"
        )
    half = pairs // (2 * folds)
    if folds < 2 or half < 1:
        raise DataError(f"pairs are drawn into two folds or more, one of either kind in each: got {pairs} in {folds}")
    rows = [np.flatnonzero(codes == code) for code in range(names.size)]
    disjoint = rich >= 2 * folds
    order = rng.permutation(names.size)
    order = order[np.argsort(-np.minimum(counts[order], 2), kind="stable")]  # whoever has two images is dealt first
    groups = [order[fold::folds] for fold in range(folds)] if disjoint else [order] * folds
    taken: set[tuple[int, int]] = set()
    drawn: list[tuple[int, int, bool, int]] = []
    for fold, group in enumerate(groups):
        mine = [rows[code] for code in group]
        mated = _mated(mine, half, taken, rng)
        others = _nonmated(mine, len(mated), taken, rng)
        drawn += [(*pair, True, fold) for pair in mated[: len(others)]]
        drawn += [(*pair, False, fold) for pair in others]
    table = np.array(drawn, dtype=np.int64).reshape(-1, 4)
    _, fold_numbers = np.unique(table[:, 3], return_inverse=True)
    return PairSet(
        name=name,
        first=table[:, 0],
        second=table[:, 1],
        same=table[:, 2].astype(np.bool_),
        fold=fold_numbers.astype(np.int64),
        images=who.size,
        people=who,
        note="" if disjoint else f"folds share people: {rich} people with two images are too few for {folds} folds",
    )


def _mated(
    people: list[NDArray[np.int64]], most: int, taken: set[tuple[int, int]], rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Draw pairs of one person, going round the people until there are enough or none are left."""
    left: list[list[tuple[int, int]]] = []
    for rows in people:
        i, j = np.triu_indices(rows.size, 1)
        own = [pair for pair in zip(rows[i].tolist(), rows[j].tolist(), strict=True) if pair not in taken]
        left.append([own[place] for place in rng.permutation(len(own))])
    found: list[tuple[int, int]] = []
    while len(found) < most and any(left):
        for own in left:
            if own and len(found) < most:
                found.append(own.pop())
    taken.update(found)
    return found


def _nonmated(
    people: list[NDArray[np.int64]], most: int, taken: set[tuple[int, int]], rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Draw pairs of two people; when drawing keeps finding known ones, go through all that are left."""
    found: list[tuple[int, int]] = []
    for _ in range(20 * most):
        if len(found) == most or len(people) < 2:
            return found
        a, b = rng.choice(len(people), size=2, replace=False)
        x, y = int(rng.choice(people[a])), int(rng.choice(people[b]))
        pair = (min(x, y), max(x, y))
        if pair not in taken:
            taken.add(pair)
            found.append(pair)
    rest = [
        (min(x, y), max(x, y))
        for place, rows in enumerate(people)
        for other in people[place + 1 :]
        for x in rows.tolist()
        for y in other.tolist()
    ]
    rest = [pair for pair in rest if pair not in taken]
    more = [rest[place] for place in rng.permutation(len(rest))[: most - len(found)]]
    taken.update(more)
    return found + more
