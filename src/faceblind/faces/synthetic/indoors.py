"""Twelve background templates of rooms and walls."""

from __future__ import annotations

from faceblind.faces.synthetic.brush import Brush
from faceblind.faces.synthetic.palette import Colour, blend, hsv, scaled

_CREAM: Colour = (0.90, 0.86, 0.78)
_WOOD: Colour = (0.50, 0.34, 0.21)


def studio(b: Brush) -> None:
    """Seamless paper with a pool of light."""
    tone = hsv(b.uniform(0, 1), b.uniform(0.0, 0.55), b.uniform(0.25, 0.75))
    b.gradient(scaled(tone, 0.75), scaled(tone, 0.55))
    b.glow(b.uniform(0.3, 0.7), b.uniform(0.3, 0.6), b.uniform(0.3, 0.55), tone, b.uniform(0.3, 0.6))


def two_tone(b: Brush) -> None:
    """Painted wall with a contrasting lower half and a rail."""
    hue = b.uniform(0, 1)
    upper, lower = hsv(hue, b.uniform(0.15, 0.5), 0.85), hsv((hue + 0.45) % 1, b.uniform(0.3, 0.7), 0.5)
    split = b.uniform(0.45, 0.7)
    b.gradient(upper, scaled(upper, 0.88), 0, split)
    b.gradient(lower, scaled(lower, 0.8), split, 1)
    b.rect(0, split - 0.02, 1, split + 0.02, _CREAM)


def bookshelf(b: Brush) -> None:
    """Shelves of books."""
    b.gradient((0.20, 0.13, 0.09), (0.14, 0.09, 0.06))
    rows = int(b.uniform(4, 7))
    for row in range(rows):
        floor = (row + 1) / rows
        x = b.uniform(-0.05, 0.0)
        while x < 1.0:
            wide, tall = b.uniform(0.02, 0.055), b.uniform(0.6, 0.88) / rows
            spine = hsv(b.uniform(0, 1), b.uniform(0.2, 0.6), b.uniform(0.25, 0.7))
            b.rect(x, floor - tall - 0.015, x + wide, floor, spine)
            b.rect(x, floor - 0.75 * tall, x + wide, floor - 0.68 * tall, scaled(spine, 1.4))
            x += wide + (b.uniform(0.05, 0.12) if b.chance(0.08) else 0.004)
        b.rect(0, floor - 0.018, 1, floor + 0.008, b.near(_WOOD))


def window(b: Brush) -> None:
    """Bright window between curtains."""
    wall = b.near((0.66, 0.62, 0.56), 0.08)
    b.gradient(wall, scaled(wall, 0.85))
    x0, x1 = b.uniform(0.02, 0.15), b.uniform(0.8, 0.98)
    b.rect(x0, 0.0, x1, 0.72, (0.86, 0.93, 0.99))
    b.foliage(40, (0.03, 0.09), [(0.55, 0.72, 0.50), (0.70, 0.82, 0.62)], (0.35, 0.72))
    b.rect(x0, 0.72, x1, 1.0, wall)
    bars = int(b.uniform(1, 4))
    for k in range(bars + 2):
        x = x0 + (x1 - x0) * k / (bars + 1)
        b.rect(x - 0.012, 0.0, x + 0.012, 0.72, (0.97, 0.97, 0.96))
    b.rect(x0, 0.33, x1, 0.355, (0.97, 0.97, 0.96))
    b.rect(x0 - 0.03, 0.72, x1 + 0.03, 0.76, (0.95, 0.94, 0.92))
    cloth = hsv(b.uniform(0, 1), b.uniform(0.15, 0.6), b.uniform(0.5, 0.9))
    for side, edge in ((0, x0 + 0.06), (1, x1 - 0.06)):
        steps = 7
        for k in range(steps):
            a = side + (edge - side) * k / steps
            c = side + (edge - side) * (k + 1) / steps
            b.rect(a, 0, c, 1, scaled(cloth, 0.8 + 0.25 * (k % 2)))


