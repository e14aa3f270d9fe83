"""The black-box attack: a U-Net that learns from the attacker's own faces to undo the release.

The attacker releases own faces as often as wanted, with fresh noise each time, and trains on them; which epoch is kept is
decided on own faces that were held out. The paper trains with SGD at 0.1 and batches of 512 for 10 epochs; that is
`PAPER_UNET`. The default is what a sensible attacker with few faces would do: Adam, small batches, more epochs.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from faceblind._errors import DataError, UsageError
from faceblind.frequency.attacks.base import Progress, Public, View
from faceblind.frequency.batches import images_of, tensor_of
from faceblind.frequency.releases.base import Release


@dataclass(frozen=True)
class UNetPlan:
    """How the network is trained."""

    optimiser: str = "adam"
    lr: float = 2e-3
    batch: int = 32
    epochs: int = 10
    width: int = 16
    held_out: float = 0.1


PAPER_UNET = UNetPlan(optimiser="sgd", lr=0.1, batch=512, width=64)


class UNetAttack:
    """Learn the way back from a release to the picture."""

    name = "unet"
    title = "U-Net"
    holds = "releases of own faces, as many as wanted"

    def __init__(self, plan: UNetPlan | None = None) -> None:
        self.plan = plan or UNetPlan()
        if self.plan.optimiser not in ("adam", "sgd"):
            raise UsageError(f"optimiser must be adam or sgd, got {self.plan.optimiser!r}")
        self._net: UNet | None = None

    def fits(self, release: Release) -> bool:
        """Any release of at least 8 x 8 places."""
        return min(release.shape[1:]) >= 8

    def prepare(self, release: Release, public: Public, *, seed: int, progress: Progress | None = None) -> None:
        """Train on the attacker's own faces.

        Raises
        ------
        DataError
            Fewer than ten of them.
        """
        plan, count = self.plan, len(public.pixels)
        if count < 10:
            raise DataError(f"a U-Net needs faces to learn from, at least 10, got {count}")
        rng = np.random.default_rng([seed, 0x0E7])
        order = rng.permutation(count)
        out = max(1, round(plan.held_out * count))
        held, train = order[:out], order[out:]
        generator = torch.Generator().manual_seed(seed)
        release.eval()
        with torch.no_grad():
            sample = release(tensor_of(public.pixels[train[:64]]), generator).tensor
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            net = UNet(release.shape[0], release.size, plan.width)
        net.settle(sample)
        optimiser = (
            torch.optim.Adam(net.parameters(), lr=plan.lr)
            if plan.optimiser == "adam"
            else torch.optim.SGD(net.parameters(), lr=plan.lr)
        )
        checked = tensor_of(public.pixels[held])
        best, kept = math.inf, copy.deepcopy(net.state_dict())
        steps = math.ceil(len(train) / plan.batch)
        for epoch in range(plan.epochs):
            net.train()
            shuffled = rng.permutation(train)
            for step in range(steps):
                pixels = tensor_of(public.pixels[shuffled[step * plan.batch : (step + 1) * plan.batch]])
                with torch.no_grad():
                    released = release(pixels, generator).tensor
                optimiser.zero_grad(set_to_none=True)
                functional.mse_loss(net(released), pixels / 255).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                if progress is not None:
                    progress(epoch * steps + step + 1, plan.epochs * steps)
            loss = self._loss(net, release, checked, seed)
            if loss < best:
                best, kept = loss, copy.deepcopy(net.state_dict())
        net.load_state_dict(kept)
        self._net = net.eval()

    def _loss(self, net: UNet, release: Release, pixels: Tensor, seed: int) -> float:
        net.eval()
        with torch.no_grad():
            released = release(pixels, torch.Generator().manual_seed(seed + 1)).tensor
            return functional.mse_loss(net(released), pixels / 255).item()

    def recover(self, view: View) -> NDArray[np.float32]:
        """Put every release through the network."""
        if self._net is None:
            raise UsageError("prepare(...) the attack first")
        with torch.no_grad():
            return images_of((self._net(view.released.float()) * 255).clamp(0, 255))


class UNet(nn.Module):
    """Three halvings and back, with shortcuts; a 1 x 1 convolution first brings any number of channels down."""

    mean: Tensor
    std: Tensor

    def __init__(self, channels: int, size: tuple[int, int], width: int) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("mean", torch.zeros((channels, 1, 1)))
        self.register_buffer("std", torch.ones((channels, 1, 1)))
        self.entry = nn.Conv2d(channels, width, 1)
        widths = [width * 2**k for k in range(4)]
        self.down = nn.ModuleList(_pair(widths[max(k - 1, 0)], widths[k]) for k in range(4))
        self.up = nn.ModuleList(_pair(widths[k + 1] + widths[k], widths[k]) for k in reversed(range(3)))
        self.exit = nn.Conv2d(width, 3, 1)

    def settle(self, sample: Tensor) -> None:
        """Take mean and spread of each channel from the attacker's own releases."""
        flat = sample.transpose(0, 1).flatten(1)
        self.mean.copy_(flat.mean(dim=1)[:, None, None])
        self.std.copy_(flat.std(dim=1).clamp_min(1e-6)[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        """Turn releases (b, C, h, w) into pictures (b, 3, H, W), about 0..1."""
        x = self.entry((x - self.mean) / self.std)
        passed = []
        for number, stage in enumerate(self.down):
            x = stage(x if number == 0 else functional.max_pool2d(x, 2, ceil_mode=True))
            passed.append(x)
        for stage, across in zip(self.up, reversed(passed[:-1]), strict=True):
            x = stage(torch.cat([functional.interpolate(x, size=across.shape[2:], mode="nearest"), across], dim=1))
        if x.shape[2:] != self.size:
            x = functional.interpolate(x, size=self.size, mode="bilinear", align_corners=False)
        found: Tensor = 0.5 + self.exit(x)
        return found


def _pair(channels: int, out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, out, 3, padding=1, bias=False),
        nn.BatchNorm2d(out),
        nn.ReLU(inplace=True),
        nn.Conv2d(out, out, 3, padding=1, bias=False),
        nn.BatchNorm2d(out),
        nn.ReLU(inplace=True),
    )
