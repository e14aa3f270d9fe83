"""The chart of the report: accuracy against budget against recoverability, as the paper's Fig. 8, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from markupsafe import Markup

from faceblind.audit.frequency.claims import pick
from faceblind.audit.frequency.differences import Measure
from faceblind.audit.frequency.printed import FIG8_BUDGETS, FIG8_DROP, FIG8_RIGHT
from faceblind.audit.frequency.record import Interval, Model
from faceblind.audit.frequency.verdict import best_attack
from faceblind.audit.report import axes, svg
from faceblind.audit.report.styles import Look

_W: Final = 520.0
_LEFT: Final = 58.0
_RIGHT: Final = 500.0
_TOP: Final = 26.0
_BOTTOM: Final = 318.0
_H: Final = 366.0
CAP: Final = 50.0
"""Decibels at which the axis ends; a perfect recovery has no finite PSNR."""

LOOKS: Final[dict[str, tuple[str, Look]]] = {
    "paper": ("DCTDP, learned budgets", Look("c-isp", "", "square")),
    "equal": ("equal budgets", Look("c-raw", "6 4", "circle")),
    "official": ("the published code", Look("c-planted", "4 2 1 2", "star")),
    "put-on": ("noise put on a network not trained under it", Look("c-raw", "1.5 3", "down")),
    "pixels": ("noise on RGB, no transform", Look("c-random", "7 3", "triangle")),
    "dc": ("DC kept", Look("c-pca", "2 2.5", "diamond")),
    "ones": ("ranges of one", Look("c-other1", "5 5", "plus")),
    "clean": ("transform without noise", Look("c-permuted", "9 3 2 3", "down")),
    "rgb": ("RGB", Look("c-permuted", "", "cross")),
    "peep": ("PEEP", Look("c-other2", "", "diamond")),
    "cloak": ("Cloak", Look("c-other2", "", "triangle")),
    "instahide": ("InstaHide", Look("c-other2", "", "square")),
}
_OTHER: Final = ("other", Look("c-other2", "1 3", "plus"))


@dataclass(frozen=True)
class Key:
    """One line of a legend."""

    swatch: Markup
    text: str


@dataclass(frozen=True)
class Chart:
    """A picture with its legend; no picture when nothing was measured."""

    plot: Markup | None
    legend: tuple[Key, ...]


def look_of(model: Model) -> tuple[str, Look]:
    """Return the family of a model in words and how it is drawn."""
    return LOOKS.get(model.variant, _OTHER)


def budget_chart(models: Sequence[Model], measure: Measure | None) -> Chart:
    """Draw the accuracy drop against RGB ArcFace by mean budget; the paper's five sets as thin lines."""
    plain = pick(models, "rgb", head="arcface")
    series: dict[tuple[str, Look], list[tuple[float, Interval]]] = {}
    for model in models:
        drop = None if measure is None or plain is None else measure.difference(plain, model)
        # Only budgets of one kind share an axis: PEEP's is of a whole image.
        if drop is not None and model.eps is not None and model.head in {"", "arcface"}:
            series.setdefault(_family(model), []).append((model.eps, drop.scaled(100)))
    budgets = [*FIG8_BUDGETS, *(eps for found in series.values() for eps, _ in found)]
    drops = [end for found in series.values() for _, d in found for end in (d.value, d.low, d.high) if end is not None]
    drops += [d for printed in FIG8_DROP.values() for d in printed]
    x = axes.Scale(min(budgets) / 1.5, max(budgets) * 1.5, _LEFT, _RIGHT, axes.log10)
    bottom, top = min(0.0, *drops), max(drops)
    pad = 0.06 * (top - bottom)
    y = axes.Scale(bottom - pad, top + pad, _BOTTOM, _TOP)
    ticks = [(eps, f"{eps:g}") for eps in sorted(set(budgets))]
    drawn = [_printed_line(name, x, y) for name in FIG8_DROP]
    legend = [
        Key(
            svg.swatch("c-other2", "2 3", "circle"),
            "the paper's Fig. 8, read off: five sets, single runs without intervals",
        )
    ]
    for place, ((words, style), found) in enumerate(series.items()):
        found.sort(key=lambda pair: pair[0])
        # Models of one budget stand side by side, not on top of each other.
        beside = 1.09 ** (place - (len(series) - 1) / 2)
        line = [(x.at(eps * beside), y.at(drop.value)) for eps, drop in found]
        drawn.append(svg.path(line, f"curve {style.css}", dash=style.dash or None) if len(line) > 1 else Markup(""))
        drawn += [
            _point(x, y, Interval(eps * beside, None, None), drop, style, f"{words}, budget {eps:g}")
            for eps, drop in found
        ]
        legend.append(Key(svg.swatch(style.css, style.dash, style.marker), f"{words}, ours on {_set(measure)}"))
    desc = "; ".join(
        f"{words} at {eps:g}: {d.value:.1f} points" for (words, _), found in series.items() for eps, d in found
    )
    plot = svg.figure(
        "budget",
        _W,
        _H,
        "Accuracy drop against RGB ArcFace by mean budget",
        desc or "Only the paper's numbers: the drop of no model was measured.",
        svg.label(_LEFT, 14, "Lower is better", "note"),
        axes.x_axis(x, _BOTTOM, _TOP, ticks, "mean budget of an element, log scale"),
        axes.y_axis(
            y, _LEFT, _RIGHT, [(t, f"{t:g}") for t in axes.linear_ticks(y.low, y.high)], "accuracy drop, points"
        ),
        svg.line(_LEFT, y.at(0), _RIGHT, y.at(0), "axis"),
        *drawn,
    )
    return Chart(plot, tuple(legend))


