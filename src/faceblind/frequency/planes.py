"""JFIF full-range YCbCr, shifted so that middle grey is zero.

The planes are luma and the two colour differences of JPEG, 128 taken off all three, as block transforms expect.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError

PLANES = ("Y", "Cb", "Cr")
SHIFT = 128.0
FROM_RGB: NDArray[np.float64] = np.array(
    [
        [0.299, 0.587, 0.114],
        [-0.299 / 1.772, -0.587 / 1.772, 0.5],
        [0.5, -0.587 / 1.402, -0.114 / 1.402],
    ]
)
"""Rows give Y, Cb, Cr from R, G, B (ITU-T T.871)."""
TO_RGB: NDArray[np.float64] = np.array(
    [
        [1.0, 0.0, 1.402],
        [1.0, -0.114 * 1.772 / 0.587, -0.299 * 1.402 / 0.587],
        [1.0, 1.772, 0.0],
    ]
)
"""The inverse of `FROM_RGB`, in closed form."""
OFFSET: NDArray[np.float64] = np.array([SHIFT, 0.0, 0.0])
"""What is taken off the planes: chroma is centred already, so that 128 comes off luma alone."""


def to_planes(images: NDArray[np.generic]) -> NDArray[np.float64]:
    """Turn RGB images (b, H, W, 3) in 0..255 into planes (b, 3, H, W) around zero.

    Raises
    ------
    DataError
        Another shape, or values that are not finite.
    """
    rgb = np.asarray(images, dtype=np.float64)
    if rgb.ndim != 4 or rgb.shape[3] != 3 or 0 in rgb.shape[1:]:
        raise DataError(f"images must be RGB of shape (images, height, width, 3), got {rgb.shape}")
    if not np.isfinite(rgb).all():
        raise DataError("images hold values that are not finite; RGB in 0..255 is expected")
    planes: NDArray[np.float64] = np.einsum("pc,bhwc->bphw", FROM_RGB, rgb)
    return planes - OFFSET[:, None, None]


def to_images(planes: NDArray[np.floating]) -> NDArray[np.float64]:
    """Turn planes (b, 3, H, W) around zero into RGB images (b, H, W, 3), not clipped."""
    shifted = np.asarray(planes, dtype=np.float64) + OFFSET[:, None, None]
    images: NDArray[np.float64] = np.einsum("cp,bphw->bhwc", TO_RGB, shifted)
    return images
