"""Carrying out a `PreprocessSpec`: pixels to a network's input, and its output to vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import EncoderError, ImageError, MissingExtraError
from faceblind.data.embeddings import unit_rows
from faceblind.encoders.spec import PreprocessSpec


class Preprocessor:
    """Turns one photograph into the array a network takes; safe to call from several threads."""

    def __init__(self, spec: PreprocessSpec) -> None:
        self._spec = spec
        self._columns: NDArray[Any] | None = None
        if spec.dtype != "uint8":
            # A column per channel with an entry per pixel value, computed in float64: fast, and rounded only once.
            values = np.arange(256, dtype=np.float64)
            mean, std = np.asarray(spec.mean)[:, None], np.asarray(spec.std)[:, None]
            self._columns = ((values * spec.scale - mean) / std).astype(spec.dtype)

    def __call__(self, image: NDArray[np.uint8]) -> NDArray[Any]:
        """Prepare a (H, W, 3) uint8 RGB image.

        Returns
        -------
        (3, h, w) or (h, w, 3) array
            Contiguous, in the spec's layout and number type.

        Raises
        ------
        ImageError
            The photograph is smaller than the crop, or so narrow that resizing leaves nothing.
        """
        pixels = self._crop(self._resize(image))
        if self._spec.channels == "BGR":
            pixels = pixels[:, :, ::-1]
        channels = pixels.transpose(2, 0, 1)
        shape = channels.shape if self._spec.layout == "NCHW" else pixels.shape
        out = np.empty(shape, dtype=self._spec.dtype)
        view = out if self._spec.layout == "NCHW" else out.transpose(2, 0, 1)
        if self._columns is None:
            view[:] = channels
        else:
            for channel, column in enumerate(self._columns):
                np.take(column, channels[channel], out=view[channel], mode="clip")  # the mode that needs no buffer
        return out

    def _resize(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        spec = self._spec
        if spec.resize == "none" or spec.size is None:
            return image
        height, width = spec.size
        if spec.resize == "shortest":
            height, width = _covering(image.shape[0], image.shape[1], spec)
        if image.shape[:2] == (height, width):
            return image
        try:
            from PIL import Image
        except ImportError as error:
            raise MissingExtraError("pillow", "images", "resizing photographs") from error
        method = {
            "bilinear": Image.Resampling.BILINEAR,
            "bicubic": Image.Resampling.BICUBIC,
            "lanczos": Image.Resampling.LANCZOS,
        }[spec.interpolation or "bilinear"]
        return np.asarray(Image.fromarray(image).resize((width, height), method))

    def _crop(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        if self._spec.crop is None or self._spec.size is None:
            return image
        height, width = self._spec.size
        spare_h, spare_w = image.shape[0] - height, image.shape[1] - width
        if spare_h < 0 or spare_w < 0:
            raise ImageError(
                f"{image.shape[1]}x{image.shape[0]} pixels is smaller than the encoder's crop of {width}x{height}"
            )
        top, left = round(spare_h / 2), round(spare_w / 2)  # as torchvision rounds
        return image[top : top + height, left : left + width]


def pool(output: NDArray[Any], spec: PreprocessSpec) -> NDArray[np.float32]:
    """Reduce a network's output to one vector per image.

    Parameters
    ----------
    output
        (b, d), tokens (b, n, d) or a feature map (b, d, h, w), as `spec.pooling` asks.

    Returns
    -------
    (b, d) float32

    Raises
    ------
    EncoderError
        The output's shape does not suit the pooling.
    """
    how, axes = spec.pooling, output.ndim
    if how == "as output" and axes == 2:
        vectors = output
    elif how == "cls" and axes == 3:
        vectors = output[:, 0]
    elif how == "mean" and axes in {3, 4}:
        vectors = output.mean(axis=1 if axes == 3 else (2, 3), dtype=np.float64)
    elif how == "patch mean" and axes == 3 and output.shape[1] > spec.prefix_tokens:
        vectors = output[:, spec.prefix_tokens :].mean(axis=1, dtype=np.float64)
    else:
        fitting = {2: '"as output"', 3: '"cls", "mean" or "patch mean"', 4: '"mean"'}.get(axes, "none")
        raise EncoderError(
            f"the output's shape {list(output.shape)} does not suit 'pooling': \"{how}\" "
            f"(fitting here: {fitting}; 'output' may name another output)"
        )
    with np.errstate(over="ignore", invalid="ignore"):  # a vector that is not finite is the caller's to report
        vectors = vectors.astype(np.float32)
        return unit_rows(vectors) if spec.normalise else vectors


def _covering(height: int, width: int, spec: PreprocessSpec) -> tuple[int, int]:
    """Size that keeps the shape and covers `spec.size`; sides are cut to whole pixels as torchvision does."""
    target_h, target_w = spec.size if spec.size is not None else (height, width)
    if spec.resize_size is not None:
        target_h = target_w = spec.resize_size
    if target_h * width >= target_w * height:  # the height is the tight side
        return target_h, max(target_w, target_h * width // height)
    return max(target_h, target_w * height // width), target_w
