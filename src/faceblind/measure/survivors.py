"""The running top of a stream of score blocks: what is kept is exact, what falls under the bound is dropped.

The filter has to be nearly free beside the matrix product, so each block is compared into a reused mask, in as many
slices as there are processors (numpy releases the interpreter while it compares and searches).
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from faceblind.measure.blocks import Block

_WORTH_SPLITTING = 1 << 20


@dataclass(frozen=True, eq=False)
class PairPlaces:
    """Where scores stood in their blocks; turned into pairs of rows only when asked, for few of them as a rule."""

    places: NDArray[np.int64]
    origins: NDArray[np.int64]

    def rows(self, which: slice) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the two rows of each pair in a slice of the scores."""
        places = self.places[which]
        i0, j0, width = self.origins.T[:, places >> 32]
        row, column = np.divmod(places & 0xFFFFFFFF, width)
        return row + i0, column + j0


@dataclass
class Survivors:
    """Collects the `need` highest scores of all blocks, with the pair of rows of each.

    Attributes
    ----------
    need : int
        How many scores to keep.
    bound : float32
        Scores under it are dropped; rises while scores come in.
    """

    need: int
    bound: np.float32

    def __post_init__(self) -> None:
        self.values: list[NDArray[np.float32]] = []
        self.places: list[NDArray[np.int64]] = []  # number of the block in the upper half, place in it in the lower
        self._origins: list[tuple[int, int, int]] = []
        self.kept = 0
        self._mask = np.empty(0, dtype=np.bool_)
        self._slices = min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
        self._pool: ThreadPoolExecutor | None = None

    def offer(self, part: Block) -> None:
        """Keep the scores of a block that reach the bound."""
        flat = part.scores.reshape(-1)
        if self._mask.size < flat.size:
            self._mask = np.empty(flat.size, dtype=np.bool_)
        base = len(self._origins) << 32
        self._origins.append((part.i0, part.j0, part.j1 - part.j0))
        if flat.size < _WORTH_SPLITTING or self._slices == 1:
            found = [self._search(flat, base, 0, flat.size)]
        else:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._slices)
            cuts = np.linspace(0, flat.size, self._slices + 1).astype(np.int64).tolist()
            found = list(self._pool.map(lambda c: self._search(flat, base, *c), pairwise(cuts)))
        for values, places in found:
            if values.size:
                self.values.append(values)
                self.places.append(places)
                self.kept += values.size
        if self.kept > 2 * self.need + 65_536:
            self._prune()

    def finish(self) -> tuple[NDArray[np.float32], PairPlaces]:
        """Return the scores in descending order and where each stood; ties stay in the order in which they came."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        self._prune()
        values, places = self.values[0], self.places[0]
        # One integer holds the score (upper half, larger is smaller) and the position: a plain sort is then stable.
        bits = values.view(np.uint32)
        ascending = np.where(bits >> 31 == 1, ~bits, bits | np.uint32(1 << 31))
        keys = (~ascending).astype(np.uint64) << np.uint64(32) | np.arange(values.size, dtype=np.uint64)
        keys.sort()
        order = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
        return values[order], PairPlaces(places[order], np.array(self._origins, dtype=np.int64).reshape(-1, 3))

    def _search(
        self, flat: NDArray[np.float32], base: int, start: int, stop: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        mask = self._mask[start:stop]
        np.greater_equal(flat[start:stop], self.bound, out=mask)
        index = np.flatnonzero(mask)
        values = flat[start:stop][index]
        index += base + start
        return values, index

    def _prune(self) -> None:
        values = np.concatenate(self.values) if self.values else np.empty(0, dtype=np.float32)
        places = np.concatenate(self.places) if self.places else np.empty(0, dtype=np.int64)
        if values.size > self.need:
            cut = np.partition(values, values.size - self.need)[values.size - self.need]
            keep = values >= cut
            values, places = values[keep], places[keep]
            self.bound = cut
        self.values, self.places = [values], [places]
        self.kept = int(values.size)
