"""The worst attacker on each release, one interval a line: every claim with its controls beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from markupsafe import Markup

from faceblind.audit.report import axes, svg, text
from faceblind.audit.report.styles import look, release_name

_WIDTH: Final = 440.0
_LEFT: Final = 128.0
_RIGHT: Final = 352.0
_ROW: Final = 27.0
_TOP: Final = 24.0


def forest_figure(points: Sequence[Mapping[str, Any]], *, far: float, key: str) -> Markup:
    """Draw one interval per release on a logarithmic axis that starts at guessing (TAR = FAR).

    Parameters
    ----------
    points
        Entries of the record's ``summary``, one per release, drawn from the top.
    far
        The target false-accept rate: where guessing stands.
    key
        Identifier, unique on the page.
    """
    bottom = _TOP + _ROW * len(points)
    far = max(far, 1e-9)
    peak = max(max(p["tar_high"] for p in points), far * 10)
    high = min(1.0, 10 ** (math.ceil(math.log10(peak) * 2 - 1e-9) / 2))
    low = min(far, 0.5) / 1.6
    scale = axes.Scale(low, high, _LEFT, _RIGHT, axes.log10)
    ticks = [(10.0**e, axes.percent_tick(10.0**e)) for e in range(-8, 1) if low <= 10.0**e <= high * (1 + 1e-9)]
    chance = scale.at(far)
    rows = [_row(point, scale, _TOP + _ROW * (i + 0.5)) for i, point in enumerate(points)]
    desc = "; ".join(f"{release_name(p['release'])}: {said(p)}" for p in points)
    return svg.figure(
        key,
        _WIDTH,
        bottom + 42,
        f"Worst attacker on each release at FAR {text.rate(far)}",
        f"True accept rate with its 95 % interval on a logarithmic axis. {desc}. Guessing gives {text.percent(far)}.",
        axes.x_axis(scale, bottom, _TOP - 4, ticks, "TAR (%), log scale"),
        svg.line(chance, _TOP - 4, chance, bottom, "chance strong", dash="1 4"),
        svg.label(chance, _TOP - 9, "guessing", "note", anchor="middle"),
        *rows,
    )


def said(point: Mapping[str, Any]) -> str:
    """Say a point in words: the value with its interval, or only the bound when it is unsupported."""
    if point["grade"] == "unsupported":
        return text.percent_bound(point["tar_high"])
    return f"{text.percent(point['tar'])} ({text.interval(point['tar_low'], point['tar_high'])})"


def _row(point: Mapping[str, Any], scale: axes.Scale, y: float) -> Markup:
    style = look(point["release"])
    name = svg.label(_LEFT - 8, y + 4, text.short(release_name(point["release"]), 18), "row", anchor="end")
    left, right = scale.at(point["tar_low"]), scale.at(point["tar_high"])
    if point["grade"] == "unsupported":
        # No point and no lower end: a dashed reach from zero to the bound, closed by a bar.
        drawn = svg.line(scale.start, y, right, y, f"reach {style.css}", dash="2 4") + svg.line(
            right, y - 7, right, y + 7, f"whisker {style.css}"
        )
        value = text.percent_bound(point["tar_high"])
    else:
        cut = point["tar_low"] < scale.low
        end = (
            svg.path([(left + 5, y - 4), (left, y), (left + 5, y + 4)], f"whisker nofill {style.css}")
            if cut
            else Markup("")
        )
        drawn = (
            svg.line(left, y, right, y, f"reach {style.css}")
            + end
            + svg.marker(style.marker, scale.at(point["tar"]), y, 11, f"mark {style.css}")
        )
        value = text.percent(point["tar"])
    title = f"{release_name(point['release'])}, {text.attacker_line(point)}: {said(point)}"
    return svg.group(name, drawn, svg.label(_RIGHT + 12, y + 4, value, "row"), title=title)
