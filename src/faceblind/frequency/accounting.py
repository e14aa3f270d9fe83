"""What a privacy budget comes to: totals, how it is spread, signal against noise, and what the guarantee is worth in words.

The guarantee of the paper is eps * d privacy of the whole release: for two faces at distance d (the largest difference of
an element as a share of its range, at most one after clipping) no release is more than exp(eps * d) times as likely for one
as for the other, eps being the *sum* over elements (Lemma 1 of the paper, reconstructed).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError


@dataclass(frozen=True)
class ChannelSignal:
    """One channel: typical scale of its noise, spread of its signal, and their ratio in power."""

    channel: str
    scale: float
    signal_std: float
    snr: float


@dataclass(frozen=True)
class BudgetAccount:
    """How a budget is spent over the elements of one release."""

    eps_total: float
    eps_mean: float
    eps_min: float
    eps_median: float
    eps_max: float
    effective_number: float
    elements: int
    channels: tuple[ChannelSignal, ...]
    constant: int = 0
    official: bool = False
    clipped: bool = True
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
        outside: float | None = None,
    ) -> BudgetAccount:
        """Account for budgets and ranges (C, m, n), and the spread (C,) of each channel's signal.

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
            typical = float(np.median(scale[row]))
            std = float(np.asarray(signal_std)[row])
            # Variance of Laplace noise is 2 * scale^2; the median place stands for the channel.
            power = float(np.median(2 * scale[row] ** 2))
            snr = std**2 / power if power > 0 else (0.0 if std == 0 else 1e12)
            channels.append(ChannelSignal(names[row] if row < len(names) else str(row), typical, std, snr))
        return cls(
            eps_total=total,
            eps_mean=total / budget.size,
            eps_min=float(budget.min()),
            eps_median=float(np.median(budget)),
            eps_max=float(budget.max()),
            effective_number=float(np.exp(-(share * np.log(share)).sum())),
            elements=int(budget.size),
            channels=tuple(channels),
            constant=int((width == 0).sum()),
            official=official,
            clipped=clipped,
            outside=outside,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values, strongest channels first."""
        found = {key: value for key, value in vars(self).items() if key != "channels"}
        strongest = sorted(self.channels, key=lambda channel: -channel.snr)
        return found | {"channels": [vars(channel) for channel in strongest], "sentences": list(self.sentences())}

    def sentences(self) -> tuple[str, ...]:
        """Say in words what was spent and what the formal guarantee is worth."""
        said = [
            f"Budgets of {self.elements:,} elements sum to eps = {self.eps_total:,.0f}; the mean of {self.eps_mean:g} is per "
            f"element. They range from {self.eps_min:.3g} to {self.eps_max:.3g} (median {self.eps_median:.3g}), as if spread "
            f"evenly over {self.effective_number:,.0f} elements."
        ]
        if self.official:
            said.append(
                "No formal guarantee: the range of each coefficient is taken to be one, the noise is shifted by learnt offsets, "
                "and one draw is shared by the whole batch, so that differences between its faces carry no noise at all."
            )
        elif not self.clipped:
            said.append("No formal guarantee: values are not clipped to the range that the noise was made for.")
        else:
            said.append(
                "The guarantee bounds how much likelier a release can be for one face than for another by "
                f"exp(eps * d), d at most 1: up to 10^{self.eps_total / math.log(10):,.0f}. "
                + (
                    "A bound that large excludes nothing; only attacks tell what the noise hides."
                    if self.eps_total > 20
                    else "An attacker's odds change by at most that factor."
                )
            )
            said.append(
                "m releases of one face spend m times the budget. The bound is for real numbers; floating-point Laplace noise "
                "meets it only nearly (Mironov 2012)."
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
