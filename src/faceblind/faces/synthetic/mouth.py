"""Lips, teeth, nostrils and the beard around them."""

from __future__ import annotations

import numpy as np

from faceblind.faces.synthetic import palette
from faceblind.faces.synthetic.fields import Field, band, bell, edge, noise, step, table
from faceblind.faces.synthetic.flesh import Flesh
from faceblind.faces.synthetic.identity import Identity
from faceblind.faces.synthetic.sculpt import Layout

BEARD_THICKNESS = {"short beard": 0.03, "full beard": 0.085, "long beard": 0.15, "goatee": 0.0}
"""How far a beard stands off the jaw, in half head widths."""
_BEARD_DENSITY = {"stubble": 0.42, "moustache": 0.95, "goatee": 0.92, "short beard": 0.85}


def paint_nostrils(flesh: Flesh, who: Identity, at: Layout) -> None:
    """Darken the nostrils and the creases of the nose's wings."""
    base = who.nose_length
    where = flesh.near((0.0, base - 0.03), (0.42, 0.26))
    x, y = np.abs(flesh.x[where]), flesh.y[where]
    lean = x - 0.47 * who.nose_width + 0.3 * (y - base)
    hole = np.hypot(lean * (1.0 / (0.27 * who.nose_width)), (y - base - 0.018) * (1.0 / 0.026))
    flesh.shade(where, 0.88 * step(1.35, 0.65, hole), (0.14, 0.07, 0.06))
    wing = np.hypot((x - who.nose_width + 0.085) * (1.0 / 0.098), (y - base + 0.05) * (1.0 / 0.1))
    outer = step(0.0, 0.03, x - who.nose_width + 0.085) + 0.6 * step(0.0, 0.05, y - base + 0.05)
    flesh.shade(where, 0.5 * band(wing - 1.0, 0.35) * np.clip(outer, 0.0, 1.0))
    flesh.shade(where, 0.34 * band(y - base - 0.05, 0.055) * step(who.nose_width, 0.4 * who.nose_width, x))
    flesh.gloss[where] += 0.10 * who.shine * bell(x, y, (0.0, at.nose_y - 0.02), (0.05, 0.045))


def paint_mouth(flesh: Flesh, who: Identity, at: Layout) -> None:
    """Paint the lips and what shows between them."""
    half = at.mouth_half
    where = flesh.near((0.0, at.mouth_y + 0.03), (1.25 * half, 0.42))
    u = flesh.x[where] * (1.0 / half)
    v = flesh.y[where] - at.mouth_y - at.corner_y * np.minimum(u * u, 1.35)
    au = np.abs(u)
    wide = np.clip(1.0 - u * u, 0.0, 1.0)
    root = np.sqrt(wide)
    bow = 1.0 - 0.34 * who.cupid_bow * np.exp(-0.5 * (u / 0.13) ** 2) + 0.10 * np.exp(-0.5 * ((au - 0.24) / 0.12) ** 2)
    top = -at.gap * root - who.upper_lip * np.clip(1.0 - au**1.35, 0.0, 1.0) * bow
    bottom = at.gap * root + who.lower_lip * np.power(wide, 0.72)
    wave = 0.012 * np.exp(-0.5 * (u / 0.16) ** 2) - 0.005 * np.exp(-0.5 * ((au - 0.45) / 0.18) ** 2)
    width = 1.6 * flesh.pixel

    lips = edge(np.maximum(top - v, v - bottom), 0.03) * (au < 1.0)
    folds = 1.0 + 0.07 * noise(u * 9.0, v * 2.0 + 4.0)
    upper = v < wave
    tone = np.where(upper, 0.78, 1.0).astype(np.float32) * folds
    colour = palette.linear(who.lip_colour)[:, None] * tone
    here = flesh.colour[:, where]
    flesh.colour[:, where] = here + (colour - here) * (0.88 * lips)
    flesh.gloss[where] += lips * (0.22 * step(0.0, 0.03, v) + 0.04)
    flesh.shade(where, 0.22 * band(v - bottom - 0.035, 0.06) * step(0.95, 0.5, au))
    flesh.colour[:, where] *= 1.0 + 0.10 * band(v - top + 0.018, 0.03) * step(0.9, 0.5, au)

    line = band(v - wave, 0.022 + 0.01 * step(0.5, 1.0, au)) * step(1.1, 0.96, au)
    if at.gap < 0.006:
        flesh.shade(where, 0.85 * line, (0.28, 0.14, 0.13))
    else:
        open_ = edge(np.abs(v - wave) - at.gap * root * (1.0 if at.gap > 0.03 else 0.9), width) * (au < 1.0)
        flesh.tint(where, open_, (0.20, 0.055, 0.06))
        rows = edge(v - (-at.gap + 0.085) * root, width) * step(0.86, 0.72, au)
        between = 1.0 - 0.16 * step(0.82, 1.0, np.abs(np.cos(u * half * (np.pi / 0.062))))
        shade = (1.0 - 0.5 * au * au) * between * (0.78 + 0.22 * step(-at.gap, -at.gap + 0.04, v))
        teeth = palette.linear((0.90, 0.875, 0.84))[:, None] * shade
        amount = open_ * rows
        here = flesh.colour[:, where]
        flesh.colour[:, where] = here + (teeth - here) * amount
        tongue = open_ * step(0.35 * at.gap, at.gap, v) * step(0.7, 0.3, au)
        flesh.tint(where, 0.7 * tongue * (1.0 if at.gap > 0.05 else 0.0), (0.55, 0.25, 0.26))
        flesh.gloss[where] *= 1.0 - open_
    corner = np.hypot((au - 1.02) * half, v) * (1.0 / 0.055)
    flesh.shade(where, 0.5 * step(1.0, 0.0, corner))


