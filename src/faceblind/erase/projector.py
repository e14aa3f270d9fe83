"""`Projector`: the saved artefact. Removes what U reads from vectors, by the cheapest exact formula.

With U (d, r) orthonormal, the map is ``P z = z - L (U^T z)``, where U^T L = I. L = U gives the orthogonal projection; any
other L an oblique one (`pair` has its algebra). Either way U^T P z = 0: U is what can no longer be read, and the
range of P is that of V (d, d - r), the orthonormal complement of U. Three formulas give the same cosines:

- low rank: ``z - L (U^T z)``, 4 d r operations a row; keeps d columns
- compact: ``C^T z`` with C = P^T V (V itself when orthogonal), 2 d (d - r) operations a row; d - r columns with
  identical dot products, norms and cosines
- complement: ``V (C^T z)``, 4 d (d - r) operations a row, when more than half of the space is removed

An affine map keeps a mean m where it is: ``m + P (z - m)``. It is no longer the same for vectors of any length, so it acts
on rows scaled to unit length, as erasers are fitted on; the compact form needs one column more, a constant.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faceblind._errors import DataError, EncoderError, ProjectorError
from faceblind.data.embeddings import bad_rows
from faceblind.data.meta import Fingerprint
from faceblind.erase.pair import Pair
from faceblind.erase.rank import RankChoice

FORMAT = "faceblind.projector/1"
TINY = 1e-8
"""Rows whose remainder is shorter than this (relative to the row) become zeros instead of amplified rounding."""
_ROWS = 2_048
_UNDERFLOW = 1e-30  # squares of float32 lengths lose digits below this


@dataclass(frozen=True, eq=False)
class Applied:
    """Result of `Projector.apply`: vectors, and the rows that had nothing left."""

    vectors: NDArray[np.float32]
    emptied: NDArray[np.intp]
    """Rows that lay in the removed subspace; their result is all zeros."""
    energy_kept: NDArray[np.float64]
    """Share of each row's squared length that is left, (n,); at most 1, though an oblique or affine map can lengthen rows."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Projector:
    """A projection after which `basis` reads nothing. Build with `Projector.of`, read with `load`.

    Attributes
    ----------
    basis : (d, r) float64
        Orthonormal columns spanning what can no longer be read (from an affine map: what reads the same from all rows,
        before they are scaled to unit length).
    lift : (d, r) float64 or None
        What is subtracted per unit read, of an oblique map; None when it is `basis`, an orthogonal map.
    mean : (d,) float64 or None
        Where an affine map leaves vectors as they are; None for linear maps.
    spectrum : (q,) float64
        Singular values of the matrix the basis came from (empty for random subspaces).
    settings : mapping
        What shaped the fit beside the rank, in JSON types; empty for the plain methods.
    """

    basis: NDArray[np.float64]
    method: str
    spectrum: NDArray[np.float64]
    choice: RankChoice
    encoder: Fingerprint | None = None
    synthetic: bool = False
    fit_identities: int = 0
    fit_images: int = 0
    fit_people: str = ""
    """Digest of the identities it was fitted on and their image counts."""
    fit_digest: str = ""
    """Digest of the same with their mean vectors."""
    compact_check: NDArray[np.float64] | None = None
    """Compact image of a fixed vector, as computed where the file was written: keeps the digest the same anywhere."""
    lift: NDArray[np.float64] | None = None
    mean: NDArray[np.float64] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        basis: ArrayLike,
        *,
        method: str,
        choice: RankChoice,
        spectrum: ArrayLike | None = None,
        lift: ArrayLike | None = None,
        mean: ArrayLike | None = None,
        **provenance: Any,
    ) -> Projector:
        """Validate the arrays and build.

        Raises
        ------
        ProjectorError
            The basis is not (d, r) with r < d, not finite or not orthonormal; the lift does not go with it
            (``basis^T lift`` is not the identity); the mean is not (d,) or not finite.
        """
        pair = Pair.of(basis, lift, mean)
        values = np.zeros(0) if spectrum is None else np.array(spectrum, dtype=np.float64)
        return cls(
            basis=pair.basis,
            lift=pair.lift,
            mean=pair.mean,
            method=method,
            spectrum=values,
            choice=choice,
            **provenance,
        )

    @property
    def dim(self) -> int:
        """Length of the vectors it applies to."""
        return int(self.basis.shape[0])

    @property
    def rank(self) -> int:
        """Number of dimensions it removes."""
        return int(self.basis.shape[1])

    @property
    def compact_dim(self) -> int:
        """Columns of the compact form: d - r, and one more for an affine map."""
        return self.pair.compact_dim

    @property
    def form(self) -> str:
        """What kind of map it is: ``orthogonal``, ``oblique``, ``orthogonal affine`` or ``oblique affine``."""
        return ("orthogonal" if self.lift is None else "oblique") + ("" if self.mean is None else " affine")

    @cached_property
    def pair(self) -> Pair:
        """The arrays of the map, with what follows from them."""
        return Pair(self.basis, self.lift, self.mean)

    @property
    def complement(self) -> NDArray[np.float64]:
        """Orthonormal basis of the range, (d, d - r), the same for the same basis (Householder QR)."""
        return self.pair.complement

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything in the file: the name by which tables and audits refer to this projector."""
        return digest_of(self.tensors(), self.header())

    def formula(self, *, compact: bool) -> str:
        """Return the cheapest exact formula: ``compact``, ``low-rank`` or ``complement``."""
        if compact:
            return "compact"
        return "low-rank" if 2 * self.rank <= self.dim else "complement"

    def check_encoder(self, encoder: Fingerprint | None, *, force: bool = False) -> str | None:
        """Refuse vectors of another encoder.

        Returns
        -------
        str or None
            A caution when the encoder of either side is unknown (nothing can be checked) or `force` overrode a mismatch.

        Raises
        ------
        EncoderError
            The fingerprints differ and `force` is False.
        """
        if self.encoder is None or encoder is None:
            side = "projector" if self.encoder is None else "table"
            return f"the {side} does not say which encoder it is for: make sure that it is the same one"
        differences = self.encoder.differs_from(encoder)
        if not differences:
            return None
        what = f"the projector was made for encoder {self.encoder.encoder!r}, the table holds {encoder.encoder!r}"
        if force:
            return f"{what} ({'; '.join(differences)}); forced"
        raise EncoderError(
            f"{what} ({'; '.join(differences)}); fit a projector for it, or pass --force if you know better"
        )

    def apply(self, X: ArrayLike, *, compact: bool = False, renormalise: bool = True, first_row: int = 0) -> Applied:
        """Apply the map to (n, d) vectors.

        Parameters
        ----------
        compact : bool
            Return `compact_dim` columns instead of d, with identical cosines.
        renormalise : bool
            Scale rows to unit length afterwards. This is what cosine search needs; it gives up the exact linear
            guarantee on the fitted means (their projections are equal only before scaling). Without it, a linear map
            keeps the scale of the rows, and an affine one returns the images of unit rows.
        first_row : int
            Number of the first row in a larger table, for messages.

        Raises
        ------
        DataError
            Wrong dimension, or a row with NaN or infinity (named).
        """
        Z = np.asarray(X)
        if Z.ndim != 2 or Z.shape[1] != self.dim:
            raise DataError(f"the projector is for vectors of {self.dim} features, the table has shape {Z.shape}")
        pair, formula = self.pair, self.formula(compact=compact)
        out = np.empty((Z.shape[0], self.compact_dim if compact else self.dim), dtype=np.float32)
        kept = np.empty(Z.shape[0])
        emptied = []
        for start in range(0, Z.shape[0], _ROWS):
            part = slice(start, start + _ROWS)
            with np.errstate(over="ignore"):  # too large becomes infinite, and is then named with its row
                rows = np.ascontiguousarray(Z[part], dtype=np.float32)
            length = _squared_lengths(rows)
            if not np.isfinite(length).all():
                self._refuse(rows, first_row + start)
            if self.mean is not None:
                rows, length = _unit(rows, length)
            pair.project(rows, out[part], formula)
            left = _squared_lengths(out[part])
            kept[part] = np.divide(left, length, out=np.zeros(length.size), where=length > 0)
            gone = left <= TINY**2 * np.maximum(length, np.finfo(np.float32).tiny)
            # nothing but rounding is left, which an oblique map magnifies
            gone |= kept[part] < np.finfo(np.float32).eps ** 2 * max(self.dim, 8) * pair.gain**2
            if gone.any():
                emptied.append(np.flatnonzero(gone) + start)
                out[part][gone] = 0
                kept[part][gone] = 0
            if renormalise:
                scale = np.divide(1, np.sqrt(left), out=np.zeros_like(left), where=~gone)
                out[part] *= scale.astype(np.float32)[:, None]
        gone_rows = np.concatenate(emptied) if emptied else np.zeros(0, dtype=np.intp)
        return Applied(out, gone_rows.astype(np.intp), np.minimum(kept, 1.0))

    def save(self, path: str | Path) -> None:
        """Write as safetensors with a JSON header, atomically; the same projector gives the same bytes."""
        from faceblind.erase.projector_file import write_projector

        write_projector(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Projector:
        """Read a projector file; nothing is unpickled.

        Raises
        ------
        ProjectorError
            The file is missing, truncated, altered or not a projector; the message says which.
        """
        from faceblind.erase.projector_file import read_projector

        return read_projector(path)

    def describe(self) -> dict[str, Any]:
        """Return what a record says about this projector."""
        return {"digest": self.digest, "rank": self.rank, **self.header()}

    def _refuse(self, rows: NDArray[np.float32], start: int) -> None:
        bad = bad_rows(rows).non_finite
        if bad.size:
            raise DataError(f"row {start + int(bad[0])} holds NaN or infinity: re-embed that image or drop the row")

    def _probe(self) -> NDArray[np.float64]:
        """Image of a fixed vector in the compact form: notices a machine that would build another complement."""
        return self.pair.compact(np.cos(np.arange(self.dim)))

    def check_complement(self, expected: NDArray[np.float64], path: Path) -> None:
        """Raise `ProjectorError` when the compact form here is not the one recorded in the file."""
        if not np.abs(self._probe() - expected).max() <= 1e-6 * self.pair.gain:  # NaN is no agreement
            raise ProjectorError(
                f"the compact form of {path} comes out differently on this machine's linear algebra library: "
                "compact vectors made here would not match those made where it was fitted"
            )

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a file."""
        found = {
            "basis": np.ascontiguousarray(self.basis),
            "spectrum": self.spectrum,
            "compact_check": self._probe() if self.compact_check is None else self.compact_check,
        }
        if self.lift is not None:
            found["lift"] = np.ascontiguousarray(self.lift)
        if self.mean is not None:
            found["mean"] = self.mean
        return found

    def header(self) -> dict[str, Any]:
        """Return what a file says beside the tensors, in JSON types; form and settings only where they are not plain."""
        special: dict[str, Any] = {} if self.form == "orthogonal" else {"form": self.form}
        if self.settings:
            special["settings"] = dict(self.settings)
        return {
            "format": FORMAT,
            "method": self.method,
            "choice": self.choice.to_dict(),
            "encoder": self.encoder.to_dict() if self.encoder else None,
            "synthetic": self.synthetic,
            "fit": {
                "fit_identities": self.fit_identities,
                "fit_images": self.fit_images,
                "fit_people": self.fit_people,
                "fit_digest": self.fit_digest,
            },
            **special,
        }


def _squared_lengths(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return squared lengths: float32 dot products, and float64 where those could over- or underflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        fast = np.vecdot(rows, rows)
    if np.isfinite(fast).all() and (fast > _UNDERFLOW).all():
        return np.asarray(fast, dtype=np.float64)
    exact: NDArray[np.float64] = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return exact


def _unit(rows: NDArray[np.float32], length: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Scale rows of known squared lengths to unit length; rows without a direction become zeros."""
    real = length > TINY**2 * np.finfo(np.float32).tiny
    scale = np.divide(1, np.sqrt(length), out=np.zeros_like(length), where=real)
    return (rows * scale[:, None]).astype(np.float32), real.astype(np.float64)


def digest_of(tensors: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> str:
    """SHA-256 of everything a projector file holds."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(f"{name}{tensors[name].dtype}{tensors[name].shape}".encode())
        digest.update(np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()
