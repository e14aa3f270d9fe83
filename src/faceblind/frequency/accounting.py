"""What a privacy budget comes to: totals, how it is spread, signal against noise, and what the guarantee is worth in words.

The guarantee of the paper is eps * d privacy of the whole release: for two faces at distance d (the largest difference of
an element as a share of its range, at most one after clipping) no release is more than exp(eps * d) times as likely for one
as for the other, eps being the *sum* over elements (Lemma 1 of the paper, reconstructed). `pair_eps` says what it comes to
for two given faces, element by element.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError

_LEVELS = (0.01, 0.05, 0.25, 0.75, 0.95, 0.99)
_EMPTY = 20
"""A bound of exp(20), half a thousand million, on how much likelier a release may be: beyond it a bound excludes nothing."""


@dataclass(frozen=True)
class ChannelSignal:
    """One channel: typical scale of its noise, spread of its signal, and their ratio in power (0 where nothing varies)."""

    channel: str
    scale: float
    signal_std: float
    snr: float


@dataclass(frozen=True)
class BudgetAccount:
    """How a budget is spent over the elements of one release.

    Attributes
    ----------
    eps_total, eps_mean, eps_min, eps_median, eps_max, eps_quantiles
        The budgets of elements: their sum, mean, least, middle and largest, and at given shares of the elements.
    effective_number
        As if spread evenly over so many elements: exp of the entropy of the shares.
    constant
        Elements whose range is zero: released as constants, with no noise.
    clipped, ones, shared
        Whether values are clipped to the ranges; whether the ranges are ones instead of calibrated; whether one draw of noise
        serves a whole batch.
    outside
        Share of the values of other faces that lie outside the ranges; None when it was not measured.
    """

    eps_total: float
    eps_mean: float
    eps_min: float
    eps_median: float
    eps_max: float
    effective_number: float
    elements: int
    eps_quantiles: tuple[tuple[float, float], ...]
    channels: tuple[ChannelSignal, ...]
    constant: int = 0
    official: bool = False
    clipped: bool = True
    ones: bool = False
    shared: bool = False
    outside: float | None = None

    @classmethod
    def of(
        cls,
        eps: NDArray[np.floating[Any]],
        ranges: NDArray[np.floating[Any]],
        *,
        signal_std: NDArray[np.floating[Any]] | None = None,
        names: Sequence[str] = (),
        official: bool = False,
        clipped: bool = True,
        ones: bool = False,
        shared: bool = False,
        outside: float | None = None,
    ) -> BudgetAccount:
        """Account for budgets and ranges (C, m, n), and the spread (C,) of each channel's signal.

        `official` stands for ranges of one, no clipping and a shared draw, all together.

        Raises
        ------
        DataError
            Budgets that are not positive, or shapes that do not go together.
        """
        budget, width = np.asarray(eps, dtype=np.float64), np.asarray(ranges, dtype=np.float64)
        if budget.shape != width.shape or budget.ndim != 3:
            raise DataError(f"budgets and ranges must be one (C, m, n), got {budget.shape} and {width.shape}")
        if not (np.isfinite(budget).all() and (budget > 0).all()):
            raise DataError("budgets must be positive and finite")
        total = float(budget.sum())
        share = budget.ravel() / total
        scale = width / budget
        channels = []
        for row in range(budget.shape[0] if signal_std is not None else 0):
            # Where a coefficient never changes there is neither noise nor signal: such places say nothing of the rest.
            varying = scale[row][width[row] > 0]
            typical = float(np.median(varying)) if varying.size else 0.0
            std = float(np.asarray(signal_std)[row])
            # Variance of Laplace noise is 2 * scale^2; the median place stands for the channel.
            snr = std**2 / float(np.median(2 * varying**2)) if varying.size else 0.0
            channels.append(ChannelSignal(names[row] if row < len(names) else str(row), typical, std, snr))
        return cls(
            eps_total=total,
            eps_mean=total / budget.size,
            eps_min=float(budget.min()),
            eps_median=float(np.median(budget)),
            eps_max=float(budget.max()),
            effective_number=float(np.exp(-(share * np.log(share)).sum())),
            elements=int(budget.size),
            eps_quantiles=tuple(zip(_LEVELS, np.quantile(budget, _LEVELS).tolist(), strict=True)),
            channels=tuple(channels),
            constant=int((width == 0).sum()),
            official=official,
            clipped=clipped and not official,
            ones=ones or official,
            shared=shared or official,
            outside=outside,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values, strongest channels first."""
        found = {key: value for key, value in vars(self).items() if key != "channels"}
        strongest = sorted(self.channels, key=lambda channel: -channel.snr)
        return found | {
            "eps_quantiles": {f"{level:g}": value for level, value in self.eps_quantiles},
            "channels": [vars(channel) for channel in strongest],
            "sentences": list(self.sentences()),
        }

    def sentences(self) -> tuple[str, ...]:
        """Say in words what was spent and what the formal guarantee is worth."""
        said = [
            f"Budgets of {self.elements:,} elements sum to eps = {self.eps_total:,.0f}; the mean of {self.eps_mean:g} is per "
            f"element. They range from {self.eps_min:.3g} to {self.eps_max:.3g} (median {self.eps_median:.3g}), as if spread "
            f"evenly over {self.effective_number:,.0f} elements."
        ]
        if broken := no_guarantee(ones=self.ones, clipped=self.clipped, shared=self.shared):
            said.append(f"No formal guarantee: {broken}.")
            if self.official:
                said.append("The learnt offsets shift every release alike: they hide nothing and spend nothing.")
        else:
            said.append(
                "The guarantee bounds how much likelier a release can be for one face than for another by "
                "exp(eps * d), d being their largest difference in an element as a share of its range, at most 1: up to "
                f"{_factor(self.eps_total)}. "
                + (
                    "A bound that large excludes nothing; only attacks tell what the noise hides."
                    if self.eps_total > _EMPTY
                    else "An attacker's odds change by at most that factor."
                )
            )
            said.append(
                "For two faces that differ in one element alone the bound is exp of that element's budget: "
                f"{_factor(self.eps_min)} at the least, {_factor(self.eps_median)} at the median, {_factor(self.eps_max)} at the "
                "most. Faces differ in nearly all, and the bounds multiply."
            )
            said.append(
                "Ranges found on some faces bound those of others only because values are clipped to them. m releases of one face "
                "spend m times the budget. The bound is for real numbers; floating-point Laplace noise meets it only nearly "
                "(Mironov 2012)."
            )
        if self.outside:
            said.append(
                f"{self.outside:.2%} of the values of other faces lie outside the calibrated ranges and are clipped."
            )
        if self.constant:
            said.append(
                f"{self.constant:,} elements never change over the calibration faces; they are released as constants."
            )
        if self.channels:
            strong = max(self.channels, key=lambda channel: channel.snr)
            above = sum(channel.snr >= 1 for channel in self.channels)
            said.append(
                f"{above} of {len(self.channels)} channels carry more signal than noise at the median place; the clearest is "
                f"{strong.channel} with a signal-to-noise ratio of {strong.snr:.3g}."
            )
        return tuple(said)


