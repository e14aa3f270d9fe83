"""`AuditResult`: the record of an audit. JSON is the record; the HTML report is a view of it.

Every number carries its counts, its interval and the threshold rule that made it. The layout is published as a
JSON Schema (``audit/schema/audit-1.schema.json``, name ``faceblind.audit/1``) and is kept stable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from faceblind._files import write_text
from faceblind.audit.entries import (
    Comparison,
    Curve,
    GateResult,
    Power,
    RankPoint,
    Row,
    Summary,
    Utility,
    Verdict,
    Worst,
)
from faceblind.data.findings import Finding

SCHEMA = "faceblind.audit/1"


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """Everything an audit found. `rows` is one tidy table; the rest explains it."""

    provenance: Mapping[str, Any]
    hygiene: tuple[Finding, ...]
    verdict: Verdict
    rows: tuple[Row, ...]
    summary: tuple[Summary, ...]
    worst: tuple[Worst, ...]
    comparisons: tuple[Comparison, ...]
    curves: tuple[Curve, ...]
    rank_curve: tuple[RankPoint, ...]
    utility: tuple[Utility, ...]
    power: Power | None
    limits: tuple[str, ...]
    """What the audit does not promise."""
    gate: GateResult | None = None
    synthetic: bool = field(default=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types in the layout of ``faceblind.audit/1``."""
        return {
            "schema": SCHEMA,
            "synthetic": self.synthetic,
            "verdict": _plain(self.verdict),
            "gate": _plain(self.gate) if self.gate else None,
            "hygiene": [finding.to_dict() for finding in self.hygiene],
            "summary": [_plain(item) for item in self.summary],
            "worst": [_plain(item) for item in self.worst],
            "comparisons": [_plain(item) for item in self.comparisons],
            "rows": [_plain(item) for item in self.rows],
            "curves": [_plain(item) for item in self.curves],
            "rank_curve": [_plain(item) for item in self.rank_curve],
            "utility": [_plain(item) for item in self.utility],
            "power": _plain(self.power) if self.power else None,
            "limits": list(self.limits),
            "provenance": dict(self.provenance),
        }

    def to_json(self) -> str:
        """Return the record as JSON text; non-finite numbers are refused rather than written."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"

    def save(self, path: str | Path) -> None:
        """Write the record atomically."""
        write_text(path, self.to_json())

    def worst_attacker(self, *, release: str, far_target: float) -> Summary | None:
        """Return the summary that decides for a release at a FAR: see `faceblind.audit.verdict.worst_of`."""
        from faceblind.audit.verdict import worst_of

        return worst_of(self.summary, release, far_target)


@cache
def audit_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``faceblind.audit/1``."""
    text = files("faceblind.audit").joinpath("schema/audit-1.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _plain(item: Any) -> Any:
    return _tuples_to_lists(asdict(item))


def _tuples_to_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tuples_to_lists(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_tuples_to_lists(inner) for inner in value]
    return value
