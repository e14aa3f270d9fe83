"""Releases side by side: what the worst attacker reads of each, what each keeps, and which differences are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from faceblind.audit.report import text
from faceblind.audit.report.figures import erased_of, rates
from faceblind.audit.report.styles import release_name, release_order


@dataclass(frozen=True)
class Side:
    """One release at one false-accept rate."""

    release: str
    name: str
    rank: int
    audited: bool
    attacker: str
    value: str
    note: str
    bound: str
    grade: str
    overlap: str
    energy: str
    difference: str
    """Of the audited release against this one, in percentage points."""
    said: str
    """Whether the audited release leaks less, in words."""
    shown: bool


@dataclass(frozen=True)
class Sides:
    """All releases at one false-accept rate."""

    far: float
    attacks: int
    lines: tuple[Side, ...]


@dataclass(frozen=True)
class Apart:
    """Measures over many thresholds, of one attacker on one release."""

    release: str
    name: str
    attacker: str
    eer: str
    pauc: str
    pauc_note: str
    grade: str
    dsys: str
    dsys_note: str
    extrapolated: tuple[str, ...]


def sides(record: Mapping[str, Any]) -> list[Sides]:
    """Return a table per false-accept rate, most lenient first."""
    audited = erased_of(record)
    utility = {u["release"]: u for u in record["utility"]}
    found = []
    for far in rates(record):
        worst = {w["release"]: w for w in record["worst"] if w["far_target"] == far}
        pairs = {c["against"]: c for c in record["comparisons"] if c["far_target"] == far and c["release"] == audited}
        lines = [_side(worst[name], audited, pairs.get(name), utility.get(name)) for name in release_order(worst)]
        if lines:
            found.append(Sides(far, max(w["attackers"] for w in worst.values()), tuple(lines)))
    return found


def _side(
    worst: Mapping[str, Any], audited: str | None, pair: Mapping[str, Any] | None, utility: Mapping[str, Any] | None
) -> Side:
    unsupported = worst["grade"] == "unsupported"
    difference, said = "", ""
    if pair is not None:
        difference = f"{text.points(pair['difference'])} ({text.points(pair['low'])} to {text.points(pair['high'])})"
        chance = f"p{text.NBSP}={text.NBSP}{pair['p_adjusted']:.2g}"
        said = f"leaks less than this, {chance}" if pair["leaks_less"] else f"not shown to leak less, {chance}"
    return Side(
        release=worst["release"],
        name=release_name(worst["release"]),
        rank=worst["rank"],
        audited=worst["release"] == audited,
        attacker=text.attacker_short(worst),
        value=text.percent_bound(worst["tar_high"]) if unsupported else text.percent(worst["tar"]),
        note="bound only" if unsupported else text.interval(worst["tar_low"], worst["tar_high"]),
        bound=text.percent_bound(worst["bound"]),
        grade=worst["grade"],
        overlap=text.percent(utility["neighbour_overlap"]) if utility else "–",
        energy=text.percent(utility["energy_kept"]) if utility else "–",
        difference=difference,
        said=said,
        shown=bool(pair and pair["leaks_less"]),
    )


def apart(curves: Sequence[Mapping[str, Any]]) -> list[Apart]:
    """Return the measures over many thresholds, for the curves that have them."""
    order = release_order(c["release"] for c in curves)
    return [
        _apart(c, c["separation"])
        for c in sorted(curves, key=lambda c: order.index(c["release"]))
        if c.get("separation")
    ]


def _apart(curve: Mapping[str, Any], measured: Mapping[str, Any]) -> Apart:
    return Apart(
        release=curve["release"],
        name=release_name(curve["release"]),
        attacker=text.attacker_short(curve),
        eer=f"{text.percent(curve['eer'])} ({text.interval(curve['eer_low'], curve['eer_high'])})",
        pauc=text.percent(measured["pauc"]),
        pauc_note=text.interval(measured["pauc_low"], measured["pauc_high"]),
        grade=measured["pauc_grade"],
        dsys=f"{measured['dsys_excess']:.3f}",
        dsys_note=f"{measured['dsys']:.3f} less {measured['dsys_null']:.3f} by chance, p{text.NBSP}={text.NBSP}{measured['dsys_p']:.2g}",
        extrapolated=tuple(_extrapolated(item) for item in measured["extrapolated"]),
    )


def _extrapolated(item: Mapping[str, Any]) -> str:
    where = f"FAR {text.rate(item['far_target'])}"
    if item["tar"] is None:
        return f"{where}: not extrapolated, {item['refused']}"
    return f"{where}: {text.percent(item['tar'])} ({text.interval(item['tar_low'], item['tar_high'])}), extrapolated"
