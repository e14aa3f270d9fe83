"""A reproduced table as one offline page in the look of the audit report; the record travels inside it as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import groupby
from typing import Any

from jinja2 import Environment

from faceblind.audit.papers.check import check_printed, effective_far
from faceblind.audit.papers.printed import printed_paper
from faceblind.audit.papers.readings import Reading
from faceblind.audit.papers.records import ROLES, records
from faceblind.audit.papers.run import Reproduced
from faceblind.audit.report import text
from faceblind.audit.report.pages import page_css, page_environment, printable
from faceblind.audit.report.render import embed_json
from faceblind.measure import allowed_false_accepts

ROLE_NAMES = {
    "cosine": "plain cosine",
    "wccn": "WCCN, train people",
    "fresh": "ridge, people unseen by the eraser",
    "wccn-fresh": "WCCN, people unseen by the eraser",
    "random": "null: random subspace",
    "pca": "null: principal subspace",
}


@dataclass(frozen=True)
class Shown:
    """A number with its interval, as text."""

    value: str
    note: str
    grade: str


@dataclass(frozen=True)
class Line:
    """One cell of the table with everything that belongs to it."""

    row: str
    column: str
    own: Shown | None
    reason: str
    lift: str
    frozen: str
    worst: Shown | None
    worst_name: str
    blind: bool
    """Whether the worst attacker reads at least twice what the paper's probe reads."""
    nulls: str
    roles: tuple[tuple[str, Shown], ...]
    printed: Mapping[str, Any] | None


def to_html(made: Reproduced) -> str:
    """Return the page, to be written as UTF-8; the same input gives the same text."""
    layout = made.layout
    width = len(layout.columns)
    lines = [_line(made, r, c) for r in range(len(layout.rows)) for c in range(width)]
    rows = [(source, lines[r * width : (r + 1) * width]) for r, source in enumerate(layout.rows)]
    printed_pairs = next((line.printed["pairs"] for line in lines if line.printed), 0)
    accepts = allowed_false_accepts(made.protocol.far, printed_pairs)
    page = _environment().get_template("papers.html.j2").render(
        made=made,
        layout=layout,
        groups=[(name, len(list(inside))) for name, inside in groupby(layout.columns, key=lambda c: c.group)],
        blocks=[(name, list(inside)) for name, inside in groupby(rows, key=lambda row: row[0].dataset)],
        filled=[line for line in lines if line.own is not None],
        counts=_counts(made),
        expected=effective_far(printed_pairs, accepts) if printed_pairs and layout.metric == "tar" else None,
        accepts=accepts,
        printed_pairs=printed_pairs,
        paper=[t for t in printed_paper().tables if t.name.split()[0] == layout.table],
        slips=[slip for slip in check_printed() if layout.table in slip.tables],
        css=page_css("faceblind.audit.papers", "papers.css"),
        record_json=embed_json({"provenance": dict(made.provenance), "notes": list(made.notes), "cells": records(made)}),
    )  # fmt: skip
    return printable(page)


def _line(made: Reproduced, r: int, c: int) -> Line:
    cell = made.layout.cell(r, c)
    roles = made.roles(cell)
    row = f"{made.layout.rows[r].dataset}, {made.layout.rows[r].encoder}"
    if "own" not in roles:
        return Line(row, made.layout.columns[c].label, None, cell.reason, "", "", None, "", False, "", (), None)
    own, worst = roles["own"], made.worst(cell)
    frozen = (
        ""
        if own.frozen is None or own.frozen_far is None
        else f"{text.percent(own.frozen)} at FAR {text.rate(own.frozen_far)}"
    )
    shown = [_show(roles[name]).value for name in ("random", "pca") if name in roles]
    nulls = " / ".join([value.removesuffix(f"{text.NBSP}%") for value in shown[:-1]] + shown[-1:])
    return Line(
        row,
        made.layout.columns[c].label,
        _show(own),
        "",
        "" if own.bounded else text.times(own.lift),
        frozen,
        None if worst is None else _show(worst[1]),
        "" if worst is None else worst[0].label,
        worst is not None and not own.bounded and worst[1].value >= 2 * own.value and worst[1].low > own.value,
        nulls,
        tuple((ROLE_NAMES[role], _show(roles[role])) for role in ROLES if role in roles),
        None if own.printed is None else asdict(own.printed),
    )


def _show(reading: Reading) -> Shown:
    if reading.bounded:
        return Shown(text.percent_bound(reading.high), "bound only", reading.grade)
    return Shown(text.percent(reading.value), text.interval(reading.low, reading.high), reading.grade)


def _counts(made: Reproduced) -> str:
    owns = [made.readings[cell.jobs["own"]] for cell in made.layout.cells if "own" in cell.jobs]
    return ", ".join(
        _range([getattr(own, name) for own in owns], one, many)
        for name, one, many in (
            ("people", "test person", "test people"),
            ("mated", "same-person pair", "same-person pairs"),
            ("nonmated", "different-person pair", "different-person pairs"),
        )
        if owns
    )


def _range(values: Sequence[int], one: str, many: str) -> str:
    low, high = min(values), max(values)
    return text.plural(high, one, many) if low == high else f"{low:,} to {text.plural(high, one, many)}"


@cache
def _environment() -> Environment:
    environment = page_environment("faceblind.audit.papers")
    environment.filters |= {"percent": text.percent, "rate": text.rate, "plural": text.plural, "short": text.short}
    environment.globals |= {"interval": text.interval}
    return environment
