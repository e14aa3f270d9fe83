"""What the audit read of planted leaks of growing strength."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from faceblind.audit.report import axes, svg, text


def power_figure(power: Mapping[str, Any], *, key: str) -> Markup:
    """Draw what the audit read of planted leaks of growing strength; filled marks were caught, hollow ones missed."""
    points = sorted(power["points"], key=lambda p: p["strength"])
    left, right, top, bottom = 56.0, 424.0, 22.0, 206.0
    strongest = max(p["strength"] for p in points)
    x_scale = axes.Scale(0, axes.round_up(strongest) or 1.0, left, right - 8)
    peak = min(1.0, max([power["unplanted_tar_high"], 1e-4, *(p["tar_high"] for p in points)]) * 1.05)
    y_scale = axes.Scale(0, min(1.0, axes.round_up(peak)), bottom, top)
    base = y_scale.at(power["unplanted_tar_high"])
    marks = []
    for p in points:
        x = x_scale.at(p["strength"])
        css = "c-isp" if p["caught"] else "c-isp hollow"
        title = (
            f"{text.percent(p['strength'])} planted: TAR {text.percent(p['tar'])} "
            f"({text.interval(p['tar_low'], p['tar_high'])}), {'caught' if p['caught'] else 'missed'}"
        )
        marks.append(
            svg.group(
                svg.line(x, y_scale.at(p["tar_low"]), x, y_scale.at(p["tar_high"]), "whisker c-isp"),
                svg.marker("square" if p["caught"] else "circle", x, y_scale.at(p["tar"]), 10, f"mark {css}"),
                title=title,
            )
        )
    return svg.figure(
        key,
        440,
        254,
        "What the audit read of planted leaks",
        f"True accept rate at FAR {text.rate(power['far_target'])} against planted strength. The table has the numbers.",
        axes.x_axis(
            x_scale,
            bottom,
            top,
            [(t, axes.percent_tick(t)) for t in axes.linear_ticks(0, x_scale.high)],
            "planted strength (% of energy)",
        ),
        axes.y_axis(
            y_scale, left, right, [(t, axes.percent_tick(t)) for t in axes.linear_ticks(0, y_scale.high)], "TAR (%)"
        ),
        svg.rect(left, base, right - left, bottom - base, "base"),
        svg.line(left, base, right, base, "chance strong", dash="1 4"),
        svg.label(right - 2, base - 5, "without a plant, upper end", "note halo", anchor="end"),
        *marks,
    )
