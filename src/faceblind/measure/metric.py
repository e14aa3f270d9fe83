"""Metrics as value objects, parsed from text: ``TAR@FAR(1e-4)``, ``EER``; and conditions on them.

A condition such as ``TAR@FAR(1e-4) <= 5%`` is judged by an interval: it holds only when the whole interval is on its
side. So a target is met, and a gate is passed, only when the data can show it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from faceblind._errors import UsageError

Operator = Literal["<", "<=", ">", ">="]
_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_METRIC = re.compile(
    rf"\s*(?:(?P<tar>TAR|TMR)\s*@\s*(?:FAR|FMR)\s*[(=]\s*(?P<far>{_NUMBER})\s*(?P<pct>%?)\s*\)?|(?P<eer>EER))\s*"
)
_CONDITION = re.compile(rf"(?P<metric>.+?)\s*(?P<op><=|>=|<|>)\s*(?P<value>{_NUMBER})\s*(?P<pct>%?)\s*")


@dataclass(frozen=True)
class TAR:
    """True accept rate at a target false accept rate; higher leaks more."""

    far: float

    def __str__(self) -> str:
        return f"TAR@FAR({_shortest(self.far)})"


@dataclass(frozen=True)
class EER:
    """Equal error rate; lower leaks more."""

    def __str__(self) -> str:
        return "EER"


Metric = TAR | EER


@dataclass(frozen=True)
class Condition:
    """A metric compared with a bound, e.g. ``TAR@FAR(1e-4) <= 5%``; `bound` is a share between 0 and 1."""

    metric: Metric
    operator: Operator
    bound: float

    def __str__(self) -> str:
        percent = f"{100 * self.bound:g}"
        exact = float(percent) / 100 == self.bound
        return f"{self.metric} {self.operator} {f'{percent}%' if exact else _shortest(self.bound)}"

    @property
    def is_upper(self) -> bool:
        """Whether the condition asks for small values."""
        return self.operator.startswith("<")

    def compare(self, value: float) -> bool:
        """Compare one number."""
        match self.operator:
            case "<":
                return value < self.bound
            case "<=":
                return value <= self.bound
            case ">":
                return value > self.bound
            case _:
                return value >= self.bound

    def shown_by(self, low: float, high: float) -> bool:
        """Whether the whole interval satisfies the condition."""
        return self.compare(high if self.is_upper else low)

    def allowed_by(self, low: float, high: float) -> bool:
        """Whether any part of the interval satisfies the condition."""
        return self.compare(low if self.is_upper else high)


def _shortest(number: float) -> str:
    """Return a text that reads back as the same number."""
    text = f"{number:g}"
    return text if float(text) == number else repr(float(number))


def parse_metric(text: str) -> Metric:
    """Read ``TAR@FAR(1e-4)`` (also ``TMR@FMR``, ``TAR@FAR=0.01%``) or ``EER``.

    Raises
    ------
    UsageError
        The text is none of these, or the rate is not between 0 and 1.
    """
    match = _METRIC.fullmatch(text)
    if not match:
        raise UsageError(f"cannot read the metric {text!r}: write for example TAR@FAR(1e-4) or EER")
    if match["eer"]:
        return EER()
    far = float(match["far"]) / (100 if match["pct"] else 1)
    if not 0 < far < 1:
        raise UsageError(f"cannot read the metric {text!r}: a FAR lies between 0 and 1, got {far:g}")
    return TAR(far)


def parse_condition(text: str) -> Condition:
    """Read ``METRIC OP VALUE`` such as ``TAR@FAR(1e-4) <= 5%``; values are shares or percentages.

    Raises
    ------
    UsageError
        The text cannot be read, or the value is not between 0 and 100 %.
    """
    match = _CONDITION.fullmatch(text.strip())
    if not match:
        raise UsageError(f"cannot read the condition {text!r}: write for example 'TAR@FAR(1e-4) > 5%'")
    bound = float(match["value"]) / (100 if match["pct"] else 1)
    if not 0 <= bound <= 1:
        hint = f" (did you mean {match['value']}%?)" if not match["pct"] and bound <= 100 else ""
        raise UsageError(f"cannot read the condition {text!r}: a rate lies between 0 and 100 %, got {bound:g}{hint}")
    operator: Operator = match["op"]  # type: ignore[assignment]  # the pattern admits only these four
    return Condition(parse_metric(match["metric"]), operator, bound)
