"""What every exported form has to compute, as plain arrays: the formula of a projector and its rule for empty rows.

A target differs in what it can express (a graph, a matrix library, text), not in what is to be done::

    x <- x / |x|                      affine maps only; rows of zeros are empty
    y  = [x +] (x first) [second] [+ offset]
    y <- 0                            where nothing is left: x = 0, |y| < gone_ratio |x|, or |y| <= TOO_SHORT
    y <- y / |y|                      when renormalising

These are the steps of `Projector.apply` in terms of lengths instead of squared lengths, so that float32 does for rows of
any scale once they are divided by their largest entry.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind.erase import Projector
from faceblind.erase.projector import TINY

TOO_SHORT = float(TINY * np.sqrt(np.float64(np.finfo(np.float32).tiny)))
"""About 1.08e-27: a result no longer than this has no direction in float32."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """The formula of a projector for one form of output. Matrices multiply rows from the right.

    Attributes
    ----------
    first : (d, k) float64
    second : (k, out) float64 or None
        None for the compact form, which is one product.
    residual : bool
        Whether the row itself is added: ``x + (x first) second``.
    offset : (out,) float64 or None
        Constant of an affine map.
    unit_first : bool
        Whether rows are scaled to unit length before anything else (affine maps).
    gone_ratio : float
        A row of which a smaller share of its length is left holds nothing but rounding.
    """

    first: NDArray[np.float64]
    second: NDArray[np.float64] | None
    residual: bool
    offset: NDArray[np.float64] | None
    unit_first: bool
    gone_ratio: float
    compact: bool
    renormalise: bool

    @classmethod
    def of(cls, projector: Projector, *, compact: bool = False, renormalise: bool = True) -> Steps:
        """Take the cheapest exact formula, as `Projector.apply` does."""
        pair = projector.pair
        formula = projector.formula(compact=compact)
        affine = projector.mean is not None
        first, second = pair.compact_map, None
        if formula == "compact" and affine:  # the constant column is a zero column and an offset
            first = np.hstack([first, np.zeros((projector.dim, 1))])
        elif formula == "low-rank":
            first, second = pair.basis, -(pair.basis if pair.lift is None else pair.lift).T
        elif formula == "complement":
            second = pair.complement.T
        return cls(
            first=first,
            second=second,
            residual=formula == "low-rank",
            offset=None if not affine else pair.compact_offset if compact else pair.offset,
            unit_first=affine,
            gone_ratio=gone_ratio(projector),
            compact=compact,
            renormalise=renormalise,
        )

    @property
    def dim(self) -> int:
        """Length of what goes in."""
        return int(self.first.shape[0])

    @property
    def output_dim(self) -> int:
        """Length of what comes out."""
        return int((self.first if self.second is None else self.second).shape[1])

    @property
    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """The arrays in float32, as `Projector.apply` multiplies them."""
        found = {"first": self.first, "second": self.second, "offset": self.offset}
        return {name: np.ascontiguousarray(array, np.float32) for name, array in found.items() if array is not None}


def gone_ratio(projector: Projector) -> float:
    """Share of a row's length below which nothing is left but rounding; an oblique map magnifies rounding by its gain."""
    rounding = float(np.finfo(np.float32).eps) * float(np.sqrt(max(projector.dim, 8))) * projector.pair.gain
    return max(TINY, rounding)
