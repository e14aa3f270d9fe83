"""What every release offers: a mechanism between the camera and the network.

A release takes face images and gives what leaves the camera instead of them. DCTDP and all its baselines have this one
shape, so that one trainer, one evaluation and one set of attacks serve them all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

Batches = Callable[[], Iterable[tuple[Tensor, list[str]]]]
"""Gives a fresh pass over public faces: float32 pixels (b, 3, H, W) in 0..255 and the identity of each."""


@dataclass(frozen=True, eq=False)
class Released:
    """A batch as it leaves the camera.

    Attributes
    ----------
    tensor : (b, C, h, w) float32
        What the network and every attacker get.
    partners : (b, k) int64 or None
        Rows of the batch whose images are mixed into each (its own row first); None when nothing is mixed.
    weights : (b, k) float32 or None
        Their shares, which sum to one.
    """

    tensor: Tensor
    partners: Tensor | None = None
    weights: Tensor | None = None


class Release(nn.Module, ABC):
    """A mechanism of releasing faces.

    `forward` takes pixels (b, 3, H, W), float32 RGB in 0..255. Randomness comes from `generator` alone: the same
    generator state gives the same release on the same machine. Everything learnt or calibrated is in `state_dict`.

    Parameters
    ----------
    size
        Height and width of the images.
    """

    kind: ClassVar[str]
    """Name in the registry, in recipes and on the command line."""
    title: ClassVar[str]
    """Name in reports."""

    def __init__(self, size: tuple[int, int]) -> None:
        super().__init__()
        self.size = size

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of what is released."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return the constructor's keyword arguments but for `size`, as JSON values."""

    @abstractmethod
    def forward(self, pixels: Tensor, generator: torch.Generator | None = None, *, noise: bool = True) -> Released:
        """Release a batch; with ``noise=False`` without what hides the faces, for comparisons only."""

    @property
    def calibrated(self) -> bool:
        """Whether `calibrate` has run, or is not needed."""
        return True

    def calibrate(self, batches: Batches, progress: Callable[[int, int], None] | None = None) -> None:
        """Learn from public faces, streaming, what the mechanism fixes before training; nothing by default."""

    def penalty(self) -> Tensor | None:
        """Return what is added to the recognition loss while training, or None."""
        return None

    def noise_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that the recipe's optimiser for noise learns (Adam, no weight decay)."""
        return [p for p in self.parameters() if p.requires_grad]

    def picture(self, tensor: Tensor) -> Tensor | None:
        """Show a release as the mechanism's own inverse allows: (b, C, h, w) to RGB (b, 3, H, W) in 0..255, or None."""
        return None

    def account(self) -> dict[str, Any] | None:
        """Return the privacy accounting as JSON values (see `faceblind.frequency.accounting`), or None without any."""
        return None
