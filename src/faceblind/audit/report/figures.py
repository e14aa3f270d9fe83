"""Key figures: the worst attacker at each false-accept rate, before and after, with its controls beside it."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from faceblind.audit.report import text
from faceblind.audit.report.forest import forest_figure
from faceblind.audit.report.styles import erased_release, release_name, release_order
from faceblind.audit.verdict import worst_of

_CONTROLS = ("random", "pca", "permuted")


@dataclass(frozen=True)
class Figure:
    """One big number: the worst attacker on a release at a false-accept rate."""

    release: str
    name: str
    rank: int
    value: str
    """The TAR, or only its bound when unsupported."""
    note: str
    """The interval, or why there is none."""
    grade: str
    lift: str
    attacker: str
    calibration: str
    achieved: str
    counts: str


@dataclass(frozen=True)
class KeyFigures:
    """The figures at one false-accept rate."""

    far: float
    raw: Figure | None
    erased: Figure | None
    reading: str
    """What the two say about each other, in words."""
    plot: Markup


def worst(summary: Sequence[Mapping[str, Any]], *, release: str, far: float) -> Mapping[str, Any] | None:
    """Return the entry that decides, as `faceblind.audit.verdict.worst_of` chooses it."""
    return worst_of(summary, release, far, get=operator.getitem)


def rates(record: Mapping[str, Any]) -> list[float]:
    """Return the false-accept rates of the record, most lenient first."""
    return sorted({float(s["far_target"]) for s in record["summary"]}, reverse=True)


def key_figures(record: Mapping[str, Any]) -> list[KeyFigures]:
    """Return the key figures for every false-accept rate."""
    summary = record["summary"]
    erased = erased_of(record) or ""
    found = []
    for i, far in enumerate(rates(record)):
        points = [
            point
            for release in release_order(s["release"] for s in summary if s["release"] != "planted")
            if (point := worst(summary, release=release, far=far)) is not None
        ]
        by_release = {point["release"]: point for point in points}
        if not points:
            continue
        found.append(
            KeyFigures(
                far=far,
                raw=_figure(by_release.get("raw"), record["rows"]),
                erased=_figure(by_release.get(erased), record["rows"]),
                reading=_reading(by_release, erased),
                plot=forest_figure(points, far=far, key=f"forest{i}"),
            )
        )
    return found


def erased_of(record: Mapping[str, Any]) -> str | None:
    """Return the name of the erased release of a record."""
    projector = record["provenance"]["projector"] or {}
    return erased_release((s["release"] for s in record["summary"]), projector.get("method"))


def _figure(point: Mapping[str, Any] | None, rows: Sequence[Mapping[str, Any]]) -> Figure | None:
    if point is None:
        return None
    unsupported = point["grade"] == "unsupported"
    far = point["far_target"]
    lift = (point["tar_high"] / far if far else 0.0) if unsupported else point["lift"]
    return Figure(
        release=point["release"],
        name=release_name(point["release"]),
        rank=point["rank"],
        value=text.percent_bound(point["tar_high"]) if unsupported else text.percent(point["tar"]),
        note=(
            "upper bound only: too few false accepts are allowed to place a point"
            if unsupported
            else f"95{text.NBSP}% interval {text.interval(point['tar_low'], point['tar_high'])}"
        ),
        grade=point["grade"],
        lift=("at most " if unsupported else "") + f"{text.times(lift)}{text.NBSP}guessing" if far else "",
        attacker=text.attacker_line(point),
        calibration="threshold set so that the rate is met on the test people",
        achieved=text.rate(point["far_achieved"]),
        counts=_counts(point, rows, unsupported=unsupported),
    )


def _counts(point: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], *, unsupported: bool) -> str:
    same = ("release", "rank", "attacker", "trained_on", "k", "calibration", "far_target")
    matching = [row for row in rows if all(row[key] == point[key] for key in same)]
    people = f"{text.plural(point['people'], 'person', 'people')}"
    if not matching:
        return f"{people}; {text.count(point['mated'])} same-person and {text.count(point['nonmated'])} different-person pairs"
    false_accepts = sum(row["false_accepts"] for row in matching) / len(matching)
    true_accepts = sum(row["true_accepts"] for row in matching) / len(matching)
    mean = f", mean of {len(matching)} seeds" if len(matching) > 1 else ""
    # An unsupported point is not printed, so neither are the accepts that would give it away.
    accepted = (
        f"{text.count(point['mated'])} same-person pairs"
        if unsupported
        else f"{text.count(true_accepts)} of {text.count(point['mated'])} same-person pairs accepted"
    )
    return (
        f"{people}; {accepted}; {text.count(false_accepts)} of {text.count(point['nonmated'])} "
        f"different-person pairs accepted{mean}"
    )


def _reading(points: Mapping[str, Mapping[str, Any]], erased: str) -> str:
    raw, after = points.get("raw"), points.get(erased)
    if after is None:
        return "Nothing was erased in this audit: the figure describes the vectors as they are."
    if raw is None:
        return "The raw vectors were not audited, so there is nothing to compare with."
    if "unsupported" in {raw["grade"], after["grade"]}:
        return "There are too few comparisons at this rate to say whether the eraser helped."
    if after["tar_low"] > raw["tar_high"]:
        return "After the eraser the worst attacker reads more than before: the interval lies wholly above the raw one."
    if after["tar_high"] >= raw["tar_low"]:
        return "The two intervals overlap: at this rate the audit does not show that the eraser helped."
    alike = [
        release_name(name)
        for name in _CONTROLS
        if name in points and points[name]["grade"] != "unsupported" and points[name]["tar_low"] <= after["tar_high"]
    ]
    said = "After the eraser the worst attacker reads less: the interval lies wholly below the raw one."
    if alike:
        said += f" The audit does not show it to be better than: {', '.join(alike)}."
    return said
