"""Files that image libraries get wrong: ICC profiles, CMYK kinds, headers that lie."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

# Colorants of sRGB adapted to D50, as its ICC profile has them; columns are red, green, blue.
SRGB_D50 = np.array([[0.4360, 0.3851, 0.1431], [0.2225, 0.7169, 0.0606], [0.0139, 0.0971, 0.7141]])


def _fixed(*values: float) -> bytes:
    return b"".join(struct.pack(">i", round(value * 65536)) for value in values)


def _profile(kind: bytes, space: bytes, pcs: bytes, tags: Mapping[bytes, bytes]) -> bytes:
    offset = 128 + 4 + 12 * len(tags)
    table, data = struct.pack(">I", len(tags)), b""
    for name, body in tags.items():
        padded = body + bytes(-len(body) % 4)
        table += name + struct.pack(">II", offset + len(data), len(body))
        data += padded
    header = struct.pack(">I4sI4s4s4s", offset + len(data), b"\0\0\0\0", 0x02400000, kind, space, pcs)
    header += bytes(12) + b"acsp" + bytes(28) + _fixed(0.9642, 1.0, 0.8249)
    return header.ljust(128, b"\0") + table + data


def _xyz(values: Sequence[float]) -> bytes:
    return b"XYZ \0\0\0\0" + _fixed(*values)


def _gamma(gamma: float) -> bytes:
    return b"curv\0\0\0\0" + struct.pack(">IH", 1, round(gamma * 256))


def rgb_profile(colorants: np.ndarray, gamma: float) -> bytes:
    """Make a matrix profile; columns of `colorants` are the XYZ (D50) of red, green and blue."""
    tags = {name: _xyz(column) for name, column in zip((b"rXYZ", b"gXYZ", b"bXYZ"), colorants.T, strict=True)}
    tags |= dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), _gamma(gamma))
    return _profile(b"mntr", b"RGB ", b"XYZ ", {**tags, b"wtpt": _xyz((0.9642, 1.0, 0.8249))})


def gray_profile(gamma: float) -> bytes:
    tags = {b"kTRC": _gamma(gamma), b"wtpt": _xyz((0.9642, 1.0, 0.8249))}
    return _profile(b"mntr", b"GRAY", b"XYZ ", tags)


def cmyk_profile(lightness: Mapping[tuple[int, int, int, int], float]) -> bytes:
    """Make a CMYK profile that maps the corners of ink space to neutral grays of some L* (0 when not given)."""
    corners = [(c, m, y, k) for c in (0, 1) for m in (0, 1) for y in (0, 1) for k in (0, 1)]
    lab = b"".join(bytes((round(lightness.get(ink, 0.0) * 2.55), 128, 128)) for ink in corners)
    ramp = bytes(range(256))
    table = b"mft1\0\0\0\0" + bytes((4, 3, 2, 0)) + _fixed(1, 0, 0, 0, 1, 0, 0, 0, 1)
    table += ramp * 4 + lab + ramp * 3
    return _profile(b"prtr", b"CMYK", b"Lab ", {b"A2B0": table, b"wtpt": _xyz((0.9642, 1.0, 0.8249))})


def srgb_from_linear(linear: np.ndarray) -> np.ndarray:
    linear = np.clip(linear, 0, 1)
    encoded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.rint(encoded * 255)


def cmyk_jpeg(inks: tuple[int, int, int, int], *, adobe: bool, profile: bytes | None = None) -> bytes:
    """Encode a plain CMYK JPEG, inverted with an Adobe marker or straight without one; 255 is full ink."""
    stored = inks if adobe else tuple(255 - ink for ink in inks)  # Pillow writes its input inverted
    data = io.BytesIO()
    extra = {"icc_profile": profile} if profile else {}
    Image.new("CMYK", (16, 16), stored).save(data, "JPEG", quality=100, subsampling=0, **extra)
    return data.getvalue() if adobe else _without_adobe_marker(data.getvalue())


def ycck_jpeg(inks: tuple[int, int, int, int]) -> bytes:
    """Encode a plain YCCK JPEG as Photoshop does: inverted inks, CMY as YCbCr, Adobe transform 2."""
    luma = Image.new("RGB", (1, 1), inks[:3]).convert("YCbCr").getpixel((0, 0))
    raw = (*luma, 255 - inks[3])
    data = io.BytesIO()
    Image.new("CMYK", (16, 16), tuple(255 - v for v in raw)).save(data, "JPEG", quality=100, subsampling=0)
    jpeg = bytearray(data.getvalue())
    marker = jpeg.index(b"\xff\xee")
    assert jpeg[marker + 4 : marker + 9] == b"Adobe"
    jpeg[marker + 15] = 2
    return bytes(jpeg)


def _without_adobe_marker(jpeg: bytes) -> bytes:
    start = jpeg.index(b"\xff\xee")
    length = struct.unpack(">H", jpeg[start + 2 : start + 4])[0]
    return jpeg[:start] + jpeg[start + 2 + length :]


def huge_png(width: int, height: int) -> bytes:
    """Encode a PNG of a few bytes that claims many pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(b"")) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def stored_for(upright: np.ndarray, orientation: int) -> np.ndarray:
    """Return the pixels a camera stores for an upright image, from the wording of the TIFF specification.

    The tag says on which side of the upright picture the stored row 0 and the stored column 0 lie.
    """
    row0, column0 = {
        1: ("top", "left"),
        2: ("top", "right"),
        3: ("bottom", "right"),
        4: ("bottom", "left"),
        5: ("left", "top"),
        6: ("right", "top"),
        7: ("right", "bottom"),
        8: ("left", "bottom"),
    }[orientation]
    height, width = upright.shape[:2]
    swapped = row0 in {"left", "right"}
    stored = np.empty((width, height, 3) if swapped else (height, width, 3), dtype=np.uint8)
    for r in range(stored.shape[0]):
        for c in range(stored.shape[1]):
            down, across = (c, r) if swapped else (r, c)
            from_bottom = (column0 if swapped else row0) == "bottom"
            from_right = (row0 if swapped else column0) == "right"
            stored[r, c] = upright[
                height - 1 - down if from_bottom else down, width - 1 - across if from_right else across
            ]
    return stored


def save(path: Path, array: np.ndarray, **options: object) -> Path:
    Image.fromarray(array).save(path, **options)
    return path
