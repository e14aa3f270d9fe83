"""Twelve background templates of streets and nature."""

from __future__ import annotations

import numpy as np

from faceblind.faces.synthetic.brush import Brush
from faceblind.faces.synthetic.palette import Colour, hsv, scaled

_GREENS: list[Colour] = [(0.24, 0.40, 0.18), (0.36, 0.52, 0.24), (0.17, 0.30, 0.15), (0.50, 0.62, 0.30)]


def _sky(b: Brush, down_to: float) -> None:
    kind = b.uniform(0, 1)
    if kind < 0.6:
        top, low = (0.36, 0.58, 0.86), (0.78, 0.88, 0.96)
    elif kind < 0.8:
        top, low = (0.62, 0.66, 0.70), (0.82, 0.84, 0.85)
    else:
        top, low = (0.42, 0.44, 0.66), (0.98, 0.72, 0.52)
    b.gradient(b.near(top, 0.04), b.near(low, 0.03), 0, down_to)
    if kind < 0.6 and b.chance(0.6):
        for _ in range(5):
            x, y = b.uniform(0, 1), b.uniform(0, 0.7 * down_to)
            for _ in range(4):
                spot = (x + b.uniform(-0.08, 0.08), y + b.uniform(-0.02, 0.02))
                b.disc(*spot, b.uniform(0.04, 0.09), b.uniform(0.02, 0.04), (0.96, 0.97, 0.98))


def city_night(b: Brush) -> None:
    """Coloured lights of a city at night, out of focus."""
    b.gradient((0.04, 0.05, 0.12), (0.09, 0.07, 0.12))
    lights: list[Colour] = [(1.0, 0.75, 0.35), (0.9, 0.25, 0.2), (0.3, 0.6, 1.0), (0.95, 0.95, 0.85), (0.7, 0.3, 0.9)]
    b.lights(44, (0.015, 0.055), lights, (0.15, 0.95))


def street(b: Brush) -> None:
    """House fronts along a street."""
    _sky(b, 0.5)
    x = b.uniform(-0.15, 0.0)
    while x < 1:
        wide, top = b.uniform(0.18, 0.34), b.uniform(0.02, 0.28)
        front = hsv(b.uniform(0.02, 0.15), b.uniform(0.1, 0.55), b.uniform(0.45, 0.85))
        b.rect(x, top, x + wide, 0.9, front)
        for row in range(5):
            for k in range(3):
                wx, wy = x + wide * (0.12 + 0.29 * k), top + 0.06 + 0.16 * row
                b.rect(wx, wy, wx + 0.17 * wide, wy + 0.085, (0.20, 0.25, 0.32))
        x += wide
    b.gradient((0.42, 0.42, 0.43), (0.32, 0.32, 0.34), 0.86, 1.0)


def skyline(b: Brush) -> None:
    """Distant towers against the sky."""
    _sky(b, 0.8)
    for layer, tone in enumerate(((0.58, 0.64, 0.72), (0.40, 0.46, 0.55), (0.26, 0.30, 0.38))):
        x = -0.05
        while x < 1:
            wide = b.uniform(0.05, 0.13)
            top = 0.32 + 0.14 * layer + b.uniform(0.0, 0.2)
            b.rect(x, top, x + wide, 1, b.near(tone, 0.03))
            x += wide + b.uniform(0, 0.03)


def park(b: Brush) -> None:
    """Sunlit leaves out of focus over a lawn."""
    b.gradient((0.44, 0.56, 0.30), (0.28, 0.40, 0.18))
    b.foliage(90, (0.04, 0.13), _GREENS, (0.0, 0.7))
    b.soften(0.015)
    b.lights(24, (0.015, 0.045), [(0.55, 0.62, 0.35), (0.7, 0.7, 0.4)], (0.0, 0.6))
    b.gradient((0.42, 0.56, 0.26), (0.30, 0.44, 0.18), 0.72, 1.0)


def autumn(b: Brush) -> None:
    """Trunks and orange leaves."""
    b.gradient((0.88, 0.80, 0.62), (0.58, 0.42, 0.22))
    for _ in range(9):
        x, wide = b.uniform(0, 1), b.uniform(0.012, 0.05)
        b.rect(x, 0, x + wide, 0.85, b.near((0.26, 0.19, 0.14), 0.04))
    leaves: list[Colour] = [(0.84, 0.48, 0.14), (0.74, 0.30, 0.10), (0.90, 0.68, 0.22), (0.52, 0.40, 0.14)]
    b.foliage(70, (0.03, 0.09), leaves, (0.0, 0.45))
    b.foliage(70, (0.02, 0.06), leaves, (0.8, 1.0))


def beach(b: Brush) -> None:
    """Sky, sea and sand."""
    horizon = b.uniform(0.32, 0.52)
    _sky(b, horizon)
    sea = hsv(b.uniform(0.48, 0.58), b.uniform(0.4, 0.7), b.uniform(0.5, 0.75))
    shore = horizon + b.uniform(0.14, 0.3)
    b.gradient(scaled(sea, 0.85), scaled(sea, 1.25), horizon, shore)
    b.gradient((0.88, 0.80, 0.64), (0.78, 0.68, 0.50), shore, 1)
    for k in range(4):
        y = horizon + (shore - horizon) * (0.25 * k + 0.25)
        wave = [(t, y + 0.012 * np.sin(9 * t + 2 * k)) for t in np.linspace(0, 1, 16)]
        b.line([(float(p), float(q)) for p, q in wave], 0.006 + 0.004 * k, (0.95, 0.98, 0.98))


