"""`EmbeddingSet`: vectors with identities and keys, checked once at the door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faceblind._errors import DataError
from faceblind.data.meta import Fingerprint, TableMeta

_SHOWN = 5
_T = TypeVar("_T", bound=np.generic)

MIN_NORM = 1e-8
"""Vectors shorter than this have no direction: they count as zeros."""


@dataclass(frozen=True, eq=False)
class EmbeddingSet:
    """An immutable table of embeddings. Build it with `EmbeddingSet.of`, which validates.

    Attributes
    ----------
    vectors : (n, d) float32
        One row per image, as the encoder (or the projector named in `meta`) gave them; not normalised here.
    identity : (n,) str or None
        Who is on each image.
    sample : (n,) str
        A unique key per row.
    meta : TableMeta
        Encoder fingerprint and what has been done to the vectors.
    """

    vectors: NDArray[np.float32]
    identity: NDArray[np.str_] | None
    sample: NDArray[np.str_]
    meta: TableMeta

    @classmethod
    def of(
        cls,
        vectors: ArrayLike,
        identity: ArrayLike | None = None,
        *,
        sample: ArrayLike | None = None,
        meta: TableMeta | None = None,
        copy: bool = True,
    ) -> EmbeddingSet:
        """Validate and build.

        Parameters
        ----------
        vectors : (n, d) real array-like
            numpy, or anything numpy can read (torch tensors on the CPU, Arrow arrays, lists).
        identity : (n,) array-like, optional
            Labels of any type; kept as text.
        sample : (n,) array-like, optional
            Unique keys; row numbers when missing.
        copy : bool
            With False, a float32 array in C order is taken over without a copy and made read-only.

        Raises
        ------
        DataError
            Wrong shape, no rows, non-numeric, NaN or infinite values (the rows are named; a float64 too large
            for float32 counts as infinite), rows of zeros or shorter than `MIN_NORM` (named), labels missing
            or of the wrong length, duplicate keys (named).
        """
        array = _as_matrix(vectors, copy=copy)
        n = array.shape[0]
        keys = as_text(sample, n, "sample") if sample is not None else np.arange(n).astype(np.str_)
        _refuse_duplicate_keys(keys)
        labels = as_text(identity, n, "identity") if identity is not None else None
        bad = bad_rows(array)
        for what, rows in (("holds NaN or infinity", bad.non_finite), ("is all zeros", bad.zero)):
            if rows.size:
                raise DataError(
                    f"{rows.size} of {n} rows cannot be used; the vector of {_name(rows, keys)} {what}: "
                    "re-embed those images or drop the rows"
                )
        return cls(_frozen(array), None if labels is None else _frozen(labels), _frozen(keys), meta or TableMeta())

    @property
    def encoder(self) -> Fingerprint | None:
        """Fingerprint of the encoder, or None when unknown."""
        return self.meta.encoder

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return int(self.vectors.shape[1])

    def __len__(self) -> int:
        return int(self.vectors.shape[0])

    def __repr__(self) -> str:
        people = "no identities" if self.identity is None else f"{np.unique(self.identity).size} identities"
        encoder = self.encoder.encoder if self.encoder else "unknown encoder"
        return f"EmbeddingSet({len(self)} rows, d={self.dim}, {people}, {encoder})"

    def take(self, rows: ArrayLike) -> EmbeddingSet:
        """Return the rows selected by an index or boolean array, in that order.

        Raises
        ------
        DataError
            No rows, a row that is not there, a mask of the wrong length, or a row taken twice (keys are
            unique).
        """
        index = _as_index(rows, len(self))
        return replace(
            self,
            vectors=_frozen(self.vectors[index]),
            identity=None if self.identity is None else _frozen(self.identity[index]),
            sample=_frozen(self.sample[index]),
        )

    def require_identity(self) -> NDArray[np.str_]:
        """Return the identities, or raise `DataError` when there are none."""
        if self.identity is None:
            raise DataError("this needs an identity for every row: pass identity=... or name the identity column")
        return self.identity

    def unit(self) -> NDArray[np.float32]:
        """Return the vectors scaled to unit length."""
        return unit_rows(self.vectors)


@dataclass(frozen=True)
class BadRows:
    """Rows that cannot be used: indices of non-finite and of all-zero vectors."""

    non_finite: NDArray[np.intp]
    zero: NDArray[np.intp]

    @property
    def any(self) -> bool:
        """Whether there is any bad row."""
        return bool(self.non_finite.size or self.zero.size)


def bad_rows(vectors: NDArray[Any]) -> BadRows:
    """Find rows with NaN or infinity and rows shorter than `MIN_NORM`, in one pass; `vectors` is (n, d)."""
    squared = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    suspicious = np.flatnonzero(~np.isfinite(squared))
    if suspicious.size:  # large finite float64 values overflow when squared; look closely
        suspicious = suspicious[~np.isfinite(vectors[suspicious]).all(axis=1)]
    return BadRows(suspicious, np.flatnonzero(squared <= MIN_NORM**2))


def unit_rows(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Return rows scaled to unit length in float32; rows up to `MIN_NORM` long become zeros, never NaN."""
    array = np.asarray(vectors, dtype=np.float32)
    norm = np.sqrt(np.einsum("ij,ij->i", array, array, dtype=np.float64))
    scale = np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > MIN_NORM)
    return np.asarray(array * scale.astype(np.float32)[:, None])


