"""Scales and axes: linear, logarithmic and normal-deviate (probit), with ticks labelled in percent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from markupsafe import Markup

from faceblind.audit.report import svg

_NORMAL: Final = NormalDist()

PROBIT_TICKS: Final = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 0.999, 0.9999, 0.99999)
"""Shares at which a normal-deviate axis is labelled."""

_CHARACTER: Final = 7.0
"""Pixels of a digit in a tick label, at most."""


def probit(share: float) -> float:
    """Return the normal deviate of a share, kept within 1e-9 of 0 and 1."""
    return _NORMAL.inv_cdf(min(max(share, 1e-9), 1 - 1e-9))


def log10(share: float) -> float:
    """Return the decimal logarithm, kept above 1e-12."""
    return math.log10(max(share, 1e-12))


def identity(value: float) -> float:
    """Return the value itself: the transform of a linear axis."""
    return float(value)


@dataclass(frozen=True)
class Scale:
    """Maps values from `low` to `high` on pixels from `start` to `end`, through a transform; clips to the range."""

    low: float
    high: float
    start: float
    end: float
    transform: Callable[[float], float] = identity

    def at(self, value: float) -> float:
        """Return the pixel of a value; values outside the range land on its edge."""
        return self.beyond(min(max(value, self.low), self.high))

    def beyond(self, value: float) -> float:
        """Return the pixel of a value, outside the frame when the value is outside the range."""
        a, b = self.transform(self.low), self.transform(self.high)
        return self.start + (self.transform(value) - a) / (b - a) * (self.end - self.start)

    def holds(self, value: float) -> bool:
        """Return whether a value lies within the range."""
        return self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9)


def percent_tick(share: float) -> str:
    """Label a tick in percent, without the sign: ``0.01``, ``20``, ``99.9``."""
    return f"{round(100 * share, 9):.10g}"


def linear_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round values from at or above `low` to at or below `high`."""
    if high <= low:
        return [low]
    raw = (high - low) / about
    power = 10 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def round_up(value: float, about: int = 5) -> float:
    """Return the first tick at or above a positive value: the top of an axis from zero."""
    ticks = linear_ticks(0, value, about)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else value
    return math.ceil(value / step - 1e-9) * step


def x_axis(scale: Scale, bottom: float, top: float, ticks: Sequence[tuple[float, str]], title: str) -> Markup:
    """Draw vertical grid lines with labels below, where they do not touch, and the axis title under them."""
    parts = []
    taken = -math.inf
    for value, text in ticks:
        x = scale.at(value)
        half = len(text) * _CHARACTER / 2
        parts.append(svg.line(x, top, x, bottom, "grid"))
        if text and x - half > taken:
            parts.append(svg.label(x, bottom + 15, text, anchor="middle"))
            taken = x + half + 3
    parts.append(svg.line(scale.start, bottom, scale.end, bottom, "axis"))
    if title:
        parts.append(svg.label((scale.start + scale.end) / 2, bottom + 33, title, "axis-title", anchor="middle"))
    return Markup("").join(parts)


def y_axis(scale: Scale, left: float, right: float, ticks: Sequence[tuple[float, str]], title: str) -> Markup:
    """Draw horizontal grid lines with labels at the left and the axis title along them."""
    parts = []
    for value, text in ticks:
        y = scale.at(value)
        parts.append(svg.line(left, y, right, y, "grid"))
        parts.append(svg.label(left - 6, y + 4, text, anchor="end"))
    parts.append(svg.line(left, scale.start, left, scale.end, "axis"))
    parts.append(svg.label(13, (scale.start + scale.end) / 2, title, "axis-title", anchor="middle", turn=True))
    return Markup("").join(parts)
