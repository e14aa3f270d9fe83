"""The running top of a stream of score blocks: what is kept is exact, what falls under the bound is dropped.

The filter has to be nearly free beside the matrix product, so each block is compared into a reused mask, in as many
slices as there are processors (numpy releases the interpreter while it compares and searches).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from faceblind._processors import processors
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
        self._slices = min(4, processors())
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
        values, places = self._joined()
        # One integer holds the score (upper half, larger is smaller) and the position: a plain sort is then stable.
        bits = values.view(np.uint32)
        keys = np.empty((values.size, 2), dtype="<u4")
        keys[:, 0] = np.arange(values.size, dtype=np.uint32)
        keys[:, 1] = np.where(bits >> 31 == 1, bits, ~(bits | np.uint32(1 << 31)))
        keys.view("<u8").reshape(-1).sort()
        order = keys[:, 0]
        values = values[order]
        if values.size > self.need:  # keep a tie at the cut whole
            kept = values.size - int(np.searchsorted(values[::-1], values[self.need - 1]))
            values, order = values[:kept], order[:kept]
        return values, PairPlaces(places[order], np.array(self._origins, dtype=np.int64).reshape(-1, 3))

    def _search(
        self, flat: NDArray[np.float32], base: int, start: int, stop: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        mask = self._mask[start:stop]
        np.greater_equal(flat[start:stop], self.bound, out=mask)
        index = np.flatnonzero(mask)
        values = flat[start:stop][index]
        index += base + start
        return values, index

    def _joined(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        if not self.values:
            return np.empty(0, dtype=np.float32), np.empty(0, dtype=np.int64)
        return np.concatenate(self.values), np.concatenate(self.places)

    def _prune(self) -> None:
        """Drop what can no longer be among the highest, and raise the bound."""
        values, places = self._joined()
        if values.size > self.need:
            cut = np.partition(values, values.size - self.need)[values.size - self.need]
            keep = values >= cut
            values, places = values[keep], places[keep]
            self.bound = cut
        self.values, self.places = [values], [places]
        self.kept = int(values.size)
