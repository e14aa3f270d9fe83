"""Detection-error trade-off (DET) curves on normal-deviate axes.

On these axes two normal score distributions give a straight line, and guessing (TAR = FAR) is the straight line
from corner to corner that every curve is compared with. The region with too few false accepts is hatched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from markupsafe import Markup

from faceblind.audit.report import axes, svg, text
from faceblind.audit.report.styles import look, release_name

_WIDTH: Final = 440.0
_HEIGHT: Final = 400.0
_LEFT: Final = 56.0
_RIGHT: Final = 428.0
_TOP: Final = 30.0
_BOTTOM: Final = 352.0
_GAP: Final = 1.5
_MARKS: Final = 6


def det_figure(curves: Sequence[Mapping[str, Any]], *, targets: Sequence[float], key: str, title: str) -> Markup:
    """Draw DET curves with their interval bands.

    Parameters
    ----------
    curves
        Entries of the record's ``curves``; drawn in the order given, the first on top.
    targets
        False-accept rates at which the audit reports; marked along the upper edge.
    key
        Identifier, unique on the page.
    title
        What the picture shows, for screen readers.
    """
    x_scale, y_scale = _scales(curves, targets)
    floor = max(curve["far_floor"] for curve in curves)
    frame = (x_scale.start, y_scale.end, x_scale.end - x_scale.start, y_scale.start - y_scale.end)
    drawn = [_curve(curve, x_scale, y_scale) for curve in reversed(curves)]
    bands = Markup("").join(band for band, _ in drawn)
    lines = Markup("").join(curve for _, curve in drawn)
    desc = "; ".join(
        f"{release_name(c['release'])} against {text.attacker_line(c)}: equal error rate {text.percent(c['eer'])}"
        for c in curves
    )
    return svg.figure(
        key,
        _WIDTH,
        _HEIGHT,
        title,
        f"False non-match rate against false accept rate, both on normal-deviate axes. {desc}.",
        svg.element("defs", svg.hatch(f"{key}-h"), svg.clip(f"{key}-c", *frame)),
        _axes(x_scale, y_scale),
        _unsupported(floor, x_scale, key),
        svg.group(bands, clip=f"{key}-c"),
        _chance(x_scale, y_scale, f"{key}-c"),
        svg.group(lines, clip=f"{key}-c"),
        _targets(targets, x_scale),
        _unsupported_name(floor, x_scale),
    )


def _scales(curves: Sequence[Mapping[str, Any]], targets: Sequence[float]) -> tuple[axes.Scale, axes.Scale]:
    floor = max(curve["far_floor"] for curve in curves)
    smallest = min((f for curve in curves for f in curve["far"] if f > 0), default=1e-3)
    # A decade below the floor is enough to show that the curve goes on there and cannot be relied on.
    low = min([max(smallest, floor / 10), *(t for t in targets if t > 0)])
    low = min(max(low * 0.8, 1e-8), 0.1)
    high = 0.55
    shown = [
        (down, up)
        for curve in curves
        for far, down, up in zip(curve["far"], curve["fnmr_low"], curve["fnmr_high"], strict=True)
        if low <= far <= high
    ]
    bottom = max(min((down for down, _ in shown), default=0.01), 1e-4)
    top = min(max((up for _, up in shown), default=0.99), 0.99995)
    top = max(top, 0.6)
    bottom = min(bottom, 0.4)
    return (
        axes.Scale(low, high, _LEFT, _RIGHT, axes.probit),
        axes.Scale(bottom * 0.9, 1 - (1 - top) * 0.8, _BOTTOM, _TOP, axes.probit),
    )


def _axes(x_scale: axes.Scale, y_scale: axes.Scale) -> Markup:
    x_ticks = [(t, axes.percent_tick(t)) for t in (*axes.PROBIT_TICKS[:5], 0.1, 0.5) if x_scale.holds(t)]
    y_ticks = [(t, axes.percent_tick(t)) for t in axes.PROBIT_TICKS if y_scale.holds(t)]
    return axes.x_axis(x_scale, _BOTTOM, _TOP, x_ticks, "false accept rate, FAR (%)") + axes.y_axis(
        y_scale, _LEFT, _RIGHT, y_ticks, "same person missed, FNMR (%)"
    )


def _unsupported(floor: float, x_scale: axes.Scale, key: str) -> Markup:
    if floor <= x_scale.low:
        return Markup("")
    edge = x_scale.at(floor)
    return svg.rect(
        x_scale.start, _TOP, edge - x_scale.start, _BOTTOM - _TOP, "void", fill=f"url(#{key}-h)"
    ) + svg.line(edge, _TOP, edge, _BOTTOM, "floor")


def _unsupported_name(floor: float, x_scale: axes.Scale) -> Markup:
    if floor <= x_scale.low or x_scale.at(floor) - x_scale.start < 20:
        return Markup("")
    return svg.label(x_scale.start + 15, _BOTTOM - 8, "not supported", "note halo", turn=True)


def _chance(x_scale: axes.Scale, y_scale: axes.Scale, clip: str) -> Markup:
    # TAR = FAR means FNMR = 1 - FAR: a straight line on these axes.
    a, b = x_scale.low, x_scale.high

    def y(far: float) -> float:
        return y_scale.beyond(1 - far)

    drawn = svg.path([(x_scale.at(a), y(a)), (x_scale.at(b), y(b))], "chance", dash="1 4")
    at = next((f for f in (0.1, 0.2, 0.3) if y_scale.end + 14 < y(f) < y_scale.start - 20), None)
    name = svg.label(x_scale.at(at) + 6, y(at) - 5, "guessing", "note halo") if at is not None else Markup("")
    return svg.group(drawn, clip=clip) + name


def _targets(targets: Sequence[float], x_scale: axes.Scale) -> Markup:
    parts = []
    last = -1e9
    for target in sorted(targets):
        if target <= 0 or not x_scale.holds(target):
            continue
        x = x_scale.at(target)
        parts.append(svg.marker("down", x, _TOP - 4, 7, "pin"))
        if x - last > 34:
            parts.append(svg.label(x, _TOP - 12, text.rate(target), "note", anchor="middle"))
            last = x
    return Markup("").join(parts)


def _curve(curve: Mapping[str, Any], x_scale: axes.Scale, y_scale: axes.Scale) -> tuple[Markup, Markup]:
    """Return the interval band and the line of one curve."""
    kept = _thin([x_scale.at(f) if x_scale.low <= f <= x_scale.high else None for f in curve["far"]])
    far = [curve["far"][i] for i in kept]
    xs = [x_scale.at(f) for f in far]
    ys = [y_scale.beyond(curve["fnmr"][i]) for i in kept]
    upper = [y_scale.beyond(curve["fnmr_high"][i]) for i in kept]
    lower = [y_scale.beyond(curve["fnmr_low"][i]) for i in kept]
    style = look(curve["release"])
    band = svg.path(
        [*zip(xs, upper, strict=True), *reversed(list(zip(xs, lower, strict=True)))], f"band {style.css}", close=True
    )
    points = list(zip(xs, ys, strict=True))
    sound = [p for p, f in zip(points, far, strict=True) if f >= curve["far_floor"]]
    frail = [p for p, f in zip(points, far, strict=True) if f < curve["far_floor"]]
    # The frail part ends where the sound part begins, so that no gap opens between them.
    frail = sorted([*frail, *(sound[:1] if frail and sound else [])])
    name = (
        f"{release_name(curve['release'])}, {text.attacker_line(curve)}: EER {text.percent(curve['eer'])} "
        f"({text.interval(curve['eer_low'], curve['eer_high'])})"
    )
    marks = [svg.marker(style.marker, *point, 8, f"mark {style.css}") for point in _spread(sorted(sound))]
    return band, svg.group(
        svg.path(frail, f"curve frail {style.css}", dash=style.dash),
        svg.path(sorted(sound), f"curve {style.css}", dash=style.dash),
        *marks,
        title=name,
    )


def _thin(xs: Sequence[float | None]) -> list[int]:
    """Return the indices of points at least `_GAP` pixels apart, in the order of x; None marks points out of range."""
    order = sorted((x, i) for i, x in enumerate(xs) if x is not None)
    kept: list[tuple[float, int]] = []
    for x, i in order:
        if not kept or x - kept[-1][0] >= _GAP:
            kept.append((x, i))
    if order and kept[-1] != order[-1]:
        kept.append(order[-1])
    return [i for _, i in kept]


def _spread(points: Sequence[svg.Point]) -> list[svg.Point]:
    """Return about `_MARKS` points, evenly along x."""
    if len(points) <= _MARKS:
        return list(points)
    left, right = points[0][0], points[-1][0]
    wanted = [left + (right - left) * (i + 0.5) / _MARKS for i in range(_MARKS)]
    return list(dict.fromkeys(min(points, key=lambda p: abs(p[0] - x)) for x in wanted))
