"""Photographs to pixels: every file becomes 8-bit sRGB the same way, or a reason why not.

An audit is only as good as the pixels behind it. Half a photograph, an inverted CMYK scan or a clipped 16-bit
image gives a perfectly valid vector of the wrong picture, so files that cannot be read whole and right are
refused, one by one, with the reason.
"""

from __future__ import annotations

import io
import struct
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import ImageError, MissingExtraError
from faceblind.encoders.jpeg import reaches_end

if TYPE_CHECKING:
    from PIL import Image

MAX_PIXELS = 178_956_970
"""Largest photograph decoded by default, in pixels: where Pillow itself refuses."""

# By content, whatever the name says. Left out: EPS (it runs Ghostscript), scientific and legacy formats.
FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "JPEG2000", "PPM")

# What Pillow's decoders are known to raise on damaged files; Warning is there for `python -W error`.
DECODE_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
    MemoryError,
    struct.error,
    zlib.error,
    Warning,
)

_JPEG = ("JPEG", "MPO")
_ORIENTATION_TAG = 0x0112
_BITS_TAG, _PHOTOMETRIC_TAG = 258, 262
_WHITE_IS_ZERO = 0


def load_image(path: str | Path, *, max_pixels: int = MAX_PIXELS) -> NDArray[np.uint8]:
    """Decode a photograph to 8-bit sRGB.

    - The content decides the format, not the name: JPEG, PNG, WebP, GIF, BMP, TIFF, AVIF, JPEG 2000, PPM.
    - Animations and multi-page files give their first frame.
    - The EXIF orientation is applied.
    - An embedded ICC profile is converted to sRGB (LittleCMS, perceptual intent). A profile that is damaged
      or does not suit the pixels is ignored, as browsers do; without LittleCMS in Pillow all profiles are
      ignored, and the encoder's fingerprint says so.
    - Transparent pixels are composited over white.
    - Grayscale is copied to the three channels. 16-bit grayscale is scaled by 1/257 and rounded, never
      clipped; of 16-bit colour Pillow keeps the high byte. 32-bit integers are taken as 0..255 or 0..65535 by
      their maximum, floats as 0..1 (or as whole numbers 0..255); other ranges have no agreed white and are
      refused.
    - CMYK and YCCK JPEG follow their Adobe marker: with it inks are stored inverted, without it they are not.

    A file that ends early is refused, also a JPEG that was padded to its full size. Damage that leaves the
    structure whole (zeros inside a bitmap, a JPEG cut short and closed with an end marker) cannot be told from
    a picture and is not found.

    Parameters
    ----------
    path
        The file.
    max_pixels
        Refuse larger photographs before decoding them (a small file can claim gigabytes of pixels).

    Returns
    -------
    (H, W, 3) uint8
        Red, green, blue.

    Raises
    ------
    ImageError
        The photograph cannot be used; the message names the file and the reason.
    MissingExtraError
        Pillow is not installed.
    """
    path = Path(path)
    try:
        return _decode(path, max_pixels)
    except ImageError as error:
        raise ImageError(f"{path}: {error}") from error


def decoding_steps() -> dict[str, str]:
    """Describe what `load_image` does to pixels, for an encoder's fingerprint."""
    profiles = "to sRGB, perceptual" if _has_color_management() else "ignored"
    return {
        "alpha": "over white",
        "deep": "16-bit by 1/257",
        "frame": "first",
        "icc": profiles,
        "orientation": "exif applied",
    }


def _decode(path: Path, max_pixels: int) -> NDArray[np.uint8]:
    try:
        from PIL import Image, ImageFile, UnidentifiedImageError
    except ImportError as error:
        raise MissingExtraError("pillow", "images", "reading photographs") from error
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise ImageError(
            "PIL.ImageFile.LOAD_TRUNCATED_IMAGES is set in this process, so Pillow would pass off half a "
            "photograph as whole: set it to False"
        )
    size = ""
    try:
        _check_file(path)
        with Image.open(path, formats=_readable_formats()) as image:
            size = f" ({image.width}x{image.height})"
            if image.width * image.height > max_pixels:
                raise ImageError(_too_large(f"{image.width}x{image.height} pixels", max_pixels))
            image.load()
            if image.format in _JPEG and not reaches_end(path.read_bytes()):
                raise ImageError("truncated: the JPEG data stop before their end marker")
            return np.array(_upright(_to_rgb(image), _orientation(image)))
    except UnidentifiedImageError as error:
        formats = ", ".join(name for name in _readable_formats() if name != "MPO")
        raise ImageError(f"not an image in a format that can be read ({formats}), or its header is damaged") from error
    except Image.DecompressionBombError as error:
        limit = 2 * (Image.MAX_IMAGE_PIXELS or 0)
        raise ImageError(_too_large("it", min(limit, max_pixels))) from error
    except MemoryError as error:
        raise ImageError(f"not enough memory to decode it{size}") from error
    except DECODE_ERRORS as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise ImageError(f"cannot be read: {error.strerror}") from error
        raise ImageError(f"damaged or truncated{size}: {error or type(error).__name__}") from error


