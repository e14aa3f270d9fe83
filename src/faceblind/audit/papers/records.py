"""A reproduced table as a tidy record: one row per cell with every number, and its CSV.

Shares are 0 to 1. For each attacker and each null there are three columns: the value and its 95 % interval. Where the
grade is ``unsupported`` only ``high`` means something: it is an upper bound.
"""

from __future__ import annotations

import csv
import io
from typing import Any

from faceblind.audit.papers.layout import Cell
from faceblind.audit.papers.readings import Reading
from faceblind.audit.papers.run import Reproduced
from faceblind.audit.papers.sampled import PrintedReading, Spread

ROLES = ("cosine", "wccn", "fresh", "wccn-fresh", "random", "pca")
_PLACE = ("table", "dataset", "encoder", "control", "column", "release", "k", "rank", "fit_people", "probe", "metric")
_OWN = (
    "far", "value", "low", "high", "grade", "achieved", "lift", "frozen", "frozen_low", "frozen_high", "frozen_far", "seeds",
    "learned_from", "people", "mated", "nonmated", "energy_kept",
)  # fmt: skip
_WORST = ("worst_attacker", "worst", "worst_low", "worst_high", "worst_lift", "worst_grade")
_ENDS = ("", "_low", "_high")
_SPREADS = ("value", "far", "variant", "variant_far")
_PARTS = ("first", "mean", "low", "high")
COLUMNS = (
    *_PLACE,
    *_OWN,
    *_WORST,
    *(f"{role.replace('-', '_')}{end}" for role in ROLES for end in _ENDS),
    "printed_pairs",
    "printed_variant_pairs",
    "printed_resamplings",
    *(f"printed_{spread}_{part}" for spread in _SPREADS for part in _PARTS),
    "empty_because",
)
_TEXT = {
    "table",
    "dataset",
    "encoder",
    "column",
    "release",
    "probe",
    "metric",
    "grade",
    "worst_attacker",
    "worst_grade",
    "empty_because",
}
_WHOLE = {
    "k", "rank", "fit_people", "seeds", "learned_from", "people", "mated", "nonmated", "printed_pairs", "printed_variant_pairs",
    "printed_resamplings",
}  # fmt: skip


def records(made: Reproduced) -> list[dict[str, Any]]:
    """Return one row per cell, empty ones included; absent numbers are None."""
    return [_record(made, cell) for cell in made.layout.cells]


def to_csv(rows: list[dict[str, Any]]) -> str:
    """Write records as CSV; floats in full, so that reading gives the same numbers."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([_written(row[name]) for name in COLUMNS] for row in rows)
    return buffer.getvalue()


def from_csv(text: str) -> list[dict[str, Any]]:
    """Read what `to_csv` wrote."""
    return [{name: _read(name, value) for name, value in row.items()} for row in csv.DictReader(io.StringIO(text))]


def _record(made: Reproduced, cell: Cell) -> dict[str, Any]:
    layout = made.layout
    source, column = layout.rows[cell.row], layout.columns[cell.column]
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    own = cell.jobs.get("own")
    row |= {
        "table": layout.table,
        "dataset": source.dataset,
        "encoder": source.encoder,
        "control": source.control,
        "column": column.label,
        "release": column.kind,
        "k": column.k,
        "rank": own.map.rank if own else column.rank,
        "fit_people": own.map.people if own else column.people,
        "probe": layout.probe,
        "metric": layout.metric,
        "empty_because": cell.reason,
    }
    roles = made.roles(cell)
    if "own" not in roles:
        return row
    row |= {name: getattr(roles["own"], name) for name in _OWN}
    worst = made.worst(cell)
    if worst is not None:
        job, reading = worst
        row |= dict(
            zip(_WORST, (job.label, reading.value, reading.low, reading.high, reading.lift, reading.grade), strict=True)
        )
    for role in ROLES:
        if role in roles:
            row |= _ends(role.replace("-", "_"), roles[role])
    if roles["own"].printed is not None:
        row |= _printed(roles["own"].printed)
    return row


def _ends(name: str, reading: Reading) -> dict[str, float]:
    return {name: reading.value, f"{name}_low": reading.low, f"{name}_high": reading.high}


def _printed(printed: PrintedReading) -> dict[str, Any]:
    found: dict[str, Any] = {
        "printed_pairs": printed.pairs,
        "printed_variant_pairs": printed.variant_pairs,
        "printed_resamplings": printed.resamplings,
    }
    for name in _SPREADS:
        spread: Spread | None = getattr(printed, name)
        if spread is not None:
            found |= {f"printed_{name}_{part}": getattr(spread, part) for part in _PARTS}
    return found


def _written(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value) if isinstance(value, float) else str(value)


def _read(name: str, value: str) -> Any:
    if name in _TEXT:
        return value if value or name == "empty_because" else None
    if value == "":
        return None
    if name == "control":
        return value == "yes"
    return int(value) if name in _WHOLE else float(value)