def mountains(b: Brush) -> None:
    """Ridges fading into the distance."""
    _sky(b, 0.75)
    for layer in range(4):
        tone = (0.56 - 0.11 * layer, 0.64 - 0.10 * layer, 0.74 - 0.15 * layer)
        base, rough = 0.36 + 0.13 * layer, 0.15 - 0.02 * layer
        ridge = [(float(x), base + b.uniform(-rough, rough) * 0.8) for x in np.linspace(-0.05, 1.05, 9)]
        b.shape([(-0.05, 1.0), *ridge, (1.05, 1.0)], b.near(tone, 0.02))


def snow(b: Brush) -> None:
    """Snow, firs and flakes."""
    b.gradient((0.72, 0.77, 0.84), (0.90, 0.92, 0.95))
    for _ in range(9):
        x, base, tall = b.uniform(0, 1), b.uniform(0.6, 0.8), b.uniform(0.3, 0.55)
        for k in range(4):
            half, y = 0.035 + 0.025 * k, base - tall + tall * 0.24 * k
            b.shape([(x, y), (x - half, y + 0.3 * tall), (x + half, y + 0.3 * tall)], b.near((0.18, 0.30, 0.26), 0.03))
    b.gradient((0.93, 0.95, 0.98), (0.98, 0.98, 1.0), 0.78, 1.0)
    b.lights(60, (0.003, 0.010), [(0.5, 0.5, 0.5)], (0.0, 1.0))


def concrete(b: Brush) -> None:
    """Concrete panels with joints and stains."""
    tone = b.near((0.58, 0.58, 0.57), 0.07)
    b.gradient(scaled(tone, 1.08), scaled(tone, 0.88))
    for _ in range(12):
        b.disc(b.uniform(0, 1), b.uniform(0, 1), b.uniform(0.05, 0.2), b.uniform(0.05, 0.25), b.near(tone, 0.03))
    b.soften(0.02)
    across, down = b.uniform(0.3, 0.5), b.uniform(0.3, 0.5)
    for k in range(4):
        b.line([(k * across - 0.1, 0), (k * across - 0.1, 1)], 0.012, scaled(tone, 0.6))
        b.line([(0, k * down - 0.05), (1, k * down - 0.05)], 0.012, scaled(tone, 0.6))


def mural(b: Brush) -> None:
    """Wall painted with bright shapes."""
    b.gradient(hsv(b.uniform(0, 1), 0.5, 0.7), hsv(b.uniform(0, 1), 0.5, 0.6))
    for _ in range(16):
        colour = hsv(b.uniform(0, 1), b.uniform(0.55, 0.95), b.uniform(0.5, 0.95))
        x, y, r = b.uniform(0, 1), b.uniform(0, 1), b.uniform(0.06, 0.2)
        if b.chance(0.5):
            b.disc(x, y, r, r, colour)
            b.disc(x, y, 0.6 * r, 0.6 * r, scaled(colour, 0.6))
        else:
            turn = b.uniform(0, 3)
            corners = [(x + r * np.cos(turn + k * 2.1), y + r * np.sin(turn + k * 2.1)) for k in range(3)]
            b.shape([(float(p), float(q)) for p, q in corners], colour)


def flowers(b: Brush) -> None:
    """Hedge in bloom."""
    b.gradient((0.22, 0.36, 0.17), (0.15, 0.25, 0.12))
    b.foliage(110, (0.02, 0.06), _GREENS, (0.0, 1.0))
    bloom = hsv(b.uniform(0.85, 1.15) % 1.0, b.uniform(0.3, 0.8), 0.95)
    for _ in range(int(b.uniform(25, 50))):
        x, y, r = b.uniform(0, 1), b.uniform(0, 1), b.uniform(0.012, 0.03)
        b.disc(x, y, r, r, b.near(bloom, 0.05))
        b.disc(x, y, 0.35 * r, 0.35 * r, (0.98, 0.85, 0.35))


def stadium(b: Brush) -> None:
    """Rows of a crowd under floodlights."""
    b.gradient((0.10, 0.12, 0.20), (0.16, 0.18, 0.26))
    for row in range(14):
        y = 0.22 + 0.045 * row
        for k in range(22):
            shirt = hsv(b.uniform(0, 1), b.uniform(0.2, 0.8), b.uniform(0.25, 0.8))
            x = (k + 0.5 * (row % 2)) / 22 + b.uniform(-0.008, 0.008)
            b.rect(x - 0.016, y + 0.012, x + 0.016, y + 0.05, shirt)
            b.disc(x, y, 0.012, 0.015, (0.72, 0.55, 0.44))
    b.gradient((0.24, 0.46, 0.22), (0.28, 0.52, 0.25), 0.86, 1.0)
    for x in (0.1, 0.5, 0.9):
        b.glow(x, 0.06, 0.09, (1.0, 1.0, 0.95), 0.9)


OUTDOORS = (
    city_night,
    street,
    skyline,
    park,
    autumn,
    beach,
    mountains,
    snow,
    concrete,
    mural,
    flowers,
    stadium,
)
