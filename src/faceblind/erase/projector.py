"""`Projector`: the saved artefact. Removes span(U) from vectors by the cheapest exact formula.

Three formulas give the same cosines. With U (d, r) and its orthonormal complement V (d, d - r):

- low rank: ``z - U (U^T z)``, 4 d r operations a row; keeps d columns
- compact: ``V^T z``, 2 d (d - r) operations a row; d - r columns with identical dot products, norms and cosines
- complement: ``V (V^T z)``, 4 d (d - r) operations a row, when more than half of the space is removed
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from faceblind._errors import DataError, EncoderError, ProjectorError
from faceblind.data.embeddings import bad_rows
from faceblind.data.meta import Fingerprint
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
    """Share of each row's squared length that is left, (n,)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Projector:
    """An orthogonal projection that removes the span of `basis`. Build with `Projector.of`, read with `load`.

    Attributes
    ----------
    basis : (d, r) float64
        Orthonormal columns spanning what is removed.
    spectrum : (q,) float64
        Singular values of the matrix the basis came from (empty for random subspaces).
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

    @classmethod
    def of(
        cls,
        basis: ArrayLike,
        *,
        method: str,
        choice: RankChoice,
        spectrum: ArrayLike | None = None,
        **provenance: Any,
    ) -> Projector:
        """Validate the basis and build.

        Raises
        ------
        ProjectorError
            The basis is not (d, r) with r < d, not finite or not orthonormal.
        """
        U = np.array(basis, dtype=np.float64, order="C")
        if U.ndim != 2 or not 0 < U.shape[1] < U.shape[0]:
            raise ProjectorError(f"a basis is (d, r) with 0 < r < d, got shape {U.shape}")
        if not np.isfinite(U).all():
            raise ProjectorError("the basis holds NaN or infinity")
        off = float(np.abs(U.T @ U - np.eye(U.shape[1])).max())
        if off > 1e-6:
            raise ProjectorError(f"the columns of the basis are not orthonormal (off by {off:.1e})")
        U.setflags(write=False)
        values = np.zeros(0) if spectrum is None else np.array(spectrum, dtype=np.float64)
        return cls(basis=U, method=method, spectrum=values, choice=choice, **provenance)

    @property
    def dim(self) -> int:
        """Length of the vectors it applies to."""
        return int(self.basis.shape[0])

    @property
    def rank(self) -> int:
        """Number of dimensions it removes."""
        return int(self.basis.shape[1])

    @cached_property
    def complement(self) -> NDArray[np.float64]:
        """Orthonormal basis of what is kept, (d, d - r), the same for the same basis (Householder QR)."""
        q, _ = linalg.qr(self.basis, mode="full")
        result: NDArray[np.float64] = np.ascontiguousarray(q[:, self.rank :])
        return result

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
        """Remove the subspace from (n, d) vectors.

        Parameters
        ----------
        compact : bool
            Return d - r columns instead of d, with identical cosines.
        renormalise : bool
            Scale rows to unit length afterwards. This is what cosine search needs; it gives up the exact linear
            guarantee on the fitted means (their projections are equal only before scaling).
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
        out = np.empty((Z.shape[0], self.dim - self.rank if compact else self.dim), dtype=np.float32)
        kept = np.empty(Z.shape[0])
        emptied = []
        for start in range(0, Z.shape[0], _ROWS):
            part = slice(start, start + _ROWS)
            with np.errstate(over="ignore"):  # too large becomes infinite, and is then named with its row
                rows = np.ascontiguousarray(Z[part], dtype=np.float32)
            length = _squared_lengths(rows)
            if not np.isfinite(length).all():
                self._refuse(rows, first_row + start)
            self._project(rows, out[part], compact=compact)
            left = _squared_lengths(out[part])
            kept[part] = np.divide(left, length, out=np.zeros(length.size), where=length > 0)
            gone = left <= TINY**2 * np.maximum(length, np.finfo(np.float32).tiny)
            gone |= kept[part] < np.finfo(np.float32).eps ** 2 * max(self.dim, 8)  # nothing but rounding is left
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

    def _project(self, rows: NDArray[np.float32], out: NDArray[np.float32], *, compact: bool) -> None:
        formula = self.formula(compact=compact)
        if formula == "compact":
            np.matmul(rows, self._complement32, out=out)
        elif formula == "low-rank":
            np.matmul(rows @ self._basis32, self._minus_basis32, out=out)
            out += rows
        else:
            np.matmul(rows @ self._complement32, self._complement32.T, out=out)

    @cached_property
    def _basis32(self) -> NDArray[np.float32]:
        return self.basis.astype(np.float32)

    @cached_property
    def _minus_basis32(self) -> NDArray[np.float32]:
        return np.ascontiguousarray(-self._basis32.T)

    @cached_property
    def _complement32(self) -> NDArray[np.float32]:
        return self.complement.astype(np.float32)

    def _refuse(self, rows: NDArray[np.float32], start: int) -> None:
        bad = bad_rows(rows).non_finite
        if bad.size:
            raise DataError(f"row {start + int(bad[0])} holds NaN or infinity: re-embed that image or drop the row")

    def _probe(self) -> NDArray[np.float64]:
        """Image of a fixed vector in the compact form: notices a machine that would build another complement."""
        return np.asarray(np.cos(np.arange(self.dim)) @ self.complement)

    def check_complement(self, expected: NDArray[np.float64], path: Path) -> None:
        """Raise `ProjectorError` when the compact form here is not the one recorded in the file."""
        if not np.abs(self._probe() - expected).max() <= 1e-6:  # NaN is no agreement
            raise ProjectorError(
                f"the compact form of {path} comes out differently on this machine's linear algebra library: "
                "compact vectors made here would not match those made where it was fitted"
            )

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a file."""
        return {
            "basis": np.ascontiguousarray(self.basis),
            "spectrum": self.spectrum,
            "compact_check": self._probe() if self.compact_check is None else self.compact_check,
        }

    def header(self) -> dict[str, Any]:
        """Return what a file says beside the tensors, in JSON types."""
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
        }


def _squared_lengths(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return squared lengths: float32 dot products, and float64 where those could over- or underflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        fast = np.vecdot(rows, rows)
    if np.isfinite(fast).all() and (fast > _UNDERFLOW).all():
        return np.asarray(fast, dtype=np.float64)
    exact: NDArray[np.float64] = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return exact


def digest_of(tensors: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> str:
    """SHA-256 of everything a projector file holds."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(f"{name}{tensors[name].dtype}{tensors[name].shape}".encode())
        digest.update(np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()
