"""The block DCT of planes in its separable, sparse form: along the rows, then along the columns, each pixel's few neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from faceblind.frequency.bands import bands


@dataclass(frozen=True, eq=False)
class Separable:
    """Two sparse operators, made once for planes of a size.

    Attributes
    ----------
    across : (block * n, W) sparse
        From a line of pixels to every horizontal frequency of its n blocks.
    down : tuple of (cells * m, block * H) sparse
        For each vertical frequency, from what `across` made, one horizontal frequency over the other, to all of its
        channels in their order.
    shape
        Channels of a plane, rows and columns of blocks.
    """

    across: Any
    down: tuple[Any, ...]
    shape: tuple[int, int, int]

    def __call__(self, planes: NDArray[Any]) -> NDArray[Any]:
        """Send planes (k, H, W) to coefficients (k, C, m, n) of the operators' type."""
        height = planes.shape[1]
        _, m, n = self.shape
        found: NDArray[Any] = np.empty((len(planes), *self.shape), dtype=self.across.dtype)
        # One plane and one vertical frequency at a time: what is in memory beside the result is small, and stays in the cache.
        for plane, out in zip(planes, found, strict=True):
            lines = (self.across @ plane.T).reshape(-1, n, height).swapaxes(1, 2).reshape(-1, n)
            at = 0
            for operator in self.down:
                some = operator.shape[0] // m
                out[at : at + some] = (operator @ lines).reshape(some, m, n)
                at += some
        return found


@lru_cache(maxsize=32)
def separable(
    size: tuple[int, int], block: int = 8, up: int = 8, keep_dc: bool = False, dtype: str = "float64"
) -> Separable:
    """Make the operators for planes of a size; errors as in `bands`."""
    rows, columns = bands(size[0], block, up), bands(size[1], block, up)
    across = sparse.csr_array(columns.matrix.reshape(-1, size[1]), dtype=dtype)
    down = tuple(
        sparse.kron(sparse.eye_array(block), sparse.csr_array(rows.matrix[u]), format="csr").astype(dtype)
        for u in range(block)
    )
    start = 0 if keep_dc else 1
    if start:
        down = (down[0][rows.blocks :], *down[1:])
    return Separable(across, down, (block**2 - start, rows.blocks, columns.blocks))
