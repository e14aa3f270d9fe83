"""What the attacks on DCTDP share: telling whether they apply, and what the mechanism itself tells an attacker."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
import torch
from torch import Tensor

from faceblind._errors import UsageError
from faceblind.frequency.attacks.base import Public
from faceblind.frequency.attacks.wiener import FacePrior
from faceblind.frequency.batches import tensor_of
from faceblind.frequency.releases.base import Release
from faceblind.frequency.releases.dctdp import DctDp
from faceblind.frequency.torch_bdct import BlockDCT

LEARN = 256
"""Faces of the attacker's own that a prior is learnt from, at most."""


def in_frequency(release: Release) -> TypeGuard[DctDp]:
    """Tell whether a release is coefficients of a block DCT."""
    return isinstance(release, DctDp) and release.transform is not None


def transform_of(release: Release) -> BlockDCT:
    """Return the block DCT of a release.

    Raises
    ------
    UsageError
        It has none.
    """
    if not in_frequency(release) or release.transform is None:
        raise UsageError(f"this attack inverts a block DCT; {release.title} releases none")
    return release.transform


def sigma_of(release: Release) -> Tensor:
    """Return the deviation of the noise, (C, m, n): sqrt(2) times the scale of Laplace noise."""
    if not in_frequency(release) or release.budget is None:
        return torch.zeros(release.shape)
    return release.budget.scale().detach().cpu() * 2**0.5


def without_offsets(release: Release, tensor: Tensor) -> Tensor:
    """Take off the learnt offsets of the published code, which anyone who knows the model knows."""
    if in_frequency(release) and release.budget is not None and release.budget.loc is not None:
        return tensor - release.budget.loc.detach().to(tensor.device)
    return tensor


def own_faces(public: Public, seed: int) -> Tensor:
    """Draw the attacker's own faces that are learnt from, pixels (n, 3, H, W): at most `LEARN`."""
    return tensor_of(public.pixels[np.random.default_rng(seed).permutation(len(public.pixels))[:LEARN]])


def prior_of(release: Release, pixels: Tensor) -> FacePrior:
    """Learn what faces look like from pixels (n, 3, H, W)."""
    return FacePrior.of(transform_of(release).planes(pixels.double()))


def signal_of(release: Release, pixels: Tensor) -> Tensor:
    """Return the spread of each channel over the attacker's own faces, (C,), a few of them at a time."""
    moments = Moments()
    for part in torch.split(pixels, 16):
        moments.add(transform_of(release)(part))
    return moments.deviation().float()


class Moments:
    """Sums of the values of each channel, over batches (b, C, m, n)."""

    def __init__(self) -> None:
        self.count, self.total, self.squares = 0, torch.zeros(0), torch.zeros(0)

    def add(self, values: Tensor) -> None:
        """Take in a batch."""
        if not self.count:
            self.total = self.squares = torch.zeros(values.shape[1], dtype=torch.float64)
        self.count += values.numel() // values.shape[1]
        for face in values:  # one at a time: in float64 a batch of large releases would not be small
            rows = face.flatten(1).double()
            self.total = self.total + rows.sum(dim=1)
            self.squares = self.squares + rows.square().sum(dim=1)

    def deviation(self) -> Tensor:
        """Return the deviation of each channel about its mean, (C,) float64."""
        mean = self.total / self.count
        return (self.squares / self.count - mean.square()).clamp_min(0).sqrt()
