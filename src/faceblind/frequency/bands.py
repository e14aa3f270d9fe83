"""One axis of the block DCT of an enlarged image, as a sparse operator on the small one.

Enlarging an axis bilinearly, cutting it into blocks and taking the DCT of each are all linear. Together they send the n
pixels of an axis to ``n * up / block`` blocks of `block` frequencies, and each of these reads only a few neighbouring
pixels. The enlarged image is never made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError


def dct_matrix(block: int) -> NDArray[np.float64]:
    """Return the orthonormal DCT-II, (block, block): rows are frequencies."""
    k, x = np.arange(block)[:, None], np.arange(block)[None, :]
    matrix: NDArray[np.float64] = np.sqrt(2 / block) * np.cos(np.pi * (2 * x + 1) * k / (2 * block))
    matrix[0] = np.sqrt(1 / block)
    return matrix


def resampling(n: int, m: int) -> NDArray[np.float64]:
    """Return the bilinear map from n samples to m with the ends aligned (``align_corners=True``), (m, n)."""
    at = np.arange(m) * ((n - 1) / (m - 1)) if m > 1 else np.zeros(1)
    low = np.minimum(np.floor(at).astype(np.intp), n - 1)
    matrix = np.zeros((m, n))
    matrix[np.arange(m), low] = 1 - (at - low)
    matrix[np.arange(m), np.minimum(low + 1, n - 1)] += at - low
    return matrix


@dataclass(frozen=True, eq=False)
class Bands:
    """The operator of one axis.

    Attributes
    ----------
    matrix : (block, m, n) float64
        ``matrix[k] @ x`` is frequency k of every block along an axis x of n pixels.
    index : (m, s) intp
        The s neighbouring pixels that a block reads.
    weight : (block, m, s) float64
        How they enter each frequency: ``matrix`` without its zeros.
    back : (n, block, m) float64
        From blocks to pixels: inverse DCT, then bilinear reduction with the ends aligned. Undoes `matrix` up to the
        blur of enlarging and reducing.
    """

    matrix: NDArray[np.float64]
    index: NDArray[np.intp]
    weight: NDArray[np.float64]
    back: NDArray[np.float64]

    @property
    def blocks(self) -> int:
        """Blocks along the axis."""
        return int(self.matrix.shape[1])


@lru_cache(maxsize=32)
def bands(n: int, block: int = 8, up: int = 8) -> Bands:
    """Make the operator for an axis of n pixels.

    Raises
    ------
    DataError
        The enlarged axis is not a whole number of blocks.
    """
    if min(n, block, up) < 1:
        raise DataError(f"size, block and up must be at least 1, got {n}, {block} and {up}")
    if n * up % block:
        raise DataError(
            f"{n} pixels enlarged {up} times are {n * up}, which blocks of {block} do not divide; change the size, up or block"
        )
    m, dct = n * up // block, dct_matrix(block)
    enlarged = resampling(n, n * up).reshape(m, block, n)
    matrix = np.einsum("kx,mxn->kmn", dct, enlarged)
    touched = (enlarged != 0).max(axis=1)
    first = touched.argmax(axis=1)
    span = int((n - touched[:, ::-1].argmax(axis=1) - first).max())
    index = np.minimum(first, n - span)[:, None] + np.arange(span)
    weight = np.take_along_axis(matrix, np.broadcast_to(index, (block, m, span)), axis=2)
    back = np.einsum("nmx,kx->nkm", resampling(n * up, n).reshape(n, m, block), dct)
    found = Bands(matrix, index, weight, back)
    for array in (matrix, index, weight, back):
        array.setflags(write=False)
    return found
