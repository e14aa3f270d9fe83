"""The judge of iterative erasers: a fresh classifier that names people on images that the eraser did not use.

Iterative erasers must know when to stop, and which of their iterates to keep. Asking the images they were fitted on is
how the published codes do it, and it says little: once the fitted means of identities agree, every linear classifier is
blind on those images, whatever others can read. So the judge has images of its own (held out, or a validation set,
which may hold other people), cut in two: a ridge classifier learns from one half and names the people of the other, on
vectors as they would be released (projected, then scaled to unit length).

An eraser that stops, or chooses, by this accuracy has fitted it. It is no measure of leakage: the audit is, on others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, sparse, special

from faceblind._errors import DataError
from faceblind.data.embeddings import as_text, bad_rows

_BLOCK = 4_096  # rows turned to float64 at a time
_ROWS = 4_096  # a judge sees at most so many images,
_PEOPLE = 1_000  # of at most so many people: more would cost more than the eraser
_RELATIVE = 1e-6  # singular values below this share of the largest are rounding of float32 vectors
_ROUNDING = 1e-13  # sums of unit vectors are off by so much a row when they should vanish
_LEVEL = 0.05  # accuracy is at chance when luck alone gives as much with at least this probability


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Checked vectors with identities as numbers 0 to `people` - 1; unit rows are made where they are used."""

    vectors: NDArray[Any]
    codes: NDArray[np.intp]
    people: int

    @classmethod
    def of(cls, X: ArrayLike, identity: ArrayLike, *, what: str = "fit") -> LabelledRows:
        """Check (n, d) vectors and (n,) identities.

        Raises
        ------
        DataError
            Wrong shape or type, a non-finite or zero row (named), fewer than two identities, or nobody with two images.
        """
        array = np.asarray(X)
        if array.ndim != 2 or array.dtype.kind not in "fiu" or 0 in array.shape:
            raise DataError(f"{what} needs a table of numbers (images, features), got {array.dtype} {array.shape}")
        text = as_text(identity, array.shape[0], "identity")
        bad = bad_rows(array)
        for rows, holds in ((bad.non_finite, "NaN or infinity"), (bad.zero, "only zeros")):
            if rows.size:
                raise DataError(f"row {int(rows[0])} holds {holds}: re-embed that image or drop the row")
        names, codes, counts = np.unique(text, return_inverse=True, return_counts=True)
        if names.size < 2:
            raise DataError(f"{what} needs at least two identities, got {names.size}")
        if counts.max() < 2:
            raise DataError(f"all {names.size} identities have a single image; {what} needs people with several")
        return cls(array, codes.astype(np.intp), int(names.size))

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return int(self.vectors.shape[1])

    def unit(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return some rows in float64, scaled to unit length."""
        Z = self.vectors[rows].astype(np.float64)
        Z /= np.sqrt(np.vecdot(Z, Z))[:, None]
        return Z

    def mean_and_variance(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.float64], float]:
        """Return the mean (d,) of some unit rows, and their mean squared distance from it."""
        mean = sum((self.unit(part).sum(axis=0) for part in _parts(rows)), np.zeros(self.dim)) / rows.size
        return mean, float(1 - mean @ mean)

    def scatter(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the scatter matrix (d, d) of some unit rows about their mean."""
        mean, _ = self.mean_and_variance(rows)
        result = np.zeros((self.dim, self.dim))
        for part in _parts(rows):
            Z = self.unit(part) - mean
            result += Z.T @ Z
        return result

    def cross_directions(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return left singular vectors (d, q) and values (q,) of the covariance of some rows with one-hot identities.

        These are the directions of SAL; for people with as many images each, those of ISP.

        Raises
        ------
        DataError
            All identities have the same mean.
        """
        mean, _ = self.mean_and_variance(rows)
        sums = np.zeros((self.people, self.dim))
        for part in _parts(rows):
            sums += class_sums(self.unit(part) - mean, self.codes[part], self.people)
        left, values, _ = linalg.svd(sums.T, full_matrices=False)
        keep = values > max(_RELATIVE * float(values[0]), _ROUNDING * rows.size)
        keep[self.people - 1 :] = False  # the columns sum to zero
        if not keep.any():
            raise DataError("all identities have the same mean vector: there is nothing to remove")
        return left[:, keep], values[keep]


@dataclass(frozen=True, eq=False)
class Judge:
    """A fresh ridge classifier on images that the eraser did not use, as they would be released.

    Its images are cut in two, each person half and half; the classifier learns from either half and names the people
    of the other.
    """

    rows: NDArray[np.float64]
    codes: NDArray[np.intp]
    second: NDArray[np.bool_]
    people: int
    chance: float
    ridge: float = 1.0

    @classmethod
    def set_up(
        cls,
        data: LabelledRows,
        validation: tuple[ArrayLike, ArrayLike] | None,
        rng: np.random.Generator | int,
        *,
        wanted: bool,
    ) -> tuple[NDArray[np.intp], Judge | None]:
        """Return the rows to fit on, and a judge on `validation` or on rows held out (none when nobody has four images).

        Raises
        ------
        DataError
            The validation vectors do not fit the data, or fewer than two people there have two images.
        """
        everything, rng = np.arange(data.vectors.shape[0]), np.random.default_rng(rng)
        if validation is not None:
            other = LabelledRows.of(*validation, what="validation")
            if other.dim != data.dim:
                raise DataError(f"validation vectors have {other.dim} features, those to fit on {data.dim}")
            counts = np.bincount(other.codes, minlength=other.people)
            chosen = _draw(other, np.where(counts >= 2, counts, 0), rng)
            judge = cls.of(other, chosen)
            if judge is None:
                raise DataError("validation needs at least two people with two images each")
            return everything, judge
        if not wanted:
            return everything, None
        counts = np.bincount(data.codes, minlength=data.people)
        chosen = _draw(data, np.where(counts >= 4, np.maximum(counts // 4, 2), 0), rng)
        judge = cls.of(data, chosen)
        return (everything, None) if judge is None else (np.setdiff1d(everything, chosen), judge)

    @classmethod
    def of(cls, data: LabelledRows, rows: NDArray[np.intp]) -> Judge | None:
        """Build from rows grouped by person, at least two of each; None for fewer than two people."""
        names, codes, counts = np.unique(data.codes[rows], return_inverse=True, return_counts=True)
        if names.size < 2:
            return None
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        second = (np.arange(rows.size) - starts) % 2 == 1
        return cls(data.unit(rows), codes.astype(np.intp), second, int(names.size), float(counts.max() / rows.size))

    def accuracy(self, basis: NDArray[np.float64]) -> float:
        """Share of images named rightly when the span of `basis` (d, k) has been removed."""
        Z = without(self.rows.T, basis).T
        length = np.sqrt(np.vecdot(Z, Z))
        Z = np.divide(Z, length[:, None], out=np.zeros_like(Z), where=length[:, None] > 1e-8)
        hits = 0
        for learn in (self.second, ~self.second):
            mean = Z[learn].mean(axis=0)
            centred = Z[learn] - mean
            sums = class_sums(centred, self.codes[learn], self.people)
            total = float(np.einsum("ij,ij->", centred, centred))
            weights = ridge_weights(centred.T @ centred, sums.T, self.ridge) if total > 0 else np.zeros_like(sums.T)
            prior = np.bincount(self.codes[learn], minlength=self.people) / int(learn.sum())
            named = ((Z[~learn] - mean) @ weights + prior).argmax(axis=1)
            hits += int((named == self.codes[~learn]).sum())
        return hits / self.codes.size

    def at_chance(self, accuracy: float) -> bool:
        """Whether naming always the most frequent person would do as well at least once in twenty times."""
        hits = round(accuracy * self.codes.size)
        return hits == 0 or bool(special.bdtrc(hits - 1, self.codes.size, self.chance) > _LEVEL)


def ridge_weights(scatter: NDArray[np.float64], cross: NDArray[np.float64], ridge: float) -> NDArray[np.float64]:
    """Return ``(scatter + ridge tr(scatter)/d I)^-1 cross`` for a positive ridge; (d, c)."""
    dim = scatter.shape[0]
    penalty = ridge * max(float(np.trace(scatter)) / dim, np.finfo(np.float64).tiny)
    factor = linalg.cho_factor(scatter + penalty * np.eye(dim), lower=True)
    result: NDArray[np.float64] = linalg.cho_solve(factor, cross)
    return result


def class_sums(Z: NDArray[np.float64], codes: NDArray[np.intp], people: int) -> NDArray[np.float64]:
    """Sum rows (n, d) by person, (people, d), without a dense one-hot matrix."""
    n = codes.size
    selector = sparse.csr_array((np.ones(n), (codes, np.arange(n))), shape=(people, n))
    return np.asarray(selector @ Z)


def _draw(data: LabelledRows, wanted: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw `wanted` images of each person, grouped by person, within the bounds on people and rows."""
    people = np.flatnonzero(wanted)
    if people.size > _PEOPLE:
        dropped = rng.permutation(people)[_PEOPLE:]
        wanted = wanted.copy()
        wanted[dropped] = 0
    wanted = np.minimum(wanted, max(2, _ROWS // max(1, int((wanted > 0).sum()))))
    order = rng.permutation(data.codes.size)
    order = order[np.argsort(data.codes[order], kind="stable")]
    counts = np.bincount(data.codes, minlength=data.people)
    place = np.arange(order.size) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.asarray(order[place < wanted[data.codes[order]]], dtype=np.intp)


def without(columns: NDArray[np.float64], basis: NDArray[np.float64]) -> NDArray[np.float64]:
    """Remove the span of orthonormal `basis` (d, k) from columns (d, c)."""
    return columns - basis @ (basis.T @ columns)


def _parts(rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    return [rows[start : start + _BLOCK] for start in range(0, rows.size, _BLOCK)]
