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
from faceblind.frequency.accounting import BudgetAccount, no_guarantee
from faceblind.frequency.sensitivity import Sensitivity

_LEAST = 2.0**-24  # the spacing of the uniform numbers: log(0) would be infinite noise
_STARVED = 50.0  # a share of exp(-50) of the largest: 1e21 times its noise hides all, and float32 still holds it
_PIECE = 1 << 16  # numbers that stay in a processor's cache from one step of the arithmetic to the next


class OfficialNoiseWarning(UserWarning):
    """Noise without a formal guarantee is asked for: the published code's, or a part of what that does."""


class LaplaceBudget(nn.Module):
    """Add Laplace noise whose budgets sum to ``eps_mean`` times the number of elements, whatever is learnt.

    Elements that never changed over the calibration faces get no noise: they are clipped to the constant that they were, and
    so tell nothing of a face. Everything that was learnt or calibrated is in the state.

    Parameters
    ----------
    shape : (C, m, n)
        Of one release.
    eps_mean
        Mean budget of an element.
    learned
        Learn how the budget is shared out; otherwise all elements have the same.
    sensitivity
        Ranges to begin with; or `calibrate` gives them.
    official
        What the published code does instead of the paper: ranges of one, learnt offsets, one draw for the whole batch,
        no clipping. Warns.
    ones, learn_loc, per_sample, clip
        The same departures one by one; None is what `official` says. Ranges of one need no calibration and are not clipped to.
        Those that end the guarantee warn.

    Raises
    ------
    UsageError
        A budget that is not positive, or options that contradict each other.
    """

    low: Tensor
    high: Tensor
    std: Tensor
    images: Tensor

    def __init__(
        self,
        shape: tuple[int, int, int],
        *,
        eps_mean: float = 0.5,
        sensitivity: Sensitivity | None = None,
        learned: bool = True,
        official: bool = False,
        ones: bool | None = None,
        learn_loc: bool | None = None,
        per_sample: bool | None = None,
        clip: bool | None = None,
    ) -> None:
        super().__init__()
        if not (np.isfinite(eps_mean) and eps_mean > 0):
            raise UsageError(f"eps_mean must be positive and finite, got {eps_mean}")
        for name, value, wanted in (
            ("ones", ones, True),
            ("learn_loc", learn_loc, True),
            ("per_sample", per_sample, False),
            ("clip", clip, False),
        ):
            if official and value not in (None, wanted):
                raise UsageError(f"official=True is {name}={wanted}: leave out {name}={value}, or official")
        self.eps_mean, self.learned, self.official = float(eps_mean), learned, official
        self.ones = official if ones is None else ones
        self.per_sample = not official if per_sample is None else per_sample
        self.clips = not self.ones if clip is None else clip
        if self.ones and (self.clips or sensitivity is not None):
            raise UsageError(
                "ranges of one are no ranges to clip to or to calibrate: leave out clip and sensitivity, or ones"
            )
        if broken := no_guarantee(ones=self.ones, clipped=self.clips, shared=not self.per_sample):
            what = (
                "official=True repeats the published code, which has no formal guarantee"
                if official
                else "no formal guarantee"
            )
            warnings.warn(f"{what}: {broken}", OfficialNoiseWarning, stacklevel=2)
        self.theta = nn.Parameter(torch.zeros(shape), requires_grad=learned)
        self.loc = nn.Parameter(torch.zeros(shape)) if (official if learn_loc is None else learn_loc) else None
        # Ranges of one until something is known: the published code never knows more.
        self.register_buffer("low", torch.full(shape, -0.5))
        self.register_buffer("high", torch.full(shape, 0.5))
        self.register_buffer("std", torch.zeros(shape[0]))
        self.register_buffer("images", torch.zeros((), dtype=torch.int64))
        if sensitivity is not None:
            self.calibrate(sensitivity)

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
        return self.ones or int(self.images) > 0

    def calibrate(self, sensitivity: Sensitivity) -> None:
        """Take ranges found on public faces; where ranges are ones only the spread of the signal, for the accounting.

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
        if not self.ones:
            self.low.copy_(torch.from_numpy(sensitivity.low))
            self.high.copy_(torch.from_numpy(sensitivity.high))

    def eps(self) -> Tensor:
        """Return the budget of each element, (C, m, n); no gradient, which goes by way of the noise."""
        share, total = _shares(self.theta.detach())
        return share * (self.eps_total / total)

    def scale(self) -> Tensor:
        """Return the scale of the noise of each element, (C, m, n): range / budget."""
        found: Tensor = _Scale.apply(self.theta, self.low, self.high, self.eps_total)  # type: ignore[no-untyped-call]
        return found

    def clip(self, values: Tensor) -> Tensor:
        """Clip values (b, C, m, n) to the calibrated ranges, which makes the ranges a bound; unless told not to."""
        return torch.clamp(values, self.low, self.high) if self.clips else values

    def forward(self, values: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Release values (b, C, m, n): clipped, with independent noise for each face (or one draw for all, if asked for).

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
                "the noise has no ranges to be made for: call calibrate(...) with those of public faces; "
                "official=True does without, and without a guarantee"
            )
        if values.ndim != 4 or tuple(values.shape[1:]) != self.shape:
            raise DataError(f"values must be (faces, {', '.join(map(str, self.shape))}), got {tuple(values.shape)}")
        count = values.shape[0] if self.per_sample else 1
        noise = unit_laplace((count, *self.shape), generator, device=values.device)
        if self.loc is not None:
            return self.clip(values) + (self.loc + self.scale() * noise)
        if values.requires_grad or not self.per_sample or not self.clips:
            return torch.addcmul(self.clip(values), self.scale(), noise)
        released: Tensor = _Perturb.apply(values, self.low, self.high, self.scale(), noise)  # type: ignore[no-untyped-call]
        return released

    def account(self, names: tuple[str, ...] = (), *, outside: float | None = None) -> BudgetAccount:
        """Account for the budgets as they are now; `outside` is the share of other faces' values outside the ranges."""
        known = int(self.images) > 0
        with torch.no_grad():
            # In float64, so that the sum is the total to the last digit that is shown.
            share, total = _shares(self.theta.double())
            return BudgetAccount.of(
                (share * (self.eps_total / total)).cpu().numpy(),
                (self.high - self.low).cpu().numpy(),
                signal_std=self.std.cpu().numpy() if known else None,
                names=names,
                official=self.official,
                clipped=self.clips,
                ones=self.ones,
                shared=not self.per_sample,
                outside=outside,
            )

    def extra_repr(self) -> str:
        """Say the budget."""
        return f"shape={self.shape}, eps_mean={self.eps_mean:g}, learned={self.learned}, official={self.official}"


