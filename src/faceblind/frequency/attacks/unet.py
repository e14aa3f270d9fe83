"""A U-Net that learns from the attacker's own faces to undo the release: black box, or behind least squares.

The attacker releases own faces as often as wanted, with fresh noise each time, and trains on them; which epoch is kept is
decided on own faces that were held out. The paper trains with SGD at 0.1 and batches of 512 for 10 epochs; that is
`PAPER_UNET`. The default is what a sensible attacker with few faces would do: Adam, small batches, more epochs.

Behind least squares it starts from a picture instead of coefficients, and learns what the Gaussian prior there cannot know
of faces: later work (FaceObfuscator, USENIX Security 2024) found that networks learn such perturbations away.
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
from faceblind.frequency.attacks.least_squares import LeastSquares
from faceblind.frequency.batches import generator_of, images_of, tensor_of
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
BEHIND = UNetPlan(epochs=30)
BATCH, DRAWS = 32, 2
"""Releases of each own face that least squares is solved for; they are mirrored as well."""


class UNetAttack:
    """Learn the way back from a release to the picture.

    Parameters
    ----------
    plan
        How it is trained; `UNetPlan` by default, `BEHIND` behind least squares.
    behind
        An attack whose pictures the network improves.
    """

    def __init__(self, plan: UNetPlan | None = None, *, behind: LeastSquares | None = None) -> None:
        self.plan = plan or (UNetPlan() if behind is None else BEHIND)
        self.behind = behind
        if self.plan.optimiser not in ("adam", "sgd"):
            raise UsageError(f"optimiser must be adam or sgd, got {self.plan.optimiser!r}")
        self._net: UNet | None = None

    @property
    def name(self) -> str:
        """Short name."""
        return "unet" if self.behind is None else f"unet-{self.behind.name}"

    @property
    def title(self) -> str:
        """Name in reports."""
        return "U-Net" if self.behind is None else f"U-Net behind {self.behind.title[0].lower()}{self.behind.title[1:]}"

    @property
    def holds(self) -> str:
        """What the attacker must hold."""
        own = "releases of own faces, as many as wanted"
        return own if self.behind is None else f"{self.behind.holds}, {own}"

    def fits(self, release: Release) -> bool:
        """Any release of at least 8 x 8 places that the attack before it fits."""
        return min(release.shape[1:]) >= 8 and (self.behind is None or self.behind.fits(release))

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
        release.eval()
        fed = (
            _Fed(release, public, seed)
            if self.behind is None
            else _Solved(self.behind, release, public, seed, progress)
        )
        sample = fed.train(train[:64])[0]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            net = UNet(sample.shape[1], release.size, plan.width)
        net.settle(sample)
        optimiser = (
            torch.optim.Adam(net.parameters(), lr=plan.lr)
            if plan.optimiser == "adam"
            else torch.optim.SGD(net.parameters(), lr=plan.lr)
        )
        checked = fed.check(held)
        best, kept = math.inf, copy.deepcopy(net.state_dict())
        steps = math.ceil(len(train) / plan.batch)
        for epoch in range(plan.epochs):
            net.train()
            shuffled = rng.permutation(train)
            for step in range(steps):
                given, wanted = fed.train(shuffled[step * plan.batch : (step + 1) * plan.batch])
                optimiser.zero_grad(set_to_none=True)
                functional.mse_loss(net(given), wanted).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                if progress is not None:
                    progress(epoch * steps + step + 1, plan.epochs * steps)
            net.eval()
            with torch.no_grad():
                loss = functional.mse_loss(net(checked[0]), checked[1]).item()
            if loss < best:
                best, kept = loss, copy.deepcopy(net.state_dict())
        net.load_state_dict(kept)
        self._net = net.eval()

    def recover(self, view: View) -> NDArray[np.float32]:
        """Put every release through the network."""
        if self._net is None:
            raise UsageError("prepare(...) the attack first")
        given = view.released.float() if self.behind is None else _tensor(self.behind.recover(view))
        with torch.no_grad():
            return images_of((self._net(given) * 255).clamp(0, 255))


def _tensor(images: NDArray[np.float32]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2))).float()


class _Fed:
    """Pairs of a fresh release and its picture."""

    def __init__(self, release: Release, public: Public, seed: int) -> None:
        self.release, self.public, self.seed = release, public, seed
        self.generator = torch.Generator().manual_seed(seed)

    def train(self, rows: NDArray[np.intp]) -> tuple[Tensor, Tensor]:
        return self._pair(rows, self.generator)

    def check(self, rows: NDArray[np.intp]) -> tuple[Tensor, Tensor]:
        return self._pair(rows, torch.Generator().manual_seed(self.seed + 1))

    def _pair(self, rows: NDArray[np.intp], generator: torch.Generator) -> tuple[Tensor, Tensor]:
        pixels = tensor_of(self.public.pixels[rows])
        with torch.no_grad():
            return self.release(pixels, generator).tensor, pixels / 255


class _Solved:
    """Pairs of what least squares recovers and the picture: solved for once, since that takes longer than the network."""

    def __init__(
        self, attack: LeastSquares, release: Release, public: Public, seed: int, progress: Progress | None
    ) -> None:
        attack.prepare(release, public, seed=seed)
        self.rng, self.public = np.random.default_rng([seed, 0x501]), public
        self.pictures = np.empty((DRAWS, *public.pixels.shape), dtype=np.uint8)
        starts = range(0, len(public.pixels), BATCH)
        for draw in range(DRAWS):
            for number, start in enumerate(starts):
                pixels = public.pixels[start : start + BATCH]
                view = View.of(release, pixels, pixels, generator_of(seed, draw * len(starts) + number))
                self.pictures[draw, start : start + BATCH] = np.rint(attack.recover(view))
                if progress is not None:
                    progress(draw * len(starts) + number + 1, DRAWS * len(starts))

    def train(self, rows: NDArray[np.intp]) -> tuple[Tensor, Tensor]:
        given = tensor_of(self.pictures[self.rng.integers(0, DRAWS, len(rows)), rows])
        wanted = tensor_of(self.public.pixels[rows]) / 255
        mirrored = torch.from_numpy(self.rng.random(len(rows)) < 0.5)[:, None, None, None]
        return torch.where(mirrored, given.flip(3), given), torch.where(mirrored, wanted.flip(3), wanted)

    def check(self, rows: NDArray[np.intp]) -> tuple[Tensor, Tensor]:
        return tensor_of(self.pictures[0, rows]), tensor_of(self.public.pixels[rows]) / 255


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
