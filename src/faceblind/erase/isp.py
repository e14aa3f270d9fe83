"""ISP, the Identity Sanitization Projection: remove the span of the leading differences of identity means.

With unit embeddings z, identity means mu_i and their unweighted mean mu_C, the matrix M has columns mu_i - mu_C. Its
leading r left singular vectors U_r span what is removed: ``P = I - U_r U_r^T``, and a vector becomes Pz / ||Pz||
(arXiv 2604.05296, the mean-only form). What the method guarantees is linear and concerns the means of the identities
it was fitted on; what remains for other people is an empirical question, and the reason the audit exists.
"""

from __future__ import annotations

from faceblind.erase.base import MomentEraser, mean_differences
from faceblind.erase.directions import Directions, left_vectors
from faceblind.erase.moments import IdentityMoments


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
        """Return the left singular vectors of M; the spectrum is its singular values.

        One factorisation serves every rank: the projector of rank r removes the first r.

        Raises
        ------
        DataError
            Fewer than two identities, no identity with two images, or all means are the same.
        """
        M = mean_differences(moments)
        left, spectrum = left_vectors(M, M.shape[1] - 1)
        return Directions.of(moments, left, method=cls.method, spectrum=spectrum)
