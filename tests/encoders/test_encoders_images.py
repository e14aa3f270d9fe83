"""Every kind of file decodes to known colours, or is refused with a reason."""

from __future__ import annotations

import io
import os
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from odd_images import (
    SRGB_D50,
    cmyk_jpeg,
    cmyk_profile,
    gray_profile,
    huge_png,
    rgb_profile,
    save,
    srgb_from_linear,
    stored_for,
    ycck_jpeg,
)

from faceblind._errors import ImageError, MissingExtraError
from faceblind.encoders import load_image
from faceblind.encoders.images import decoding_steps

pytest.importorskip("PIL")
from PIL import Image, ImageFile, features

RNG = np.random.default_rng(7)
RED, GREEN, BLUE, WHITE = (200, 30, 40), (20, 180, 60), (10, 50, 220), (255, 255, 255)
QUARTERS = np.zeros((16, 24, 3), dtype=np.uint8)
QUARTERS[:8, :12], QUARTERS[:8, 12:], QUARTERS[8:, :12], QUARTERS[8:, 12:] = RED, GREEN, BLUE, WHITE


def close(pixels: np.ndarray, expected: object, tolerance: int) -> None:
    difference = np.abs(pixels.astype(int) - np.asarray(expected, dtype=int)).max()
    assert difference <= tolerance, f"off by {difference}: {pixels.reshape(-1, 3)[:3]}"


@pytest.mark.parametrize(
    ("name", "options", "tolerance"),
    [
        ("a.png", {}, 0),
        ("a.bmp", {}, 0),
        ("a.ppm", {}, 0),
        ("a.tif", {}, 0),
        ("a.tiff", {"compression": "tiff_lzw"}, 0),
        ("a.webp", {"lossless": True}, 0),
        ("a.jpg", {"quality": 100, "subsampling": 0}, 3),
        ("a.jpeg", {"quality": 100, "subsampling": 0, "progressive": True}, 3),
        ("a.jp2", {}, 0),
    ],
)
def test_plain_colours(tmp_path: Path, name: str, options: dict[str, object], tolerance: int) -> None:
    pixels = load_image(save(tmp_path / name, QUARTERS, **options))
    assert pixels.dtype == np.uint8
    assert pixels.shape == (16, 24, 3)
    close(pixels, QUARTERS, tolerance)


@pytest.mark.skipif(not features.check("avif"), reason="this Pillow has no AVIF")
def test_avif(tmp_path: Path) -> None:
    path = save(tmp_path / "a.avif", QUARTERS, quality=100, subsampling="4:4:4")
    close(load_image(path), QUARTERS, 3)


def test_content_decides_the_format_and_not_the_name(tmp_path: Path) -> None:
    path = tmp_path / "really-a-png.jpg"
    path.write_bytes(save(tmp_path / "a.png", QUARTERS).read_bytes())
    close(load_image(path), QUARTERS, 0)


def test_the_array_is_its_own_and_writable(tmp_path: Path) -> None:
    pixels = load_image(save(tmp_path / "a.png", QUARTERS))
    pixels[:] = 0
    assert pixels.flags.c_contiguous


# Grayscale, palettes, transparency


def test_grayscale_is_copied_to_three_channels(tmp_path: Path) -> None:
    gray = np.arange(256, dtype=np.uint8).reshape(16, 16)
    close(load_image(save(tmp_path / "l.png", gray)), np.repeat(gray[:, :, None], 3, axis=2), 0)


def test_black_and_white(tmp_path: Path) -> None:
    bits = np.array([[True, False], [False, True]])
    Image.fromarray(bits).save(tmp_path / "1.png")
    close(load_image(tmp_path / "1.png")[:, :, 1], [[255, 0], [0, 255]], 0)


def test_gray_with_alpha_is_composited_over_white(tmp_path: Path) -> None:
    image = Image.merge("LA", [Image.new("L", (4, 4), 100), Image.new("L", (4, 4), 51)])
    image.save(tmp_path / "la.png")
    close(load_image(tmp_path / "la.png"), 100 * 0.2 + 255 * 0.8, 1)


