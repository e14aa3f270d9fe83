"""ISP, the Identity Sanitization Projection: remove the span of the leading differences of identity means.

With unit embeddings z, identity means mu_i and their unweighted mean mu_C, the matrix M has columns mu_i - mu_C. Its
leading r left singular vectors U_r span what is removed: ``P = I - U_r U_r^T``, and a vector becomes Pz / ||Pz||
(arXiv 2604.05296, the mean-only form). What the method guarantees is linear and concerns the means of the identities
it was fitted on; what remains for other people is an empirical question, and the reason the audit exists.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from faceblind.data.meta import Fingerprint
from faceblind.erase.base import MomentEraser, mean_differences
from faceblind.erase.directions import DEFAULT_RANK, Directions, check_rank, left_vectors
from faceblind.erase.moments import IdentityMoments, moments_digest, people_digest
from faceblind.erase.projector import Projector
from faceblind.erase.rank import RankChoice

__all__ = [
    "DEFAULT_RANK",
    "ISP",
    "check_rank",
    "identity_directions",
    "moments_digest",
    "most_rank",
    "people_digest",
    "projector_of",
    "settle_rank",
]


class ISP(MomentEraser):
    """Identity Sanitization Projection, mean-only form; identities weigh the same.

    Parameters
    ----------
    rank : int, optional
        Dimensions to remove, at most ``min(d - 1, m - 1)`` for m identities (less when their means are dependent).

    Attributes
    ----------
    projector_ : Projector
        The fitted map, with the whole spectrum of M.
    """

    method = "isp"

    @classmethod
    def directions(cls, moments: IdentityMoments) -> Directions:
        """Return the left singular vectors of M; the spectrum is its singular values."""
        left, spectrum = identity_directions(moments)
        return Directions.of(moments, left, method=cls.method, spectrum=spectrum)


def identity_directions(moments: IdentityMoments) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return all left singular vectors of M worth having, (d, q), and the singular values, (min(d, m),).

    One factorisation serves every rank: the projector of rank r is the first r columns.

    Raises
    ------
    DataError
        Fewer than two identities, no identity with two images, or all means are the same.
    """
    M = mean_differences(moments)
    return left_vectors(M, M.shape[1] - 1)


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
    found = Directions.of(moments, basis, method=method, spectrum=spectrum)
    return found.projector(rank, encoder=encoder, synthetic=synthetic, choice=choice)


def most_rank(basis: NDArray[np.float64]) -> int:
    """Return the largest rank that directions from `identity_directions`, (d, q), allow: something must be left."""
    return _bare(basis, 0).most


def settle_rank(rank: int | None, basis: NDArray[np.float64], *, identities: int) -> tuple[int, str]:
    """Return the rank to use and a note that says where it comes from; see `Directions.settle`."""
    return _bare(basis, identities).settle(rank)


def _bare(basis: NDArray[np.float64], identities: int) -> Directions:
    return Directions(method=ISP.method, reads=basis, spectrum=np.zeros(0), fit_identities=identities)
