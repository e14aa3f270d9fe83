"""The privacy-utility curve: leakage against rank above, what is kept below, sharing the rank axis.

Two panels instead of two y axes: a crossing of lines with different units would mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from markupsafe import Markup

from faceblind.audit.report import axes, svg, text
from faceblind.audit.report.styles import Look

LEAK_LOOKS: Final = (
    Look("c-isp", "", "square"),
    Look("c-pca", "7 3", "diamond"),
    Look("c-permuted", "2 2.5", "circle"),
    Look("c-random", "9 3 2 3", "triangle"),
)
"""One look for each false-accept rate, in order."""
OVERLAP_LOOK: Final = Look("c-random", "", "circle")
ENERGY_LOOK: Final = Look("c-planted", "7 3", "diamond")

_WIDTH: Final = 440.0
_HEIGHT: Final = 452.0
_LEFT: Final = 56.0
_RIGHT: Final = 424.0
_CROWDED: Final = 24
_UPPER: Final = (26.0, 212.0)
_LOWER: Final = (246.0, 404.0)


def rank_figure(points: Sequence[Mapping[str, Any]], *, chosen: int | None, key: str) -> Markup:
    """Draw TAR with its interval over rank, and neighbour overlap and energy kept below.

    Parameters
    ----------
    points
        Entries of the record's ``rank_curve``; one or several false-accept rates.
    chosen
        The rank of the eraser that was audited; marked when given and inside the range.
    key
        Identifier, unique on the page.
    """
    ranks = sorted({p["rank"] for p in points})
    left, right = (ranks[0], ranks[-1]) if len(ranks) > 1 else (ranks[0] - 1, ranks[0] + 1)
    x_scale = axes.Scale(left, right, _LEFT + 8, _RIGHT - 8)
    top = axes.round_up(min(1.0, max(max(p["tar_high"] for p in points), 1e-3) * 1.05))
    leak = axes.Scale(0, min(top, 1.0), _UPPER[1], _UPPER[0])
    kept = axes.Scale(0, 1, _LOWER[1], _LOWER[0])
    steps = axes.linear_ticks(left, right, 6) if len(ranks) > 1 else [float(ranks[0])]
    x_ticks = [(t, f"{t:g}") for t in steps if t == int(t)]
    leak_ticks = [(t, axes.percent_tick(t)) for t in axes.linear_ticks(0, leak.high)]
    kept_ticks = [(t, axes.percent_tick(t)) for t in (0, 0.25, 0.5, 0.75, 1)]
    rates = rank_rates(points)
    curves = [
        _series([p for p in points if p["far_target"] == rate], x_scale, leak, LEAK_LOOKS[i % len(LEAK_LOOKS)])
        for i, rate in enumerate(rates)
    ]
    # Utility does not depend on the operating point: draw it once.
    once = [p for p in points if p["far_target"] == rates[0]]
    return svg.figure(
        key,
        _WIDTH,
        _HEIGHT,
        "Leakage and utility against rank",
        f"Upper panel: true accept rate of the worst attacker for {text.plural(len(ranks), 'rank')} from {ranks[0]} to "
        f"{ranks[-1]}. Lower panel: neighbour overlap and energy kept for the same ranks. The table below has the numbers.",
        svg.label(_LEFT, _UPPER[0] - 10, "What the worst attacker reads", "panel"),
        axes.x_axis(x_scale, _UPPER[1], _UPPER[0], [(t, "") for t, _ in x_ticks], ""),
        axes.y_axis(leak, _LEFT, _RIGHT, leak_ticks, "TAR (%)"),
        svg.label(_LEFT, _LOWER[0] - 10, "What is kept", "panel"),
        axes.x_axis(x_scale, _LOWER[1], _LOWER[0], x_ticks, "rank: dimensions removed"),
        axes.y_axis(kept, _LEFT, _RIGHT, kept_ticks, "kept (%)"),
        _chosen(chosen, x_scale),
        *reversed(curves),
        _kept(once, "energy_kept", x_scale, kept, ENERGY_LOOK),
        _kept(once, "neighbour_overlap", x_scale, kept, OVERLAP_LOOK),
    )


def rank_rates(points: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the false-accept rates of the curve, smallest first: the order of `LEAK_LOOKS`."""
    return sorted({float(p["far_target"]) for p in points})


def _chosen(chosen: int | None, x_scale: axes.Scale) -> Markup:
    if chosen is None or not x_scale.holds(chosen):
        return Markup("")
    x = x_scale.at(chosen)
    at_right = x > (_LEFT + _RIGHT) / 2
    return (
        svg.line(x, _UPPER[0], x, _UPPER[1], "floor")
        + svg.line(x, _LOWER[0], x, _LOWER[1], "floor")
        + svg.label(
            x + (-5 if at_right else 5),
            _UPPER[0] + 11,
            f"audited: {chosen}",
            "note halo strong",
            anchor="end" if at_right else "start",
        )
    )


def _series(points: Sequence[Mapping[str, Any]], x_scale: axes.Scale, scale: axes.Scale, style: Look) -> Markup:
    ordered = sorted(points, key=lambda p: p["rank"])
    xs = [x_scale.at(p["rank"]) for p in ordered]
    band = [
        *((x, scale.at(p["tar_high"])) for x, p in zip(xs, ordered, strict=True)),
        *((x, scale.at(p["tar_low"])) for x, p in zip(reversed(xs), reversed(ordered), strict=True)),
    ]
    parts = [svg.path(band, f"band {style.css}", close=True)]
    parts.append(
        svg.path(
            [(x, scale.at(p["tar"])) for x, p in zip(xs, ordered, strict=True)], f"curve {style.css}", dash=style.dash
        )
    )
    size = 8 if len(ordered) <= _CROWDED else 4
    for x, p in zip(xs, ordered, strict=True):
        y = scale.at(p["tar"])
        name = (
            f"rank {p['rank']}: TAR {text.percent(p['tar'])} ({text.interval(p['tar_low'], p['tar_high'])}) "
            f"at FAR {text.rate(p['far_target'])}, {text.attacker_line(p)}"
        )
        whisker = svg.line(x, scale.at(p["tar_low"]), x, scale.at(p["tar_high"]), f"whisker {style.css}")
        mark = svg.marker(style.marker, x, y, size, f"mark {style.css}")
        # Many whiskers would fill the band that says the same.
        parts.append(svg.group(*([whisker] if size > 4 else []), mark, title=name))
    return svg.group(*parts)


def _kept(
    points: Sequence[Mapping[str, Any]], what: str, x_scale: axes.Scale, scale: axes.Scale, style: Look
) -> Markup:
    ordered = sorted(points, key=lambda p: p["rank"])
    xy = [(x_scale.at(p["rank"]), scale.at(p[what])) for p in ordered]
    marks = [
        svg.group(
            svg.marker(style.marker, *at, 8 if len(xy) <= _CROWDED else 4, f"mark {style.css}"),
            title=f"rank {p['rank']}: {what.replace('_', ' ')} {text.percent(p[what])}",
        )
        for at, p in zip(xy, ordered, strict=True)
    ]
    return svg.group(svg.path(xy, f"curve {style.css}", dash=style.dash), *marks)
