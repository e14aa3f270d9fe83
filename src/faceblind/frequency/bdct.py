"""The block DCT of DCTDP: enlarge, split into planes, cut into blocks, transform, drop DC.

Source: "Privacy-Preserving Face Recognition with Learnable Privacy Budgets in Frequency Domain" (ECCV 2022). A face of
H x W pixels becomes ``3 * 63`` coefficients at each of H x W places with the paper's x8 enlargement and 8 x 8 blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.frequency.bands import bands, dct_matrix, resampling
from faceblind.frequency.planes import PLANES, to_images, to_planes
from faceblind.frequency.separable import separable


def bdct_direct(images: NDArray[Any], *, block: int = 8, up: int = 8, keep_dc: bool = False) -> NDArray[np.float64]:
    """Transform images step by step, through the enlarged image: the reference that `bdct` is tested against.

    Parameters
    ----------
    images : (b, H, W, 3)
        RGB in 0..255.
    block, up : int
        Side of the blocks; how many times each side is enlarged.
    keep_dc : bool
        Keep the mean of every block.

    Returns
    -------
    (b, C, H * up / block, W * up / block) float64
        Channels are ordered by plane (Y, Cb, Cr), then by frequency row-major (vertical first), without index 0 of each
        plane unless `keep_dc`.

    Raises
    ------
    DataError
        Images of another shape, not finite, or not a whole number of blocks.
    """
    planes = to_planes(images)
    count, _, height, width = planes.shape
    m, n = bands(height, block, up).blocks, bands(width, block, up).blocks
    large = resampling(height, height * up) @ planes @ resampling(width, width * up).T
    cut = large.reshape(count, 3, m, block, n, block)
    dct = dct_matrix(block)
    coefficients = np.einsum("ux,vy,bpmxny->bpuvmn", dct, dct, cut, optimize=True)
    return _without_dc(coefficients.reshape(count, 3, block * block, m, n), keep_dc)


def bdct(images: NDArray[Any], *, block: int = 8, up: int = 8, keep_dc: bool = False) -> NDArray[np.float64]:
    """Transform images without making the enlarged one; arguments, result and errors as in `bdct_direct`."""
    planes = to_planes(images)
    count, _, height, width = planes.shape
    found = separable((height, width), block, up, keep_dc)(planes.reshape(-1, height, width))
    return found.reshape(count, -1, *found.shape[2:])


def inverse_bdct(
    coefficients: NDArray[Any],
    size: tuple[int, int],
    *,
    block: int = 8,
    up: int = 8,
    dc: NDArray[Any] | None = None,
    clip: bool = True,
) -> NDArray[np.float64]:
    """Go back to images: inverse DCT of every block, RGB, and bilinear reduction with the ends aligned.

    Parameters
    ----------
    coefficients : (b, C, m, n)
        With or without DC; which of the two is read off C.
    size : (H, W)
        Of the images.
    dc : (b, 3, m, n), optional
        The means of the blocks, where `coefficients` lacks them: zero by default, or those of another face (`dc_of`).
    clip : bool
        Clip to 0..255.

    Returns
    -------
    (b, H, W, 3) float64

    Raises
    ------
    DataError
        Shapes that do not go together.
    """
    values = np.asarray(coefficients, dtype=np.float64)
    rows, columns = bands(size[0], block, up), bands(size[1], block, up)
    check_coefficients(values.shape, (rows.blocks, columns.blocks), block)
    count, per = values.shape[0], block * block
    full = np.zeros((count, 3, per, rows.blocks, columns.blocks))
    if values.shape[1] == 3 * per:
        full[:] = values.reshape(full.shape)
    else:
        full[:, :, 1:] = values.reshape(count, 3, per - 1, rows.blocks, columns.blocks)
    if dc is not None:
        if np.shape(dc) != (count, 3, rows.blocks, columns.blocks):
            raise DataError(f"dc must be {(count, 3, rows.blocks, columns.blocks)}, got {np.shape(dc)}")
        full[:, :, 0] = dc
    grid = full.reshape(count, 3, block, block, rows.blocks, columns.blocks)
    images = to_images(np.einsum("hum,bpuvmn,wvn->bphw", rows.back, grid, columns.back, optimize=True))
    return np.clip(images, 0, 255) if clip else images


def dc_of(images: NDArray[Any], *, block: int = 8, up: int = 8) -> NDArray[np.float64]:
    """Return the means that `bdct` drops, (b, 3, m, n), in the scale of the coefficients: a guess at another face's."""
    planes = to_planes(images)
    rows, columns = bands(planes.shape[2], block, up), bands(planes.shape[3], block, up)
    found: NDArray[np.float64] = rows.matrix[0] @ planes @ columns.matrix[0].T
    return found


def channel_names(block: int = 8, *, keep_dc: bool = False) -> tuple[str, ...]:
    """Name the channels in order: ``Y(0,1)`` is the lowest horizontal frequency of luma."""
    cells = [(u, v) for u in range(block) for v in range(block) if keep_dc or u or v]
    return tuple(f"{plane}({u},{v})" for plane in PLANES for u, v in cells)


def flip_signs(channels: int, block: int = 8) -> NDArray[np.float64]:
    """Return what mirroring left to right multiplies each channel by: odd horizontal frequencies change sign."""
    per = channels // len(PLANES)
    v = np.arange(block * block - per, block * block) % block
    return np.tile(np.where(v % 2, -1.0, 1.0), len(PLANES))


def flip_coefficients(coefficients: NDArray[Any], *, block: int = 8) -> NDArray[np.float64]:
    """Return the coefficients of images mirrored left to right, from theirs.

    Blocks change places along each row and odd horizontal frequencies change sign. A server can so take the mean over
    both sides of a face from one release, where a second one would spend the budget again.

    Parameters
    ----------
    coefficients : (b, C, m, n)
        With or without DC.

    Raises
    ------
    DataError
        Another number of channels.
    """
    values = np.asarray(coefficients, dtype=np.float64)
    check_coefficients(values.shape, (values.shape[-2], values.shape[-1]) if values.ndim == 4 else (0, 0), block)
    return values[..., ::-1] * flip_signs(values.shape[1], block)[:, None, None]


def check_coefficients(shape: tuple[int, ...], blocks: tuple[int, int], block: int) -> None:
    """Raise `DataError` unless a shape is that of coefficients with or without DC."""
    per = block * block
    if len(shape) != 4 or shape[1] not in (3 * per, 3 * (per - 1)) or tuple(shape[2:]) != blocks:
        raise DataError(
            f"coefficients must be (images, {3 * (per - 1)} or {3 * per}, {blocks[0]}, {blocks[1]}), got {tuple(shape)}"
        )


def _without_dc(coefficients: NDArray[np.float64], keep_dc: bool) -> NDArray[np.float64]:
    kept = coefficients if keep_dc else coefficients[:, :, 1:]
    return kept.reshape(kept.shape[0], -1, *kept.shape[3:])
