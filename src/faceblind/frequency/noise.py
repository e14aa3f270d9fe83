"""Laplace noise with learnable privacy budgets.

Source: "Privacy-Preserving Face Recognition with Learnable Privacy Budgets in Frequency Domain" (ECCV 2022). Each element
gets a share of one total budget by a softmax, and noise of scale range / budget; the recognition loss learns the shares.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from faceblind._errors import DataError, UsageError
from faceblind.frequency.accounting import BudgetAccount
from faceblind.frequency.sensitivity import Sensitivity

_LEAST = 2.0**-24  # the spacing of the uniform numbers: log(0) would be infinite noise


class OfficialNoiseWarning(UserWarning):
    """The published code's noise is asked for: it has no formal guarantee."""


class LaplaceBudget(nn.Module):
    """Add Laplace noise whose budgets sum to ``eps_mean`` times the number of elements, whatever is learnt.

    Parameters
    ----------
    shape : (C, m, n)
        Of one release.
    eps_mean
        Mean budget of an element.
    learned
        Learn how the budget is shared out; otherwise all elements have the same.
    official
        What the published code does instead of the paper: ranges of one, learnt offsets, one draw for the whole batch,
        no clipping. Warns.

    Raises
    ------
    UsageError
        A budget that is not positive.
    """

    low: Tensor
    high: Tensor
    std: Tensor
    images: Tensor

    def __init__(
        self, shape: tuple[int, int, int], *, eps_mean: float = 0.5, learned: bool = True, official: bool = False
    ) -> None:
        super().__init__()
        if not (np.isfinite(eps_mean) and eps_mean > 0):
            raise UsageError(f"eps_mean must be positive and finite, got {eps_mean}")
        if official:
            warnings.warn(
                "official=True repeats the published code: ranges of one instead of calibrated ones, learnt offsets, one draw for "
                "the whole batch. It gives no formal guarantee.",
                OfficialNoiseWarning,
                stacklevel=2,
            )
        self.eps_mean, self.learned, self.official = float(eps_mean), learned, official
        self.theta = nn.Parameter(torch.zeros(shape), requires_grad=learned)
        self.loc = nn.Parameter(torch.zeros(shape)) if official else None
        # Ranges of one until something is known: the published code never knows more.
        self.register_buffer("low", torch.full(shape, -0.5))
        self.register_buffer("high", torch.full(shape, 0.5))
        self.register_buffer("std", torch.zeros(shape[0]))
        self.register_buffer("images", torch.zeros((), dtype=torch.int64))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns."""
        a, b, c = self.theta.shape
        return a, b, c

    @property
    def eps_total(self) -> float:
        """The summed budget: what the formal guarantee is about."""
        return self.eps_mean * self.theta.numel()

    @property
    def calibrated(self) -> bool:
        """Whether there are ranges to make noise for."""
        return self.official or int(self.images) > 0

    def calibrate(self, sensitivity: Sensitivity) -> None:
        """Take ranges found on public faces; in official mode only the spread of the signal, for the accounting.

        Raises
        ------
        DataError
            Ranges of another shape.
        """
        if sensitivity.low.shape != self.shape:
            raise DataError(
                f"ranges of shape {sensitivity.low.shape} were calibrated for another release, not {self.shape}"
            )
        self.std.copy_(torch.from_numpy(sensitivity.std))
        self.images.fill_(sensitivity.images)
        if not self.official:
            self.low.copy_(torch.from_numpy(sensitivity.low))
            self.high.copy_(torch.from_numpy(sensitivity.high))

    def eps(self) -> Tensor:
        """Return the budget of each element, (C, m, n)."""
        return torch.softmax(self.theta.flatten(), dim=0).view_as(self.theta) * self.eps_total

    def scale(self) -> Tensor:
        """Return the scale of the noise of each element, (C, m, n): range / budget."""
        # Divided in logarithms: a softmax that has starved an element to zero would otherwise give 0 * inf as gradient.
        log_share = torch.log_softmax(self.theta.flatten(), dim=0).view_as(self.theta)
        return (self.high - self.low) * torch.exp(-log_share) / self.eps_total

    def clip(self, values: Tensor) -> Tensor:
        """Clip values (b, C, m, n) to the calibrated ranges, which makes the ranges a bound; not in official mode."""
        return values if self.official else torch.clamp(values, self.low, self.high)

    def forward(self, values: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Release values (b, C, m, n): clipped, with independent noise for each face (one draw for all in official mode).

        The gradient reaches the budgets through the scale of the noise (reparameterisation).

        Raises
        ------
        UsageError
            There are no ranges yet.
        DataError
            Values of another shape.
        """
        if not self.calibrated:
            raise UsageError(
                "the noise has no ranges to be made for: call calibrate(...) with those of public faces, or ask for official=True"
            )
        if values.ndim != 4 or tuple(values.shape[1:]) != self.shape:
            raise DataError(f"values must be (faces, {', '.join(map(str, self.shape))}), got {tuple(values.shape)}")
        count = 1 if self.official else values.shape[0]
        noise = unit_laplace((count, *self.shape), generator, device=values.device)
        if self.loc is not None:
            return values + (self.loc + self.scale() * noise)
        if values.requires_grad:
            return torch.addcmul(self.clip(values), self.scale(), noise)
        released: Tensor = _Perturb.apply(self.clip(values), self.scale(), noise)  # type: ignore[no-untyped-call]
        return released

    def account(self, names: tuple[str, ...] = ()) -> BudgetAccount:
        """Account for the budgets as they are now."""
        known = int(self.images) > 0
        with torch.no_grad():
            # In float64, so that the sum is the total to the last digit that is shown.
            share = torch.softmax(self.theta.double().flatten(), dim=0).view_as(self.theta)
            return BudgetAccount.of(
                np.maximum((share * self.eps_total).cpu().numpy(), np.finfo(np.float64).tiny),
                (self.high - self.low).cpu().numpy(),
                signal_std=self.std.cpu().numpy() if known else None,
                names=names,
                official=self.official,
            )

    def extra_repr(self) -> str:
        """Say the budget."""
        return f"shape={self.shape}, eps_mean={self.eps_mean:g}, learned={self.learned}, official={self.official}"


