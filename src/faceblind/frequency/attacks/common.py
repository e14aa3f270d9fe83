"""What the attacks on DCTDP share: telling whether they apply, and what the mechanism itself tells an attacker."""

from __future__ import annotations

from typing import TypeGuard

import torch
from torch import Tensor

from faceblind._errors import UsageError
from faceblind.frequency.attacks.wiener import FacePrior
from faceblind.frequency.batches import tensor_of
from faceblind.frequency.releases.base import Release
from faceblind.frequency.releases.dctdp import DctDp
from faceblind.frequency.torch_bdct import BlockDCT


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


def prior_of(release: Release, pixels: object) -> FacePrior:
    """Learn what faces look like from the attacker's own, (n, H, W, 3) uint8."""
    return FacePrior.of(transform_of(release).planes(tensor_of(pixels).double()))  # type: ignore[arg-type]


def signal_of(release: Release, pixels: Tensor) -> Tensor:
    """Return the spread of each channel over the attacker's own faces, (C,)."""
    values = transform_of(release)(pixels)
    spread: Tensor = values.transpose(0, 1).flatten(1).std(dim=1)
    return spread
