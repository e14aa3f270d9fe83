"""Comparing an exported form with `Projector.apply` before its file appears, so that a wrong file never does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import ProjectorError
from faceblind.erase import Projector

ROUNDING = 4e-6
"""How far a result may be off, in lengths of the row that went in and of the map's gain: float32 rounding."""
_ROWS = 64
_TINY = 1e-30  # rows of zeros have no length to divide by


@dataclass(frozen=True, kw_only=True)
class Check:
    """How an exported form was compared with `Projector.apply`."""

    rows: int
    max_difference: float
    """Largest difference of a coordinate, for rows that were not scaled to unit length as a share of the row's length."""
    min_cosine: float
    """Smallest cosine between the two results of a row; rows of zeros, which both must give, are left out."""

    def __str__(self) -> str:
        return f"{self.rows} rows, largest difference {self.max_difference:.1e}, smallest cosine {self.min_cosine:.7f}"


def probe_rows(projector: Projector, *, degenerate: bool = True) -> NDArray[np.float32]:
    """Rows to compare on: directions of several lengths and, unless told otherwise, a zero row and one that is erased."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((_ROWS, projector.dim)) / np.sqrt(projector.dim)
    rows *= 10.0 ** rng.uniform(-3, 3, (_ROWS, 1))
    if degenerate:
        rows[0] = 0
        rows[1] = projector.basis[:, 0] if projector.lift is None else projector.lift[:, 0]
    return np.asarray(rows, np.float32)


def check_rows(
    projector: Projector,
    given: Callable[[NDArray[np.float32]], NDArray[Any]],
    *,
    compact: bool,
    renormalise: bool,
    what: str,
    degenerate: bool = True,
    as_read: Callable[[NDArray[np.float32]], NDArray[np.float32]] = lambda rows: rows,
) -> Check:
    """Compare a function of (n, d) float32 rows with `Projector.apply`; `as_read` rounds rows as the form will.

    Raises
    ------
    ProjectorError
        They differ by more than float32 rounding.
    """
    rows = as_read(probe_rows(projector, degenerate=degenerate))
    return compare(projector, rows, np.asarray(given(rows)), compact=compact, renormalise=renormalise, what=what)


def compare(
    projector: Projector,
    rows: NDArray[np.float32],
    found: NDArray[Any],
    *,
    compact: bool,
    renormalise: bool,
    what: str,
    rounding: float = ROUNDING,
) -> Check:
    """Compare what an exported form made of rows with what `Projector.apply` makes of them.

    Raises
    ------
    ProjectorError
        They differ by more than rounding allows; names the row.
    """
    applied = projector.apply(rows, compact=compact, renormalise=renormalise)
    wanted, found = applied.vectors.astype(np.float64), found.astype(np.float64)
    if found.shape != wanted.shape:
        raise ProjectorError(f"{what} gives vectors of shape {found.shape} instead of {wanted.shape}; nothing written")
    apart = np.abs(found - wanted).max(axis=1)
    allowed = rounding * projector.pair.gain * _unit_of(projector, rows, wanted, applied.emptied, renormalise)
    wrong = np.flatnonzero(~(apart <= allowed))  # NaN is no agreement
    if wrong.size:
        row = int(wrong[0])
        raise ProjectorError(
            f"{what} is off by {apart[row]:.1e} in row {row} of its self-check, where rounding explains {allowed[row]:.1e}; nothing written"
        )
    real = np.setdiff1d(np.arange(len(rows)), applied.emptied)
    lengths = np.linalg.norm(found[real], axis=1) * np.linalg.norm(wanted[real], axis=1)
    cosines = np.einsum("ij,ij->i", found[real], wanted[real]) / lengths
    worst = apart if renormalise else apart / np.maximum(np.linalg.norm(wanted, axis=1), _TINY)
    return Check(rows=len(rows), max_difference=float(worst.max()), min_cosine=float(cosines.min(initial=1.0)))


def _unit_of(
    projector: Projector,
    rows: NDArray[np.float32],
    wanted: NDArray[np.float64],
    emptied: NDArray[np.intp],
    renormalise: bool,
) -> NDArray[np.float64]:
    """By what an error relative to the row that went in is multiplied in the result."""
    length = np.linalg.norm(rows.astype(np.float64), axis=1)
    before = np.minimum(length, 1.0) if projector.mean is not None else length
    if not renormalise:
        return np.asarray(np.maximum(before, np.linalg.norm(wanted, axis=1)))
    left = np.linalg.norm(projector.apply(rows, renormalise=False).vectors.astype(np.float64), axis=1)
    unit = np.divide(before, left, out=np.zeros_like(left), where=left > 0)
    unit[emptied] = 0  # zeros must be zeros
    return np.asarray(np.maximum(unit, np.where(left > 0, 1.0, 0.0)))