def test_colour_with_alpha_is_composited_over_white(tmp_path: Path) -> None:
    pixels = np.array([[(*RED, 255), (*RED, 0), (*RED, 128)]], dtype=np.uint8)
    save(tmp_path / "rgba.png", pixels)
    half = np.array(RED) * 128 / 255 + 255 * 127 / 255
    close(load_image(tmp_path / "rgba.png"), [[RED, WHITE, half]], 1)


@pytest.mark.parametrize("name", ["p.png", "p.gif"])
def test_palette_with_a_transparent_entry(tmp_path: Path, name: str) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([*RED, *GREEN])
    image.putpixel((1, 0), 1)
    image.save(tmp_path / name, transparency=1)
    close(load_image(tmp_path / name), [[RED, WHITE]], 0)


def test_palette_with_an_alpha_per_entry(tmp_path: Path) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([*RED, *GREEN])
    image.putpixel((1, 0), 1)
    image.save(tmp_path / "p.png", transparency=bytes([255, 0]))
    close(load_image(tmp_path / "p.png"), [[RED, WHITE]], 0)


def test_a_transparent_colour_in_rgb(tmp_path: Path) -> None:
    Image.fromarray(QUARTERS).save(tmp_path / "t.png", transparency=RED)
    pixels = load_image(tmp_path / "t.png")
    close(pixels[:8, :12], WHITE, 0)
    close(pixels[8:], QUARTERS[8:], 0)


# More than eight bits

DEEP = np.array([[0, 1, 128, 129], [257, 25700, 40000, 65535]], dtype=np.uint16)
DEEP_AS_8 = np.rint(DEEP / 257)


@pytest.mark.parametrize("name", ["deep.png", "deep.tif"])
def test_16_bit_gray_is_scaled_and_not_clipped(tmp_path: Path, name: str) -> None:
    close(load_image(save(tmp_path / name, DEEP))[:, :, 0], DEEP_AS_8, 0)


def test_16_bit_gray_big_endian(tmp_path: Path) -> None:
    image = Image.frombytes("I;16B", (4, 2), DEEP.astype(">u2").tobytes())
    image.save(tmp_path / "deep.tif")
    close(load_image(tmp_path / "deep.tif")[:, :, 2], DEEP_AS_8, 0)


def test_16_bit_gray_where_zero_is_white(tmp_path: Path) -> None:
    data = bytearray(save(tmp_path / "deep.tif", DEEP).read_bytes())
    entry = struct.pack("<HHI", 262, 3, 1)
    at = data.index(entry) + len(entry)
    assert data[at] == 1
    data[at] = 0
    (tmp_path / "deep.tif").write_bytes(data)
    close(load_image(tmp_path / "deep.tif")[:, :, 0], 255 - DEEP_AS_8, 0)


def test_16_bit_gray_with_a_transparent_value(tmp_path: Path) -> None:
    Image.fromarray(DEEP).save(tmp_path / "deep.png", transparency=25700)
    expected = DEEP_AS_8.copy()
    expected[1, 1] = 255
    close(load_image(tmp_path / "deep.png")[:, :, 0], expected, 0)


def test_16_bit_pgm(tmp_path: Path) -> None:
    (tmp_path / "deep.pgm").write_bytes(b"P5 4 2 65535\n" + DEEP.astype(">u2").tobytes())
    close(load_image(tmp_path / "deep.pgm")[:, :, 0], DEEP_AS_8, 0)


def test_16_bit_colour_keeps_the_high_byte(tmp_path: Path) -> None:
    (tmp_path / "deep.ppm").write_bytes(b"P6 1 1 65535\n" + struct.pack(">HHH", 0xC8FF, 0x1E00, 0x2880))
    close(load_image(tmp_path / "deep.ppm"), [[RED]], 1)


def test_32_bit_integers(tmp_path: Path) -> None:
    close(load_image(save(tmp_path / "i.tif", DEEP.astype(np.int32)))[:, :, 0], DEEP_AS_8, 0)
    small = np.array([[0, 7, 255]], dtype=np.int32)
    close(load_image(save(tmp_path / "i8.tif", small))[:, :, 0], small, 0)


