"""No protection: the picture itself, as ordinary face recognition takes it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from faceblind._errors import DataError
from faceblind.frequency.releases.base import Release, Released


class Rgb(Release):
    """Release RGB pixels scaled to [-1, 1]."""

    kind = "rgb"
    title = "RGB"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Three channels of the size of the image."""
        return 3, *self.size

    def config(self) -> dict[str, Any]:
        """Return no options: there are none."""
        return {}

    def forward(self, pixels: Tensor, generator: torch.Generator | None = None, *, noise: bool = True) -> Released:
        """Release a batch as it is."""
        return Released(scaled(pixels, self.size))

    def picture(self, tensor: Tensor) -> Tensor:
        """Show the pixels."""
        return unscaled(tensor)


def scaled(pixels: Tensor, size: tuple[int, int]) -> Tensor:
    """Scale pixels (b, 3, H, W) from 0..255 to [-1, 1].

    Raises
    ------
    DataError
        Another shape or type.
    """
    if pixels.ndim != 4 or tuple(pixels.shape[1:]) != (3, *size) or not pixels.is_floating_point():
        raise DataError(
            f"pixels must be floats (images, 3, {size[0]}, {size[1]}) in 0..255, got {pixels.dtype} {tuple(pixels.shape)}"
        )
    return pixels.detach() / 127.5 - 1


def unscaled(tensor: Tensor) -> Tensor:
    """Scale values from [-1, 1] to pixels in 0..255, clipped."""
    return ((tensor + 1) * 127.5).clamp(0, 255)