class _Perturb(torch.autograd.Function):
    """``values + scale * noise`` with a gradient for the scale alone, summed over faces without a batch of products."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, scale: Tensor, noise: Tensor) -> Tensor:
        """Add noise."""
        ctx.save_for_backward(noise)
        return torch.addcmul(values, scale, noise)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, None]:
        """Return the gradient of the scale."""
        (noise,) = ctx.saved_tensors
        (gradient,) = gradients
        total = torch.zeros_like(noise[0])
        for each, drawn in zip(gradient, noise, strict=True):
            total.addcmul_(each, drawn)
        return None, total, None


def unit_laplace(
    shape: tuple[int, ...], generator: torch.Generator | None = None, *, device: torch.device | str = "cpu"
) -> Tensor:
    """Draw Laplace(0, 1) numbers, float32, by the inverse of its distribution function."""
    uniform = _uniform(shape, generator, torch.device(device)).sub_(0.5)
    size = uniform.abs().mul_(-2).add_(1).clamp_min_(_LEAST).log_().neg_()
    return torch.copysign(size, uniform, out=size)


def _uniform(shape: tuple[int, ...], generator: torch.Generator | None, device: torch.device) -> Tensor:
    if device.type != "cpu":
        return torch.rand(shape, generator=generator, device=device)
    # numpy fills three times as fast as torch on a CPU; a number of the generator seeds it, so that it is in charge.
    seed = int(torch.randint(2**62, (), generator=generator))
    filled: Any = np.random.Generator(np.random.SFC64(seed)).random(shape, dtype=np.float32)
    return torch.from_numpy(filled)