def brick(b: Brush) -> None:
    """Brick wall."""
    base = b.near((0.56, 0.27, 0.20), 0.08) if b.chance(0.75) else (0.78, 0.76, 0.73)
    b.gradient((0.72, 0.69, 0.65), (0.62, 0.60, 0.56))
    rows = int(b.uniform(12, 20))
    wide = 2.6 / rows
    for row in range(rows):
        x = -wide * (0.5 if row % 2 else 0.0) - 0.01
        while x < 1:
            b.rect(x + 0.006, row / rows + 0.005, x + wide - 0.006, (row + 1) / rows - 0.005, b.near(base, 0.05))
            x += wide


def office(b: Brush) -> None:
    """Ceiling panels, a partition and a screen."""
    b.gradient((0.82, 0.84, 0.86), (0.70, 0.72, 0.75))
    for k in range(4):
        y = 0.03 + 0.075 * k
        b.shape([(0.1 + 0.07 * k, y), (0.4 + 0.02 * k, y), (0.41, y + 0.035), (0.14 + 0.07 * k, y + 0.035)], (1, 1, 1))
        b.shape([(0.9 - 0.07 * k, y), (0.6 - 0.02 * k, y), (0.59, y + 0.035), (0.86 - 0.07 * k, y + 0.035)], (1, 1, 1))
    panel = hsv(b.uniform(0.5, 0.7), b.uniform(0.1, 0.45), b.uniform(0.4, 0.65))
    top = b.uniform(0.45, 0.6)
    b.rect(0, top, 1, 1, panel)
    b.rect(0, top, 1, top + 0.02, scaled(panel, 1.4))
    for _ in range(3):
        x = b.uniform(0, 0.9)
        b.rect(x, top - 0.14, x + 0.2, top + 0.02, (0.10, 0.11, 0.13))
        b.rect(x + 0.01, top - 0.13, x + 0.19, top - 0.0, hsv(b.uniform(0.5, 0.65), 0.4, 0.75))


def kitchen(b: Brush) -> None:
    """Tiles, cabinets and jars."""
    tile = b.near((0.86, 0.90, 0.90), 0.04)
    b.gradient(tile, scaled(tile, 0.9))
    count = int(b.uniform(7, 12))
    for k in range(count + 1):
        b.line([(k / count, 0.25), (k / count, 0.75)], 0.008, (0.68, 0.72, 0.72))
        b.line([(0, 0.25 + 0.5 * k / count), (1, 0.25 + 0.5 * k / count)], 0.008, (0.68, 0.72, 0.72))
    front = hsv(b.uniform(0, 1), b.uniform(0.1, 0.5), b.uniform(0.4, 0.9))
    for k in range(4):
        b.rect(k / 4 + 0.006, 0, (k + 1) / 4 - 0.006, 0.24, b.near(front, 0.02))
        b.disc(k / 4 + 0.21, 0.20, 0.012, 0.012, (0.2, 0.2, 0.2))
    b.rect(0, 0.74, 1, 1, scaled(_WOOD, 0.9))
    for _ in range(6):
        x = b.uniform(0, 1)
        b.rect(x, b.uniform(0.58, 0.66), x + 0.06, 0.745, hsv(b.uniform(0, 1), 0.6, 0.7))


def living_room(b: Brush) -> None:
    """Lamp, picture and sofa."""
    wall = hsv(b.uniform(0, 1), b.uniform(0.08, 0.3), b.uniform(0.55, 0.85))
    b.gradient(wall, scaled(wall, 0.85))
    x = b.uniform(0.05, 0.6)
    b.rect(x, 0.10, x + 0.34, 0.42, (0.15, 0.12, 0.10))
    b.rect(x + 0.03, 0.13, x + 0.31, 0.39, hsv(b.uniform(0, 1), 0.4, 0.8))
    b.disc(x + b.uniform(0.1, 0.25), 0.28, 0.06, 0.07, hsv(b.uniform(0, 1), 0.7, 0.7))
    lamp = 0.85 if x < 0.35 else 0.12
    b.rect(lamp - 0.008, 0.45, lamp + 0.008, 1.0, (0.2, 0.18, 0.16))
    b.shape([(lamp - 0.07, 0.28), (lamp + 0.07, 0.28), (lamp + 0.12, 0.46), (lamp - 0.12, 0.46)], (1.0, 0.90, 0.66))
    b.glow(lamp, 0.4, 0.22, (1.0, 0.8, 0.45), 0.5)
    sofa = hsv(b.uniform(0, 1), b.uniform(0.2, 0.6), b.uniform(0.3, 0.6))
    b.rect(0, 0.74, 1, 1, sofa)
    for k in range(3):
        b.disc(k / 3 + 0.17, 0.80, 0.17, 0.10, scaled(sofa, 1.15))


