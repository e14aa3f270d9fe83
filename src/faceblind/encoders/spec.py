"""The preprocessing spec: every step from decoded pixels to an encoder's input, and from output to vectors.

A network file says nothing about the pixels it was trained on. Resizing by another rule, or swapping the
channel order, still gives vectors, only worse ones: nothing that changes a pixel has a default here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faceblind._errors import EncoderError

EXAMPLE = (
    '{"size": 224, "resize": "shortest", "crop": "center", "interpolation": "bicubic", "channels": "RGB", '
    '"layout": "NCHW", "dtype": "float32", "scale": "1/255", "mean": [0.485, 0.456, 0.406], '
    '"std": [0.229, 0.224, 0.225], "pooling": "as output", "normalise": true}'
)
"""A minimal spec, shown when one is missing."""

_RESIZE = ("squash", "shortest", "none")
_INTERPOLATION = ("bilinear", "bicubic", "lanczos")
_CHANNELS = ("RGB", "BGR")
_LAYOUT = ("NCHW", "NHWC")
_DTYPE = ("float32", "float16", "uint8")
_POOLING = ("as output", "cls", "mean", "patch mean")


@dataclass(frozen=True, kw_only=True)
class PreprocessSpec:
    """How an encoder is fed and read; build it with `PreprocessSpec.load` or `PreprocessSpec.parse`.

    Attributes
    ----------
    size : (height, width) or None
        What the network sees; None feeds photographs in their own size.
    resize
        ``"squash"`` to `size` whatever the shape; ``"shortest"`` keeps the shape: the photograph just covers
        `size` (or its shortest side becomes `resize_size`); ``"none"``.
    resize_size : int or None
        With ``"shortest"`` and a crop: the shortest side before cropping, e.g. 256 for a 224 crop.
    crop
        ``"center"`` cuts `size` out of the middle; None cuts nothing.
    interpolation
        ``"bilinear"``, ``"bicubic"`` or ``"lanczos"``, antialiased as Pillow and torchvision do; None when
        nothing is resized.
    channels, layout, dtype
        Order of colours, order of axes and number type of the input.
    scale, mean, std
        Input = (pixel * scale - mean) / std for each channel, in the order of `channels`; float inputs only.
    input, output : str or None
        Names in the network; None when there is only one.
    pooling
        ``"as output"`` for an output (batch, d); for tokens (batch, n, d): ``"cls"`` takes the first,
        ``"mean"`` averages all, ``"patch mean"`` averages those after the first `prefix_tokens`; for a
        feature map (batch, d, h, w): ``"mean"``.
    normalise
        Scale vectors to unit length.
    dim : int or None
        Length of a vector, checked when given.
    """

    resize: str
    channels: str
    layout: str
    dtype: str
    size: tuple[int, int] | None = None
    resize_size: int | None = None
    crop: str | None = None
    interpolation: str | None = None
    scale: float = 1.0
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    input: str | None = None
    output: str | None = None
    pooling: str = "as output"
    prefix_tokens: int = 1
    normalise: bool = False
    dim: int | None = None

    @classmethod
    def load(cls, path: str | Path) -> PreprocessSpec:
        """Read a spec from a JSON file; `EncoderError` names the file and the key that is wrong."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8-sig")
            data = json.loads(text, object_pairs_hook=_without_repeats)
        except OSError as error:
            raise EncoderError(
                f"no preprocessing spec at {path} ({error.strerror}): an encoder file needs one beside it, "
                f"for example {EXAMPLE}"
            ) from error
        except ValueError as error:
            raise EncoderError(f"{path} is not JSON: {error}") from error
        try:
            return cls.parse(data)
        except EncoderError as error:
            raise EncoderError(f"{path}: {error}") from error

    @classmethod
    def parse(cls, data: Any) -> PreprocessSpec:
        """Build from JSON types; raises `EncoderError` naming the key and what it may be."""
        if not isinstance(data, Mapping):
            raise EncoderError(f"a spec is a JSON object, got {json.dumps(data)[:40]}; for example {EXAMPLE}")
        unknown = sorted(set(data) - set(_READERS))
        if unknown:
            raise EncoderError(f"unknown key {unknown[0]!r}; a spec may hold {', '.join(_READERS)}")
        missing = [key for key in ("resize", "channels", "layout", "dtype") if key not in data]
        if missing:
            raise EncoderError(f"key {missing[0]!r} is missing ({_ALLOWED[missing[0]]}); for example {EXAMPLE}")
        values = {}
        for key, value in data.items():
            try:
                values[key] = _READERS[key](value)
            except (TypeError, ValueError, ZeroDivisionError) as error:
                raise EncoderError(f"{key!r} must be {_ALLOWED[key]}, got {json.dumps(value)}") from error
        spec = cls(**values)
        spec._check_together(set(data))
        return spec

    def pixel_steps(self) -> dict[str, Any]:
        """Return the steps from decoded pixels to the network's input, as JSON types."""
        return {
            "channels": self.channels,
            "crop": self.crop,
            "dtype": self.dtype,
            "interpolation": self.interpolation,
            "layout": self.layout,
            "mean": list(self.mean),
            "resize": self.resize,
            "resize_size": self.resize_size,
            "scale": self.scale,
            "size": None if self.size is None else list(self.size),
            "std": list(self.std),
        }

    def _check_together(self, given: set[str]) -> None:
        """Refuse combinations that leave a step open or would be ignored."""
        if self.resize == "none":
            if self.interpolation is not None:
                raise EncoderError("'interpolation' has no meaning with 'resize': \"none\"; leave it out")
        elif self.interpolation is None:
            raise EncoderError(f"'interpolation' must be {_ALLOWED['interpolation']} when resizing")
        if self.resize == "squash" and self.crop is not None:
            raise EncoderError("'crop' has no meaning with 'resize': \"squash\"; leave it out")
        needs_size = self.resize != "none" or self.crop is not None
        if needs_size != (self.size is not None):
            what = "needs" if needs_size else "without 'crop' has no use for"
            raise EncoderError(f"'resize': \"{self.resize}\" {what} 'size' ({_ALLOWED['size']})")
        if self.resize_size is not None:
            if self.resize != "shortest" or self.crop is None or self.size is None:
                raise EncoderError("'resize_size' needs 'resize': \"shortest\" and 'crop': \"center\"")
            if self.resize_size < max(self.size):
                raise EncoderError(f"'resize_size' must be at least 'size' {list(self.size)}, got {self.resize_size}")
        arithmetic = ("scale", "mean", "std")
        if self.dtype == "uint8":
            if given & set(arithmetic):
                raise EncoderError("'scale', 'mean' and 'std' have no meaning with 'dtype': \"uint8\"; leave them out")
        elif not given >= set(arithmetic):
            absent = next(key for key in arithmetic if key not in given)
            raise EncoderError(f"{absent!r} is missing: a {self.dtype} input needs it ({_ALLOWED[absent]})")
        if "prefix_tokens" in given and self.pooling != "patch mean":
            raise EncoderError("'prefix_tokens' needs 'pooling': \"patch mean\"")