def _family(model: Model) -> tuple[str, Look]:
    """Return `look_of`, apart for models whose training went on from another's: they were trained longer."""
    words, look = look_of(model)
    if not model.continued or model.variant == "put-on":
        return words, look
    return f"{words}, trained on from other weights", replace(look, dash="1 4")


def recovery_chart(models: Sequence[Model], measure: Measure | None) -> Chart:
    """Draw accuracy against the PSNR of the best attack, whiskers both ways, with the constant image as a line."""
    found = [
        (model, best[1], best[0]["title"], value.scaled(100))
        for model in models
        if measure is not None and (value := measure.of(model)) is not None and (best := best_attack(model)) is not None
    ]
    if not found:
        return Chart(None, ())
    floor = next((f for model in models if (f := model.floor()) is not None), None)
    xs = [psnr for _, psnr, _, _ in found] + ([floor] if floor is not None else [])
    least = min(end for p in xs for end in (p.value, p.low) if end is not None)
    most = min(max(end for p in xs for end in (p.value, p.high) if end is not None), CAP)
    x = axes.Scale(max(0.0, least - 2), max(most, least) + 2, _LEFT, _RIGHT)
    ends = [end for *_, a in found for end in (a.value, a.low, a.high) if end is not None]
    pad = max(1.0, 0.08 * (max(ends) - min(ends)))
    y = axes.Scale(min(ends) - pad, min(100.0, max(ends) + pad), _BOTTOM, _TOP)
    drawn = []
    if floor is not None:
        if floor.low is not None and floor.high is not None:
            drawn.append(svg.rect(x.at(floor.low), _TOP, x.at(floor.high) - x.at(floor.low), _BOTTOM - _TOP, "base"))
        drawn.append(svg.line(x.at(floor.value), _TOP, x.at(floor.value), _BOTTOM, "chance", dash="1 4"))
        drawn.append(svg.label(x.at(floor.value) + 6, 16, "constant image", "note"))
    legend = []
    for number, (model, psnr, attack, accuracy) in enumerate(found, 1):
        words, style = look_of(model)
        beyond = psnr.value > CAP
        drawn.append(_point(x, y, psnr, accuracy, style, f"{model.title} ({words}), {attack}"))
        drawn.append(_number(x.at(psnr.value), y.at(accuracy.value), number))
        said = f"over {CAP:g} dB" if beyond else f"{psnr.value:.1f} dB"
        legend.append(
            Key(
                svg.swatch(style.css, style.dash, style.marker),
                f"{number}  {model.title}: {said} ({attack}), {accuracy.value:.1f} %",
            )
        )
    plot = svg.figure(
        "recovery",
        _W,
        _H,
        "Accuracy against what the best attack recovers",
        "; ".join(key.text for key in legend),
        svg.label(_RIGHT, 16, "Best: upper left", "note", anchor="end"),
        axes.x_axis(
            x, _BOTTOM, _TOP, [(t, f"{t:g}") for t in axes.linear_ticks(x.low, x.high)], "PSNR of the best attack, dB"
        ),
        axes.y_axis(
            y,
            _LEFT,
            _RIGHT,
            [(t, f"{t:g}") for t in axes.linear_ticks(y.low, y.high)],
            f"accuracy, % ({_set(measure)})",
        ),
        *drawn,
    )
    return Chart(plot, tuple(legend))


def paper_points() -> str:
    """Return the paper's right panel in words: its data set is not stated, so it shares no axis with ours."""
    return "; ".join(f"{psnr:g} dB at {accuracy:g} %" for psnr, accuracy in FIG8_RIGHT)


def _printed_line(name: str, x: axes.Scale, y: axes.Scale) -> Markup:
    points = [(x.at(eps), y.at(drop)) for eps, drop in zip(FIG8_BUDGETS, FIG8_DROP[name], strict=True)]
    line = svg.path(points, "curve frail c-other2", dash="2 3")
    marks = [svg.marker("circle", a, b, 5, "mark hollow c-other2") for a, b in points]
    return svg.group(line, *marks, title=f"the paper, {name}")


def _point(x: axes.Scale, y: axes.Scale, across: Interval, up: Interval, style: Look, title: str) -> Markup:
    a, b = x.at(across.value), y.at(up.value)
    parts = []
    if across.low is not None and across.high is not None:
        parts.append(svg.line(x.at(across.low), b, x.at(across.high), b, f"whisker {style.css}"))
    if up.low is not None and up.high is not None:
        parts.append(svg.line(a, y.at(up.low), a, y.at(up.high), f"whisker {style.css}"))
    return svg.group(*parts, svg.marker(style.marker, a, b, 11, f"mark {style.css}"), title=title)


def _number(x: float, y: float, number: int) -> Markup:
    right = x < _RIGHT - 24
    return svg.label(
        x + (9 if right else -9), y - 7, str(number), "note strong halo", anchor="start" if right else "end"
    )


def _set(measure: Measure | None) -> str:
    return "–" if measure is None else measure.set
