"""Preprocessing of hub checkpoints, pixel for pixel against the library's own Pillow processors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hub_checkpoints import CLIP_FILE, DINOV2_FILE, DINOV3_FILE, IMAGENET_MEAN, IMAGENET_STD, SIGLIP2_FILE, photo

from faceblind._errors import EncoderError
from faceblind.encoders.hub_spec import read_preprocessing
from faceblind.encoders.preprocess import Preprocessor

pytest.importorskip("PIL")

SHAPES = [(224, 224), (300, 261), (261, 300), (225, 400), (97, 1013), (1013, 97), (31, 17), (448, 448), (256, 259)]


def read(folder: Path, data: Any, **released: Any) -> Preprocessor:
    path = folder / "preprocessor_config.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return Preprocessor(read_preprocessing(path, released))


def library(data: dict[str, Any], **changes: Any) -> Any:
    """Return the library's processor, run without torchvision."""
    pytest.importorskip("transformers")
    from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

    name = data.get("image_processor_type", "CLIP")
    kinds = {"CLIP": CLIPImageProcessorPil, "Bit": BitImageProcessorPil, "Sig": SiglipImageProcessorPil}
    made = next(kind for start, kind in kinds.items() if name.startswith(start))(**(data | changes))
    return lambda image: made(image, return_tensors="np")["pixel_values"][0]


def crop_as_torchvision(image: np.ndarray, size: int) -> np.ndarray:
    top, left = (int(round((side - size) / 2.0)) for side in image.shape[:2])  # noqa: RUF046 (as it is written there)
    return image[top : top + size, left : left + size]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("data", [CLIP_FILE, DINOV2_FILE, SIGLIP2_FILE], ids=["clip", "dinov2", "siglip2"])
def test_pixels_are_the_librarys(tmp_path: Path, data: dict[str, Any], shape: tuple[int, int]) -> None:
    image = photo(*shape)
    ours = read(tmp_path, data)(image)
    if data is SIGLIP2_FILE:
        theirs = library(data)(image)
    else:  # its crops start a pixel early for every fourth spare: resize there, crop as the releases do
        plain = library(data, do_center_crop=False, do_rescale=False, do_normalize=False)
        resized = plain(image).transpose(1, 2, 0)
        theirs = library(data, do_resize=False, do_center_crop=False)(crop_as_torchvision(resized, 224))
        if all((side - 224) % 4 != 3 for side in resized.shape[:2]):
            np.testing.assert_allclose(library(data)(image), theirs, atol=1e-7)
    assert ours.shape == theirs.shape == (3, 224, 224)
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=5e-7)


def test_crops_start_where_torchvision_starts(tmp_path: Path) -> None:
    # 224 x 227 leaves a spare of 3: round(1.5) = 2, and the library's Pillow processor takes 3 // 2 = 1.
    image = photo(224, 227)
    ours = read(tmp_path, CLIP_FILE | {"image_mean": [0] * 3, "image_std": [1] * 3})(image)
    assert np.array_equal(np.rint(ours * 255).transpose(1, 2, 0), image[:, 2:226])
    theirs = library(CLIP_FILE)(image)
    assert not np.allclose(theirs, read(tmp_path, CLIP_FILE)(image), atol=0.1)


def test_dinov3_is_metas_transform(tmp_path: Path) -> None:
    """Resize 8-bit pixels antialiased whatever the shape, then scale: checked with torch's own 8-bit resize."""
    torch = pytest.importorskip("torch")
    ours = read(tmp_path, DINOV3_FILE)
    for shape in SHAPES:
        image = photo(*shape)
        pixels = torch.from_numpy(image).permute(2, 0, 1)[None]
        resize = torch.nn.functional.interpolate
        eight_bit = resize(pixels, size=(224, 224), mode="bilinear", antialias=True)
        expected = eight_bit[0].numpy().transpose(1, 2, 0) / 255
        expected = ((expected - IMAGENET_MEAN) / IMAGENET_STD).transpose(2, 0, 1)
        step = 1 / 255 / min(IMAGENET_STD)
        difference = np.abs(ours(image) - expected)
        assert difference.max() < 1.01 * step  # one grey level, where Pillow and torch round apart
        assert difference.mean() < 0.3 * step
        exact = resize(pixels.float(), size=(224, 224), mode="bilinear", antialias=True)[0] / 255
        as_library = (exact.numpy().transpose(1, 2, 0) - IMAGENET_MEAN) / IMAGENET_STD
        assert np.abs(ours(image).transpose(1, 2, 0) - as_library).max() < 1.01 * step  # its processor never rounds


