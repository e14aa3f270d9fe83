"""From a batch of raw rows to the rows that a target gets: projected, rounded to its precision, without empty ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.data.embeddings import bad_rows
from faceblind.data.tables.vectors import all_finite, to_stored
from faceblind.deploy.stores.base import Key, Rows
from faceblind.deploy.stores.record import SHOWN, Record
from faceblind.erase import Projector


@dataclass(frozen=True, eq=False)
class Clean:
    """Rows for the target, and what became of the others."""

    rows: Rows
    emptied: tuple[Key, ...]
    """Keys of rows that had nothing left."""
    energy: float
    """Sum of the shares of squared length that are left."""
    tolerance: NDArray[np.float64]
    """(n,) how far two computations of the same row may lie apart, as a share of its length."""


def clean(projector: Projector, raw: Rows, record: Record, where: str) -> Clean:
    """Apply a projector to one batch.

    Raises
    ------
    DataError
        A key that comes twice, a vector of another length, one with NaN or infinity, or one too large for float16; the
        key is named.
    """
    if len(set(raw.keys)) != len(raw.keys):
        raise DataError(f"{where}: keys must be unique; {named(_repeated(raw.keys))} comes more than once")
    if not len(raw):
        empty = np.empty((0, record.dim), record.dtype)
        return Clean(raw.take(np.zeros(0, np.intp), empty), (), 0.0, np.zeros(0))
    try:
        applied = projector.apply(raw.vectors, compact=record.compact, renormalise=record.renormalise)
    except DataError as error:
        with np.errstate(over="ignore"):
            bad = bad_rows(np.asarray(raw.vectors, dtype=np.float32)).non_finite
        if not bad.size:
            raise
        raise DataError(
            f"{where}: the vector of {named([raw.keys[i] for i in bad])} holds NaN or infinity: re-embed that image or "
            "remove its vector, then run again"
        ) from error
    kept = np.ones(len(raw), dtype=bool)
    kept[applied.emptied] = False
    index = np.flatnonzero(kept)
    vectors = to_stored(applied.vectors[index], np.dtype(record.dtype))
    if record.dtype == "float16" and not all_finite(vectors):
        row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise DataError(
            f"{where}: the vector of {named([raw.keys[index[row]]])} is too large for float16: store float32, or scale "
            "rows to unit length"
        )
    share = np.sqrt(np.maximum(applied.energy_kept[index], np.finfo(np.float64).tiny))
    rounding = (
        4 * float(np.finfo(record.dtype).eps) + 64 * float(np.finfo(np.float32).eps) * projector.pair.gain / share
    )
    return Clean(
        raw.take(index, vectors),
        tuple(raw.keys[i] for i in applied.emptied),
        float(applied.energy_kept.sum()),
        rounding,
    )


def named(keys: Sequence[Key]) -> str:
    """Name a few rows in words."""
    shown = ", ".join(str(key) for key in keys[:SHOWN])
    return f"row{'s' if len(keys) > 1 else ''} {shown}" + (" ..." if len(keys) > SHOWN else "")


def _repeated(keys: Sequence[Key]) -> list[Key]:
    seen: set[Key] = set()
    return [key for key in keys if key in seen or seen.add(key)]  # type: ignore[func-returns-value]
