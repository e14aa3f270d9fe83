"""A cheap look: size, digest, and whether a file is whole."""

from __future__ import annotations

import hashlib
import io

import pytest
from datasets_trees import jpeg
from hypothesis import given
from hypothesis import strategies as st

from faceblind.data.datasets import looking
from faceblind.data.datasets.looking import look, look_file, suffix_of


def picture(kind: str, **options: object) -> bytes:
    image = pytest.importorskip("PIL.Image")
    import numpy as np

    pixels = np.random.default_rng(0).integers(0, 255, (40, 50, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def seen(data: bytes) -> looking.Look:
    return look(io.BytesIO(data))


@pytest.mark.parametrize(
    ("kind", "options"),
    [("JPEG", {}), ("JPEG", {"progressive": True}), ("PNG", {}), ("GIF", {}), ("WEBP", {}), ("BMP", {})],
)
def test_whole_pictures_have_no_problem(kind, options):
    data = picture(kind, **options)
    assert seen(data) == (len(data), hashlib.sha256(data).digest(), None)


@pytest.mark.parametrize("options", [{}, {"progressive": True}])
def test_a_jpeg_cut_anywhere_is_found(options):
    data = picture("JPEG", **options)
    for end in range(1, len(data) - 1):
        assert seen(data[:end]).problem, end


def test_a_png_cut_anywhere_is_found():
    data = picture("PNG")
    for end in range(1, len(data)):
        assert seen(data[:end]).problem, end


def test_the_end_of_a_thumbnail_is_not_the_end_of_the_picture():
    thumbnail = jpeg("thumbnail", 400)
    data = jpeg("picture", 3000)
    with_exif = data[:2] + b"\xff\xe1" + (len(thumbnail) + 2).to_bytes(2, "big") + thumbnail + data[2:]
    assert seen(with_exif).problem is None
    cut = with_exif[: len(thumbnail) + 500]
    assert b"\xff\xd9" in cut
    assert "cut off" in seen(cut).problem


def test_bytes_after_the_end_are_no_problem():
    assert seen(jpeg("a") + bytes(70)).problem is None


@given(size=st.integers(0, 60), block=st.integers(1, 9), after=st.integers(0, 20))
def test_blocks_do_not_matter(size, block, after):
    data = jpeg("some key", size) + bytes(after)
    whole = seen(data)
    before, looking._BLOCK = looking._BLOCK, block
    try:
        if block >= 2:  # the first block tells the format
            assert seen(data) == whole == (len(data), hashlib.sha256(data).digest(), None)
            assert "cut off" in seen(jpeg("some key", size)[:-1]).problem
    finally:
        looking._BLOCK = before


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"<html>404</html>", r"is not an image: it starts with b'<html>40'"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS pointer"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", "without picture data"),
        (b"\xff\xd8\xff\xd9", "without picture data"),
        (b"\xff\xd8\xff\xfe\x00\x00", "without picture data"),
    ],
)
def test_what_is_not_a_picture_is_said(data, said):
    assert said in seen(data).problem


def test_a_file_that_is_not_there(tmp_path):
    assert "cannot be read: No such file" in look_file(tmp_path / "none.jpg").problem
    assert "cannot be read" in look_file(tmp_path).problem


def test_suffixes():
    assert [suffix_of(data) for data in (jpeg("a"), b"\x89PNG\r\n\x1a\n..", b"?")] == [".jpg", ".png", ".img"]