def canonical(steps: Mapping[str, Any]) -> str:
    """Write steps as the JSON that fingerprints compare."""
    return json.dumps(steps, sort_keys=True, separators=(",", ":"))


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    repeated = [key for key in keys if keys.count(key) > 1]
    if repeated:
        raise ValueError(f"key {repeated[0]!r} stands twice")
    return dict(pairs)


def _one_of(*choices: str | None) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if value not in choices or isinstance(value, bool):
            raise ValueError
        return value

    return read


def _whole(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= 65536:
        raise ValueError
    return value


def _whole_or_null(value: Any) -> int | None:
    return None if value is None else _whole(value)


def _size(value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    height, width = value if isinstance(value, list) else (value, value)
    return _whole(height), _whole(width)


def _number(value: Any) -> float:
    if type(value) not in {int, float} or not math.isfinite(value):
        raise ValueError
    return float(value)


def _scale(value: Any) -> float:
    if isinstance(value, str):  # "1/255" is what people mean; JSON cannot say it
        above, below = value.split("/")
        number = float(above) / float(below)
    else:
        number = _number(value)
    if not math.isfinite(number) or number <= 0:
        raise ValueError
    return number


def _three(value: Any) -> tuple[float, float, float]:
    if not isinstance(value, list):
        raise TypeError
    first, second, third = value
    return _number(first), _number(second), _number(third)


def _three_positive(value: Any) -> tuple[float, float, float]:
    numbers = _three(value)
    if min(numbers) <= 0:
        raise ValueError
    return numbers


def _name(value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or not value):
        raise ValueError
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "size": _size,
    "resize": _one_of(*_RESIZE),
    "resize_size": _whole_or_null,
    "crop": _one_of("center", None),
    "interpolation": _one_of(*_INTERPOLATION, None),
    "channels": _one_of(*_CHANNELS),
    "layout": _one_of(*_LAYOUT),
    "dtype": _one_of(*_DTYPE),
    "scale": _scale,
    "mean": _three,
    "std": _three_positive,
    "input": _name,
    "output": _name,
    "pooling": _one_of(*_POOLING),
    "prefix_tokens": _whole,
    "normalise": _truth,
    "dim": _whole_or_null,
}


def _either(choices: tuple[str, ...]) -> str:
    return "one of " + ", ".join(json.dumps(choice) for choice in choices)


_ALLOWED: Mapping[str, str] = {
    "size": "a whole number of pixels or [height, width]",
    "resize": _either(_RESIZE),
    "resize_size": "a whole number of pixels or null",
    "crop": '"center" or null',
    "interpolation": _either(_INTERPOLATION),
    "channels": _either(_CHANNELS),
    "layout": _either(_LAYOUT),
    "dtype": _either(_DTYPE),
    "scale": 'a positive number or a fraction such as "1/255"',
    "mean": "three numbers",
    "std": "three positive numbers",
    "input": "the name of an input, or null when the network has only one",
    "output": "the name of an output, or null when the network has only one",
    "pooling": _either(_POOLING),
    "prefix_tokens": "a whole number of tokens that are not patches",
    "normalise": "true or false",
    "dim": "the length of a vector, or null",
}
