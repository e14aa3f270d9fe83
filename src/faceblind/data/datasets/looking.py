"""A cheap look at an image file: its size, its digest, and whether it is whole, in one pass and without decoding it.

A download that was cut off leaves empty files, files without an end, and error pages named like photographs. Those are
found here. Whether the pixels decode is found when the photographs are embedded.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import IO, NamedTuple

_BLOCK = 1 << 20
_JPEG, _JPEG_END = b"\xff\xd8", b"\xff\xd9"
_PNG, _PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"
_OTHERS = (
    b"GIF8",
    b"RIFF",
    b"BM",
    b"II*\0",
    b"MM\0*",
    b"\0\0\0\x0cjP  ",
    b"\xff\x4f\xff\x51",
    *(b"P%d" % i for i in range(1, 7)),
)
_ALONE = {0x01, *range(0xD0, 0xD8)}  # JPEG markers that no length follows
_SCAN, _END = 0xDA, 0xD9


class Look(NamedTuple):
    """What one look at a file told.

    Attributes
    ----------
    size : int
        Bytes.
    sha256 : bytes
        Digest (32 bytes).
    problem : str or None
        Why the file cannot be a whole image.
    """

    size: int
    sha256: bytes
    problem: str | None = None


def look_file(path: Path) -> Look:
    """Look at a file; one that is not there or cannot be read has a problem, too."""
    try:
        with path.open("rb") as stream:
            return look(stream)
    except OSError as error:
        return Look(0, b"", f"cannot be read: {error.strerror or error}")


def look(stream: IO[bytes]) -> Look:
    """Look at an open, seekable file from its beginning; memory does not grow with its size."""
    digest, size, head, end, ends = hashlib.sha256(), 0, b"", b"", -1
    carry = b""
    while block := stream.read(_BLOCK):
        if not size:
            head = block[:16]
            end = _JPEG_END if head.startswith(_JPEG) else _PNG_END
        digest.update(block)
        window = carry + block
        found = window.rfind(end)
        if found >= 0:
            ends = size - len(carry) + found
        size += len(block)
        carry = window[-len(_PNG_END) + 1 :]
    return Look(size, digest.digest(), _problem(stream, head, size, ends))


def suffix_of(head: bytes) -> str:
    """Return the file name extension of an image by its first bytes, ``.jpg`` or ``.png``, else ``.img``."""
    return ".jpg" if head.startswith(_JPEG) else ".png" if head.startswith(_PNG) else ".img"


def _problem(stream: IO[bytes], head: bytes, size: int, ends: int) -> str | None:
    if not size:
        return "is empty"
    if head.startswith(_JPEG):
        start = _scan_start(stream)
        if start is None:
            return "is a JPEG file without picture data"
        return None if ends >= start else "is a JPEG file that was cut off: it has no end marker"
    if head.startswith(_PNG):
        return None if ends >= 0 else "is a PNG file that was cut off: it has no end chunk"
    if head.startswith(_OTHERS) or head[4:8] == b"ftyp":
        return None
    if head.startswith(b"version https:/"):
        return "is a Git LFS pointer, not the image"
    return f"is not an image: it starts with {head[:8]!a}"


def _scan_start(stream: IO[bytes]) -> int | None:
    """Return where the first scan of a JPEG begins; end markers before it belong to a thumbnail."""
    stream.seek(len(_JPEG))
    while True:
        lead, marker = stream.read(1), stream.read(1)
        while marker == b"\xff":  # fill bytes
            marker = stream.read(1)
        if lead != b"\xff" or not marker or marker[0] == _END:
            return None
        if marker[0] in _ALONE:
            continue
        length = int.from_bytes(stream.read(2), "big")
        if length < 2:
            return None
        stream.seek(length - 2, 1)
        if marker[0] == _SCAN:
            return stream.tell()
