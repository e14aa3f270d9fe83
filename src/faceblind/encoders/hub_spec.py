"""A hub checkpoint's ``preprocessor_config.json`` as a `PreprocessSpec`.

The library's own image processors exist in several versions (with and without torchvision) that do not agree in the
last pixel. The file is therefore read here and carried out by our own `Preprocessor`, the same on every machine.
Where a processor departs from the original release, the original is followed:

- Center crops start at ``round(spare / 2)``, halves to even, as torchvision's ``CenterCrop`` does, with which CLIP and
  DINOv2 were released; the library's Pillow processors start at ``spare // 2``, one pixel earlier for every fourth spare.
- Resizing works on 8-bit pixels. The library's processor for DINOv3 resizes floats instead; Meta's published transform
  is ``ToImage, Resize, ToDtype(float32)``, which resizes 8-bit pixels. The two differ by a grey level at most.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faceblind._errors import EncoderError
from faceblind.encoders.spec import PreprocessSpec


@dataclass(frozen=True, kw_only=True)
class _Processor:
    """What a processor class does where its file is silent."""

    shortest: bool
    """A bare number as size is the shortest side; otherwise a square."""
    crops: bool


# By the name in the file without "Fast" and "Pil"; files from before 2023 say FeatureExtractor.
_PROCESSORS = {
    "CLIPImageProcessor": _Processor(shortest=True, crops=True),
    "BitImageProcessor": _Processor(shortest=True, crops=True),
    "SiglipImageProcessor": _Processor(shortest=False, crops=False),
    "ViTImageProcessor": _Processor(shortest=False, crops=False),
    "DINOv3ViTImageProcessor": _Processor(shortest=False, crops=False),
}
_RESAMPLE = {1: "lanczos", 2: "bilinear", 3: "bicubic"}  # Pillow's numbers
_STEPS = {"do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_convert_rgb"}  # photographs are RGB already
_NEEDED = ("image_mean", "image_std")


def read_preprocessing(path: str | Path, released: Mapping[str, Any] | None = None) -> PreprocessSpec:
    """Read a ``preprocessor_config.json``, or the image part of a ``processor_config.json``.

    Parameters
    ----------
    released
        Entries in which the original release is known to differ from what the file may say; they win.

    Raises
    ------
    EncoderError
        The file is missing or damaged, or asks for a step that is not known here.
    """
    path = Path(path)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise EncoderError(
            f"cannot read {path} ({error.strerror}): a checkpoint needs it beside its weights"
        ) from error
    except ValueError as error:
        raise EncoderError(f"{path} is not JSON ({error}): download it again") from error
    if isinstance(data, dict) and isinstance(data.get("image_processor"), dict):
        data = data["image_processor"]
    if not isinstance(data, dict):
        raise EncoderError(f"{path} is not a JSON object: download it again")
    try:
        return PreprocessSpec.parse(_translate(data | dict(released or {})))
    except EncoderError as error:
        raise EncoderError(f"preprocessing in {path} cannot be followed: {error}") from error


def _translate(data: Mapping[str, Any]) -> dict[str, Any]:
    processor = _processor(data)
    odd = sorted(key for key, value in data.items() if key.startswith("do_") and value and key not in _STEPS)
    if odd:
        raise EncoderError(f"step {odd[0]!r} is not known here (known are {', '.join(sorted(_STEPS))})")
    missing = [key for key in _NEEDED if key not in data]
    if missing and data.get("do_normalize", True):
        raise EncoderError(f"{missing[0]!r} is missing")
    keys: dict[str, Any] = {"channels": "RGB", "layout": "NCHW", "dtype": "float32"}
    keys |= _geometry(data, processor)
    rescales, normalises = data.get("do_rescale", True), data.get("do_normalize", True)
    keys["scale"] = data.get("rescale_factor", "1/255") if rescales else 1
    keys["mean"] = _three(data["image_mean"]) if normalises else [0, 0, 0]
    keys["std"] = _three(data["image_std"]) if normalises else [1, 1, 1]
    return keys


def _processor(data: Mapping[str, Any]) -> _Processor:
    name = data.get("image_processor_type") or data.get("feature_extractor_type")
    plain = str(name).replace("FeatureExtractor", "ImageProcessor").removesuffix("Fast").removesuffix("Pil")
    if plain not in _PROCESSORS:
        raise EncoderError(f"image processor {name!r} is not known here (known are {', '.join(_PROCESSORS)})")
    return _PROCESSORS[plain]


def _geometry(data: Mapping[str, Any], processor: _Processor) -> dict[str, Any]:
    """Work out resizing and cropping; every photograph must end in one size, as these networks ask."""
    crop = data.get("crop_size") if data.get("do_center_crop", processor.crops) else None
    if data.get("do_center_crop", processor.crops) and crop is None:
        raise EncoderError("'crop_size' is missing")
    cropped = None if crop is None else _pair(crop, "crop_size")
    if not data.get("do_resize", True):
        if cropped is None:
            raise EncoderError("it neither resizes nor crops, so photographs would keep their sizes")
        return {"resize": "none", "size": cropped, "crop": "center"}
    if data.get("resample") not in _RESAMPLE:
        raise EncoderError(f"'resample' must be one of {_RESAMPLE}, got {data.get('resample')!r}")
    keys: dict[str, Any] = {"interpolation": _RESAMPLE[data["resample"]]}
    size = data.get("size")
    if isinstance(size, int) and processor.shortest:
        size = {"shortest_edge": size}
    if isinstance(size, dict) and set(size) == {"shortest_edge"}:
        if cropped is None:
            raise EncoderError(f"'size' {size} without a crop leaves photographs of different shapes")
        keys |= {"resize": "shortest", "size": cropped, "crop": "center"}
        if cropped != [size["shortest_edge"]] * 2:
            keys["resize_size"] = size["shortest_edge"]
        return keys
    square = _pair(size, "size")
    if cropped not in (None, square):
        raise EncoderError(f"a crop of {cropped} out of {square} is not known here")
    return keys | {"resize": "squash", "size": square}


def _pair(value: Any, key: str) -> list[int]:
    if isinstance(value, dict) and set(value) == {"height", "width"}:
        return [value["height"], value["width"]]
    if isinstance(value, int):
        return [value, value]
    raise EncoderError(f"{key!r} must be a number or have height and width, got {json.dumps(value)}")


def _three(value: Any) -> Any:
    return [value] * 3 if isinstance(value, int | float) else value
