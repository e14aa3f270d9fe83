"""The algebra of a low-rank projection ``P = I - L U^T`` with U^T L = I, optionally about a mean.

U (d, r) is orthonormal: what is read. L (d, r) is what is subtracted per unit read. U^T P = 0, so the range of P is the
orthogonal complement of U, with orthonormal basis V (d, d - r), and ``V^T P = C^T`` with ``C = V - U (L^T V)`` has all that is
left in d - r numbers. Nothing here is ever d x d but V, and that only in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from faceblind._errors import ProjectorError

_OFF = 1e-6  # how far from exact an identity between stored factors may be


@dataclass(frozen=True, eq=False)
class Pair:
    """Factors of a projection and what follows from them. `of` validates."""

    basis: NDArray[np.float64]
    lift: NDArray[np.float64] | None
    mean: NDArray[np.float64] | None

    @classmethod
    def of(cls, basis: ArrayLike, lift: ArrayLike | None, mean: ArrayLike | None) -> Pair:
        """Copy, check and freeze.

        Raises
        ------
        ProjectorError
            Wrong shape, not finite, a basis that is not orthonormal, or a lift that does not go with it.
        """
        U = np.array(basis, dtype=np.float64, order="C")
        if U.ndim != 2 or not 0 < U.shape[1] < U.shape[0]:
            raise ProjectorError(f"a basis is (d, r) with 0 < r < d, got shape {U.shape}")
        _check_finite(U, "basis")
        off = float(np.abs(U.T @ U - np.eye(U.shape[1])).max())
        if off > _OFF:
            raise ProjectorError(f"the columns of the basis are not orthonormal (off by {off:.1e})")
        L = None if lift is None else np.array(lift, dtype=np.float64, order="C")
        if L is not None:
            if L.shape != U.shape:
                raise ProjectorError(f"basis and lift have one shape, got {U.shape} and {L.shape}")
            _check_finite(L, "lift")
            off = float(np.abs(U.T @ L - np.eye(U.shape[1])).max())
            if off > _OFF * max(1.0, float(np.abs(L).max())):
                raise ProjectorError(
                    f"basis and lift do not belong together: their product is not the identity (off by {off:.1e})"
                )
        m = None if mean is None else np.array(mean, dtype=np.float64)
        if m is not None:
            if m.shape != U.shape[:1]:
                raise ProjectorError(
                    f"the mean of vectors of {U.shape[0]} features has shape {U.shape[:1]}, got {m.shape}"
                )
            _check_finite(m, "mean")
        for array in (U, L, m):
            if array is not None:
                array.setflags(write=False)
        return cls(U, L, m)

    @property
    def compact_dim(self) -> int:
        """Columns of the compact form."""
        return int(self.basis.shape[0] - self.basis.shape[1]) + (self.mean is not None)

    @cached_property
    def complement(self) -> NDArray[np.float64]:
        """V: orthonormal basis of the range, (d, d - r)."""
        q, _ = linalg.qr(self.basis, mode="full")
        result: NDArray[np.float64] = np.ascontiguousarray(q[:, self.basis.shape[1] :])
        return result

    @cached_property
    def gain(self) -> float:
        """Largest factor by which the map lengthens a vector (its spectral norm, that of the lift); 1 when orthogonal."""
        return 1.0 if self.lift is None else max(1.0, float(linalg.norm(self.lift, 2)))

    @cached_property
    def offset(self) -> NDArray[np.float64]:
        """Constant that an affine map adds, ``(I - P) mean``, (d,); zeros for a linear map."""
        if self.mean is None:
            return np.zeros(self.basis.shape[0])
        lift = self.basis if self.lift is None else self.lift
        return np.asarray(lift @ (self.basis.T @ self.mean))

    @cached_property
    def compact_map(self) -> NDArray[np.float64]:
        """C (d, d - r): ``V^T P z = C^T z``."""
        if self.lift is None:
            return self.complement
        return self.complement - self.basis @ (self.lift.T @ self.complement)

    @cached_property
    def compact_offset(self) -> NDArray[np.float64]:
        """What the constant adds to the compact form, with its length outside the range as a last column.

        Every image has the same part outside the range, U U^T mean, so one number stands for it in all dot products.
        """
        return np.append(self.complement.T @ self.offset, linalg.norm(self.basis.T @ self.offset))

    def compact(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compact form of a vector (d,), in float64."""
        inside = np.asarray(rows @ self.compact_map)
        if self.mean is None:
            return inside
        return np.append(inside, 0.0) + self.compact_offset

    def project(self, rows: NDArray[np.float32], out: NDArray[np.float32], formula: str) -> None:
        """Write the images of float32 rows (n, d) by a formula: ``compact``, ``low-rank`` or ``complement``."""
        if formula == "compact":
            inside = out[:, : self.complement.shape[1]]
            np.matmul(rows, self.compact32, out=inside)
            if self.mean is not None:
                inside += self.compact_offset[:-1].astype(np.float32)
                out[:, -1] = self.compact_offset[-1]
            return
        if formula == "low-rank":
            np.matmul(rows @ self.basis32, self.minus_lift32, out=out)
            out += rows
        else:
            np.matmul(rows @ self.compact32, self.complement32.T, out=out)
        if self.mean is not None:
            out += self.offset.astype(np.float32)

    @cached_property
    def basis32(self) -> NDArray[np.float32]:
        """U in float32."""
        return self.basis.astype(np.float32)

    @cached_property
    def minus_lift32(self) -> NDArray[np.float32]:
        """-L^T in float32."""
        lift = self.basis if self.lift is None else self.lift
        return np.ascontiguousarray(-lift.astype(np.float32).T)

    @cached_property
    def complement32(self) -> NDArray[np.float32]:
        """V in float32."""
        return self.complement.astype(np.float32)

    @cached_property
    def compact32(self) -> NDArray[np.float32]:
        """C in float32."""
        return self.complement32 if self.lift is None else self.compact_map.astype(np.float32)


def _check_finite(array: NDArray[np.float64], what: str) -> None:
    if not np.isfinite(array).all():
        raise ProjectorError(f"the {what} holds NaN or infinity")
