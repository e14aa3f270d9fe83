"""`Directions`: one factorisation of the identity means that serves every rank.

A fit ranks directions; a rank says how many of them to remove. What is read from a vector (`reads`, R) and what is
subtracted for each unit read (`lifts`, L) come in pairs with ``R_r^T L_r = I`` for every leading r columns, so that
``x -> x - L_r R_r^T x`` is a projection at every rank. With L = R orthonormal it is the orthogonal one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from faceblind._errors import RankError
from faceblind.data.meta import Fingerprint
from faceblind.erase.moments import IdentityMoments, moments_digest, people_digest
from faceblind.erase.projector import Projector
from faceblind.erase.rank import RankChoice
from faceblind.erase.threads import one_thread

DEFAULT_RANK = 192
"""The paper's rank for 512-d encoders, taken when none is asked for; half the dimensions, or what the data supports, if less."""
_RELATIVE = 1e-6  # singular values below this share of the largest are rounding of float32 input


@dataclass(frozen=True, kw_only=True, eq=False)
class Directions:
    """Ranked directions of identity, with the provenance of the fit.

    Attributes
    ----------
    method : str
        Name of the eraser: ``isp``, ``isp-fisher``, ``isp-ratio``, ``sal`` or ``leace``.
    reads : (d, q) float64
        What is read from a vector. Orthonormal when `lifts` is None.
    lifts : (d, q) float64 or None
        What is subtracted per unit read; None means the same as `reads`, an orthogonal projection.
    mean : (d,) float64 or None
        Point that an affine map leaves where it is.
    spectrum : (s,) float64
        Values that rank the directions, with those too small to use.
    complete : bool
        The method's own rank is all q directions (LEACE); a smaller rank gives its guarantee up.
    settings : mapping
        What else shaped the fit (a shrinkage weight, for example), in JSON types.
    """

    method: str
    reads: NDArray[np.float64]
    lifts: NDArray[np.float64] | None = None
    mean: NDArray[np.float64] | None = None
    spectrum: NDArray[np.float64]
    complete: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    fit_identities: int = 0
    fit_images: int = 0
    fit_people: str = ""
    fit_digest: str = ""

    @classmethod
    def of(
        cls,
        moments: IdentityMoments,
        reads: NDArray[np.float64],
        *,
        method: str,
        spectrum: NDArray[np.float64],
        scatter: bool = False,
        **rest: Any,
    ) -> Directions:
        """Build with the provenance of the moments; `scatter` says whether the fit used more than their means."""
        return cls(
            reads=reads,
            method=method,
            spectrum=spectrum,
            fit_identities=int(moments.counts().size),
            fit_images=moments.rows_,
            fit_people=people_digest(moments),
            fit_digest=moments_digest(moments, scatter=scatter),
            **rest,
        )

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return int(self.reads.shape[0])

    @property
    def usable(self) -> int:
        """Number of directions, q."""
        return int(self.reads.shape[1])

    @property
    def most(self) -> int:
        """Largest rank that leaves something: q, and at most d - 1."""
        return min(self.usable, self.dim - 1)

    def check(self, rank: int) -> None:
        """Raise `RankError` when `rank` is below one or more than the data supports."""
        check_rank(rank, self.usable, self.dim, identities=self.fit_identities)

    def settle(self, rank: int | None) -> tuple[int, str]:
        """Return the rank to use and a note that says where it comes from.

        Without a rank, LEACE takes all its directions, and the others take `DEFAULT_RANK` or half the dimensions, if
        the data supports that many. Where all directions are all dimensions, LEACE too takes the default: the note
        says that its guarantee is gone.

        Raises
        ------
        RankError
            A rank was asked for that the data does not support, or it supports none.
        """
        if rank is not None:
            self.check(rank)
            return rank, f"rank {rank} as asked for"
        self.check(1)
        if self.complete and self.usable < self.dim:
            return self.usable, f"rank {self.usable}: all directions in which the means of {self._who} differ"
        default = default_rank(self.dim)
        if self.most < default:
            return self.most, f"rank {self.most}: capped from the default {default}, {self._who} support no more"
        note = f"rank {default} by default"
        if self.complete:
            note += (
                f": the means of {self._who} span all {self.dim} dimensions, so full LEACE would erase everything; "
                "a truncated one makes no guarantee"
            )
        return default, note

    def projector(
        self,
        rank: int,
        *,
        encoder: Fingerprint | None = None,
        synthetic: bool = False,
        choice: RankChoice | None = None,
    ) -> Projector:
        """Cut at a rank.

        Raises
        ------
        RankError
            The rank is larger than the data supports.
        """
        self.check(rank)
        basis, lift = self.reads[:, :rank], None
        if self.lifts is not None:
            with one_thread(self.dim):
                basis, _ = linalg.qr(basis, mode="economic")
                kernel, _ = linalg.qr(self.lifts[:, :rank], mode="economic")
                # Same kernel and range as L R^T, biorthogonal to rounding: solved between two orthonormal bases.
                lift = linalg.solve((basis.T @ kernel).T, kernel.T).T
        return Projector.of(
            basis,
            lift=lift,
            mean=self.mean,
            method=self.method,
            spectrum=self.spectrum,
            choice=choice or RankChoice(rule="given"),
            encoder=encoder,
            synthetic=synthetic,
            settings=self.settings,
            fit_identities=self.fit_identities,
            fit_images=self.fit_images,
            fit_people=self.fit_people,
            fit_digest=self.fit_digest,
        )

    @property
    def _who(self) -> str:
        return f"{self.fit_identities} identities"


