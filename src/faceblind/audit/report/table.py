"""The comparison table: every release and attacker at one false-accept rate, one line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from faceblind.audit.report import text
from faceblind.audit.report.figures import rates, worst
from faceblind.audit.report.styles import release_explanation, release_name, release_order


@dataclass(frozen=True)
class Cell:
    """One number of the table; `span` is 2 when the attacker learns nothing and both columns would say the same."""

    value: str
    note: str
    grade: str
    achieved: str
    span: int
    is_worst: bool


@dataclass(frozen=True)
class Line:
    """One attacker: threshold frozen on validation (other people, eraser's people), then set on test (the same)."""

    attacker: str
    detail: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class Group:
    """The attackers on one release."""

    release: str
    name: str
    explanation: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Table:
    """The comparison at one false-accept rate."""

    far: float
    counts: str
    groups: tuple[Group, ...]


def tables(record: Mapping[str, Any]) -> list[Table]:
    """Return one table per false-accept rate, most lenient first."""
    return [_table(record["summary"], far) for far in rates(record)]


def _table(summary: Sequence[Mapping[str, Any]], far: float) -> Table:
    here = [s for s in summary if s["far_target"] == far]
    groups = []
    for release in release_order(s["release"] for s in here):
        of_release = [s for s in here if s["release"] == release]
        top = worst(of_release, release=release, far=far)
        for rank in sorted({s["rank"] for s in of_release}):
            of_rank = [s for s in of_release if s["rank"] == rank]
            groups.append(
                Group(
                    release=release,
                    name=release_name(release) + (f", rank {rank}" if rank else ""),
                    explanation=release_explanation(release),
                    lines=tuple(_lines(of_rank, top)),
                )
            )
    return Table(far=far, counts=_counts(here), groups=tuple(groups))


def _lines(entries: Sequence[Mapping[str, Any]], top: Mapping[str, Any] | None) -> list[Line]:
    # Attackers stay in the order of the record; k grows.
    names = list(dict.fromkeys(s["attacker"] for s in entries))
    keys = sorted(
        {(s["attacker"], s["k"], s["trained_on"] is None) for s in entries},
        key=lambda key: (names.index(key[0]), -1 if key[1] is None else key[1], key[2]),
    )
    lines = []
    for name, k, untrained in keys:
        mine = [s for s in entries if (s["attacker"], s["k"], s["trained_on"] is None) == (name, k, untrained)]
        cells: list[Cell | None] = []
        for calibration in ("validation", "test"):
            sources: tuple[str | None, ...] = (None,) if untrained else ("attack", "fit")
            for source in sources:
                entry = next((s for s in mine if s["calibration"] == calibration and s["trained_on"] == source), None)
                cells.append(_cell(entry, is_worst=entry is not None and entry is top, untrained=untrained))
        lines.append(
            Line(attacker=text.short(name, 32), detail=_detail(k, mine, untrained=untrained), cells=tuple(cells))
        )
    return lines


def _detail(k: int | None, entries: Sequence[Mapping[str, Any]], *, untrained: bool) -> str:
    parts = []
    if k is not None:
        parts.append(f"k{text.NBSP}={text.NBSP}{k}")
    elif untrained:
        parts.append("learns nothing")
    seeds = max(s["seeds"] for s in entries)
    if seeds > 1:
        parts.append(f"{seeds}{text.NBSP}seeds")
    return ", ".join(parts)


def _cell(entry: Mapping[str, Any] | None, *, is_worst: bool, untrained: bool) -> Cell | None:
    span = 2 if untrained else 1
    if entry is None:
        return None if span == 1 else Cell("–", "", "", "", span, is_worst=False)
    unsupported = entry["grade"] == "unsupported"
    return Cell(
        value=text.percent_bound(entry["tar_high"]) if unsupported else text.percent(entry["tar"]),
        note="bound only" if unsupported else text.interval(entry["tar_low"], entry["tar_high"]),
        grade=entry["grade"],
        achieved=text.rate(entry["far_achieved"]),
        span=span,
        is_worst=is_worst,
    )


def _counts(entries: Sequence[Mapping[str, Any]]) -> str:
    """Say the counts behind a table; a range when the entries differ."""
    said = []
    for key, one, many in (
        ("people", "test person", "test people"),
        ("mated", "same-person pair", "same-person pairs"),
        ("nonmated", "different-person pair", "different-person pairs"),
    ):
        values = sorted({s[key] for s in entries})
        low, high = values[0], values[-1]
        said.append(text.plural(high, one, many) if low == high else f"{low:,} to {text.plural(high, one, many)}")
    return ", ".join(said)