def _check_file(path: Path) -> None:
    if not path.is_file():  # also keeps us from waiting on a pipe
        raise ImageError("no such file" if not path.exists() else "not a file")
    if path.stat().st_size == 0:
        raise ImageError("the file is empty (0 bytes)")


def _too_large(what: str, limit: int) -> str:
    return (
        f"{what} over the limit of {limit:,} pixels (max_pixels, and Pillow's own limit): "
        "shrink the photograph if it is genuine"
    )


@cache
def _readable_formats() -> tuple[str, ...]:
    from PIL import Image

    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


@cache
def _has_color_management() -> bool:
    from PIL import features

    return bool(features.check("littlecms2"))


def _to_rgb(image: Image.Image) -> Image.Image:
    from PIL import Image, ImageChops

    profile = image.info.get("icc_profile")
    colour, alpha = image, None
    if image.mode.startswith("I") or image.mode == "F":
        colour, alpha = _eight_bits(image)
    elif image.mode in {"RGBA", "LA", "PA", "RGBa", "La"} or "transparency" in image.info:
        with_alpha = image.convert("RGBA")
        colour, alpha = with_alpha.convert("RGB"), with_alpha.getchannel("A")
    elif image.mode == "CMYK":
        if image.format in _JPEG and "adobe" not in image.info:
            colour = ImageChops.invert(image)  # Pillow takes every CMYK JPEG for Adobe's inverted kind
    elif image.mode == "1":
        colour = image.convert("L")
    elif image.mode not in {"L", "P", "RGB", "RGBX", "YCbCr"}:
        raise ImageError(f"colour mode {image.mode} is not supported: convert it to RGB")
    rgb = _to_srgb(colour, profile)
    if alpha is None:
        return rgb
    white = Image.new("RGB", rgb.size, (255, 255, 255))
    white.paste(rgb, mask=alpha)
    return white


def _to_srgb(colour: Image.Image, profile: bytes | None) -> Image.Image:
    """Convert to sRGB by the embedded profile, or plainly when there is none that fits the pixels."""
    if not profile or not _has_color_management():
        return colour.convert("RGB")
    from PIL import ImageCms

    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        space = source.profile.xcolor_space.strip()
        if space == "RGB" and colour.mode != "CMYK":
            colour = colour.convert("RGB")  # a grayscale photo with an RGB profile: the profile's neutral axis
        elif (space, colour.mode) not in {("GRAY", "L"), ("CMYK", "CMYK")}:
            return colour.convert("RGB")
        target = ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(colour, source, target, outputMode="RGB")
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        converted = None
    return converted if converted is not None else colour.convert("RGB")


def _eight_bits(image: Image.Image) -> tuple[Image.Image, Image.Image | None]:
    """Scale 16-bit, 32-bit and float grayscale to 8 bits; returns the gray image and its alpha, if any."""
    from PIL import Image

    values = np.asarray(image)
    low, high = values.min(), values.max()
    tags: Any = getattr(image, "tag_v2", {})
    if image.mode == "F":
        if low >= 0 and high <= 1:
            scaled = np.rint(values.astype(np.float64) * 255)
        elif low >= 0 and high <= 255 and np.array_equal(values, np.rint(values)):
            scaled = values
        else:  # also NaN and infinity, which fail every comparison above
            raise ImageError(_no_white(f"float values from {low:g} to {high:g}", "0 to 1"))
    elif low < 0 or high > 65535:
        raise ImageError(_no_white(f"integer values from {low} to {high}", "0 to 65535"))
    elif tags.get(_BITS_TAG) == (32,) and high <= 255:
        scaled = values
    else:
        scaled = (values.astype(np.int32) + 128) // 257
    gray = scaled.astype(np.uint8)
    if tags.get(_PHOTOMETRIC_TAG) == _WHITE_IS_ZERO:
        gray = 255 - gray
    clear = image.info.get("transparency")
    alpha = None if clear is None else Image.fromarray(np.where(values == clear, 0, 255).astype(np.uint8))
    return Image.fromarray(gray), alpha


def _no_white(got: str, expected: str) -> str:
    return f"{got} have no agreed white; expected {expected}: save the photograph as 8-bit or 16-bit"


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION_TAG, 1))
    except DECODE_ERRORS:
        return 1  # damaged EXIF says nothing about the pixels


def _upright(image: Image.Image, orientation: int) -> Image.Image:
    from PIL.Image import Transpose

    undo = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    return image.transpose(undo[orientation]) if orientation in undo else image
