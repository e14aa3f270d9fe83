"""Per-identity sums of normalised embeddings: all a mean-based eraser needs, in one pass, mergeable over shards."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from faceblind._errors import DataError
from faceblind.data.embeddings import bad_rows

_ROWS = 8_192


class IdentityMoments:
    """Running sums of unit vectors per identity.

    Feed it batches in any order and any grouping (`partial_fit`), or merge those of several shards (`merge`); the
    result is that of one pass over everything, up to float64 rounding. Memory is m x d float64, never n x m.

    Attributes
    ----------
    rows_ : int
        Vectors seen.
    identities_ : (m,) str
        Identities seen, sorted.
    """

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self._sums: NDArray[np.float64] | None = None
        self._counts: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.rows_ = 0

    def partial_fit(self, vectors: ArrayLike, identity: ArrayLike) -> IdentityMoments:
        """Add a batch.

        Parameters
        ----------
        vectors : (b, d) real
            Need not be normalised: each row counts with unit length.
        identity : (b,) labels

        Raises
        ------
        DataError
            Shapes do not match earlier batches, or a row is non-finite or zero (the row is named).
        """
        array, labels = np.asarray(vectors), np.asarray(identity)
        if array.ndim != 2 or labels.shape != (array.shape[0],):
            raise DataError(
                f"a batch is (rows, features) with one identity a row, got {array.shape} and {labels.shape}"
            )
        if self._sums is not None and self._sums.shape[1] != array.shape[1]:
            raise DataError(f"vectors of this batch have {array.shape[1]} features, earlier ones {self._sums.shape[1]}")
        names, codes = np.unique(labels, return_inverse=True)
        batch = np.zeros((names.size, array.shape[1]))
        for start in range(0, array.shape[0], _ROWS):
            rows = array[start : start + _ROWS]
            batch += _sum_by_code(rows, codes[start : start + _ROWS], names.size, self.rows_ + start)
        slots = self._slots(names.astype(np.str_), array.shape[1])  # last: a refused batch leaves no trace
        sums = self._sums
        if sums is None:  # an empty first batch
            return self
        sums[slots] += batch
        self._counts[slots] += np.bincount(codes, minlength=names.size)
        self.rows_ += int(array.shape[0])
        return self

    def merge(self, other: IdentityMoments) -> IdentityMoments:
        """Add the moments of another shard to these."""
        if other._sums is None:
            return self
        names = np.array(list(other._index), dtype=np.str_)
        if self._sums is not None and self._sums.shape[1] != other._sums.shape[1]:
            raise DataError(f"cannot merge moments of {other._sums.shape[1]} and {self._sums.shape[1]} features")
        slots = self._slots(names, other._sums.shape[1])
        if self._sums is not None:
            self._sums[slots] += other._sums[: names.size]
        self._counts[slots] += other._counts[: names.size]
        self.rows_ += other.rows_
        return self

    def drop_single_images(self) -> int:
        """Forget identities seen once (their mean is image noise) and return how many there were."""
        lone = {name for name, slot in self._index.items() if self._counts[slot] == 1}
        self._index = {name: slot for name, slot in self._index.items() if name not in lone}
        if lone and self._sums is not None:
            keep = np.array(list(self._index.values()), dtype=np.int64)
            self._sums, self._counts = self._sums[keep], self._counts[keep]
            self._index = {name: slot for slot, name in enumerate(self._index)}
            self.rows_ -= len(lone)
        return len(lone)

    @property
    def identities_(self) -> NDArray[np.str_]:
        """Identities seen, sorted."""
        return np.array(sorted(self._index), dtype=np.str_)

    def counts(self) -> NDArray[np.int64]:
        """Images per identity, (m,), in the order of `identities_`."""
        return self._counts[self._order()]

    def means(self) -> NDArray[np.float64]:
        """Mean unit vector per identity, (m, d), in the order of `identities_`; not re-normalised.

        Raises
        ------
        DataError
            No vectors were seen.
        """
        if self._sums is None or not self._index:
            raise DataError("no vectors were seen: nothing to average")
        order = self._order()
        return self._sums[order] / self._counts[order][:, None]

    def _order(self) -> NDArray[np.int64]:
        return np.array([self._index[str(name)] for name in self.identities_], dtype=np.int64)

    def _slots(self, names: NDArray[np.str_], dim: int) -> NDArray[np.int64]:
        """Return the row of each identity, making room for new ones."""
        for name in names:
            self._index.setdefault(str(name), len(self._index))
        need = len(self._index)
        have = 0 if self._sums is None else self._sums.shape[0]
        if need > have:
            room = max(need, 2 * have)  # doubling: many small batches stay linear
            grown = np.zeros((room, dim))
            counts = np.zeros(room, dtype=np.int64)
            if self._sums is not None:
                grown[:have], counts[:have] = self._sums, self._counts
            self._sums, self._counts = grown, counts
        return np.array([self._index[str(name)] for name in names], dtype=np.int64)


def _sum_by_code(rows: NDArray[Any], codes: NDArray[np.intp], groups: int, first_row: int) -> NDArray[np.float64]:
    """Sum unit rows by group: a sparse (groups x rows) matrix whose entries are the inverse lengths, times the rows."""
    wide = rows.astype(np.float64)
    squared = np.einsum("ij,ij->i", wide, wide)
    if not np.isfinite(squared).all() or not squared.all():
        bad = bad_rows(wide)
        if bad.any:
            row = int((bad.non_finite if bad.non_finite.size else bad.zero)[0])
            what = "NaN or infinity" if bad.non_finite.size else "only zeros"
            raise DataError(f"row {first_row + row} holds {what}: re-embed that image or drop the row")
    matrix = sparse.csr_array((1 / np.sqrt(squared), (codes, np.arange(codes.size))), shape=(groups, codes.size))
    result: NDArray[np.float64] = matrix @ wide
    return result