@pytest.mark.parametrize("value", [-1, 65536])
def test_32_bit_integers_without_an_agreed_white_are_refused(tmp_path: Path, value: int) -> None:
    path = save(tmp_path / "i.tif", np.array([[0, value]], dtype=np.int32))
    with pytest.raises(ImageError, match=r"integer values from .*no agreed white; expected 0 to 65535"):
        load_image(path)


def test_float_gray(tmp_path: Path) -> None:
    unit = np.array([[0.0, 0.25, 0.5, 1.0]], dtype=np.float32)
    close(load_image(save(tmp_path / "f.tif", unit))[:, :, 0], np.rint(unit * 255), 0)
    whole = np.array([[0.0, 3.0, 254.0]], dtype=np.float32)
    close(load_image(save(tmp_path / "w.tif", whole))[:, :, 0], whole, 0)


@pytest.mark.parametrize("value", [1.3, -0.1, 300.0, np.nan, np.inf])
def test_floats_without_an_agreed_white_are_refused(tmp_path: Path, value: float) -> None:
    path = save(tmp_path / "f.tif", np.array([[0.5, value]], dtype=np.float32))
    with pytest.raises(ImageError, match=r"f\.tif: float values from .* to .* have no agreed white"):
        load_image(path)


# CMYK

INKS = (200, 30, 90, 40)
INKS_AS_RGB = [round((255 - ink) * (255 - INKS[3]) / 255) for ink in INKS[:3]]


@pytest.mark.parametrize("adobe", [True, False])
def test_cmyk_jpeg_follows_its_adobe_marker(tmp_path: Path, adobe: bool) -> None:
    (tmp_path / "c.jpg").write_bytes(cmyk_jpeg(INKS, adobe=adobe))
    close(load_image(tmp_path / "c.jpg"), INKS_AS_RGB, 3)


def test_ycck_jpeg(tmp_path: Path) -> None:
    (tmp_path / "c.jpg").write_bytes(ycck_jpeg(INKS))
    close(load_image(tmp_path / "c.jpg"), INKS_AS_RGB, 4)


def test_cmyk_tiff(tmp_path: Path) -> None:
    Image.new("CMYK", (8, 8), INKS).save(tmp_path / "c.tif")
    close(load_image(tmp_path / "c.tif"), INKS_AS_RGB, 2)


# Colour profiles

needs_cms = pytest.mark.skipif(not features.check("littlecms2"), reason="this Pillow has no LittleCMS")


@needs_cms
@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.webp"])
def test_rgb_profile_is_converted_to_srgb(tmp_path: Path, name: str) -> None:
    # Linear light, and red and green swapped: ignoring the profile would be far off.
    profile = rgb_profile(SRGB_D50[:, [1, 0, 2]], gamma=1.0)
    options = {"lossless": True} if name.endswith("webp") else {}
    path = save(tmp_path / name, QUARTERS, icc_profile=profile, **options)
    expected = srgb_from_linear(QUARTERS[:, :, [1, 0, 2]] / 255)
    close(load_image(path), expected, 2)


@needs_cms
def test_srgb_like_profile_changes_next_to_nothing(tmp_path: Path) -> None:
    from PIL import ImageCms

    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    close(load_image(save(tmp_path / "a.png", QUARTERS, icc_profile=srgb)), QUARTERS, 1)


@needs_cms
def test_profile_and_alpha_together(tmp_path: Path) -> None:
    profile = rgb_profile(SRGB_D50, gamma=1.0)
    pixels = np.array([[(*RED, 255), (*RED, 0)]], dtype=np.uint8)
    save(tmp_path / "a.png", pixels, icc_profile=profile)
    close(load_image(tmp_path / "a.png"), [[srgb_from_linear(np.array(RED) / 255), WHITE]], 2)


@needs_cms
@pytest.mark.parametrize("profile", [gray_profile(1.0), rgb_profile(SRGB_D50, 1.0)], ids=["gray", "rgb"])
def test_grayscale_with_a_profile(tmp_path: Path, profile: bytes) -> None:
    gray = np.array([[0, 50, 128, 255]], dtype=np.uint8)
    path = save(tmp_path / "l.png", gray, icc_profile=profile)
    close(load_image(path)[:, :, 0], srgb_from_linear(gray / 255), 2)


