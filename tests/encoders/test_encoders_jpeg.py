"""The search for a JPEG's end marker: whole files have it, no cut of them does."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL")
from PIL import Image

from faceblind.encoders.jpeg import reaches_end

NOISE = np.random.default_rng(5).integers(0, 256, (40, 48, 3), dtype=np.uint8)


def jpeg(**options: Any) -> bytes:
    data = io.BytesIO()
    Image.fromarray(NOISE).save(data, "JPEG", **options)
    return data.getvalue()


KINDS = {
    "baseline": jpeg(),
    "progressive": jpeg(progressive=True),
    "restarts": jpeg(restart_marker_blocks=1),
    "comment": jpeg(comment=b"\xff\xd9 looks like an end, \xff\xda like a scan"),
    "thumbnail": jpeg(exif=b"Exif\0\0" + jpeg(quality=10)[:3000] + b"\xff\xd9"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_whole_and_cut(kind: str) -> None:
    data = KINDS[kind]
    assert reaches_end(data)
    assert reaches_end(data + b"appended by the camera \xff\xd8")
    for cut in range(2, len(data), 7):
        assert not reaches_end(data[:cut])
        assert not reaches_end(data[:cut] + bytes(500))
    assert not reaches_end(data[:-1])


def test_the_restarts_are_there() -> None:
    assert all(bytes((0xFF, marker)) in KINDS["restarts"] for marker in range(0xD0, 0xD8))


def test_padding_and_junk_between_segments_are_passed_over() -> None:
    data = KINDS["baseline"]
    assert reaches_end(data[:2] + b"\xff\xff\xff" + data[2:])
    assert reaches_end(data[:2] + b"junk" + data[2:])
    assert not reaches_end(b"")
    assert not reaches_end(b"\xff\xd8\xff")
