"""A few SVG primitives. Everything that reaches the page through them is escaped here, once.

Colours and strokes come from CSS classes (style.css), geometry from here. Numbers are written with at most two
decimals, so that the same picture is the same text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

Point = tuple[float, float]


def num(value: float) -> str:
    """Write a coordinate with at most two decimals and no trailing zeros."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in {"-0", ""} else text


def element(name: str, *content: str, **attributes: str | float | None) -> Markup:
    """Return one element; ``class_`` becomes ``class``, underscores become hyphens, None attributes are dropped."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value) if isinstance(value, str) else num(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if not content:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{''.join(escape(part) for part in content)}</{name}>")


def figure(key: str, width: float, height: float, title: str, desc: str, *content: str) -> Markup:
    """Return a scalable picture with a title and a description for screen readers; `key` is unique on the page."""
    head = element("title", title, id=f"{key}-t") + element("desc", desc, id=f"{key}-d")
    return element(
        "svg",
        head,
        *content,
        viewBox=f"0 0 {num(width)} {num(height)}",
        role="img",
        aria_labelledby=f"{key}-t {key}-d",
        class_="plot",
    )


def line(x1: float, y1: float, x2: float, y2: float, css: str, *, dash: str | None = None) -> Markup:
    """Return a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=css, stroke_dasharray=dash or None)


def path(points: Iterable[Point], css: str, *, dash: str | None = None, close: bool = False) -> Markup:
    """Return an open or closed path through points; an empty string when there are none."""
    written = " ".join(f"{num(x)},{num(y)}" for x, y in points)
    if not written:
        return Markup("")
    return element("path", d="M" + written + ("Z" if close else ""), class_=css, stroke_dasharray=dash or None)


def dots(points: Iterable[Point], css: str) -> Markup:
    """Return many round dots as one path; their size is the stroke width of `css`."""
    written = "".join(f"M{num(x)} {num(y)}h0" for x, y in points)
    return element("path", d=written, class_=css) if written else Markup("")


def rect(x: float, y: float, width: float, height: float, css: str, *, fill: str | None = None) -> Markup:
    """Return a rectangle."""
    return element("rect", x=x, y=y, width=max(0.0, width), height=max(0.0, height), class_=css, fill=fill)


def label(x: float, y: float, content: str, css: str = "tick", *, anchor: str = "start", turn: bool = False) -> Markup:
    """Return a text; `turn` sets it upright along a vertical axis."""
    transform = f"rotate(-90 {num(x)} {num(y)})" if turn else None
    return element("text", content, x=x, y=y, class_=css, text_anchor=anchor, transform=transform)


def group(*content: str, css: str | None = None, title: str | None = None, clip: str | None = None) -> Markup:
    """Return a group; `title` is what a pointer shows when it rests there."""
    head = element("title", title) if title else Markup("")
    return element("g", head, *content, class_=css, clip_path=f"url(#{clip})" if clip else None)


def hatch(key: str) -> Markup:
    """Return a pattern of slanted lines to fill what cannot be relied on; use it as ``url(#key)``."""
    stroke = element("line", x1=0, y1=0, x2=0, y2=6, class_="hatch")
    return element(
        "pattern", stroke, id=key, width=6, height=6, patternUnits="userSpaceOnUse", patternTransform="rotate(45)"
    )


def clip(key: str, x: float, y: float, width: float, height: float) -> Markup:
    """Return a clipping rectangle; use it through `group`."""
    return element("clipPath", element("rect", x=x, y=y, width=width, height=height), id=key)


def marker(shape: str, x: float, y: float, size: float, css: str) -> Markup:
    """Return a marker of about `size` across: circle, square, triangle, down, diamond, cross, plus or star."""
    r = size / 2
    if shape == "circle":
        return element("circle", cx=x, cy=y, r=r, class_=css)
    if shape == "square":
        return rect(x - 0.88 * r, y - 0.88 * r, 1.76 * r, 1.76 * r, css)
    if shape in {"cross", "plus"}:
        a, b = (0.8 * r, 0.8 * r) if shape == "cross" else (r, 0.0)
        return element(
            "path",
            d=f"M{num(x - a)} {num(y - b)}L{num(x + a)} {num(y + b)}M{num(x + b)} {num(y - a)}L{num(x - b)} {num(y + a)}",
            class_=f"{css} open",
        )
    corners: dict[str, Sequence[Point]] = {
        "triangle": ((0, -1.1), (1.0, 0.8), (-1.0, 0.8)),
        "down": ((0, 1.1), (1.0, -0.8), (-1.0, -0.8)),
        "diamond": ((0, -1.2), (1.0, 0), (0, 1.2), (-1.0, 0)),
        "star": _star(),
    }
    return path(((x + r * a, y + r * b) for a, b in corners[shape]), css, close=True)


def swatch(css: str, dash: str, shape: str) -> Markup:
    """Return a legend key: a piece of the line with its marker."""
    return element(
        "svg",
        line(1, 7, 33, 7, f"curve {css}", dash=dash),
        marker(shape, 17, 7, 8, f"mark {css}"),
        viewBox="0 0 34 14",
        class_="swatch",
        aria_hidden="true",
    )


def _star() -> Sequence[Point]:
    angles = (math.pi * step / 5 for step in range(10))
    return [
        ((1.25 if i % 2 == 0 else 0.52) * math.sin(a), -(1.25 if i % 2 == 0 else 0.52) * math.cos(a))
        for i, a in enumerate(angles)
    ]