def default_rank(dim: int) -> int:
    """Return the rank taken when none is asked for: in few dimensions the paper's rank would leave little."""
    return min(DEFAULT_RANK, max(1, dim // 2))


def check_rank(rank: int, usable: int, dim: int, *, identities: int) -> None:
    """Raise `RankError` when `rank` is below one or more than the data supports, saying the most it supports."""
    most = min(usable, dim - 1)
    if rank < 1 <= most:
        raise RankError(f"the rank is the number of dimensions to remove: 1 to {most} here, got {rank}")
    if rank > most:
        raise RankError(
            f"rank {rank} is too large: {identities} identities in {dim} dimensions support at most rank {most}; "
            f"use rank {most} or fit on more identities"
        )


def left_vectors(M: NDArray[np.float64], most: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the left singular vectors of M (d, m) worth having, (d, q) with q <= most, and all singular values.

    The tolerance is relative to the largest singular value, so that it means the same for two identities and for a
    million. Signs are fixed.
    """
    with one_thread(M.shape[0]):
        # The d x d Gram matrix is faster than an SVD once there are many identities; in float64 it is as exact as needed.
        if M.shape[1] > 2 * M.shape[0]:
            eigenvalues, vectors = linalg.eigh(M @ M.T)
            spectrum = np.sqrt(np.clip(eigenvalues[::-1], 0, None))
            left = vectors[:, ::-1]
            tolerance = max(_RELATIVE, np.sqrt(np.finfo(np.float64).eps * M.shape[0]))
        else:
            left, spectrum, _ = linalg.svd(M, full_matrices=False)
            tolerance = _RELATIVE
    usable = min(int((spectrum > tolerance * spectrum[0]).sum()), most) if spectrum[0] > 0 else 0
    return svd_flip(left[:, :usable]), spectrum


def svd_flip(basis: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fix the signs of columns: the entry of largest magnitude is positive, so that a fit gives the same bytes."""
    largest = np.abs(basis).argmax(axis=0)
    signs = np.sign(basis[largest, np.arange(basis.shape[1])])
    result: NDArray[np.float64] = basis * np.where(signs == 0, 1.0, signs)
    return result
