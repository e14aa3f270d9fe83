"""Per-identity sums of normalised embeddings, and their scatter: all a closed-form eraser needs, in one pass.

ISP and SAL need the mean of every identity; the Fisher forms and LEACE also how images scatter. Both are sums over images:
they can be collected in batches and merged over shards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from faceblind._errors import DataError
from faceblind._processors import processors
from faceblind.data.embeddings import bad_rows
from faceblind.erase.threads import one_thread

_ROWS = 1_024
_RUNS = 8
_STACK = 2  # slices whose scatter is one product


class IdentityMoments:
    """Running sums of unit vectors per identity.

    Feed it batches in any order and any grouping (`partial_fit`), or merge those of several shards (`merge`); the
    result is that of one pass over everything, up to float64 rounding. Memory is m x d float64, never n x m.

    Parameters
    ----------
    scatter : bool
        Also keep the sum of outer products of unit rows (d x d), which costs d / 2 multiplications per number read.

    Attributes
    ----------
    rows_ : int
        Vectors seen.
    identities_ : (m,) str
        Identities seen, sorted.
    """

    def __init__(self, *, scatter: bool = False) -> None:
        self.scatter = scatter
        self._outer: NDArray[np.float64] | None = None
        self._index: dict[str, int] = {}
        self._sorted: NDArray[np.int64] | None = None
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
        batch, outer = _sum_groups(array, order, codes, len(names), self.rows_, scatter=self.scatter)
        counts = np.bincount(codes, minlength=len(names))
        if not self._index:  # the first batch: its sums are the sums
            self._index = {name: slot for slot, name in enumerate(names)}
            self._sums, self._counts = batch, counts
        else:
            slots, sums = self._slots(names, array.shape[1])  # last: a refused batch leaves no trace
            sums[slots] += batch
            self._counts[slots] += counts
        if outer is not None:
            self._outer = outer if self._outer is None else self._outer + outer
        self.rows_ += int(array.shape[0])
        return self

    def merge(self, other: IdentityMoments) -> IdentityMoments:
        """Add the moments of another shard to these.

        Raises
        ------
        DataError
            Of another number of features, or without the scatter that these keep.
        """
        if other._sums is None:
            return self
        if self.scatter and not other.scatter:
            raise DataError("cannot merge moments without scatter into moments that keep it")
        names = list(other._index)
        if self._sums is not None and self._sums.shape[1] != other._sums.shape[1]:
            raise DataError(f"cannot merge moments of {other._sums.shape[1]} and {self._sums.shape[1]} features")
        slots, sums = self._slots(names, other._sums.shape[1])
        sums[slots] += other._sums[: len(names)]
        self._counts[slots] += other._counts[: len(names)]
        if self.scatter and other._outer is not None:
            self._outer = other._outer.copy() if self._outer is None else self._outer + other._outer
        self.rows_ += other.rows_
        return self

    def drop_single_images(self) -> int:
        """Forget identities seen once (their mean is image noise) and return how many there were."""
        lone = {name: slot for name, slot in self._index.items() if self._counts[slot] == 1}
        self._index = {name: slot for name, slot in self._index.items() if name not in lone}
        if lone and self._sums is not None:
            keep = np.array(list(self._index.values()), dtype=np.int64)
            if self._outer is not None:  # the sum over one image is that image
                images = self._sums[list(lone.values())]
                self._outer = self._outer - images.T @ images
            self._sums, self._counts = self._sums[keep], self._counts[keep]
            self._index = {name: slot for slot, name in enumerate(self._index)}
            self._sorted = None
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

    def mean(self) -> NDArray[np.float64]:
        """Mean of all unit vectors, (d,): identities weigh as their images do."""
        if self._sums is None or not self._index:
            raise DataError("no vectors were seen: nothing to average")
        return np.asarray(self._sums[: len(self._index)].sum(axis=0) / int(self._counts.sum()))

    def cross_covariance(self) -> NDArray[np.float64]:
        """Covariance of unit vectors with the indicator of each identity, (d, m): columns ``n_i/N (mean_i - mean)``."""
        return np.asarray((self.means() - self.mean()).T * self._shares())

    def total_covariance(self) -> NDArray[np.float64]:
        """Covariance of unit vectors over all images, (d, d), divided by their number.

        Raises
        ------
        DataError
            No vectors were seen, or their scatter was not kept.
        """
        mean = self.mean()
        return self._second() - np.outer(mean, mean)

    def within_covariance(self) -> NDArray[np.float64]:
        """Covariance of unit vectors about the mean of their identity, (d, d), divided by the number of images.

        Raises
        ------
        DataError
            No vectors were seen, or their scatter was not kept.
        """
        weighted = np.sqrt(self._shares())[:, None] * self.means()
        return np.asarray(self._second() - weighted.T @ weighted)

    def _shares(self) -> NDArray[np.float64]:
        counts = self.counts()
        return counts / max(1, int(counts.sum()))

    def _second(self) -> NDArray[np.float64]:
        if not self.scatter:
            raise DataError("these moments keep no scatter: collect them with IdentityMoments(scatter=True)")
        if self._outer is None or not self._index:
            raise DataError("no vectors were seen: they have no covariance")
        return self._outer / int(self.counts().sum())

    def _order(self) -> NDArray[np.int64]:
        if self._sorted is None or self._sorted.size != len(self._index):  # they change only by growing or shrinking
            self._sorted = np.array([self._index[name] for name in sorted(self._index)], dtype=np.int64)
        return self._sorted

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
    rows: NDArray[Any],
    order: NDArray[np.int64],
    codes: NDArray[np.int64],
    groups: int,
    first_row: int,
    *,
    scatter: bool,
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Sum unit rows by group, (groups, d), and if asked for their outer products, (d, d).

    Rows are taken in the order of their groups, a slice that fits the cache at a time: a slice meets few groups, and
    its sums are a small sparse matrix (whose entries are the inverse lengths) times the slice. Runs of slices
    are shared among the processors, with one thread of linear algebra each (numpy forms ``A.T @ A`` as a
    symmetric product, at half the operations).
    """
    dim = rows.shape[1]
    sums = np.zeros((groups, dim))
    outer = np.zeros((dim, dim)) if scatter else None
    slices = -(-order.size // _ROWS)
    runs = max(1, min(_RUNS, slices // 4))  # not a matter of this machine: the cuts decide how sums are rounded
    cuts = [slices * run // runs * _ROWS for run in range(runs)] + [order.size]

    def add_up(start: int, stop: int) -> tuple[int, NDArray[np.float64], NDArray[np.float64]]:
        own = np.zeros((int(codes[stop - 1] - codes[start]) + 1, dim))
        products = np.zeros((dim, dim) if scatter else (0, 0))
        product = np.empty_like(products)
        taken = np.empty((min(_ROWS, stop - start), dim), dtype=rows.dtype)
        wide = np.empty((min(_ROWS * _STACK, stop - start) if scatter else taken.shape[0], dim))
        columns = np.arange(taken.shape[0], dtype=np.int32)
        stacked = 0
        for begin in range(start, stop, _ROWS):
            end = min(begin + _ROWS, stop)
            part = wide[stacked : stacked + end - begin]
            part[...] = np.take(rows, order[begin:end], axis=0, out=taken[: end - begin], mode="clip")
            squared = np.vecdot(part, part)
            if not np.isfinite(squared).all() or not squared.all():
                _refuse(part, order[begin:end], first_row)
            inverse = 1 / np.sqrt(squared)
            starts = _run_starts(codes[begin:end])
            pointers = np.append(starts, end - begin).astype(np.int32)
            matrix = sparse.csr_array((inverse, columns[: end - begin], pointers), shape=(starts.size, end - begin))
            group = int(codes[begin] - codes[start])  # codes of a slice follow each other
            own[group : group + starts.size] += matrix @ part
            if scatter:
                part *= inverse[:, None]
                stacked += end - begin
                if stacked == wide.shape[0] or end == stop:
                    done = wide[:stacked]
                    products += np.matmul(done.T, done, out=product)
                    stacked = 0
        return int(codes[start]), own, products

    if order.size:
        one_each = one_thread() if scatter else nullcontext()
        with one_each, ThreadPoolExecutor(min(runs, processors())) as pool:
            for first, own, products in pool.map(add_up, cuts[:-1], cuts[1:]):
                sums[first : first + own.shape[0]] += own
                if outer is not None:
                    outer += products
    return sums, outer


def _refuse(wide: NDArray[np.float64], index: NDArray[np.int64], first_row: int) -> None:
    """Raise for the first row that cannot be scaled to unit length."""
    bad = bad_rows(wide)
    if bad.any:
        row, what = min(
            [(int(index[r]), "NaN or infinity") for r in bad.non_finite]
            + [(int(index[r]), "only zeros") for r in bad.zero]
        )
        raise DataError(f"row {first_row + row} holds {what}: re-embed that image or drop the row")


def people_digest(moments: IdentityMoments) -> str:
    """Digest of who was fitted on, with how many images each."""
    lines = (f"{name}\t{count}" for name, count in zip(moments.identities_, moments.counts(), strict=True))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def moments_digest(moments: IdentityMoments, *, scatter: bool = False) -> str:
    """Digest of what was fitted on: people, and their means (rounded, so that summing order does not matter).

    With `scatter`, also the covariance, for erasers that use it.
    """
    digest = hashlib.sha256(people_digest(moments).encode() + _rounded(moments.means(), 6))
    if scatter:
        digest.update(_rounded(moments.total_covariance(), 8))
    return digest.hexdigest()


def _rounded(array: NDArray[np.float64], digits: int) -> bytes:
    return (np.round(array, digits).astype("<f4") + np.float32(0)).tobytes()  # no negative zeros
