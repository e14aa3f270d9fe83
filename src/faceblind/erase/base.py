"""What every eraser offers, and the shapes that linear erasers share."""

from __future__ import annotations

from typing import ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faceblind._errors import DataError, RankError
from faceblind.data.meta import Fingerprint
from faceblind.erase.directions import Directions, svd_flip
from faceblind.erase.moments import IdentityMoments
from faceblind.erase.projector import Projector
from faceblind.erase.rank import RankChoice

__all__ = ["Eraser", "LinearEraser", "MomentEraser", "mean_differences", "svd_flip"]

_NOTHING = 1e-12  # differences of unit vectors below this are rounding


@runtime_checkable
class Eraser(Protocol):
    """A map fitted on labelled vectors that removes identity from any vectors of the same encoder."""

    def fit(self, X: ArrayLike, identity: ArrayLike) -> Self:
        """Learn the map from (n, d) vectors and their identities."""
        ...

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Apply the map to (n, d) vectors; rows of the result have unit length."""
        ...


class _Projecting:
    """Erasers whose map is a `Projector`."""

    projector_: Projector

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Apply the fitted map and scale rows to unit length; rows with nothing left become zeros."""
        return self.projector_.apply(X).vectors


class LinearEraser(_Projecting):
    """Base of erasers of a given rank whose map is a projection; `fit` must set `projector_`.

    Parameters
    ----------
    rank : int
        Dimensions to remove.
    """

    def __init__(self, rank: int) -> None:
        _check_at_least_one(rank)
        self.rank = rank


class MomentEraser(_Projecting):
    """Base of erasers in closed form: one factorisation of `IdentityMoments` gives the map of every rank.

    Parameters
    ----------
    rank : int, optional
        Dimensions to remove, at most ``min(d - 1, m - 1)`` for m identities (less when their means are dependent). Without
        it, what `Directions.settle` says.

    Attributes
    ----------
    directions_ : Directions
        All ranked directions, of which the map takes the first.
    projector_ : Projector
        The fitted map, with the whole spectrum.
    moments_ : IdentityMoments
        The sums it was fitted from.
    """

    method: ClassVar[str]
    scatter: ClassVar[bool] = False
    """Whether its moments must keep scatter."""
    directions_: Directions
    moments_: IdentityMoments
    _projector: Projector | None = None

    def __init__(self, rank: int | None = None) -> None:
        if rank is not None:
            _check_at_least_one(rank)
        self.rank = rank

    @property
    def projector_(self) -> Projector:  # type: ignore[override]  # made when it is first asked for
        """The fitted map; after `partial_fit` or `merge` it is made anew from all sums so far."""
        if self._projector is None:
            if not hasattr(self, "moments_"):
                raise AttributeError(
                    f"this {type(self).__name__} is not fitted: call fit, or partial_fit on batches, first"
                )
            self.fit_moments(self.moments_)
        return self._projector  # type: ignore[return-value]  # fit_moments has set it

    def fit(self, X: ArrayLike, identity: ArrayLike) -> Self:
        """Fit on (n, d) vectors and their identities; rows are scaled to unit length first.

        Raises
        ------
        RankError
            The rank is larger than the data supports; the message says the most it supports.
        DataError
            Fewer than two identities, a non-finite or zero row, or one image per identity.
        """
        return self.fit_moments(IdentityMoments(scatter=self.scatter).partial_fit(X, identity))

    def partial_fit(self, X: ArrayLike, identity: ArrayLike) -> Self:
        """Add a batch of (b, d) vectors and their identities; batches may come in any order and grouping."""
        if not hasattr(self, "moments_"):
            self.moments_ = IdentityMoments(scatter=self.scatter)
        self.moments_.partial_fit(X, identity)
        self._projector = None
        return self

    def merge(self, other: MomentEraser) -> Self:
        """Add what another eraser of this kind has seen: a fit over shards is the fit over everything."""
        if not hasattr(self, "moments_"):
            self.moments_ = IdentityMoments(scatter=self.scatter)
        self.moments_.merge(other.moments_)
        self._projector = None
        return self

    def fit_moments(
        self, moments: IdentityMoments, *, encoder: Fingerprint | None = None, synthetic: bool = False
    ) -> Self:
        """Fit from sums over images, however they were collected: in batches, or merged over shards."""
        self.moments_ = moments
        self.directions_ = self._directions(moments)
        rank, note = self._settle(self.directions_)
        choice = RankChoice(rule="given", note="" if self.rank is not None else note)
        self._projector = self.directions_.projector(rank, encoder=encoder, synthetic=synthetic, choice=choice)
        return self

    @classmethod
    def directions(cls, moments: IdentityMoments) -> Directions:
        """Rank the directions of identity; they serve every rank.

        Raises
        ------
        DataError
            Fewer than two identities, none with two images, all with the same mean, or no scatter where it is needed.
        """
        raise NotImplementedError

    def _directions(self, moments: IdentityMoments) -> Directions:
        return self.directions(moments)

    def _settle(self, directions: Directions) -> tuple[int, str]:
        return directions.settle(self.rank)


def mean_differences(moments: IdentityMoments) -> NDArray[np.float64]:
    """Return M (d, m): the means of identities less their unweighted mean.

    Raises
    ------
    DataError
        Fewer than two identities, no identity with two images, or all means are the same.
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
    M: NDArray[np.float64] = (means - means.mean(axis=0)).T
    if np.abs(M).max() < _NOTHING:
        raise DataError("all identities have the same mean vector: there is nothing to remove")
    return M


def _check_at_least_one(rank: int) -> None:
    if rank < 1:
        raise RankError(f"the rank is the number of dimensions to remove: at least 1, got {rank}")
