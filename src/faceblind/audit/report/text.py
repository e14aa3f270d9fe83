"""Numbers as people write them: percents, rates, counts and the names of things.

Every figure in the report goes through here, so that the same number never appears in two forms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

NBSP = "\N{NO-BREAK SPACE}"

_LEARNED_FROM = {"attack": "other people", "fit": "the eraser's own people", None: "no one"}


def percent(share: float) -> str:
    """Write a share as a percent with sensible digits: ``0.08 %``, ``1.8 %``, ``< 0.01 %``, ``97.9 %``."""
    return _bare(100 * share) + NBSP + "%"


def percent_bound(share: float) -> str:
    """Write an upper bound, rounded up and never down: ``≤ 12.3 %``."""
    value = 100 * share
    digits = 2 if value < 1 else 1
    # The small subtraction undoes binary noise, so that 12.3 % stays 12.3 % and does not become 12.4 %.
    rounded = min(100.0, math.ceil(value * 10**digits - 1e-9) / 10**digits)
    if rounded == 100:
        return f"≤{NBSP}100{NBSP}%"
    return f"≤{NBSP}{rounded:.{2 if rounded < 1 else 1}f}{NBSP}%"


def interval(low: float, high: float) -> str:
    """Write an interval of shares with one percent sign, kept on one line: ``1.9 to 3.1 %``."""
    return f"{_bare(100 * low)}{NBSP}to{NBSP}{_bare(100 * high)}{NBSP}%"


def points(difference: float) -> str:
    """Write a difference of shares in percentage points, with its sign: ``-1.4``, ``+0.02``."""
    value = 100 * difference
    digits = 1 if abs(value) >= 1 else 2
    rounded = round(value, digits)
    return f"{rounded:+.{digits}f}" if rounded else "0"


def rate(value: float) -> str:
    """Write a false-accept rate in short form: ``1e-4``, ``9.7e-5``, ``0``."""
    if value == 0:
        return "0"
    if value >= 0.1:
        return f"{value:.2g}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


def one_in(value: float) -> str:
    """Write a rate as a count of chances: ``1 in 10,000``, ``3 in 100``, ``about 1 in 37``."""
    if value <= 0:
        return "never"
    inverse = 1 / value
    if math.isclose(inverse, round(inverse), rel_tol=1e-9):
        return f"1 in {round(inverse):,}"
    for power in range(1, 13):
        scaled = value * 10**power
        if scaled > 0.5 and math.isclose(scaled, round(scaled), rel_tol=1e-9) and scaled < 100:
            return f"{round(scaled)} in {10**power:,}"
    return f"about 1 in {round(inverse):,}"


def accepts_in(value: float) -> str:
    """Write a rate as false accepts: ``1 false accept in 10,000``, ``3 false accepts in 100``."""
    written = one_in(value)
    if " in " not in written:
        return "no false accept at all"
    many, _, pairs = written.rpartition(" in ")
    return f"{many} false {'accept' if many.endswith('1') else 'accepts'} in {pairs}"


def count(value: float) -> str:
    """Write a count with thousands separators; means over seeds are rounded to a whole."""
    return f"{round(value):,}"


def times(value: float) -> str:
    """Write a ratio: ``244×``, ``1.3×``, ``0.4×``."""
    if value >= 9.95:
        return f"{round(value):,}×"
    return f"{value:.1f}×"


def number(value: float) -> str:
    """Write a setting or other free number shortly: ``0.001``, ``1e-6``, ``512``."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if value and (abs(value) < 1e-3 or abs(value) >= 1e6):
        mantissa, exponent = f"{value:.4g}".split("e") if "e" in f"{value:.4g}" else (f"{value:.4g}", "")
        return f"{mantissa}e{int(exponent)}" if exponent else mantissa
    return f"{value:.5g}"


def plural(value: int, one: str, many: str | None = None) -> str:
    """Write a count with its noun: ``1 image``, ``1,600 images``."""
    return f"{value:,}{NBSP}{one if value == 1 else many or one + 's'}"


def short(name: str, limit: int = 28) -> str:
    """Cut a long name in the middle, where file names and keys differ least."""
    if len(name) <= limit:
        return name
    head = (limit - 1) * 2 // 3
    return f"{name[:head]}…{name[len(name) - (limit - 1 - head) :]}"


def learned_from(trained_on: str | None) -> str:
    """Name in words whom an attacker learned from."""
    return _LEARNED_FROM.get(trained_on, str(trained_on))


def attacker_line(item: Mapping[str, Any]) -> str:
    """Name an attacker in full: ``ridge, learned from other people, 16 images each``."""
    parts = [short(item["attacker"], 40)]
    if item["trained_on"] is None:
        parts.append("learns nothing")
    else:
        parts.append(f"learned from {learned_from(item['trained_on'])}")
    if item["k"] is not None:
        parts.append(f"{plural(item['k'], 'image')} {'a template' if templates(item) else 'each'}")
    return ", ".join(parts)


def templates(item: Mapping[str, Any]) -> bool:
    """Whether an attacker compares images with templates of several images, by its name."""
    name = str(item["attacker"])
    return name == "class-mean" or name.endswith("-template")


def attacker_short(item: Mapping[str, Any]) -> str:
    """Name an attacker for a legend: ``ridge, k=16, fit people``."""
    parts = [short(item["attacker"], 26)]
    if item["k"] is not None:
        parts.append(f"k={item['k']}")
    if item["trained_on"] is not None:
        parts.append("other people" if item["trained_on"] == "attack" else "eraser's people")
    return ", ".join(parts)


def _bare(value: float) -> str:
    if value == 0:
        return "0"
    if value < 0.01:
        return f"<{NBSP}0.01"
    if round(value, 2) < 1:
        return f"{value:.2f}"
    if value == 100:
        return "100"
    if value >= 99.95:
        return f">{NBSP}99.9"
    return f"{value:.1f}"