def test_the_release_wins_over_the_file(tmp_path: Path) -> None:
    ours = read(tmp_path, CLIP_FILE, image_mean=[0.5] * 3, image_std=[0.5] * 3)(photo(224, 224))
    np.testing.assert_allclose(ours, photo(224, 224).transpose(2, 0, 1) / 127.5 - 1, atol=1e-6)


def test_other_ways_to_write_the_same(tmp_path: Path) -> None:
    image = photo()
    clip = read(tmp_path, CLIP_FILE)(image)
    for change in (
        {"size": {"shortest_edge": 224}, "crop_size": {"height": 224, "width": 224}},
        {"feature_extractor_type": None, "image_processor_type": "CLIPImageProcessorFast"},
        {"do_rescale": True, "rescale_factor": 1 / 255, "do_convert_rgb": True},
    ):
        assert np.array_equal(read(tmp_path, CLIP_FILE | change)(image), clip)
    without = {key: value for key, value in CLIP_FILE.items() if key != "do_center_crop"}
    assert np.array_equal(read(tmp_path, without)(image), clip)
    nested = {"processor_class": "CLIPProcessor", "image_processor": CLIP_FILE}
    assert np.array_equal(read(tmp_path, nested)(image), clip)
    square = read(tmp_path, DINOV3_FILE | {"size": 224})(image)
    assert np.array_equal(square, read(tmp_path, DINOV3_FILE)(image))


def test_steps_that_are_switched_off(tmp_path: Path) -> None:
    image = photo(240, 240)
    raw = read(tmp_path, CLIP_FILE | {"do_rescale": False, "do_normalize": False, "do_resize": False})(image)
    assert np.array_equal(raw, image[8:232, 8:232].transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image_processor_type": "BlipImageProcessor", "feature_extractor_type": None}, "'BlipImageProcessor' is not"),
        ({"feature_extractor_type": None}, "image processor None is not known here .known are CLIPImageProcessor"),
        ({"do_flip_channel_order": True}, "step 'do_flip_channel_order' is not known here"),
        ({"do_pad": True}, "step 'do_pad'"),
        ({"resample": 0}, "'resample' must be one of .*, got 0"),
        ({"resample": None}, "'resample' must be one of .*, got None"),
        ({"size": {"longest_edge": 224}}, "'size' must be a number or have height and width, got "),
        ({"size": None}, "'size' must be a number"),
        ({"do_center_crop": False}, "without a crop leaves photographs of different shapes"),
        ({"do_center_crop": False, "do_resize": False}, "neither resizes nor crops"),
        ({"crop_size": None}, "'crop_size' is missing"),
        ({"size": {"height": 224, "width": 224}, "crop_size": 200}, r"a crop of \[200, 200\] out of \[224, 224\]"),
        ({"size": 200}, "'resize_size' must be at least 'size'"),  # the library would pad with black
        ({"image_std": [1, 0, 1]}, "'std' must be three positive numbers"),
        ({"image_mean": "CLIP"}, "'mean' must be three numbers"),
        ({"rescale_factor": -1}, "'scale' must be a positive number"),
    ],
)
def test_what_cannot_be_followed(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(
        EncoderError, match=f"preprocessing in .*preprocessor_config.json cannot be followed: .*{message}"
    ):
        read(tmp_path, CLIP_FILE | change)


def test_missing_keys_and_files(tmp_path: Path) -> None:
    for key in ("image_mean", "image_std"):
        with pytest.raises(EncoderError, match=f"'{key}' is missing"):
            read(tmp_path, {name: value for name, value in CLIP_FILE.items() if name != key})
    with pytest.raises(EncoderError, match=r"cannot read .*gone.json .No such file.*beside its weights"):
        read_preprocessing(tmp_path / "gone.json")
    for text, message in (("{", "is not JSON"), ("[1]", "is not a JSON object")):
        with pytest.raises(EncoderError, match=message):
            read(tmp_path, text)
