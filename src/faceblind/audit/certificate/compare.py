"""Compare a recorded value with a recomputed one, leaf by leaf, and name each difference by its path.

Under the same libraries every number must be the same to the last bit. Other linear algebra libraries round differently:
pairs whose scores tie in float32 then fall on the other side of a threshold, and a network that is trained may stop an epoch
earlier. The tolerances for that case are:

- rates (TAR, FNMR, EER): half a percentage point, or 3 pairs where that is more, or 1 %;
- limits of intervals: twice that, or 5 %;
- accepted same-person pairs: the same share of those compared, or 3;
- achieved false accept rates and false accepts: 5 %, or 3 pairs where that is more;
- ties, and what a finding counts: 3;
- lift: as the TAR it is a multiple of;
- thresholds and other numbers: 0.005, or 1 % where that is more;
- settings that were chosen on validation, and examples of a finding: any, for what they lead to is compared;
- text: the words are the same, and numbers inside them within 0.5 or 10 %.

Everything else (names, plan, ranks, numbers of people and of pairs, digests) must be equal in any case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PAIRS = 3
RATE = 0.005
SHARE = 0.01
FALSE_SHARE = 0.05
LIMIT_SHARE = 0.05
_ROUNDING = 1e-12
_TEXT_NEAR, _TEXT_SHARE = 0.5, 0.1
_LIMITS = ("low", "high", "bound")
_FREE = ("/chosen[", "/examples[", "/examples (length)")
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?")
_NAMES = ("release", "attacker", "trained_on", "k", "seed", "calibration", "far_target", "strength", "kind", "name")
"""Members by which an entry of a list is named in a path, where it has them."""


@dataclass(frozen=True)
class Difference:
    """One leaf that differs."""

    path: str
    recorded: Any
    found: Any
    tolerated: bool = False
    """Within the tolerance for other linear algebra libraries."""

    def __str__(self) -> str:
        return f"{self.path}: recorded {_short(self.recorded)}, found {_short(self.found)}"


ABSENT = "(absent)"


def compare(recorded: Any, found: Any, path: str = "", *, exact: bool = True) -> list[Difference]:
    """List the leaves in which two values of plain JSON types differ.

    Parameters
    ----------
    path : str
        Where the values stand.
    exact : bool
        False marks differences within the tolerances above as tolerated.
    """
    return list(_walk(recorded, found, path, {}, exact))


def _walk(a: Any, b: Any, path: str, siblings: Mapping[str, Any], exact: bool) -> Iterator[Difference]:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in dict.fromkeys((*a, *b)):
            below = f"{path}/{key}" if path else str(key)
            if key not in a or key not in b:
                yield Difference(below, a.get(key, ABSENT), b.get(key, ABSENT))
            else:
                yield from _walk(a[key], b[key], below, b, exact)
    elif _is_list(a) and _is_list(b):
        if len(a) != len(b):
            below = f"{path} (length)"
            yield Difference(below, len(a), len(b), tolerated=not exact and below.endswith(_FREE))
        for index, (x, y) in enumerate(zip(a, b, strict=False)):
            yield from _walk(x, y, f"{path}[{_label(index, y)}]", siblings, exact)
    elif not _equal(a, b):
        near = not exact and _near(a, b, path, siblings)
        yield Difference(path, a, b, tolerated=near)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return bool(a == b)


def _near(a: Any, b: Any, path: str, siblings: Mapping[str, Any]) -> bool:
    if any(part in path for part in _FREE):
        return True
    if isinstance(a, str) and isinstance(b, str):
        return _near_text(a, b)
    if not (_is_number(a) and _is_number(b)):
        return False
    key = re.sub(r"\[[^\]]*\]$", "", path).rsplit("/", 1)[-1]
    allowed = _allowed(key, b, siblings)
    return allowed is not None and bool(abs(a - b) <= allowed + _ROUNDING)


def _allowed(key: str, value: float, siblings: Mapping[str, Any]) -> float | None:
    """Return by how much a number may differ from `value`; None when not at all."""
    mated, nonmated = siblings.get("mated") or 0, siblings.get("nonmated") or 0
    rate = max(RATE, PAIRS / mated if mated else 0)
    match key:
        case "true_accepts":
            return max(PAIRS, RATE * mated)
        case "false_accepts":
            return max(PAIRS, FALSE_SHARE * value)
        case "ties" | "count":
            return PAIRS
        case "far_target":
            return None
        case "lift":
            return max(rate / max(siblings.get("far_target") or 1, _ROUNDING), SHARE * abs(value))
    if isinstance(value, int):  # numbers of people and pairs, ranks, seeds: nothing to round
        return None
    if key.startswith("far"):
        return max(FALSE_SHARE * value, PAIRS / nonmated if nonmated else 0)
    if key.endswith(_LIMITS):
        return max(2 * rate, LIMIT_SHARE * abs(value))
    return max(rate, SHARE * abs(value))


def _near_text(a: str, b: str) -> bool:
    if _NUMBER.sub("#", a) != _NUMBER.sub("#", b):
        return False
    pairs = zip(_NUMBER.findall(a), _NUMBER.findall(b), strict=True)
    numbers = [(float(x.replace(",", "")), float(y.replace(",", ""))) for x, y in pairs]
    return all(abs(x - y) <= max(_TEXT_NEAR, _TEXT_SHARE * abs(y)) for x, y in numbers)


def _label(index: int, item: Any) -> str:
    if not isinstance(item, Mapping):
        return str(index)
    named = [f"{key} {item[key]}" for key in _NAMES if isinstance(item.get(key), str | int | float)]
    return f"{index}: {', '.join(named)}" if named else str(index)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 160 else f"{text[:157]}..."
