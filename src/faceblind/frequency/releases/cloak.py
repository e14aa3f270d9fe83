"""Cloak: learn how much noise each pixel bears before recognition suffers, and cut out what bears the most.

Source: "Not All Features Are Equal: Discovering Essential Features for Preserving Prediction Privacy" (Mireshghallah et al.,
WWW 2021).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from faceblind._errors import UsageError
from faceblind.frequency.releases.base import Release, Released
from faceblind.frequency.releases.rgb import scaled, unscaled


class Cloak(Release):
    """Release ``image + sigma * normal``, and a learnt constant where sigma is large.

    Sigma is ``largest * (1 + tanh(rho)) / 2``. The recognition loss is joined by ``-weight * mean(log sigma)`` (scaled so that
    the paper's weight of 100 is usable): noise grows wherever the loss does not need the pixel.

    Parameters
    ----------
    weight
        How much noise is worth against recognition; 100 in the seed paper's comparison.
    largest
        Bound of sigma, in units of pixels scaled to [-1, 1].
    suppress
        Share of the values, those with the largest sigma, that are replaced by learnt constants where the network is used.
        The source learns the constants after sigma; here both are learnt at once: in training every second face of a batch is
        cut as in use, which teaches the constants and the network, and the others keep their noise everywhere, which teaches
        sigma what every value is worth.

    Raises
    ------
    UsageError
        An option out of range.
    """

    kind = "cloak"
    title = "Cloak"

    def __init__(
        self, size: tuple[int, int], *, weight: float = 100.0, largest: float = 1.5, suppress: float = 0.0
    ) -> None:
        super().__init__(size)
        if not (0 <= weight < math.inf and 0 < largest < math.inf and 0 <= suppress < 1):
            raise UsageError(
                "weight must not be negative, largest positive, both finite, and suppress in [0, 1); "
                f"got {weight}, {largest}, {suppress}"
            )
        self.weight, self.largest, self.suppress = float(weight), float(largest), float(suppress)
        self.rho = nn.Parameter(torch.full((3, *size), -2.0))
        self.mean = nn.Parameter(torch.zeros((3, *size)))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Three channels of the size of the image."""
        return 3, *self.size

    def config(self) -> dict[str, Any]:
        """Return the options."""
        return {"weight": self.weight, "largest": self.largest, "suppress": self.suppress}

    def sigma(self) -> Tensor:
        """Return the deviation of the noise, (3, H, W)."""
        return self.largest * (1 + torch.tanh(self.rho)) / 2

    def suppressed(self) -> Tensor:
        """Return which values are cut out, (3, H, W) bool."""
        cut = int(self.suppress * self.rho.numel())
        found = torch.zeros(self.rho.numel(), dtype=torch.bool, device=self.rho.device)
        if cut:
            found[torch.argsort(self.rho.detach().flatten(), descending=True, stable=True)[:cut]] = True
        return found.view_as(self.rho)

    def forward(self, pixels: Tensor, generator: torch.Generator | None = None, *, noise: bool = True) -> Released:
        """Add noise of its own to each face; cut out where the network is in use (``eval()``), in training in every second."""
        images = scaled(pixels, self.size)
        if not noise:
            return Released(images)
        drawn = torch.randn(images.shape, generator=generator, device=images.device)
        released = images + self.sigma() * drawn
        if self.suppress:
            cut = self.suppressed().expand(released.shape)
            if self.training:
                second = torch.arange(len(released), device=images.device) % 2 == 1
                cut = cut & second[:, None, None, None]
            released = torch.where(cut, self.mean, released)
        return Released(released)

    def penalty(self) -> Tensor:
        """Return what noise is worth: minus the weighted mean of its logarithm."""
        # A weight of 100 in the source stands against a loss summed over values; here both are means.
        # The logarithm of `sigma`, whose tanh would lose its gradient where rho is far below zero.
        log_sigma = math.log(self.largest) + logsigmoid(2 * self.rho)
        return -self.weight / 100 * log_sigma.mean()

    def picture(self, tensor: Tensor) -> Tensor:
        """Show the noisy pixels."""
        return unscaled(tensor)
