"""One picture to one face chip of the size that a network takes.

Chips are cut and aligned before (`faceblind align`); here they are only decoded and, where they come in another size of
the same shape, resized. A picture of another shape is refused: squeezing a face changes who it looks like.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import ImageError, MissingExtraError, UsageError
from faceblind.encoders.images import DECODE_ERRORS, FORMATS, load_image
from faceblind.encoders.jpeg import reaches_end

if TYPE_CHECKING:
    from PIL import Image

SHAPE_TOLERANCE = 0.02
"""Two shapes are one when height over width differs by no more than this share (a rounded pixel)."""
_MODES = ("RGB", "L", "P", "RGBA", "LA", "CMYK", "YCbCr", "1")
_MOST_PIXELS = 1 << 26
_ORIENTATION, _TURNED = 0x0112, (5, 6, 7, 8)


def size_of(size: int | tuple[int, int]) -> tuple[int, int]:
    """Return height and width; one number stands for a square.

    Raises
    ------
    UsageError
        Not whole numbers of at least 8 pixels (one block of the transform).
    """
    height, width = (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))
    if min(height, width) < 8:
        raise UsageError(f"faces have at least 8 x 8 pixels, got {height} x {width}")
    return height, width


def chip_of_file(path: Path, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Decode a file (`faceblind.encoders.images.load_image`) to a chip, (H, W, 3) uint8.

    Raises
    ------
    ImageError
        It cannot be read whole, or has another shape; names the file.
    """
    pixels = load_image(path)
    try:
        return fit(pixels, size)
    except ImageError as error:
        raise ImageError(f"{path}: {error}") from error


def chip_of_bytes(data: bytes, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Decode an image file held in memory to a chip, (H, W, 3) uint8; its first frame, as it lies, colours as stored.

    Raises
    ------
    ImageError
        It cannot be read whole, or has another shape; the caller says which one it is.
    """
    image = _opened(data)
    try:
        _refuse_large(image)
        image.load()
        if image.format == "JPEG" and not reaches_end(data):
            raise ImageError("truncated: the JPEG data stop before their end marker")
        if image.mode not in _MODES:
            raise ImageError(f"colour mode {image.mode} is not supported: save it as 8-bit RGB")
        return fit(np.asarray(image.convert("RGB")), size)
    except DECODE_ERRORS as error:
        raise ImageError(f"damaged or truncated: {error or type(error).__name__}") from error
    finally:
        image.close()


def fit(pixels: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Bring a picture to a size: as it is, or by Pillow's bilinear filter, which averages when it shrinks.

    Raises
    ------
    ImageError
        Height and width are in another proportion than those of `size`.
    """
    height, width = pixels.shape[:2]
    if (height, width) == size:
        return np.ascontiguousarray(pixels)
    check_shape((height, width), size)
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("pillow", "images", "resizing faces") from error
    resized = Image.fromarray(pixels).resize((size[1], size[0]), Image.Resampling.BILINEAR)
    return np.array(resized)


def check_shape(found: tuple[int, int], size: tuple[int, int]) -> None:
    """Refuse a picture whose proportions are not those of `size`; both are (height, width).

    Raises
    ------
    ImageError
    """
    (height, width), (high, wide) = found, size
    if abs(height * wide / (width * high) - 1) > SHAPE_TOLERANCE:
        raise ImageError(
            f"it is {width} x {height} pixels and cannot become {wide} x {high} without squeezing the face: cut aligned "
            "chips first (faceblind align), or ask for a size of its shape"
        )


def problem_of_header(data: bytes, size: tuple[int, int]) -> str | None:
    """Tell from its header alone why a file in memory cannot become a chip, or None."""
    try:
        image = _opened(data)
    except ImageError as error:
        return str(error)
    try:
        _refuse_large(image)
        try:
            check_shape((image.height, image.width), size)
        except ImageError:
            if image.getexif().get(_ORIENTATION, 1) not in _TURNED:
                raise
            check_shape((image.width, image.height), size)
    except (ImageError, *DECODE_ERRORS) as error:
        return str(error)
    finally:
        image.close()
    return None


def _opened(data: bytes) -> Image.Image:
    try:
        from PIL import Image, ImageFile
    except ImportError as error:
        raise MissingExtraError("pillow", "images", "reading faces") from error
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise ImageError("PIL.ImageFile.LOAD_TRUNCATED_IMAGES is set in this process: set it to False")
    try:
        Image.init()
        return Image.open(io.BytesIO(data), formats=[name for name in FORMATS if name in Image.OPEN])
    except DECODE_ERRORS as error:
        start = f"it starts with {data[:8]!a}" if data else "it is empty"
        raise ImageError(f"not an image, or its header is damaged: {start}") from error


def _refuse_large(image: Image.Image) -> None:
    if image.width * image.height > _MOST_PIXELS:
        raise ImageError(f"{image.width} x {image.height} pixels are no face chip: cut aligned chips first")
