"""Five points on a face to the upright crop that face recognition networks were trained on.

ArcFace and its kin see 112x112 chips in which eyes, nose and mouth corners lie as near as a similarity transform
(rotation, one scale, shift) can bring them to five fixed places. A chip cut otherwise still gives a vector, only one
that says much less: alignment is part of the encoder.

Points count pixels from the centre of the first one, as the template and the detectors do: the corner of a photograph is
at (-0.5, -0.5).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faceblind._errors import DataError, ImageError, MissingExtraError

CHIP = 112
"""Side of an aligned chip in pixels, the size that `TEMPLATE` is given for."""

TEMPLATE = np.array(
    [[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]]
)
"""(5, 2): where ArcFace puts the eye at image left, the eye at image right, the nose tip and the mouth corners."""
TEMPLATE.setflags(write=False)

POINTS = (
    "eye at image left",
    "eye at image right",
    "nose tip",
    "mouth corner at image left",
    "mouth corner at image right",
)
"""What the five points are, in order. The eye at image left is the person's own right eye."""

INTERPOLATIONS = ("bilinear", "bicubic")

_FLAT = 1e-9  # share of the points' spread below which a direction counts as not there


def similarity(source: ArrayLike, target: ArrayLike, *, reflection: bool = False) -> NDArray[np.float64]:
    """Fit the similarity transform that brings points nearest to their targets, by least squares.

    Parameters
    ----------
    source, target
        (n, 2) points, n >= 2, in the same order.
    reflection
        Allow a mirror image where that fits better. Otherwise the transform only turns, scales and shifts.

    Returns
    -------
    (2, 3) float64
        ``M`` such that ``M @ [x, y, 1]`` is where a source point lands.

    Raises
    ------
    DataError
        Not two equal (n, 2) arrays of finite numbers, or points that fix no transform: they coincide, or there is no
        agreement on which way is up.

    Notes
    -----
    S. Umeyama, Least-squares estimation of transformation parameters between two point patterns, IEEE TPAMI 13(4), 1991.
    """
    x, y = _points(source, "source"), _points(target, "target")
    if x.shape != y.shape:
        raise DataError(f"source has {len(x)} points and target {len(y)}: they must correspond one to one")
    if len(x) < 2:
        raise DataError(f"a similarity transform needs at least 2 points, got {len(x)}")
    x_mean, y_mean = x.mean(axis=0), y.mean(axis=0)
    x_rest, y_rest = x - x_mean, y - y_mean
    spread = float((x_rest**2).sum())
    reach = math.sqrt(spread * float((y_rest**2).sum()))
    U, s, Vt = np.linalg.svd(y_rest.T @ x_rest)
    if not reach > _FLAT * (1.0 + float((x**2).sum()) + float((y**2).sum())) or s[0] <= _FLAT * reach:
        raise DataError("the points fix no similarity transform: they coincide, or have no direction in common")
    signs = np.ones(2)
    if not reflection and np.linalg.det(U) * np.linalg.det(Vt) < 0:
        if s[0] - s[1] <= _FLAT * reach:
            raise DataError("the points fix no similarity transform: they are a mirror image, turned every way as well")
        signs[1] = -1.0
    scale = float(signs @ s) / spread
    matrix = scale * (U * signs) @ Vt
    return np.column_stack([matrix, y_mean - matrix @ x_mean])


def chip_transform(points: ArrayLike, *, size: int = CHIP) -> NDArray[np.float64]:
    """Fit the transform from a photograph to its aligned chip.

    Parameters
    ----------
    points
        (5, 2): see `POINTS`.
    size
        Side of the chip; the template is scaled with it.

    Returns
    -------
    (2, 3) float64

    Raises
    ------
    ImageError
        The points are no face seen upright or turned: mirrored (left and right exchanged), or all in one place.
    DataError
        They are not five finite points.
    """
    at = _points(points, "points")
    if len(at) != len(TEMPLATE):
        raise DataError(f"a face has {len(TEMPLATE)} points ({', '.join(POINTS)}), got {len(at)}")
    place = (TEMPLATE + 0.5) * (size / CHIP) - 0.5
    rest, goal = at - at.mean(axis=0), place - place.mean(axis=0)
    spread = float((rest**2).sum())
    if not spread > _FLAT * (1.0 + float((at**2).sum())):
        raise ImageError(f"the five points of the face lie in one place, near {_at(at.mean(axis=0))}")
    # A similarity is right only if turning fits better than turning and mirroring; the difference is this sum.
    handed = float(np.linalg.det(goal.T @ rest))
    if handed < 0:
        raise ImageError(
            "the five points of the face are mirrored: give the eye and mouth corner at image left first "
            f"(got eyes at {_at(at[0])} and {_at(at[1])}, mouth corners at {_at(at[3])} and {_at(at[4])})"
        )
    try:
        return similarity(at, place)
    except DataError as error:
        raise ImageError(f"the five points are no face: {error}") from error


