"""SAL, spectral attribute removal (Shao, Ziser and Cohen, EACL 2023, arXiv 2203.07893), for identities."""

from __future__ import annotations

from faceblind.erase.base import MomentEraser, mean_differences
from faceblind.erase.directions import Directions, left_vectors
from faceblind.erase.moments import IdentityMoments


class SAL(MomentEraser):
    """Remove the leading left singular vectors of the covariance of vectors with one-hot identities.

    Column i of that covariance is ``n_i/N (mu_i - mu)``: people weigh by their images, where ISP lets them weigh the same.
    With as many images of each person the two are one.

    Parameters
    ----------
    rank : int, optional
        Dimensions to remove.
    """

    method = "sal"

    @classmethod
    def directions(cls, moments: IdentityMoments) -> Directions:
        """Return the left singular vectors; the spectrum is the singular values of the covariance."""
        most = mean_differences(moments).shape[1] - 1
        left, spectrum = left_vectors(moments.cross_covariance(), most)
        return Directions.of(moments, left, method=cls.method, spectrum=spectrum)