@needs_cms
def test_cmyk_with_a_profile(tmp_path: Path) -> None:
    # In this profile full cyan is a mid gray of L* 50, which is sRGB 119; without it cyan would be (0, 255, 255).
    profile = cmyk_profile({(0, 0, 0, 0): 100.0, (1, 0, 0, 0): 50.0})
    (tmp_path / "c.jpg").write_bytes(cmyk_jpeg((255, 0, 0, 0), adobe=True, profile=profile))
    close(load_image(tmp_path / "c.jpg"), (119, 119, 119), 4)


@pytest.mark.parametrize(
    "profile",
    [b"not a profile", rgb_profile(SRGB_D50, 1.0)[:200], gray_profile(1.0), cmyk_profile({})],
    ids=["rubbish", "cut", "gray", "cmyk"],
)
def test_a_profile_that_does_not_fit_is_ignored(tmp_path: Path, profile: bytes) -> None:
    close(load_image(save(tmp_path / "a.png", QUARTERS, icc_profile=profile)), QUARTERS, 0)


def test_without_littlecms_profiles_are_ignored_and_the_fingerprint_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_it = decoding_steps()
    monkeypatch.setattr("faceblind.encoders.images._has_color_management", lambda: False)
    path = save(tmp_path / "a.png", QUARTERS, icc_profile=rgb_profile(SRGB_D50, 1.0))
    close(load_image(path), QUARTERS, 0)
    assert decoding_steps()["icc"] == "ignored"
    assert with_it["icc"] == ("to sRGB, perceptual" if features.check("littlecms2") else "ignored")


# Orientation and frames


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize(("name", "tolerance"), [("o.png", 0), ("o.jpg", 8), ("o.tif", 0), ("o.webp", 0)])
def test_exif_orientation(tmp_path: Path, orientation: int, name: str, tolerance: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    options: dict[str, object] = {"exif": exif}
    if name.endswith("webp"):
        options["lossless"] = True
    if name.endswith("jpg"):
        options |= {"quality": 100, "subsampling": 0}
    save(tmp_path / name, stored_for(QUARTERS, orientation), **options)
    close(load_image(tmp_path / name), QUARTERS, tolerance)


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_a_meaningless_orientation_is_ignored(tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    close(load_image(save(tmp_path / "o.png", QUARTERS, exif=exif)), QUARTERS, 0)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_damaged_exif_is_ignored(tmp_path: Path) -> None:
    path = save(tmp_path / "o.jpg", QUARTERS, quality=100, subsampling=0, exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff")
    close(load_image(path), QUARTERS, 3)


@pytest.mark.parametrize("name", ["a.gif", "a.webp", "a.png", "a.tif"])
def test_first_frame_of_an_animation(tmp_path: Path, name: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, GREEN, BLUE)]
    options = {"lossless": True} if name.endswith("webp") else {}
    frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:], **options)
    close(load_image(tmp_path / name), RED, 0)


# What cannot be used


def test_missing_folder_and_empty(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"gone\.jpg: no such file"):
        load_image(tmp_path / "gone.jpg")
    with pytest.raises(ImageError, match="not a file"):
        load_image(tmp_path)
    (tmp_path / "zero.jpg").write_bytes(b"")
    with pytest.raises(ImageError, match=r"zero\.jpg: the file is empty \(0 bytes\)"):
        load_image(tmp_path / "zero.jpg")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(ImageError, match="not a file"):
        load_image(tmp_path / "pipe.jpg")


def test_text_named_jpg(tmp_path: Path) -> None:
    (tmp_path / "t.jpg").write_text("<html>404 not found</html>")
    with pytest.raises(ImageError, match=r"t\.jpg: not an image in a format that can be read \(JPEG, PNG") as caught:
        load_image(tmp_path / "t.jpg")
    assert "0x" not in str(caught.value)


