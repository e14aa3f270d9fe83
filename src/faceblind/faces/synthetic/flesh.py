"""The pixels of a head as flat arrays that features are painted on, and the skin they start from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind.faces.synthetic import palette
from faceblind.faces.synthetic.fields import Field, band, bell, edge, noise, step
from faceblind.faces.synthetic.identity import Identity
from faceblind.faces.synthetic.sculpt import Layout


@dataclass(frozen=True)
class Flesh:
    """Head pixels, (n,) or (3, n); painters change `colour`, `normal` and `gloss` in place."""

    x: Field
    y: Field
    """Head coordinates."""
    colour: Field
    """Linear light."""
    normal: Field
    gloss: Field
    pixel: float
    """Size of a pixel in head units, the width of antialiased edges."""

    def near(self, centre: tuple[float, float], reach: tuple[float, float]) -> NDArray[np.intp]:
        """Find the pixels within a box."""
        inside = (np.abs(self.x - centre[0]) < reach[0]) & (np.abs(self.y - centre[1]) < reach[1])
        return np.flatnonzero(inside)

    def tint(self, where: NDArray[np.intp], amount: Field, colour: palette.Colour) -> None:
        """Blend towards a colour (sRGB) by `amount`."""
        target = palette.linear(colour)[:, None]
        here = self.colour[:, where]
        self.colour[:, where] = here + (target - here) * amount

    def shade(self, where: NDArray[np.intp], amount: Field, factors: palette.Colour = (0.5, 0.4, 0.38)) -> None:
        """Multiply by `factors` where amount is 1; the default is the brownish dark of a crease."""
        loss = 1.0 - np.array(factors, dtype=np.float32)[:, None]
        self.colour[:, where] *= 1.0 - loss * amount


def paint_skin(flesh: Flesh, who: Identity, at: Layout) -> None:
    """Lay the skin: base colour, blush, mottling, freckles, moles, a scar and wrinkles."""
    x, y, ax = flesh.x, flesh.y, np.abs(flesh.x)
    flesh.colour[:] = palette.linear(who.skin)[:, None]
    flesh.gloss[:] = 0.16 * who.shine * (0.6 + 0.9 * bell(x, y, (0.0, 0.0), (0.4, 0.75)))

    red = bell(ax, y, (0.55, 0.4), (0.2, 0.16)) + 0.8 * bell(x, y, (0.0, at.nose_y), (0.13, 0.11))
    red += 0.35 * bell(x, y, (0.0, who.chin_length - 0.15), (0.2, 0.12))
    flesh.colour[1] *= 1.0 - 0.26 * who.blush * red
    flesh.colour[2] *= 1.0 - 0.22 * who.blush * red
    mottle = 1.0 + 0.022 * noise(x * 5.0 + 3.0, y * 5.0) + 0.016 * noise(x * 22.0, y * 22.0 + 9.0)
    flesh.colour[...] *= mottle
    socket = bell(ax, y, (at.eye_x - 0.03, at.eye_y), (0.2, 0.14))
    flesh.colour[...] *= 1.0 - np.array([0.13, 0.19, 0.16], dtype=np.float32)[:, None] * socket
    if who.freckles > 0:
        _freckles(flesh, who)
    for mole_x, mole_y, radius in who.moles:
        spot = flesh.near((mole_x, mole_y), (0.08, 0.08))
        away = np.hypot(x[spot] - mole_x, y[spot] - mole_y) - radius
        flesh.tint(spot, 0.85 * edge(away, 0.018), palette.scaled(who.skin, 0.42))
    if who.scar is not None:
        _scar(flesh, who.scar)
    _wrinkles(flesh, who, at)


def _freckles(flesh: Flesh, who: Identity) -> None:
    rng = np.random.default_rng(who.skin_pattern)
    count = int(110 * who.freckles)
    sx = rng.normal(0.0, 0.42, count)
    sy = rng.normal(0.34, 0.2, count)
    size = rng.uniform(0.012, 0.026, count)
    where = flesh.near((0.0, 0.34), (0.9, 0.6))
    px, py = flesh.x[where], flesh.y[where]
    order = np.argsort(px, kind="stable")
    px, py = px[order], py[order]
    amount = np.zeros_like(px)
    low = np.searchsorted(px, sx - 0.04)
    high = np.searchsorted(px, sx + 0.04)
    for k in range(count):
        part = slice(low[k], high[k])
        away = np.hypot(px[part] - np.float32(sx[k]), py[part] - np.float32(sy[k]))
        np.maximum(amount[part], edge(away - np.float32(size[k]), 0.016), out=amount[part])
    flesh.shade(where[order], 0.62 * amount, (0.62, 0.5, 0.42))


def _scar(flesh: Flesh, scar: tuple[float, float, float, float]) -> None:
    cx, cy, angle, length = scar
    where = flesh.near((cx, cy), (0.25, 0.25))
    dx, dy = flesh.x[where] - cx, flesh.y[where] - cy
    along = dx * np.float32(np.cos(angle)) + dy * np.float32(np.sin(angle))
    across = dy * np.float32(np.cos(angle)) - dx * np.float32(np.sin(angle)) + 0.6 * along * along
    amount = band(across, 0.03) * step(length, 0.7 * length, np.abs(along))
    flesh.colour[:, where] *= 1.0 + np.array([0.35, 0.16, 0.16], dtype=np.float32)[:, None] * amount
    flesh.shade(where, 0.5 * band(across - 0.028, 0.02) * step(length, 0.6 * length, np.abs(along)))


def _wrinkles(flesh: Flesh, who: Identity, at: Layout) -> None:
    if who.wrinkles < 0.05:
        return
    x, y, ax = flesh.x, flesh.y, np.abs(flesh.x)
    lines = np.zeros_like(x)
    for k, level in enumerate((0.0, 0.13, 0.25)):
        curve = at.eye_y - who.brow_height - 0.17 - level + 0.05 * ax * ax + 0.012 * np.sin(5.0 * x + 2.0 * k)
        lines = np.maximum(lines, band(y - curve, 0.022) * step(0.55, 0.3, ax))
    out = ax - at.eye_x - 1.1 * at.eye_half
    rays = np.abs(np.sin((y - at.eye_y) * 24.0 / (1.0 + 2.0 * np.maximum(out, 0.0))))
    crow = step(0.35, 0.0, rays) * step(0.0, 0.05, out) * step(0.2, 0.08, out) * step(0.18, 0.08, np.abs(y - at.eye_y))
    bag = band(y - at.eye_y - 0.16 - 0.35 * (ax - at.eye_x) * (ax - at.eye_x) * -2.0, 0.02) * step(
        0.22, 0.12, np.abs(ax - at.eye_x)
    )
    everywhere = np.arange(x.size)
    flesh.shade(everywhere, who.wrinkles * np.maximum(0.5 * lines, np.maximum(0.4 * crow, 0.5 * bag)))
