"""Garments: where they leave skin bare, their collars, folds and patterns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faceblind.faces.synthetic import palette
from faceblind.faces.synthetic.canvas import Paint
from faceblind.faces.synthetic.fields import Field, band, edge, noise, slopes, step
from faceblind.faces.synthetic.shot import Shot

_NECK_Y = 1.58


@dataclass(frozen=True)
class Cloth:
    """A garment over the body's window."""

    alpha: Field
    paint: Paint


def dressed(shot: Shot, x: Field, y: Field, neck: float, depth: Field, scale: float) -> Cloth:
    """Dress the body.

    Parameters
    ----------
    x, y : body coordinates (h, w) and (h, 1).
    neck : half width of the neck.
    depth : (h, w) of the body under the cloth.
    scale : render pixels per unit.
    """
    ax = np.abs(x)
    width = 1.3 / scale
    low = np.maximum(y - _NECK_Y, 0.0)
    outside = _opening(shot.cloth, ax, y, low, neck)
    alpha = edge(-outside, width)
    folds = noise(x * 1.3 + 0.8 * y, y * 1.1 + 0.5 * ax + (shot.scene_seed % 97)) + 0.5 * noise(x * 3.0 - y, y * 2.2)
    height: Field = depth + 0.05 + 0.028 * folds

    main = palette.linear(shot.cloth_colour)[:, None, None]
    second = palette.linear(shot.second_colour)[:, None, None]
    amount = _pattern(shot.pattern, x + 0.03 * folds, y + 0.03 * folds)
    colour: Field = main + (second - main) * amount
    if shot.pattern == "knit":
        height = height + 0.012 * np.abs(np.sin(x * 26.0)) * np.abs(np.sin(y * 22.0 + 2.0 * np.abs(np.sin(x * 26.0))))

    if shot.cloth in {"crew", "scoop", "vee", "turtleneck"}:
        rim = band(outside - 0.055, 0.06)
        height = height + 0.025 * rim
        colour = colour * (1.0 - 0.16 * band(outside - 0.11, 0.03))
    elif shot.cloth in {"shirt", "polo"}:
        colour, height = _collar(colour, height, main, ax, y, neck)
        placket = band(ax - 0.07, 0.016) * (y > 1.95)
        buttons = edge(np.hypot(x, (y + 10.0) % 0.34 - 0.17) - 0.028, width) * (y > 2.0)
        colour = colour * (1.0 - 0.30 * placket)
        colour = colour + (0.75 - colour) * (0.8 * buttons)
    elif shot.cloth == "hoodie":
        ring = band(outside - 0.16, 0.2)
        height = height + 0.10 * ring
        colour = colour * (1.0 - 0.45 * step(0.05, 0.0, outside))
        cord = band(ax - 0.2 - 0.02 * np.sin(6.0 * y), 0.025) * (y > 1.86) * (y < 2.75)
        colour = colour + (0.72 - colour) * (0.8 * cord)
    else:
        colour, height = _blazer(colour, height, second, ax, y, neck)
    shade = 1.0 + 0.06 * folds
    normal = slopes(height.astype(np.float32), scale)
    paint = Paint(
        colour=np.asarray(colour * shade, dtype=np.float32),
        normal=normal,
        depth=height.astype(np.float32),
        gloss=0.03,
    )
    return Cloth(np.asarray(alpha, dtype=np.float32), paint)


def _opening(cloth: str, ax: Field, y: Field, low: Field, neck: float) -> Field:
    """Distance outside the neckline (negative where skin is bare)."""
    if cloth == "turtleneck":
        return np.asarray(np.broadcast_to(y - 1.30 - 0.10 * (ax / neck) ** 2 * -1.0, ax.shape), dtype=np.float32)
    reach, depth = {
        "crew": (0.13, 0.33),
        "scoop": (0.30, 0.66),
        "hoodie": (0.08, 0.36),
        "vee": (0.14, 0.0),
        "shirt": (0.06, 0.0),
        "polo": (0.06, 0.0),
        "blazer": (0.06, 0.0),
    }[cloth]
    a = neck + reach
    if depth:
        return np.asarray((np.sqrt((ax / a) ** 2 + (low / depth) ** 2) - 1.0) * min(a, depth), dtype=np.float32)
    drop = {"vee": 0.86, "shirt": 0.52, "polo": 0.46, "blazer": 0.34}[cloth]
    return np.asarray((ax / a + low / drop - 1.0) * (0.7 * min(a, drop)), dtype=np.float32)


def _collar(colour: Field, height: Field, main: Field, ax: Field, y: Field, neck: float) -> tuple[Field, Field]:
    """Two flaps from the sides of the neck to their points."""
    inner = (ax / (neck + 0.04) + (y - _NECK_Y) / 0.52 - 1.0) * 0.4
    outer = y - 1.70 - 0.62 * (1.0 - ax / (neck + 0.3))
    side = ax - neck - 0.22
    flap = edge(np.maximum(np.maximum(-inner, outer), np.maximum(side, y - 2.14)), 0.025)
    border = band(np.maximum(outer, np.maximum(side, y - 2.14)) - 0.015, 0.06)
    plain = main * 1.05
    colour = colour * (1.0 - 0.45 * border * (1.0 - flap))
    return colour + (plain - colour) * flap, height + 0.05 * flap


def _blazer(colour: Field, height: Field, second: Field, ax: Field, y: Field, neck: float) -> tuple[Field, Field]:
    """Put a shirt between two lapels."""
    gap = (neck + 0.10) * (1.0 - (y - _NECK_Y) / 1.75)
    shirt = edge(ax - gap, 0.02)
    lapel = edge(np.maximum(gap - ax, ax - gap - 0.30 - 0.16 * step(2.05, 2.2, y) * step(2.6, 2.2, y)), 0.02)
    colour = colour * (1.0 - 0.35 * band(ax - gap - 0.34, 0.06))
    colour = colour + (colour * 0.82 - colour) * lapel
    light = 0.35 * second + 0.55
    colour = colour + (light - colour) * shirt
    flap = edge(np.maximum(ax - neck - 0.12, y - 1.98 - 0.25 * (ax - 0.2)), 0.02) * shirt
    colour = colour * (1.0 - 0.3 * band(y - 2.0 - 0.25 * (ax - 0.2), 0.05) * shirt)
    return colour, height + 0.04 * lapel + 0.03 * flap


def _pattern(name: str, x: Field, y: Field) -> Field:
    if name == "stripes":
        return step(-0.08, 0.08, np.sin(y * 17.0 + 0.0 * x))
    if name == "pinstripes":
        return step(0.90, 0.98, np.cos(x * 24.0))
    if name == "checks":
        return 0.5 * step(-0.1, 0.1, np.sin(x * 13.0)) + 0.5 * step(-0.1, 0.1, np.sin(y * 13.0))
    if name == "dots":
        row = np.floor(y * 4.5)
        u = (x * 4.5 + 0.5 * (row % 2.0)) % 1.0 - 0.5
        v = (y * 4.5) % 1.0 - 0.5
        return edge(np.hypot(u, v) - 0.24, 0.1)
    if name == "knit":
        return np.asarray(0.12 * np.abs(np.sin(x * 26.0)), dtype=np.float32)
    return np.zeros(np.broadcast_shapes(x.shape, y.shape), dtype=np.float32)