def _as_matrix(vectors: ArrayLike, *, copy: bool) -> NDArray[np.float32]:
    if hasattr(vectors, "detach"):  # a torch tensor; faceblind never imports torch for this
        vectors = vectors.detach().cpu()
    if isinstance(vectors, np.ma.MaskedArray) and np.ma.is_masked(vectors):
        raise DataError("vectors have masked (missing) values: fill them or drop the rows")
    try:
        array = np.asarray(vectors)
    except ValueError as error:
        raise DataError(f"vectors are ragged: every row needs the same length ({error})") from error
    except TypeError as error:  # torch.bfloat16 has no numpy counterpart
        raise DataError(f"vectors cannot be read as an array of numbers: {error}; convert them to float32") from error
    if array.dtype == object or array.dtype.kind not in "fiu":
        raise DataError(f"vectors must be a table of real numbers, got dtype {array.dtype} (ragged rows?)")
    if array.ndim != 2:
        raise DataError(f"vectors must have two dimensions (images, features), got shape {array.shape}")
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise DataError(f"the table is empty: shape {array.shape}")
    with np.errstate(over="ignore"):  # too large becomes infinite, and is then named with its row
        return np.array(array, dtype=np.float32, order="C", copy=copy or None)


def as_text(values: ArrayLike, n: int, what: str) -> NDArray[np.str_]:
    """Turn `n` labels of any type into text; raises `DataError` when one is missing or the number differs."""
    # numpy would turn the list ["ann", nan] into the labels "ann" and "nan"
    array = np.asarray(values, dtype=object if isinstance(values, list | tuple) else None)
    if array.dtype.kind == "T":  # numpy's variable-length strings, which may have missing entries
        array = array.astype(object)
    if array.shape != (n,):
        raise DataError(f"{what} must have one entry per vector: {n} vectors, {what} has shape {array.shape}")
    if array.dtype == object:
        missing = [i for i, value in enumerate(array) if _is_missing(value)]
        if missing:
            raise DataError(f"{what} is missing in {len(missing)} rows, first in row {missing[0]}")
        array = np.array([_as_str(value, what) for value in array])
    elif array.dtype.kind == "f" and not np.isfinite(array).all():
        raise DataError(f"{what} is missing in row {int(np.flatnonzero(~np.isfinite(array))[0])}")
    elif array.dtype.kind == "S":
        array = np.array([_as_str(value, what) for value in array])
    return array.astype(np.str_)


def _as_str(value: object, what: str) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{what} {value!r} is not UTF-8 text: {error.reason}") from error


def _is_missing(value: object) -> bool:
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:  # pandas: comparing NA raises
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _as_index(rows: ArrayLike, n: int) -> NDArray[Any]:
    index = np.asarray(rows)
    if index.size == 0:
        raise DataError("no rows are selected: a table needs at least one row")
    if index.ndim != 1 or index.dtype.kind not in "biu":
        raise DataError(f"select rows by a 1-d array of indices or booleans, got {index.dtype} of shape {index.shape}")
    if index.dtype.kind == "b":
        if index.size != n:
            raise DataError(f"the mask has {index.size} entries, the table has {n} rows")
        if not index.any():
            raise DataError("no rows are selected: a table needs at least one row")
        return index
    outside = index[(index < -n) | (index >= n)]
    if outside.size:
        raise DataError(f"row {outside[0]} is not in the table, which has {n} rows")
    if np.unique(np.where(index < 0, index + n, index)).size != index.size:
        raise DataError("a row is selected twice: keys must stay unique; resample scores or identities instead")
    return index


def _refuse_duplicate_keys(keys: NDArray[np.str_]) -> None:
    unique, counts = np.unique(keys, return_counts=True)
    if unique.size != keys.size:
        repeated = unique[counts > 1]
        shown = ", ".join(repr(str(key)) for key in repeated[:_SHOWN])
        raise DataError(f"sample keys must be unique; {repeated.size} are repeated, among them {shown}")


def _frozen(array: NDArray[_T]) -> NDArray[_T]:
    array.setflags(write=False)
    return array


def _name(rows: NDArray[np.intp], keys: NDArray[np.str_]) -> str:
    names: Sequence[str] = [
        f"row {row}" if keys[row] == str(row) else f"row {row} ({keys[row]})" for row in rows[:_SHOWN]
    ]
    return ", ".join(names) + (" ..." if rows.size > _SHOWN else "")
