"""Provenance as nested lists of facts: free-form parts of the record, cut where they grow too long to read."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from faceblind.audit.report import text

_ITEMS: Final = 12
_TEXT: Final = 400
_DEPTH: Final = 3
_HEX: Final = re.compile("[0-9a-f]{16,}")
_LINES: Final = 40
_COLUMNS: Final = 8

_SPLIT: Final = {
    "fit": "the eraser learned from them",
    "attack": "attackers learned from them",
    "validation": "thresholds, settings and rank were chosen on them",
    "test": "the figures are measured on them (the rank curve: on validation)",
}

_SHOWN_ELSEWHERE: Final = frozenset(
    {
        "faceblind",
        "seed",
        "command",
        "table",
        "encoder",
        "table_projector",
        "projector",
        "split",
        "split_rule",
        "far_targets",
        "attackers",
        "bootstrap",
        "threshold_rule",
        "libraries",
    }
)


@dataclass(frozen=True)
class Fact:
    """A name with a value, or with facts below it."""

    name: str
    value: str
    below: tuple[Fact, ...] = ()
    code: bool = False
    """Digests, commands and JSON: set in a fixed-width face."""


@dataclass(frozen=True)
class Grid:
    """Records of like shape as a table."""

    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    left_out: int
    columns_left_out: int


@dataclass(frozen=True)
class Provenance:
    """Everything the last section prints."""

    run: tuple[Fact, ...]
    table: tuple[Fact, ...]
    encoder: tuple[Fact, ...]
    projector: tuple[Fact, ...]
    split: tuple[tuple[str, str, str, str], ...]
    attackers: Grid | None
    bootstrap: tuple[Fact, ...]
    libraries: tuple[Fact, ...]
    other: tuple[Fact, ...]


def provenance(record: Mapping[str, Any]) -> Provenance:
    """Return the provenance of a record, ready to print."""
    source = record["provenance"]
    run = {"faceblind": source["faceblind"], "seed": source["seed"]}
    if source.get("command"):
        run["command"] = _command(source["command"])
    run["false-accept rates"] = ", ".join(f"{text.rate(f)} ({text.one_in(f)})" for f in source["far_targets"]) or "none"
    run["threshold rule"] = source["threshold_rule"]
    run["split rule"] = source["split_rule"]
    encoder = source["encoder"]
    return Provenance(
        run=facts(run),
        table=facts({**source["table"], "projector already applied": source["table_projector"] or "none"}),
        encoder=facts(encoder) if encoder else (),
        projector=facts(source["projector"]) if source["projector"] else (),
        split=tuple(
            (name, f"{part['identities']:,}", f"{part['samples']:,}", _SPLIT.get(name, ""))
            for name, part in source["split"].items()
        ),
        attackers=_grid(source["attackers"]),
        bootstrap=facts(source["bootstrap"]),
        libraries=facts(source["libraries"]),
        other=facts({key: value for key, value in source.items() if key not in _SHOWN_ELSEWHERE}),
    )


def facts(values: Mapping[str, Any], depth: int = 0) -> tuple[Fact, ...]:
    """Return a mapping as facts; what is nested too deep becomes JSON text."""
    found = []
    for key, value in values.items():
        name = text.short(str(key).replace("_", " "), 40)
        if isinstance(value, Mapping) and value and depth < _DEPTH:
            found.append(Fact(name, "", facts(value, depth + 1)))
        else:
            # A seed is a name, not an amount: no thousands separator.
            said = str(value) if "seed" in str(key) and isinstance(value, int) else say(value)
            found.append(Fact(name, said, code=_is_code(str(key), value)))
    return tuple(found)


def say(value: Any) -> str:
    """Write any JSON value on one line, cut when long."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return _cut(value) or "–"
    if isinstance(value, int | float):
        return text.number(value)
    if isinstance(value, Sequence) and all(not isinstance(v, Mapping | list | tuple) for v in value):
        shown = ", ".join(say(v) for v in value[:_ITEMS])
        more = len(value) - _ITEMS
        return (f"{shown} … and {more:,} more in the record" if more > 0 else shown) or "none"
    if isinstance(value, Sequence) and all(isinstance(v, Mapping) for v in value):
        # Settings of several seeds are mostly the same: say each once, with how often.
        counted = Counter(say(v) for v in value)
        return _cut("; ".join(one if times == 1 else f"{one} ({times} times)" for one, times in counted.items()))
    if isinstance(value, Mapping) and all(not isinstance(v, Mapping) for v in value.values()):
        return _cut("; ".join(f"{key} {say(v)}" for key, v in value.items())) or "none"
    return _cut(json.dumps(value))


def _grid(items: Sequence[Mapping[str, Any]]) -> Grid | None:
    if not items:
        return None
    head = list(dict.fromkeys(str(key) for item in items for key in item))
    columns = head[:_COLUMNS]
    lines = tuple(tuple(say(item[key]) if key in item else "" for key in columns) for item in items[:_LINES])
    return Grid(
        head=tuple(text.short(name.replace("_", " "), 30) for name in columns),
        lines=lines,
        left_out=max(0, len(items) - _LINES),
        columns_left_out=len(head) - len(columns),
    )


def _command(command: Any) -> str:
    return " ".join(str(part) for part in command) if isinstance(command, list | tuple) else str(command)


def _is_code(key: str, value: Any) -> bool:
    return isinstance(value, str) and (key == "command" or value.startswith(("{", "[")) or bool(_HEX.fullmatch(value)))


def _cut(value: str) -> str:
    return value if len(value) <= _TEXT else f"{value[:_TEXT]} … ({len(value):,} characters in the record)"
