"""LEACE, least-squares concept erasure (Belrose et al., NeurIPS 2023, arXiv 2306.03819), for any number of identities.

Of all affine maps after which vectors have no covariance with who is shown, LEACE changes vectors least in the mean
square: ``x -> x - W^+ U U^T W (x - mu)``, with W = (S_xx^1/2)^+ and U the left singular vectors of ``W S_xz``. No linear
classifier can then beat a constant *on the fitted images, before they are scaled to unit length*. At full rank it
removes exactly what ISP and SAL remove; what it keeps lies askew, where the correlation with the removed puts it.

Written from the paper for labels that are names:

- S_xz comes from the sums of identities. There is no one-hot matrix, whose n x m numbers are most of the work
  and the memory for thousands of people.
- Columns of S_xz are divided by ``sqrt(p_i)``, p_i the share of images of identity i. The span is the same, and the
  singular values of ``W S_xz`` become canonical correlations, in [0, 1] for any number of identities. (Those of plain
  one-hot columns fall as ``1/sqrt(m)``: a cut-off at 0.01 then keeps nothing of 10,000 people, and erases nothing.)
- The cut-off is relative to the largest, and everything is float64.

`rank` cuts U to its first columns: LEACE-r, which changes least what is most worth keeping but guarantees nothing.
"""

from __future__ import annotations

import numpy as np

from faceblind._errors import RankError, UsageError
from faceblind.erase.base import MomentEraser, mean_differences
from faceblind.erase.directions import Directions, left_vectors
from faceblind.erase.moments import IdentityMoments
from faceblind.erase.scatter import Shrinkage, Whitening, check_shrinkage, shrinkage_weight, shrunk
from faceblind.erase.threads import one_thread


class LEACE(MomentEraser):
    """Least-squares concept erasure; acts on unit vectors.

    Parameters
    ----------
    rank : int, optional
        Dimensions to remove, those of the largest canonical correlations. All of them when missing, and then an
        error when they are all d: with as many identities as dimensions, full LEACE erases everything.
    shrinkage : "auto", float or None
        Weight of the sphere in S_xx. At full rank it changes what is kept, not what is removed.
    ridge : float
        Adds ``ridge * tr(S_xx)/d`` to the diagonal of S_xx.
    affine : bool
        Keep the mean of the fitted vectors where it is; without, the map is linear, and rows of any length will do.
    """

    method = "leace"
    scatter = True

    def __init__(
        self,
        rank: int | None = None,
        *,
        shrinkage: Shrinkage = "auto",
        ridge: float = 0.0,
        affine: bool = True,
    ) -> None:
        super().__init__(rank)
        check_shrinkage(shrinkage)
        if not 0 <= ridge < np.inf:
            raise UsageError(f"ridge is a share of the mean variance: 0 or more, got {ridge!r}")
        self.shrinkage = shrinkage
        self.ridge = ridge
        self.affine = affine

    @classmethod
    def directions(
        cls, moments: IdentityMoments, *, shrinkage: Shrinkage = "auto", ridge: float = 0.0, affine: bool = True
    ) -> Directions:
        """Rank by canonical correlation with identity, which is the spectrum (of the shrunk covariance)."""
        most = mean_differences(moments).shape[1] - 1
        total = moments.total_covariance()
        weight = shrinkage_weight(total, moments.rows_, shrinkage)
        white = Whitening.of(shrunk(total, weight, ridge))
        cross = moments.cross_covariance() / np.sqrt(moments.counts() / moments.rows_)
        with one_thread(cross.shape[0]):
            whitened = white.down @ cross
        left, spectrum = left_vectors(whitened, most)
        return Directions.of(
            moments,
            white.down.T @ left,
            lifts=white.up @ left,
            mean=moments.mean() if affine else None,
            method=cls.method,
            spectrum=spectrum,
            complete=True,
            scatter=True,
            settings={"shrinkage": weight, "ridge": float(ridge)},
        )

    def _directions(self, moments: IdentityMoments) -> Directions:
        return self.directions(moments, shrinkage=self.shrinkage, ridge=self.ridge, affine=self.affine)

    def _settle(self, directions: Directions) -> tuple[int, str]:
        if self.rank is None and directions.usable == directions.dim:
            raise RankError(
                f"full LEACE would erase everything: the means of {directions.fit_identities} identities span all "
                f"{directions.dim} dimensions; give a rank of at most {directions.most}, or fit on fewer identities"
            )
        return super()._settle(directions)
