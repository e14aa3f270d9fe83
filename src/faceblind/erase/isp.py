"""ISP, the Identity Sanitization Projection: remove the span of the leading differences of identity means.

With unit embeddings z, identity means mu_i and their unweighted mean mu_C, the matrix M has columns mu_i - mu_C. Its
leading r left singular vectors U_r span what is removed: ``P = I - U_r U_r^T``, and a vector becomes Pz / ||Pz||
(arXiv 2604.05296, the mean-only form). What the method guarantees is linear and concerns the means of the identities
it was fitted on; what remains for other people is an empirical question, and the reason the audit exists.
"""

from __future__ import annotations

import hashlib
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from faceblind._errors import DataError, RankError
from faceblind.data.meta import Fingerprint
from faceblind.erase.base import LinearEraser, svd_flip
from faceblind.erase.moments import IdentityMoments
from faceblind.erase.projector import Projector
from faceblind.erase.rank import RankChoice

DEFAULT_RANK = 192
"""The paper's rank for 512-d encoders, taken when none is asked for; half the dimensions, or what the data supports, if less."""
_RELATIVE = 1e-6  # singular values below this share of the largest are rounding of float32 input


class ISP(LinearEraser):
    """Identity Sanitization Projection, mean-only form.

    Parameters
    ----------
    rank : int
        Dimensions to remove, at most ``min(d, m - 1)`` for m identities (less when their means are dependent).

    Attributes
    ----------
    projector_ : Projector
        The fitted map, with the whole spectrum of M.
    """

    method = "isp"

    def fit(self, X: ArrayLike, identity: ArrayLike) -> Self:
        """Fit on (n, d) vectors and their identities; rows are normalised, identities weigh the same.

        Raises
        ------
        RankError
            The rank is larger than the data supports; the message says the most it supports.
        DataError
            Fewer than two identities, a non-finite or zero row, or one image per identity (then M holds image noise
            and the method is PCA under another name).
        """
        return self.fit_moments(IdentityMoments().partial_fit(X, identity))

    def fit_moments(
        self, moments: IdentityMoments, *, encoder: Fingerprint | None = None, synthetic: bool = False
    ) -> Self:
        """Fit from per-identity sums, however they were collected."""
        basis, spectrum = identity_directions(moments)
        self.projector_ = projector_of(
            basis, spectrum, self.rank, moments, method=self.method, encoder=encoder, synthetic=synthetic
        )
        return self


def identity_directions(moments: IdentityMoments) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return all left singular vectors of M worth having, (d, q), and the singular values, (min(d, m),).

    One factorisation serves every rank: the projector of rank r is the first r columns.

    Raises
    ------
    DataError
        Fewer than two identities, or no identity with two images.
    """
    counts = moments.counts()
    if counts.size < 2:
        raise DataError(f"identity directions need at least two identities, got {counts.size}")
    if counts.max() < 2:
        raise DataError(
            f"all {counts.size} identities have a single image: their means are image noise and ISP would be PCA; "
            "fit on people with several photographs each"
        )
    means = moments.means()
    M = (means - means.mean(axis=0)).T
    # The d x d Gram matrix is faster than an SVD once there are many identities; in float64 it is as exact as needed.
    if M.shape[1] > 2 * M.shape[0]:
        eigenvalues, vectors = linalg.eigh(M @ M.T)
        spectrum = np.sqrt(np.clip(eigenvalues[::-1], 0, None))
        left = vectors[:, ::-1]
        tolerance = max(_RELATIVE, np.sqrt(np.finfo(np.float64).eps * M.shape[0]))
    else:
        left, spectrum, _ = linalg.svd(M, full_matrices=False)
        tolerance = _RELATIVE
    usable = min(int((spectrum > tolerance * spectrum[0]).sum()), counts.size - 1) if spectrum[0] > 0 else 0
    if usable == 0:
        raise DataError("all identities have the same mean vector: there is nothing to remove")
    return svd_flip(left[:, :usable]), spectrum


def projector_of(
    basis: NDArray[np.float64],
    spectrum: NDArray[np.float64],
    rank: int,
    moments: IdentityMoments,
    *,
    method: str = "isp",
    encoder: Fingerprint | None = None,
    synthetic: bool = False,
    choice: RankChoice | None = None,
) -> Projector:
    """Cut `identity_directions` at a rank and wrap the result with its provenance.

    Raises
    ------
    RankError
        The rank is larger than the data supports.
    """
    dim, usable = basis.shape
    check_rank(rank, usable, dim, identities=moments.counts().size)
    return Projector.of(
        basis[:, :rank],
        method=method,
        spectrum=spectrum,
        choice=choice or RankChoice(rule="given"),
        encoder=encoder,
        synthetic=synthetic,
        fit_identities=int(moments.counts().size),
        fit_images=moments.rows_,
        fit_people=people_digest(moments),
        fit_digest=moments_digest(moments),
    )


def most_rank(basis: NDArray[np.float64]) -> int:
    """Return the largest rank that directions from `identity_directions`, (d, q), allow: something must be left."""
    dim, usable = basis.shape
    return int(min(usable, dim - 1))


def settle_rank(rank: int | None, basis: NDArray[np.float64], *, identities: int) -> tuple[int, str]:
    """Return the rank to use and a note that says where it comes from.

    Raises
    ------
    RankError
        A rank was asked for that the data does not support.
    """
    most = most_rank(basis)
    if rank is not None:
        check_rank(rank, basis.shape[1], basis.shape[0], identities=identities)
        return rank, f"rank {rank} as asked for"
    check_rank(1, basis.shape[1], basis.shape[0], identities=identities)
    default = min(DEFAULT_RANK, max(1, basis.shape[0] // 2))  # in few dimensions the paper's rank would leave little
    if most >= default:
        return default, f"rank {default} by default"
    return most, f"rank {most}: capped from the default {default}, {identities} identities support no more"


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


def moments_digest(moments: IdentityMoments) -> str:
    """Digest of what was fitted on: people, and their means (rounded, so that summing order does not matter)."""
    means = np.round(moments.means(), 6).astype("<f4") + np.float32(0)  # no negative zeros
    return hashlib.sha256(people_digest(moments).encode() + means.tobytes()).hexdigest()


def people_digest(moments: IdentityMoments) -> str:
    """Digest of who was fitted on, with how many images each."""
    lines = (f"{name}\t{count}" for name, count in zip(moments.identities_, moments.counts(), strict=True))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