def cafe(b: Brush) -> None:
    """Warm lights out of focus over dark wood."""
    b.gradient((0.24, 0.15, 0.09), (0.12, 0.08, 0.06))
    for _ in range(7):
        x = b.uniform(0, 1)
        b.rect(x, b.uniform(0.3, 0.6), x + b.uniform(0.05, 0.2), 1, b.near((0.3, 0.19, 0.12), 0.06))
    b.soften(0.02)
    b.lights(26, (0.02, 0.06), [(1.0, 0.72, 0.36), (1.0, 0.85, 0.6), (0.9, 0.45, 0.2)], (0.0, 0.55))


def planks(b: Brush) -> None:
    """Wall of wooden planks."""
    base = blend(_WOOD, (0.75, 0.66, 0.55), b.uniform(0, 1))
    count = int(b.uniform(6, 12))
    for k in range(count):
        tone = b.near(base, 0.06)
        b.rect(k / count, 0, (k + 1) / count - 0.008, 1, tone)
        for _ in range(5):
            x = (k + b.uniform(0.1, 0.9)) / count
            b.line([(x, b.uniform(0, 0.5)), (x + b.uniform(-0.01, 0.01), b.uniform(0.5, 1))], 0.006, scaled(tone, 0.8))


def gallery(b: Brush) -> None:
    """White wall hung with paintings."""
    b.gradient((0.93, 0.92, 0.90), (0.85, 0.84, 0.82))
    x = b.uniform(-0.2, 0.0)
    while x < 1:
        wide, top, tall = b.uniform(0.2, 0.36), b.uniform(0.05, 0.2), b.uniform(0.3, 0.5)
        b.rect(x, top, x + wide, top + tall, (0.25, 0.18, 0.10))
        ground = hsv(b.uniform(0, 1), b.uniform(0.3, 0.8), b.uniform(0.4, 0.9))
        b.rect(x + 0.02, top + 0.02, x + wide - 0.02, top + tall - 0.02, ground)
        for _ in range(4):
            shade = hsv(b.uniform(0, 1), b.uniform(0.3, 0.9), b.uniform(0.3, 0.95))
            cx, cy = x + b.uniform(0.3, 0.7) * wide, top + b.uniform(0.3, 0.7) * tall
            b.disc(cx, cy, 0.15 * wide, b.uniform(0.1, 0.25) * tall, shade)
        x += wide + b.uniform(0.08, 0.16)
    b.gradient((0.60, 0.48, 0.36), (0.50, 0.39, 0.29), 0.86, 1.0)


def corridor(b: Brush) -> None:
    """Passage with lines that meet in the distance."""
    x, y = b.uniform(0.3, 0.7), b.uniform(0.3, 0.5)
    wall = hsv(b.uniform(0, 1), b.uniform(0.05, 0.35), b.uniform(0.5, 0.8))
    b.shape([(0, 0), (1, 0), (x, y)], scaled(wall, 1.15))
    b.shape([(0, 1), (1, 1), (x, y)], scaled(wall, 0.5))
    b.shape([(0, 0), (0, 1), (x, y)], scaled(wall, 0.85))
    b.shape([(1, 0), (1, 1), (x, y)], scaled(wall, 0.72))
    for k in range(6):
        near, far = 1 - 0.16 * k, 1 - 0.16 * k - 0.07
        for sx in (0.0, 1.0):
            door = [(x + (sx - x) * near, y + (0.15 - y) * near), (x + (sx - x) * far, y + (0.15 - y) * far)]
            door += [(x + (sx - x) * far, y + (1 - y) * far), (x + (sx - x) * near, y + (1 - y) * near)]
            b.shape(door, scaled(wall, 0.55))
        lamp = [(x + (c - x) * n, y + (0 - y) * n) for c, n in ((0.35, near), (0.65, near), (0.65, far), (0.35, far))]
        b.shape(lamp, (1.0, 0.98, 0.9))


INDOORS = (studio, two_tone, bookshelf, window, brick, office, kitchen, living_room, cafe, planks, gallery, corridor)
