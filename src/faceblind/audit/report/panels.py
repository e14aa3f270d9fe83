"""Which curves, maps and ranks go into which picture, and the legend and table beside each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from faceblind.audit.report import svg, text
from faceblind.audit.report.det import det_figure
from faceblind.audit.report.extras import ReportExtras
from faceblind.audit.report.figures import erased_of, rates, worst
from faceblind.audit.report.mapplot import map_figure, picked_out
from faceblind.audit.report.rankplot import ENERGY_LOOK, LEAK_LOOKS, OVERLAP_LOOK, rank_figure, rank_rates
from faceblind.audit.report.styles import MARKERS, Look, look, release_name, release_order

_SMALL_PANELS: Final = 4
_RANK_LINES: Final = 30


@dataclass(frozen=True)
class Entry:
    """A line of a legend: the key, the name and what goes with it."""

    key: Markup
    name: str
    detail: str = ""


@dataclass(frozen=True)
class Panel:
    """A picture with its legend."""

    title: str
    plot: Markup
    legend: tuple[Entry, ...]


@dataclass(frozen=True)
class DetPanels:
    """The large panel (worst attacker on each release) and one small panel per attacker."""

    main: Panel | None
    small: tuple[Panel, ...]
    left_out: int
    """Curves in the record that are not drawn."""


@dataclass(frozen=True)
class RankLine:
    """A line of the table below the rank curve."""

    rank: int
    far: str
    tar: str
    note: str
    attacker: str
    overlap: str
    energy: str
    chosen: bool


@dataclass(frozen=True)
class RankPanel:
    """The privacy-utility curve with its table."""

    panel: Panel
    lines: tuple[RankLine, ...]
    left_out: int
    several_rates: bool


def det_panels(record: Mapping[str, Any]) -> DetPanels:
    """Return the DET pictures of a record.

    The large panel holds the worst attacker on each release. Then comes a panel for each attacker that has a curve on
    every release; what is left is drawn as the next worst attackers, again one on each release.
    """
    curves = [c for c in record["curves"] if c["far"]]
    targets = rates(record)
    releases = release_order(c["release"] for c in curves)
    first = [_worst_curve(record, curves, release) for release in releases]
    main = _det_panel(first, targets, "det", "Worst attacker on each release", name_attacker=True) if first else None
    drawn = {id(curve) for curve in first}
    small: list[Panel] = []
    for group in _complete_groups(curves, releases):
        if len(small) < _SMALL_PANELS and {id(c) for c in group} != {id(c) for c in first}:
            title = text.attacker_line(group[0])
            small.append(_det_panel(group, targets, f"det{len(small)}", title, name_attacker=False))
            drawn |= {id(c) for c in group}
    while len(small) < _SMALL_PANELS and (left := [c for c in curves if id(c) not in drawn]):
        of_left = release_order(c["release"] for c in left)
        layer = [_worst_curve(record, left, release) for release in of_left]
        small.append(
            _det_panel(layer, targets, f"det{len(small)}", "Next worst attacker on each release", name_attacker=True)
        )
        drawn |= {id(c) for c in layer}
    return DetPanels(main=main, small=tuple(small), left_out=len(record["curves"]) - len(drawn))


def _complete_groups(curves: Sequence[Mapping[str, Any]], releases: Sequence[str]) -> list[list[Mapping[str, Any]]]:
    """Return the curves of each attacker that has one on every release, the attacker with the lowest EER first."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for curve in curves:
        groups.setdefault((curve["attacker"], curve["trained_on"], curve["k"]), []).append(curve)
    complete = [g for g in groups.values() if len(releases) > 1 and {c["release"] for c in g} == set(releases)]
    for group in complete:
        group.sort(key=lambda c: (releases.index(c["release"]), c["rank"]))
    return sorted(complete, key=lambda g: min(c["eer"] for c in g))


