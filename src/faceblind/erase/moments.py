"""Per-identity sums of normalised embeddings: all a mean-based eraser needs, in one pass, mergeable over shards."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from faceblind._errors import DataError
from faceblind._processors import processors
from faceblind.data.embeddings import bad_rows

_ROWS = 1_024
_RUNS = 8


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
        names, order, codes = _group(labels)
        batch, counts = (
            _sum_groups(array, order, codes, len(names), self.rows_),
            np.bincount(codes, minlength=len(names)),
        )
        if not self._index:  # the first batch: its sums are the sums
            self._index = {name: slot for slot, name in enumerate(names)}
            self._sums, self._counts = batch, counts
        else:
            slots, sums = self._slots(names, array.shape[1])  # last: a refused batch leaves no trace
            sums[slots] += batch
            self._counts[slots] += counts
        self.rows_ += int(array.shape[0])
        return self

    def merge(self, other: IdentityMoments) -> IdentityMoments:
        """Add the moments of another shard to these."""
        if other._sums is None:
            return self
        names = list(other._index)
        if self._sums is not None and self._sums.shape[1] != other._sums.shape[1]:
            raise DataError(f"cannot merge moments of {other._sums.shape[1]} and {self._sums.shape[1]} features")
        slots, sums = self._slots(names, other._sums.shape[1])
        sums[slots] += other._sums[: len(names)]
        self._counts[slots] += other._counts[: len(names)]
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

    def _slots(self, names: Sequence[str], dim: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the row of each identity and the sums, with room for new identities."""
        for name in names:
            self._index.setdefault(name, len(self._index))
        need = len(self._index)
        sums = np.zeros((0, dim)) if self._sums is None else self._sums
        if need > sums.shape[0]:
            room = max(need, 2 * sums.shape[0])  # doubling: many small batches stay linear
            grown, counts = np.zeros((room, dim)), np.zeros(room, dtype=np.int64)
            grown[: sums.shape[0]], counts[: sums.shape[0]] = sums, self._counts
            sums, self._counts = grown, counts
        self._sums = sums
        return np.array([self._index[name] for name in names], dtype=np.int64), sums


def _group(labels: NDArray[Any]) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct labels as text, the rows in the order of their labels, and the code of each row so ordered."""
    if labels.dtype.kind in "iu":
        order = np.argsort(labels, kind="stable")
        ordered = labels[order]
        starts = _run_starts(ordered)
        codes = np.repeat(np.arange(starts.size), np.diff(np.append(starts, ordered.size)))
        return [str(value) for value in ordered[starts].tolist()], order, codes
    values = labels.astype(np.str_).tolist()  # hashing text beats sorting it several times over
    index = {value: code for code, value in enumerate(dict.fromkeys(values))}
    codes = np.fromiter((index[value] for value in values), dtype=np.int64, count=len(values))
    order = np.argsort(codes, kind="stable")
    return list(index), order, codes[order]


def _run_starts(ordered: NDArray[Any]) -> NDArray[np.int64]:
    """Return where each run of equal values begins."""
    return np.flatnonzero(np.concatenate([np.ones(min(1, ordered.size), np.bool_), ordered[1:] != ordered[:-1]]))


def _sum_groups(
    rows: NDArray[Any], order: NDArray[np.int64], codes: NDArray[np.int64], groups: int, first_row: int
) -> NDArray[np.float64]:
    """Sum unit rows by group.

    Rows are taken in the order of their groups, a slice that fits the cache at a time: a slice meets few groups, and
    its sums are a small sparse matrix (whose entries are the inverse lengths) times the slice. Runs of slices
    are shared among the processors.
    """
    sums = np.zeros((groups, rows.shape[1]))
    slices = -(-order.size // _ROWS)
    runs = max(1, min(_RUNS, slices // 4))  # not a matter of this machine: the cuts decide how sums are rounded
    cuts = [slices * run // runs * _ROWS for run in range(runs)] + [order.size]

    def add_up(start: int, stop: int) -> tuple[int, NDArray[np.float64]]:
        own = np.zeros((int(codes[stop - 1] - codes[start]) + 1, rows.shape[1]))
        taken = np.empty((min(_ROWS, stop - start), rows.shape[1]), dtype=rows.dtype)
        wide = np.empty(taken.shape)
        columns = np.arange(taken.shape[0], dtype=np.int32)
        for begin in range(start, stop, _ROWS):
            end = min(begin + _ROWS, stop)
            part = wide[: end - begin]
            part[...] = np.take(rows, order[begin:end], axis=0, out=taken[: end - begin], mode="clip")
            squared = np.vecdot(part, part)
            if not np.isfinite(squared).all() or not squared.all():
                _refuse(part, order[begin:end], first_row)
            starts = _run_starts(codes[begin:end])
            pointers = np.append(starts, end - begin).astype(np.int32)
            matrix = sparse.csr_array(
                (1 / np.sqrt(squared), columns[: end - begin], pointers), shape=(starts.size, end - begin)
            )
            group = int(codes[begin] - codes[start])  # codes of a slice follow each other
            own[group : group + starts.size] += matrix @ part
        return int(codes[start]), own

    if order.size:
        with ThreadPoolExecutor(min(runs, processors())) as pool:
            for first, own in pool.map(add_up, cuts[:-1], cuts[1:]):
                sums[first : first + own.shape[0]] += own
    return sums


def _refuse(wide: NDArray[np.float64], index: NDArray[np.int64], first_row: int) -> None:
    """Raise for the first row that cannot be scaled to unit length."""
    bad = bad_rows(wide)
    if bad.any:
        row, what = min(
            [(int(index[r]), "NaN or infinity") for r in bad.non_finite]
            + [(int(index[r]), "only zeros") for r in bad.zero]
        )
        raise DataError(f"row {first_row + row} holds {what}: re-embed that image or drop the row")