def test_postscript_is_never_run(tmp_path: Path) -> None:
    Image.fromarray(QUARTERS).save(tmp_path / "a.eps")
    (tmp_path / "a.jpg").write_bytes((tmp_path / "a.eps").read_bytes())
    with pytest.raises(ImageError, match="not an image in a format"):
        load_image(tmp_path / "a.jpg")


FORMATS = [
    ("a.jpg", {}),
    ("a.jpeg", {"progressive": True}),
    ("a.png", {}),
    ("a.webp", {}),
    ("b.webp", {"lossless": True}),
    ("a.gif", {}),
    ("a.bmp", {}),
    ("a.tif", {}),
    ("b.tif", {"compression": "tiff_lzw"}),
    ("a.jp2", {}),
    ("a.ppm", {}),
]
NOISE = RNG.integers(0, 256, (40, 56, 3), dtype=np.uint8)


@pytest.mark.parametrize(("name", "options"), FORMATS)
@pytest.mark.parametrize("share", [0.02, 0.5, 0.9, 0.97])
def test_truncated_files_are_refused(tmp_path: Path, name: str, options: dict[str, object], share: float) -> None:
    path = save(tmp_path / name, NOISE, **options)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ImageError, match=r"damaged or truncated|header is damaged"):
        load_image(path)


def test_a_jpeg_padded_with_zeros_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jpg", NOISE)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2].ljust(len(data), b"\0"))
    with pytest.raises(ImageError, match="truncated"):
        load_image(path)


def test_half_images_stay_refused_when_pillow_is_told_to_accept_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(ImageError, match=r"LOAD_TRUNCATED_IMAGES is set .* set it to False"):
        load_image(save(tmp_path / "a.png", QUARTERS))


def test_a_broken_checksum_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "a.png", NOISE)
    data = bytearray(path.read_bytes())
    data[data.index(b"IHDR") + 15] ^= 0xFF  # the header's checksum
    path.write_bytes(data)
    with pytest.raises(ImageError, match=r"a\.png: "):
        load_image(path)


@pytest.mark.parametrize(("name", "options"), FORMATS)
def test_damaged_files_decode_or_are_refused_and_nothing_else(
    tmp_path: Path, name: str, options: dict[str, object]
) -> None:
    data = save(tmp_path / name, NOISE, **options).read_bytes()
    rng = np.random.default_rng(len(name))
    for _ in range(60):
        broken = bytearray(data)
        for position in rng.integers(0, min(len(data), 600), size=3):
            broken[position] = rng.integers(256)
        (tmp_path / name).write_bytes(broken)
        try:
            pixels = load_image(tmp_path / name, max_pixels=1_000_000)
        except ImageError as error:
            refused = str(error)
            assert refused.startswith(f"{tmp_path / name}: ")
        else:
            assert pixels.dtype == np.uint8
            assert pixels.ndim == 3


def test_more_pixels_than_allowed(tmp_path: Path) -> None:
    path = save(tmp_path / "a.png", QUARTERS)
    assert load_image(path, max_pixels=16 * 24).shape == (16, 24, 3)
    with pytest.raises(ImageError, match=r"a\.png: 24x16 pixels over the limit of 383 pixels"):
        load_image(path, max_pixels=16 * 24 - 1)


def test_a_small_file_that_claims_billions_of_pixels(tmp_path: Path) -> None:
    (tmp_path / "bomb.png").write_bytes(huge_png(60_000, 60_000))
    with pytest.raises(ImageError, match=r"bomb\.png: .*over the limit of 178,956,970 pixels"):
        load_image(tmp_path / "bomb.png")


def test_an_unsupported_colour_mode_is_named(tmp_path: Path) -> None:
    Image.new("LAB", (4, 4)).save(tmp_path / "lab.tif")
    with pytest.raises(ImageError, match="colour mode LAB is not supported"):
        load_image(tmp_path / "lab.tif")


def test_without_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r"reading photographs needs pillow; .*faceblind\[images\]"):
        load_image(tmp_path / "a.jpg")


def test_same_file_same_pixels(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    buffer = io.BytesIO()
    Image.fromarray(NOISE).save(buffer, "JPEG", quality=70)
    path.write_bytes(buffer.getvalue())
    assert np.array_equal(load_image(path), load_image(path))