def _shares(theta: Tensor) -> tuple[Tensor, float]:
    """Return the budget of each element as a share of the largest, and the sum of these shares.

    The sum is taken in float64: the guarantee is about it, and over millions of elements float32 misses it by one in ten
    thousand. No share is so small that noise would be infinite.
    """
    share = torch.sub(theta, theta.max()).clamp_min_(-_STARVED).exp_()
    return share, float(share.sum(dtype=torch.float64))


class _Scale(torch.autograd.Function):
    """Range over budget, with the gradient of the softmax.

    Noise stops growing where a budget is starved, while the gradient goes on as if it did not and can bring it back.
    """

    @staticmethod
    def forward(ctx: Any, theta: Tensor, low: Tensor, high: Tensor, eps_total: float) -> Tensor:
        """Return the scale of the noise."""
        share, total = _shares(theta)
        scale = torch.sub(high, low).div_(share).mul_(total / eps_total)
        ctx.save_for_backward(share, scale)
        ctx.total = total
        return scale

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        """Return the gradient of theta: own budgets shrink the noise, the sum's growth swells everybody's."""
        share, scale = ctx.saved_tensors
        own = gradients[0] * scale
        return torch.sub(share * (float(own.sum(dtype=torch.float64)) / ctx.total), own), None, None, None


class _Perturb(torch.autograd.Function):
    """Clip and add ``scale * noise``, with a gradient for the scale alone, summed over faces without a batch of products."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, low: Tensor, high: Tensor, scale: Tensor, noise: Tensor) -> Tensor:
        """Clip, and add noise in place: a fresh batch of coefficients costs more than its arithmetic."""
        ctx.save_for_backward(noise)
        return torch.clamp(values, low, high).addcmul_(scale, noise)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, None, Tensor, None]:
        """Return the gradient of the scale."""
        (noise,) = ctx.saved_tensors
        (gradient,) = gradients
        total = gradient.new_zeros(noise.shape[1:])
        for each, drawn in zip(gradient, noise, strict=True):
            total.addcmul_(each, drawn)
        return None, None, None, total, None


def unit_laplace(
    shape: tuple[int, ...], generator: torch.Generator | None = None, *, device: torch.device | str = "cpu"
) -> Tensor:
    """Draw Laplace(0, 1) numbers, float32, by the inverse of its distribution function.

    The largest is 16.6: one number in 16 million would lie beyond.
    """
    drawn = _uniform(shape, generator, torch.device(device))
    flat = drawn.view(-1)
    length = min(_PIECE, flat.numel()) if drawn.device.type == "cpu" else flat.numel()
    spare = torch.empty(length, dtype=drawn.dtype, device=drawn.device)
    for piece in torch.split(flat, max(length, 1)):
        piece.sub_(0.5)
        size = torch.abs(piece, out=spare[: piece.numel()]).mul_(-2).add_(1).clamp_min_(_LEAST).log_()
        torch.copysign(size, piece, out=piece)
    return drawn


def _uniform(shape: tuple[int, ...], generator: torch.Generator | None, device: torch.device) -> Tensor:
    if device.type != "cpu":
        return torch.rand(shape, generator=generator, device=device)
    # numpy fills three times as fast as torch on a CPU; a number of the generator seeds it, so that it is in charge.
    seed = int(torch.randint(2**62, (), generator=generator))
    filled: Any = np.random.Generator(np.random.SFC64(seed)).random(shape, dtype=np.float32)
    return torch.from_numpy(filled)
