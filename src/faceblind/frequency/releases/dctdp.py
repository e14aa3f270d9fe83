"""DCTDP: noised coefficients of the block DCT without DC, and its ablations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from faceblind._errors import DataError, UsageError
from faceblind.frequency.bdct import channel_names
from faceblind.frequency.noise import LaplaceBudget
from faceblind.frequency.releases.base import Batches, Release, Released
from faceblind.frequency.releases.rgb import scaled
from faceblind.frequency.sensitivity import SensitivityMeter
from faceblind.frequency.torch_bdct import BlockDCT

BUDGETS = ("learned", "uniform")
SENSITIVITIES = ("range", "ones")


class DctDp(Release):
    """Release noised coefficients (ECCV 2022).

    Parameters
    ----------
    size
        Height and width of the images.
    eps_mean
        Mean budget of an element.
    budgets : "learned" or "uniform"
        Whether the recognition loss learns how the total is shared out.
    sensitivity : "range" or "ones"
        Ranges of public faces (the default), or ones: of the published code's departures this alone, without clipping.
    official
        Noise as in the published code, ranges of one among the rest; see `LaplaceBudget`.
    keep_dc
        Ablation: release the means of the blocks too.
    frequency
        ``False`` is the ablation without transform: noise on RGB pixels, scaled to [-1, 1].
    noise
        ``False`` is the ablation without noise: clean coefficients without DC.
    block, up
        Side of the blocks; how many times the image is enlarged.

    Raises
    ------
    UsageError
        Options that are unknown or contradict each other.
    DataError
        An image that is not a whole number of blocks.
    """

    kind = "dctdp"
    title = "DCTDP"

    def __init__(
        self,
        size: tuple[int, int],
        *,
        eps_mean: float = 0.5,
        budgets: str = "learned",
        sensitivity: str | None = None,
        official: bool = False,
        keep_dc: bool = False,
        frequency: bool = True,
        noise: bool = True,
        block: int = 8,
        up: int = 8,
    ) -> None:
        super().__init__(size)
        if budgets not in BUDGETS:
            raise UsageError(f"budgets must be one of {', '.join(BUDGETS)}, got {budgets!r}")
        if keep_dc and not frequency:
            raise UsageError("there is no DC to keep without the transform: leave out keep_dc or frequency=False")
        if sensitivity not in (None, *SENSITIVITIES):
            raise UsageError(f"sensitivity must be one of {', '.join(SENSITIVITIES)}, got {sensitivity!r}")
        if official and sensitivity == "range":
            raise UsageError("the published code takes ranges of one: leave out sensitivity='range' or official")
        if not noise and (official or sensitivity == "ones"):
            raise UsageError(
                "noise=False adds no noise of any kind: leave out official and sensitivity='ones', or noise"
            )
        self.options: dict[str, Any] = {
            "eps_mean": eps_mean,
            "budgets": budgets,
            "sensitivity": sensitivity or ("ones" if official else "range"),
            "official": official,
            "keep_dc": keep_dc,
            "frequency": frequency,
            "noise": noise,
            "block": block,
            "up": up,
        }
        self.transform = BlockDCT(size, block=block, up=up, keep_dc=keep_dc) if frequency else None
        shape = self.transform.shape if self.transform is not None else (3, *size)
        self._shape = shape
        self.budget = (
            LaplaceBudget(
                shape,
                eps_mean=eps_mean,
                learned=budgets == "learned",
                official=official,
                ones=True if sensitivity == "ones" else None,
            )
            if noise
            else None
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns of what is released."""
        return self._shape

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the channels."""
        if self.transform is None:
            return ("R", "G", "B")
        return channel_names(self.transform.block, keep_dc=self.transform.keep_dc)

    def config(self) -> dict[str, Any]:
        """Return the options."""
        return dict(self.options)

    def clean(self, pixels: Tensor) -> Tensor:
        """Return what noise would be added to, not clipped."""
        if self.transform is not None:
            found: Tensor = self.transform(pixels)
            return found
        return scaled(pixels, self.size)

    def forward(self, pixels: Tensor, generator: torch.Generator | None = None, *, noise: bool = True) -> Released:
        """Release a batch; with ``noise=False`` the coefficients as they are, not clipped either."""
        values = self.clean(pixels)
        if noise and self.budget is not None:
            values = self.budget(values, generator)
        return Released(values)

    @property
    def calibrated(self) -> bool:
        """Whether there are ranges to make noise for."""
        return self.budget is None or self.budget.calibrated

    def calibrate(self, batches: Batches, progress: Callable[[int, int], None] | None = None) -> None:
        """Find the range of every coefficient over public faces, in one pass."""
        if self.budget is None:
            return
        meter = SensitivityMeter()
        for pixels, _ in batches():
            meter.update(self.clean(pixels.to(self.budget.theta.device)).cpu().numpy())
            if progress is not None:
                progress(meter.images, 0)
        self.budget.calibrate(meter.result())

    def outside(self, batches: Batches) -> float | None:
        """Return the share of values of other faces that are clipped; None where nothing is.

        Raises
        ------
        DataError
            There are no faces.
        """
        if self.budget is None or not self.budget.clips or not self.budget.calibrated:
            return None
        beyond = total = 0
        for pixels, _ in batches():
            values = self.clean(pixels.to(self.budget.theta.device))
            beyond += int(((values < self.budget.low) | (values > self.budget.high)).sum())
            total += values.numel()
        if not total:
            raise DataError("there are no faces to see how many of their values lie outside the ranges; give some")
        return beyond / total

    def noise_parameters(self) -> list[torch.nn.Parameter]:
        """Return the shares of the budget, and the offsets in official mode."""
        return [p for p in self.parameters() if p.requires_grad]

    def picture(self, tensor: Tensor) -> Tensor:
        """Show a release by the inverse DCT with every DC zero; pixels, clipped, without the transform."""
        if self.transform is None:
            return ((tensor + 1) * 127.5).clamp(0, 255)
        return self.transform.inverse(tensor)

    def account(self, *, outside: float | None = None) -> dict[str, Any] | None:
        """Return totals, spread and signal against noise; with the share of other faces' values that `outside` found."""
        return None if self.budget is None else self.budget.account(self.channels, outside=outside).to_dict()
