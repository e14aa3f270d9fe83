"""The preprocessing spec: strict about keys, types and combinations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faceblind._errors import EncoderError
from faceblind.encoders import PreprocessSpec
from faceblind.encoders.spec import EXAMPLE

FACE = {
    "size": 112,
    "resize": "squash",
    "interpolation": "bilinear",
    "channels": "BGR",
    "layout": "NCHW",
    "dtype": "float32",
    "scale": "1/255",
    "mean": [0.5, 0.5, 0.5],
    "std": [0.5, 0.5, 0.5],
}
BYTES = {"resize": "none", "channels": "RGB", "layout": "NHWC", "dtype": "uint8"}


def test_the_example_in_the_message_is_valid() -> None:
    spec = PreprocessSpec.parse(json.loads(EXAMPLE))
    assert spec.size == (224, 224)
    assert spec.scale == 1 / 255
    assert spec.normalise


def test_a_full_spec(tmp_path: Path) -> None:
    text = json.dumps(
        FACE
        | {"size": [112, 96], "scale": 0.00392156862745098, "input": "x", "output": "y", "pooling": "patch mean"}
        | {"prefix_tokens": 5, "normalise": True, "dim": 512, "crop": None, "resize_size": None}
    )
    (tmp_path / "spec.json").write_text(text)
    spec = PreprocessSpec.load(tmp_path / "spec.json")
    assert spec.size == (112, 96)
    assert (spec.input, spec.output, spec.pooling, spec.prefix_tokens, spec.dim) == ("x", "y", "patch mean", 5, 512)
    assert spec.scale == 1 / 255


def test_steps_hold_what_changes_pixels_and_nothing_else() -> None:
    spec = PreprocessSpec.parse(FACE | {"input": "x", "pooling": "mean", "normalise": True})
    assert spec.pixel_steps() == {
        "channels": "BGR",
        "crop": None,
        "dtype": "float32",
        "interpolation": "bilinear",
        "layout": "NCHW",
        "mean": [0.5, 0.5, 0.5],
        "resize": "squash",
        "resize_size": None,
        "scale": 1 / 255,
        "size": [112, 112],
        "std": [0.5, 0.5, 0.5],
    }


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("size", 0, "'size' must be a whole number of pixels or [height, width], got 0"),
        ("size", 112.0, "'size' must be a whole number"),
        ("size", [112], "'size' must be a whole number"),
        ("size", [112, 112, 3], "'size' must be a whole number"),
        ("size", "112", "'size' must be a whole number"),
        ("size", True, "'size' must be a whole number"),
        ("resize", "stretch", '\'resize\' must be one of "squash", "shortest", "none", got "stretch"'),
        ("resize", None, "'resize' must be one of"),
        ("resize", ["squash"], "'resize' must be one of"),
        ("crop", "centre", '\'crop\' must be "center" or null, got "centre"'),
        ("interpolation", "nearest", '\'interpolation\' must be one of "bilinear", "bicubic", "lanczos"'),
        ("channels", "rgb", '\'channels\' must be one of "RGB", "BGR"'),
        ("layout", "CHW", '\'layout\' must be one of "NCHW", "NHWC"'),
        ("dtype", "float64", '\'dtype\' must be one of "float32", "float16", "uint8"'),
        ("scale", 0, "'scale' must be a positive number or a fraction such as \"1/255\""),
        ("scale", "1/0", "'scale' must be a positive number"),
        ("scale", "255", "'scale' must be a positive number"),
        ("scale", True, "'scale' must be a positive number"),
        ("mean", 0.5, "'mean' must be three numbers, got 0.5"),
        ("mean", [0.5, 0.5], "'mean' must be three numbers"),
        ("mean", ["0.5", 0.5, 0.5], "'mean' must be three numbers"),
        ("std", [0.5, 0.5, 0], "'std' must be three positive numbers"),
        ("input", "", "'input' must be the name of an input"),
        ("output", 3, "'output' must be the name of an output"),
        ("pooling", "max", '\'pooling\' must be one of "as output", "cls", "mean", "patch mean"'),
        ("prefix_tokens", 0, "'prefix_tokens' must be a whole number of tokens"),
        ("normalise", 1, "'normalise' must be true or false, got 1"),
        ("dim", 512.5, "'dim' must be the length of a vector, or null"),
        ("normalize", True, "unknown key 'normalize'; a spec may hold size, resize"),
    ],
)
def test_a_wrong_value_is_named_with_what_it_may_be(key: str, value: Any, message: str) -> None:
    with pytest.raises(EncoderError) as caught:
        PreprocessSpec.parse(FACE | {key: value})
    assert message in str(caught.value)


@pytest.mark.parametrize("key", ["resize", "channels", "layout", "dtype", "scale", "mean", "std"])
def test_what_changes_pixels_has_no_default(key: str) -> None:
    with pytest.raises(EncoderError, match=f"'{key}' is missing"):
        PreprocessSpec.parse({name: value for name, value in FACE.items() if name != key})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (FACE | {"interpolation": None}, "'interpolation' must be one of .* when resizing"),
        (BYTES | {"interpolation": "bilinear"}, "'interpolation' has no meaning"),
        (FACE | {"crop": "center"}, "'crop' has no meaning with 'resize': \"squash\""),
        (FACE | {"size": None}, "'resize': \"squash\" needs 'size'"),
        (FACE | {"size": None, "resize": "shortest"}, "'resize': \"shortest\" needs 'size'"),
        (BYTES | {"size": 224}, "'resize': \"none\" without 'crop' has no use for 'size'"),
        (BYTES | {"crop": "center"}, "'resize': \"none\" needs 'size'"),
        (FACE | {"resize_size": 256}, "'resize_size' needs 'resize': \"shortest\" and 'crop': \"center\""),
        (
            FACE | {"resize": "shortest", "crop": "center", "size": [224, 300], "resize_size": 256},
            r"'resize_size' must be at least 'size' \[224, 300\], got 256",
        ),
        (BYTES | {"scale": "1/255"}, "'scale', 'mean' and 'std' have no meaning with 'dtype': \"uint8\""),
        (FACE | {"prefix_tokens": 2}, "'prefix_tokens' needs 'pooling': \"patch mean\""),
        ([FACE], r"a spec is a JSON object, got \["),
        (None, "a spec is a JSON object, got null"),
    ],
)
def test_combinations_that_leave_something_open_are_refused(spec: Any, message: str) -> None:
    with pytest.raises(EncoderError, match=message):
        PreprocessSpec.parse(spec)


def test_a_missing_file_shows_an_example(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"no preprocessing spec at .*model\.json .*for example \{\"size\": 224"):
        PreprocessSpec.load(tmp_path / "model.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"size": 224,}', r"m\.json is not JSON: "),
        ('{"size": 224, "size": 112}', "key 'size' stands twice"),
        (json.dumps(FACE).replace("[0.5, 0.5, 0.5]", "[0.5, 0.5, NaN]"), r"m\.json: 'mean' must be three numbers"),
        ('{"resize": "squash"}', r"m\.json: key 'channels' is missing"),
        ("\ufeff" + json.dumps(FACE | {"sise": 3}), r"m\.json: unknown key 'sise'"),
    ],
)
def test_errors_name_the_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "m.json").write_text(text, encoding="utf-8")
    with pytest.raises(EncoderError, match=message):
        PreprocessSpec.load(tmp_path / "m.json")
