"""By how much two models differ: draw by draw where both saw the same people, else between the ends of two intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from faceblind.audit.frequency.record import Interval, Model, interval_of
from faceblind.frequency.evaluation.draws import compared


@dataclass(frozen=True)
class Difference(Interval):
    """A difference of two shares with its 95 % interval, and whether that is of paired draws of people.

    Without pairs it joins the ends of the two intervals and is wider.
    """

    paired: bool = False


@dataclass(frozen=True)
class Measure:
    """What accuracy means in a report: one set and one protocol, the same for all models."""

    set: str
    protocol: str

    def of(self, model: Model) -> Interval | None:
        """Return the accuracy of a model as a share."""
        return model.accuracy(self.set, self.protocol)

    def difference(self, model: Model, other: Model) -> Difference | None:
        """Return by how much one model is more accurate than another, None where one was not measured."""
        rows = model.evaluated(self.set, self.protocol), other.evaluated(self.set, self.protocol)
        return difference_of(*rows, "accuracy")


def difference_of(a: Mapping[str, Any] | None, b: Mapping[str, Any] | None, key: str) -> Difference | None:
    """Return the difference of a number in two rows of records, None where one was not measured."""
    one, other = interval_of(a, key), interval_of(b, key)
    if a is None or b is None or one is None or other is None:
        return None
    pair = compared(a, b)
    if pair is not None:
        return Difference(pair.difference, pair.low, pair.high, paired=True)
    low = None if one.low is None or other.high is None else one.low - other.high
    high = None if one.high is None or other.low is None else one.high - other.low
    return Difference(one.value - other.value, low, high)


def points_of(difference: Difference) -> str:
    """Write a difference in points, and how its interval was made."""
    shown = difference.scaled(100)
    if shown.low is None or shown.high is None:
        return f"{shown.value:+.1f} points (no interval)"
    how = "paired" if difference.paired else "between the ends of two intervals"
    return f"{shown.value:+.1f} points ({shown.low:+.1f} to {shown.high:+.1f}, {how})"
