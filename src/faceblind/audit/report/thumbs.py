"""Thumbnails as small JPEG files in memory, without the metadata of the photographs they come from."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from pathlib import Path

from faceblind._errors import MissingExtraError

SIDE = 96
"""Pixels of the longer side."""

_DAMAGED = (OSError, ValueError, SyntaxError, TypeError, LookupError, EOFError, struct.error, zlib.error)


def thumbnail(folder: Path, sample: str) -> bytes | None:
    """Return the image ``folder / sample`` as a JPEG of at most `SIDE` pixels, or None when it cannot be read.

    Keys that lead out of the folder are refused (None): a table from elsewhere must not pull in other files.

    Raises
    ------
    MissingExtraError
        Pillow is not installed.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise MissingExtraError("pillow", "images", "thumbnails in the report") from error
    try:
        root = folder.resolve()
        path = (root / sample).resolve()
        if not path.is_relative_to(root) or not path.is_file():
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(path) as opened:
                opened.draft("RGB", (2 * SIDE, 2 * SIDE))
                upright = ImageOps.exif_transpose(opened)
                upright.thumbnail((SIDE, SIDE))
                rgb = upright.convert("RGB")
    # Damaged files raise more than OSError, depending on the format; a report never fails for a picture.
    except (*_DAMAGED, Image.DecompressionBombError):
        return None
    # A fresh picture holds pixels only: no position, camera or comment travels into the report.
    clean = Image.new("RGB", rgb.size)
    clean.paste(rgb)
    stream = io.BytesIO()
    clean.save(stream, format="JPEG", quality=82)
    return stream.getvalue()
