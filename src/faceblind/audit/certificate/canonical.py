"""Canonical JSON and digests: the same content has the same digest, however it is indented or ordered.

Keys are sorted, no white space, ASCII with escapes, numbers in their shortest form that reads back to the same value, and
whole numbers without a point, so that a file that went through another JSON tool (1.0 becomes 1, 1e-05 becomes 0.00001)
still has its digests.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from faceblind._errors import FormatError

_EXACT = 2.0**53
"""Whole floats below this are whole numbers without loss."""
_DIGITS = 20


def canonical(value: Any) -> bytes:
    """Return the canonical JSON of plain JSON types.

    Raises
    ------
    FormatError
        A number is NaN or infinite, or a value is not plain JSON.
    """
    try:
        text = json.dumps(
            _whole(value),
            sort_keys=True,
            separators=(",", ":"),
            ensure_ascii=True,
            allow_nan=False,
            check_circular=False,
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"this cannot be written as JSON: {error}") from error
    return text.encode("ascii")


def digest(value: Any) -> str:
    """Return the hex SHA-256 of the canonical JSON of a value."""
    return hashlib.sha256(canonical(value)).hexdigest()


def plain(value: Any) -> Any:
    """Return a value as it is after a trip through JSON: tuples become lists, numbers stay exact."""
    return json.loads(json.dumps(value, allow_nan=False))


def parse(text: str, source: str = "the certificate") -> dict[str, Any]:
    """Read a JSON object strictly: no name twice, no NaN or infinity.

    Raises
    ------
    FormatError
        Not JSON, not an object, a name that occurs twice, a number that is not finite, or nesting without end.
    """
    try:
        found = json.loads(
            text, object_pairs_hook=_once, parse_constant=_refuse, parse_float=_finite, parse_int=_bounded
        )
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{source} is not readable JSON: {error}") from error
    if not isinstance(found, dict):
        raise FormatError(f"{source} is not a JSON object")
    return found


def read(path: str | Path) -> dict[str, Any]:
    """Read a JSON object from a file; raises `FormatError` naming the file."""
    path = Path(path)
    if not path.is_file():
        raise FormatError(f"no certificate at {path}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not UTF-8 text: {error.reason}") from error
    return parse(text, str(path))


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    if isinstance(value, Mapping):
        return {key: _whole(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(inner) for inner in value]
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):  # readers disagree on which of the two counts
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the name {twice!r} occurs twice in one object")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON number")


def _bounded(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError(f"the number {text[:_DIGITS]}... is too large")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if value in {float("inf"), float("-inf")}:
        raise ValueError(f"the number {text} is too large")
    return value