def paint_beard(flesh: Flesh, who: Identity, at: Layout) -> None:
    """Paint stubble, a moustache or a beard."""
    if who.beard == "none":
        return
    where = np.flatnonzero(flesh.y > -0.15)
    x, y = flesh.x[where], flesh.y[where]
    amount = beard_region(who, at, x, y)
    if who.beard == "stubble":
        dots = 0.75 + 0.25 * noise(x * 34.0, y * 34.0)
        flesh.tint(where, 0.42 * amount * dots, palette.blend(who.beard_colour, who.skin, 0.25))
        return
    ax = np.abs(x)
    swirl = x * 14.0 + 2.0 * noise(x * 3.0, y * 3.0)
    strand = noise(swirl, y * 3.2 + 0.8 * ax) + 0.6 * noise(x * 30.0 + y * 6.0, y * 8.0)
    density = _BEARD_DENSITY.get(who.beard, 0.97)
    edges = step(0.28, 0.62, amount + 0.16 * strand)
    colour = palette.linear(who.beard_colour)[:, None] * np.clip(1.0 + 0.34 * strand, 0.35, 2.0)
    here = flesh.colour[:, where]
    flesh.colour[:, where] = here + (colour - here) * (density * edges)
    tilt = 0.22 * strand * edges
    flesh.normal[0, where] += tilt
    flesh.gloss[where] = flesh.gloss[where] * (1.0 - edges) + 0.05 * edges


def beard_region(who: Identity, at: Layout, x: Field, y: Field) -> Field:
    """Where hair of the chosen style grows on the face, 0..1."""
    ax = np.abs(x)
    v = y - at.mouth_y
    lip_top = -at.gap - who.upper_lip
    lip_low = at.gap + who.lower_lip
    moustache_low = table([(0.0, lip_top + 0.01), (0.2, lip_top + 0.015), (0.36, -0.01), (0.5, 0.06)], ax)
    moustache = edge(np.maximum(who.nose_length + 0.07 + 0.28 * ax - y, v - moustache_low), 0.05)
    moustache = moustache * step(at.mouth_half + 0.10, at.mouth_half - 0.02, ax)
    if who.beard == "moustache":
        return moustache
    lips = (ax * (1.0 / (at.mouth_half * 1.0))) ** 2 + (v / (lip_low + 0.035)) ** 2
    off_lips = step(0.9, 1.15, lips)
    patch = edge(np.abs(ax) - 0.07, 0.05) * step(lip_low + 0.02, lip_low + 0.05, v)
    if who.beard == "goatee":
        ring = edge(ax - at.mouth_half - 0.10, 0.08) * step(lip_low + 0.05, lip_low + 0.10, v)
        side = edge(np.abs(ax - at.mouth_half - 0.05) - 0.055, 0.05) * step(-0.04, 0.02, v)
        return np.maximum(moustache, np.maximum(patch, np.maximum(ring, side)) * off_lips)
    line = table(
        [(0.0, lip_low + 0.05), (0.16, lip_low + 0.04), (0.34, 0.02), (0.6, -0.10), (0.84, -0.62), (0.95, -1.1)], ax
    )
    cheeks = edge(line - v, 0.10) * off_lips
    return np.maximum(np.maximum(moustache * off_lips, patch), cheeks)
