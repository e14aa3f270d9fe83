"""What must be said about a table: its precision, lengths, order and unusable rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind.data.embeddings import bad_rows
from faceblind.data.findings import Finding
from faceblind.data.tables.table import Batch

SHOWN = 5
"""Examples per finding."""

_UNIT_TOLERANCE = 2e-3
"""Rounding to float16 leaves a unit vector well within this of length 1."""

_BAD = {"non_finite_rows": "hold NaN or infinity", "zero_rows": "are all zeros"}


def dtype_findings(dtype: np.dtype[Any], where: str) -> tuple[Finding, ...]:
    """Say it when vectors are stored in half precision."""
    if dtype.itemsize != 2:
        return ()
    return (
        Finding(
            kind="float16_input",
            severity="note",
            count=1,
            examples=(where,),
            message="vectors are stored in float16; they are computed with in float32, but keep the three "
            "decimal digits of float16, so nearly equal scores may tie",
        ),
    )


class Inspector:
    """Watch the batches of a table go by and say at the end what was noticed.

    Memory is one float64 per row and the set of identities, so it can ride on any streaming job.
    """

    def __init__(self) -> None:
        self._norms: list[NDArray[np.float64]] = []
        self._off_unit = 0
        self._off_unit_names: list[str] = []
        self._bad = dict.fromkeys(_BAD, 0)
        self._bad_names: dict[str, list[str]] = {kind: [] for kind in _BAD}
        self._seen: set[str] = set()
        self._scattered: dict[str, None] = {}
        self._last: str | None = None

    def see(self, batch: Batch) -> NDArray[np.bool_]:
        """Inspect a batch and return (b,) booleans: which rows can be used."""
        vectors = batch.vectors
        with np.errstate(over="ignore"):  # what does not fit float32 becomes infinite and is a bad row
            vectors = vectors.astype(np.float32, copy=False)
        bad = bad_rows(vectors)
        good = np.ones(len(batch), np.bool_)
        for kind, rows in (("non_finite_rows", bad.non_finite), ("zero_rows", bad.zero)):
            good[rows] = False
            self._bad[kind] += int(rows.size)
            room = SHOWN - len(self._bad_names[kind])
            self._bad_names[kind] += [f"row {batch.start + row} ({batch.sample[row]})" for row in rows[:room]]
        norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
        off = good & (np.abs(norms - 1) > _UNIT_TOLERANCE)
        self._off_unit += int(off.sum())
        rows = np.flatnonzero(off)[: SHOWN - len(self._off_unit_names)]
        self._off_unit_names += [f"row {batch.start + row} (length {norms[row]:.4g})" for row in rows]
        self._norms.append(norms[good])
        if batch.identity is not None:
            self._watch_order(batch.identity)
        return good

    def findings(self) -> tuple[Finding, ...]:
        """Return what was noticed so far, errors first."""
        found = [finding for kind in _BAD if (finding := self._bad_rows(kind))]
        if self._off_unit:
            norms = np.concatenate(self._norms)
            low, middle, high = norms.min(), np.median(norms), norms.max()
            found.append(
                Finding(
                    kind="not_normalised",
                    severity="warning",
                    count=self._off_unit,
                    examples=tuple(self._off_unit_names),
                    message=f"{self._off_unit} of {norms.size} vectors are not of unit length (shortest "
                    f"{low:.4g}, median {middle:.4g}, longest {high:.4g}); cosine is used anyway, but a "
                    "system that takes dot products of them ranks differently",
                )
            )
        if self._scattered:
            found.append(
                Finding(
                    kind="rows_not_grouped",
                    severity="note",
                    count=len(self._scattered),
                    examples=tuple(list(self._scattered)[:SHOWN]),
                    message=f"the rows of {len(self._scattered)} of {len(self._seen)} identities are not "
                    "next to each other in the file; match rows of other tables by key, never by position",
                )
            )
        return tuple(found)

    def _watch_order(self, identity: NDArray[np.str_]) -> None:
        starts = np.flatnonzero(np.concatenate(([True], identity[1:] != identity[:-1])))
        for name in identity[starts].tolist():
            if name in self._seen and name != self._last:
                self._scattered[name] = None
            self._seen.add(name)
            self._last = name

    def _bad_rows(self, kind: str) -> Finding | None:
        count, names = self._bad[kind], self._bad_names[kind]
        if not count:
            return None
        more = f" and {count - len(names)} more" if count > len(names) else ""
        return Finding(
            kind=kind,
            severity="error",
            count=count,
            examples=tuple(names),
            message=f"the vectors of {', '.join(names)}{more} {_BAD[kind]} and cannot be used; re-embed those images",
        )