def warp(
    image: NDArray[np.uint8], transform: NDArray[np.float64], *, size: int = CHIP, interpolation: str = "bilinear"
) -> NDArray[np.uint8]:
    """Cut a chip out of a photograph.

    What lies outside of the photograph is black. Where the chip is less than half as large as the face, whole blocks of
    pixels are averaged first, so that it does not flicker with the grain.

    Parameters
    ----------
    image
        (H, W, 3) uint8.
    transform
        (2, 3), from the photograph to the chip (`chip_transform`).
    size
        Side of the chip.
    interpolation
        ``"bilinear"``, as the training chips of ArcFace were made, or ``"bicubic"``.

    Returns
    -------
    (size, size, 3) uint8

    Raises
    ------
    DataError
        The image is no (H, W, 3) uint8 array, or the transform cannot be undone.
    MissingExtraError
        Pillow is not installed.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or image.size == 0:
        raise DataError(f"an image must be (height, width, 3) uint8, got {image.dtype} of shape {image.shape}")
    if interpolation not in INTERPOLATIONS:
        raise DataError(f"interpolation must be one of {', '.join(INTERPOLATIONS)}, got {interpolation!r}")
    if size < 1:
        raise DataError(f"size must be at least 1 pixel, got {size}")
    matrix = np.asarray(transform, dtype=np.float64)
    if matrix.shape != (2, 3) or not np.isfinite(matrix).all():
        raise DataError(f"a transform is a (2, 3) array of finite numbers, got shape {matrix.shape}")
    scale = math.sqrt(abs(float(np.linalg.det(matrix[:, :2]))))
    if not scale > 0:
        raise DataError("the transform cannot be undone: it brings everything onto one line")
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("pillow", "faces", "aligning faces") from error
    back = np.asarray(np.linalg.inv(matrix[:, :2]), dtype=np.float64)
    # Pillow's corner of the first pixel is at (0, 0); ours, as the points', is at (-0.5, -0.5).
    shift = 0.5 - back @ (matrix[:, 2] + 0.5)
    block = max(1, math.floor(1 / scale))
    seen = _window(image.shape, back, shift, size, margin=2 * block + 2)
    part = image[seen[1] : seen[3], seen[0] : seen[2]]
    if part.size == 0:
        return np.zeros((size, size, 3), dtype=np.uint8)
    block = min(block, *part.shape[:2])
    shift = (shift - seen[:2]) / block
    data = (*back[0] / block, shift[0], *back[1] / block, shift[1])
    method = Image.Resampling.BICUBIC if interpolation == "bicubic" else Image.Resampling.BILINEAR
    out = np.empty((size, size, 3), dtype=np.float32)
    for channel in range(3):  # as floats: of bytes Pillow would cut the fractions off
        picture = Image.fromarray(part[:, :, channel].astype(np.float32)).reduce(block)
        out[:, :, channel] = np.asarray(picture.transform((size, size), Image.Transform.AFFINE, data, resample=method))
    return np.clip(np.rint(out), 0, 255).astype(np.uint8)


def _window(
    shape: tuple[int, ...], back: NDArray[np.float64], shift: NDArray[np.float64], size: int, *, margin: int
) -> tuple[int, int, int, int]:
    """Return left, top, right, bottom of what a chip shows of a photograph, so that only this is worked on."""
    corners = np.array([[0, 0], [size, 0], [0, size], [size, size]]) @ back.T + shift
    bounds = np.array([shape[1], shape[0]])
    low = np.clip(np.floor(corners.min(axis=0)) - margin, 0, bounds).astype(int)
    high = np.clip(np.ceil(corners.max(axis=0)) + margin, 0, bounds).astype(int)
    return int(low[0]), int(low[1]), int(high[0]), int(high[1])


def align(
    image: NDArray[np.uint8], points: ArrayLike, *, size: int = CHIP, interpolation: str = "bilinear"
) -> NDArray[np.uint8]:
    """Cut the aligned chip of a face out of a photograph: `chip_transform`, then `warp`."""
    return warp(image, chip_transform(points, size=size), size=size, interpolation=interpolation)


def _points(values: ArrayLike, name: str) -> NDArray[np.float64]:
    try:
        points = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be (n, 2) numbers: {error}") from error
    if points.ndim != 2 or points.shape[1] != 2:
        raise DataError(f"{name} must be (n, 2) points x, y; got the shape {points.shape}")
    bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if bad.size:
        raise DataError(f"{name}: point {bad[0]} is not finite ({points[bad[0], 0]}, {points[bad[0], 1]})")
    return points


def _at(point: NDArray[np.float64]) -> str:
    return f"({point[0]:.1f}, {point[1]:.1f})"