def no_guarantee(*, ones: bool, clipped: bool, shared: bool) -> str:
    """Say what takes the formal guarantee away; empty when nothing does."""
    reasons = (
        (ones, "the range of each coefficient is taken to be one, whatever it is"),
        (not clipped, "values are not clipped to the range that the noise was made for"),
        (
            shared,
            "one draw of noise is shared by the whole batch, so that differences between its faces carry no noise at all",
        ),
    )
    return "; ".join(reason for applies, reason in reasons if applies)


def pair_eps(
    first: NDArray[np.floating[Any]],
    second: NDArray[np.floating[Any]],
    *,
    eps: NDArray[np.floating[Any]],
    low: NDArray[np.floating[Any]],
    high: NDArray[np.floating[Any]],
) -> NDArray[np.float64]:
    """Return what each element of a release spends on telling two faces apart, (C, m, n).

    The density of a release of one face is at most exp of the *sum* times that of the other, and releases beyond both faces
    in every element reach it: the bound for a pair is exact. By element it is the budget times the difference, after
    clipping, as a share of the range; constant elements spend nothing.

    Raises
    ------
    DataError
        Shapes that do not go together.
    """
    budget, least, most = (np.asarray(x, dtype=np.float64) for x in (eps, low, high))
    a, b = (np.clip(np.asarray(x, dtype=np.float64), least, most) for x in (first, second))
    if not a.shape == b.shape == budget.shape == least.shape == most.shape:
        raise DataError(f"faces, budgets and ranges must have one shape, got {a.shape}, {b.shape} and {budget.shape}")
    width = most - least
    share = np.divide(np.abs(a - b), width, out=np.zeros_like(width), where=width > 0)
    found: NDArray[np.float64] = budget * share
    return found


def _factor(exponent: float) -> str:
    return f"{math.exp(exponent):.3g}" if exponent <= _EMPTY else f"10^{exponent / math.log(10):,.0f}"