def rank_panel(record: Mapping[str, Any]) -> RankPanel | None:
    """Return the privacy-utility curve, or None when the record has none."""
    points = record["rank_curve"]
    if not points:
        return None
    erased = erased_of(record)
    chosen = max((s["rank"] for s in record["summary"] if s["release"] == erased), default=None)
    several = rank_rates(points)
    legend = [
        _entry(LEAK_LOOKS[i % len(LEAK_LOOKS)], f"TAR at FAR {text.rate(rate)}", "worst attacker, 95 % interval shaded")
        for i, rate in enumerate(several)
    ]
    legend += [
        _entry(OVERLAP_LOOK, "neighbour overlap", "nearest raw neighbours still among the nearest"),
        _entry(ENERGY_LOOK, "energy kept", "mean share of a vector's squared length left"),
    ]
    ordered = sorted(points, key=lambda p: (p["rank"], p["far_target"]))
    kept = _some(ordered, chosen)
    lines = [
        RankLine(
            rank=p["rank"],
            far=text.rate(p["far_target"]),
            tar=text.percent(p["tar"]),
            note=text.interval(p["tar_low"], p["tar_high"]),
            attacker=text.attacker_short(p),
            overlap=text.percent(p["neighbour_overlap"]),
            energy=text.percent(p["energy_kept"]),
            chosen=p["rank"] == chosen,
        )
        for p in kept
    ]
    return RankPanel(
        panel=Panel("", rank_figure(points, chosen=chosen, key="rank"), tuple(legend)),
        lines=tuple(lines),
        left_out=len(points) - len(kept),
        several_rates=len(several) > 1,
    )


def map_panels(extras: ReportExtras | None) -> tuple[tuple[Panel, ...], tuple[Entry, ...]]:
    """Return the maps and the one legend they share."""
    if extras is None or not extras.maps:
        return (), ()
    picked = picked_out(extras.maps)
    panels = tuple(
        Panel(f"{release_name(item.release)} ({item.method})", map_figure(item, picked=picked, key=f"map{i}"), ())
        for i, item in enumerate(extras.maps)
    )
    legend = []
    for i, name in enumerate(picked):
        mark = svg.marker(MARKERS[i], 7, 7, 10, f"mark c-m{i + 1}")
        key = svg.element("svg", mark, viewBox="0 0 14 14", class_="swatch dotted", aria_hidden="true")
        legend.append(Entry(key, name))
    return panels, tuple(legend)


def _worst_curve(record: Mapping[str, Any], curves: Sequence[Mapping[str, Any]], release: str) -> Mapping[str, Any]:
    """Return the curve of the attacker that is worst at the strictest rate that is not unsupported."""
    mine = [c for c in curves if c["release"] == release]
    for far in reversed(rates(record)):
        top = worst([s for s in record["summary"] if s["grade"] != "unsupported"], release=release, far=far)
        if top is None:
            continue
        for curve in mine:
            if all(curve[key] == top[key] for key in ("attacker", "trained_on", "k", "rank")):
                return curve
    return min(mine, key=lambda c: c["eer"])


def _det_panel(
    curves: Sequence[Mapping[str, Any]], targets: Sequence[float], key: str, title: str, *, name_attacker: bool
) -> Panel:
    legend = []
    for curve in curves:
        name = release_name(curve["release"]) + (f", rank {curve['rank']}" if curve["rank"] else "")
        eer = f"EER {text.percent(curve['eer'])} ({text.interval(curve['eer_low'], curve['eer_high'])})"
        detail = f"{eer}; {text.attacker_line(curve)}" if name_attacker else eer
        legend.append(_entry(look(curve["release"]), name, detail))
    return Panel(title, det_figure(curves, targets=targets, key=key, title=f"DET curves: {title}"), tuple(legend))


def _entry(style: Look, name: str, detail: str) -> Entry:
    return Entry(svg.swatch(style.css, style.dash, style.marker), name, detail)


def _some(points: Sequence[Mapping[str, Any]], chosen: int | None) -> list[Mapping[str, Any]]:
    """Return at most about `_RANK_LINES` points, evenly, always with the first, the last and the chosen rank."""
    if len(points) <= _RANK_LINES:
        return list(points)
    step = (len(points) - 1) / (_RANK_LINES - 1)
    wanted = {round(i * step) for i in range(_RANK_LINES)}
    return [p for i, p in enumerate(points) if i in wanted or p["rank"] == chosen]
