"""ISP with a sense of noise: directions in which people differ much *compared with photographs of one person*.

ISP ranks directions by how far apart the means of identities lie. Where photographs of one person scatter widely, means
scatter too, and a leading direction may say little about who it is. Both erasers here rank by signal to noise, with
the within-person covariance S_w shrunk towards a sphere:

- `FisherISP` takes the left singular vectors U of ``S_w^-1/2 M`` (the whitened form of arXiv 2604.05296), maps them back by
  ``S_w^1/2``, and orthonormalises in order. Mapped so they span differences of means, which is what a projection must
  remove: the discriminants ``S_w^-1/2 U`` are what a classifier would read *before* the removal, and leave the means apart.
- `RatioISP` keeps ISP's directions and changes their order, by variance between over variance within.

With all directions both remove what ISP removes; they differ at smaller ranks only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from faceblind._errors import DataError
from faceblind.erase.base import MomentEraser, mean_differences
from faceblind.erase.directions import Directions, left_vectors, svd_flip
from faceblind.erase.moments import IdentityMoments
from faceblind.erase.scatter import Shrinkage, Whitening, check_shrinkage, shrinkage_weight, shrunk

Matrix = NDArray[np.float64]
_NOTHING = 1e-12  # variance of unit vectors below this is rounding
_LEAST = 1e-6
"""Weight of the sphere that is always there: with few images S_w has no inverse of its own."""


class _WithinEraser(MomentEraser):
    """Base of erasers that use the within-person covariance.

    Parameters
    ----------
    rank : int, optional
        Dimensions to remove.
    shrinkage : "auto", float or None
        Weight of the sphere in the within-person covariance: estimated, or from 0 to 1 (1e-6 at least in any case).
    """

    scatter = True

    def __init__(self, rank: int | None = None, *, shrinkage: Shrinkage = "auto") -> None:
        super().__init__(rank)
        check_shrinkage(shrinkage)
        self.shrinkage = shrinkage

    @classmethod
    def directions(cls, moments: IdentityMoments, *, shrinkage: Shrinkage = "auto") -> Directions:
        """Rank the directions; the spectrum is what ranks them."""
        M = mean_differences(moments)
        within = moments.within_covariance()
        if np.trace(within) < _NOTHING:
            raise DataError(
                "all photographs of each person are one and the same vector: there is no noise to compare with; "
                "use ISP or SAL, or look for copies in the table"
            )
        weight = max(_LEAST, shrinkage_weight(within, moments.rows_ - M.shape[1], shrinkage))
        reads, spectrum = cls._rank(M, shrunk(within, weight))
        return Directions.of(
            moments, reads, method=cls.method, spectrum=spectrum, scatter=True, settings={"shrinkage": weight}
        )

    @classmethod
    def _rank(cls, M: Matrix, within: Matrix) -> tuple[Matrix, Matrix]:
        raise NotImplementedError

    def _directions(self, moments: IdentityMoments) -> Directions:
        return self.directions(moments, shrinkage=self.shrinkage)


class FisherISP(_WithinEraser):
    """ISP in Fisher form; the spectrum is the singular values of the whitened M."""

    method = "isp-fisher"

    @classmethod
    def _rank(cls, M: Matrix, within: Matrix) -> tuple[Matrix, Matrix]:
        white = Whitening.of(within)
        left, spectrum = left_vectors(white.down @ M, M.shape[1] - 1)
        reads, _ = linalg.qr(white.up @ left, mode="economic")
        return svd_flip(reads), spectrum


class RatioISP(_WithinEraser):
    """ISP's directions by falling ratio of variance between people to variance within; the spectrum is these ratios."""

    method = "isp-ratio"

    @classmethod
    def _rank(cls, M: Matrix, within: Matrix) -> tuple[Matrix, Matrix]:
        left, values = left_vectors(M, M.shape[1] - 1)
        ratio = values[: left.shape[1]] ** 2 / M.shape[1] / np.einsum("ij,ij->j", left, within @ left)
        order = np.argsort(-ratio, kind="stable")
        return np.ascontiguousarray(left[:, order]), ratio[order]
