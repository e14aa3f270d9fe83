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
from typing import Any, Literal

from faceblind._files import write_text
from faceblind.data.findings import Finding

SCHEMA = "faceblind.audit/1"

Calibration = Literal["validation", "test"]
Grade = Literal["supported", "indicative", "unsupported"]
TrainedOn = Literal["attack", "fit"]
Level = Literal["leaks", "reduced", "low", "inconclusive"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One operating point of one attacker (one seed) on one release."""

    release: str
    """``raw``, ``isp``, ``random``, ``pca``, ``permuted`` or ``planted``."""
    rank: int
    """Dimensions removed; 0 for raw."""
    attacker: str
    trained_on: TrainedOn | None
    """The people the attacker learned from; None when it learns nothing."""
    k: int | None
    """Images per training identity; None when it learns nothing."""
    seed: int | None
    calibration: Calibration
    """``validation``: threshold frozen there. ``test``: threshold set at the target on test itself."""
    far_target: float
    far_achieved: float
    """Share of the test non-mated pairs accepted."""
    false_accepts: int
    nonmated: int
    true_accepts: int
    mated: int
    tar: float
    tar_low: float
    tar_high: float
    """95 % interval, resampling people. At an unsupported point only `tar_high` speaks: it bounds the TAR."""
    threshold: float
    """Accept iff score >= threshold."""
    ties: int
    """Non-mated test pairs at the highest score under the threshold: more than one could not be told apart."""
    grade: Grade


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One operating point averaged over the attacker's seeds; draws of people are shared by the seeds."""

    release: str
    rank: int
    attacker: str
    trained_on: TrainedOn | None
    k: int | None
    seeds: int
    calibration: Calibration
    far_target: float
    far_achieved: float
    tar: float
    tar_low: float
    tar_high: float
    lift: float
    """How many times chance: TAR over the target FAR, or over the achieved FAR where a frozen threshold exceeded it."""
    grade: Grade
    people: int
    mated: int
    nonmated: int


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Detection-error trade-off of one attacker on one release, on test people."""

    release: str
    rank: int
    attacker: str
    trained_on: TrainedOn | None
    k: int | None
    far: tuple[float, ...]
    fnmr: tuple[float, ...]
    fnmr_low: tuple[float, ...]
    fnmr_high: tuple[float, ...]
    eer: float
    eer_low: float
    eer_high: float
    far_floor: float
    """Below this FAR fewer than 30 false accepts are allowed: the curve is not supported there."""


@dataclass(frozen=True, kw_only=True)
class RankPoint:
    """One rank of the privacy-utility curve, on validation people; the worst attacker counts."""

    rank: int
    far_target: float
    attacker: str
    trained_on: TrainedOn | None
    k: int | None
    tar: float
    tar_low: float
    tar_high: float
    neighbour_overlap: float
    """Share of the ten nearest raw neighbours that are still among the ten nearest."""
    energy_kept: float
    """Mean share of a vector's squared length that is left."""


@dataclass(frozen=True, kw_only=True)
class Utility:
    """What is still of use on test photographs after the map."""

    release: str
    rank: int
    neighbour_overlap: float
    neighbours: int
    """How many neighbours were compared (10, fewer on tiny sets)."""
    energy_kept: float
    energy_kept_p05: float
    """5th percentile over images: the images that lose most."""
    images: int


@dataclass(frozen=True, kw_only=True)
class PlantedPoint:
    """A leak of known strength, planted in the erased vectors, as the audit saw it."""

    strength: float
    """Share of each vector's energy that is the planted identity code."""
    attacker: str
    tar: float
    tar_low: float
    tar_high: float
    caught: bool
    """The interval lies wholly above the interval without the plant."""


@dataclass(frozen=True, kw_only=True)
class Power:
    """What the audit would have caught."""

    release: str
    far_target: float
    unplanted_tar: float
    unplanted_tar_high: float
    points: tuple[PlantedPoint, ...]
    smallest_caught: float | None
    """Smallest planted strength from which on every strength was caught; None if none was."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result in plain words."""

    level: Level
    headline: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """Outcome of a ``--fail-if`` expression."""

    expression: str
    release: str
    failed: bool
    value: float
    """The end of the interval that was compared."""
    point: float
    attacker: str
    message: str


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """Everything an audit found. `rows` is one tidy table; the rest explains it."""

    provenance: Mapping[str, Any]
    hygiene: tuple[Finding, ...]
    verdict: Verdict
    rows: tuple[Row, ...]
    summary: tuple[Summary, ...]
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

    def worst(self, *, release: str, far_target: float) -> Summary | None:
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
