"""Eyes and brows, painted in each eye's own coordinates: u outwards and v down, in half eye widths."""

from __future__ import annotations

import numpy as np

from faceblind.faces.synthetic import palette
from faceblind.faces.synthetic.fields import band, bell, edge, noise, step, table
from faceblind.faces.synthetic.flesh import Flesh
from faceblind.faces.synthetic.identity import Identity
from faceblind.faces.synthetic.sculpt import Layout
from faceblind.faces.synthetic.shot import Shot

_IRIS = 0.45
_LASH = (0.10, 0.075, 0.065)


def paint_eyes(flesh: Flesh, who: Identity, shot: Shot, at: Layout) -> None:
    """Paint both eyes: ball, iris, lids, lashes and crease."""
    for side in (-1.0, 1.0):
        _paint_eye(flesh, who, shot, at, side)


def _paint_eye(flesh: Flesh, who: Identity, shot: Shot, at: Layout, side: float) -> None:
    a = at.eye_half
    where = flesh.near((side * at.eye_x, at.eye_y), (1.6 * a, 1.45 * a))
    if where.size == 0:
        return
    u = (side * flesh.x[where] - at.eye_x) * (1.0 / a)
    v = (flesh.y[where] - at.eye_y) * (1.0 / a) + (who.eye_tilt / a * 0.22) * u
    pixel = flesh.pixel / a

    wide = np.clip(1.0 - u * u, 0.0, 1.0)
    squint = 1.0 - 0.45 * shot.squint
    low = 0.30 * squint
    high = (who.eye_open * (1.0 + 0.12 * shot.brow_raise)) * squint - 0.05 * max(who.lid_weight, 0.0)
    high = high * (1.0 - shot.eye_close) - 0.8 * low * shot.eye_close
    arc = wide * np.sqrt(np.sqrt(wide))
    upper = -high * arc * (1.12 - 0.12 * u) - 0.02 * u
    lower = low * wide * (1.0 + 0.22 * u)
    below_lid = v - upper
    inside = edge(np.maximum(upper - v, v - lower), 1.4 * pixel) * (wide > 0)

    # Lid and crease first: the ball is laid over them.
    fold = (0.2 + 0.06 * max(0.0, -who.lid_weight)) * (1.0 - 0.4 * shot.eye_close)
    crease = below_lid + fold + 0.05 * u * u
    reach = step(1.32, 0.95, np.abs(u + 0.05))
    flesh.shade(where, (0.15 + 0.6 * who.lid_fold) * band(crease, 0.10) * reach)
    flesh.shade(where, 0.22 * bell(u, v, (-1.1, -0.2), (0.25, 0.4)))
    under = v - lower
    flesh.shade(where, (0.16 + 0.4 * who.bags) * band(under - 0.34, 0.2) * step(1.1, 0.5, np.abs(u)))
    flesh.colour[:, where] *= 1.0 + 0.10 * band(below_lid + 0.5 * fold, 0.12) * reach
    flesh.shade(where, 0.45 * band(under - 0.03, 0.07) * step(1.1, 0.9, np.abs(u)), (0.6, 0.42, 0.4))

    # The ball: white, iris, pupil and the lid's shadow.
    gx = side * shot.gaze[0] * 0.62
    gy = shot.gaze[1] * 0.4 - 0.06 - 0.05 * shot.eye_close
    du, dv = u - gx, v - gy
    radius = np.sqrt(du * du + dv * dv) * (1.0 / _IRIS)
    iris = palette.linear(who.eye_colour)[:, None]
    angle = np.arctan2(dv, du)
    fibres = 1.0 + 0.22 * noise(angle * 3.6 + 7.0 * side, radius * 1.2) + 0.12 * noise(angle * 9.0, radius)
    glow = 0.72 + 0.75 * step(-0.2, 0.9, (dv * 0.9 - 0.25 * side * du) * (1.0 / _IRIS))
    eye = iris * (fibres * glow)
    eye = eye * (1.0 - 0.62 * step(0.72, 1.0, radius)) + 0.25 * iris * step(0.62, 0.42, radius)
    eye = eye * edge((radius - 0.40) * -_IRIS, 1.3 * pixel) + 0.004
    white = palette.linear((0.90, 0.885, 0.875))[:, None] * (1.0 - 0.20 * u * u)
    pink = band(u + 1.0, 0.22)
    white = white * (1.0 - np.array([0.15, 0.5, 0.45], dtype=np.float32)[:, None] * pink)
    ball = white + (eye - white) * edge((radius - 1.0) * _IRIS, 1.6 * pixel)
    ball *= 1.0 - 0.60 * step(0.34, 0.0, below_lid)
    spark_u = gx + side * (0.16 if shot.light_azimuth > 0 else -0.16)
    spark = edge(np.hypot(u - spark_u, v - gy + 0.16) - 0.095, 1.6 * pixel)
    ball = ball + (1.5 - ball) * (0.9 * spark)

    here = flesh.colour[:, where]
    flesh.colour[:, where] = here + (ball - here) * inside
    flat = flesh.normal[:, where]
    flesh.normal[:, where] = flat + (np.array([0.0, -0.1, 1.0], dtype=np.float32)[:, None] - flat) * (0.5 * inside)
    flesh.gloss[where] = flesh.gloss[where] * (1.0 - inside)

    # Lashes last: they overlap the ball.
    thick = 0.075 + 0.06 * who.lashes
    taper = step(-1.15, -0.2, u) * (0.7 + 0.3 * step(-0.2, 0.9, u))
    line = edge(np.abs(below_lid + 0.35 * thick) - 0.5 * thick * (0.35 + taper), 1.5 * pixel)
    line *= step(1.10 + 0.12 * who.lashes, 0.98, u) * step(-1.1, -0.95, u)
    flesh.tint(where, (0.72 + 0.25 * who.lashes) * line, _LASH)
    hairs = step(0.1, 0.9, noise(u * 5.5 - 2.2 * below_lid, u * 0.0 + 3.0 * side)) * step(-0.32, -0.04, below_lid)
    hairs *= (below_lid < 0.02) * step(1.25, 1.0, u) * step(-0.7, 0.3, u)
    flesh.tint(where, 0.75 * who.lashes * hairs, _LASH)
    flesh.tint(where, (0.12 + 0.4 * who.lashes) * band(under, 0.055) * step(1.05, 0.7, np.abs(u)), _LASH)


def paint_brows(flesh: Flesh, who: Identity, shot: Shot, at: Layout) -> None:
    """Paint the brows as short hairs along an arch."""
    start = at.eye_x - 0.235 - 0.012 * shot.brow_knit
    length = 2.0 * who.brow_length
    mid_y = at.eye_y - who.brow_height - 0.05 * shot.brow_raise
    where = np.flatnonzero(
        (np.abs(flesh.y - mid_y) < 0.24) & (np.abs(np.abs(flesh.x) - start - 0.5 * length) < 0.55 * length)
    )
    x, y = np.abs(flesh.x[where]), flesh.y[where]
    side = np.sign(flesh.x[where])
    t = np.clip((x - start) * (1.0 / length), -0.05, 1.05)
    arch = table([(-0.05, 0.0), (0.35, 0.62), (0.64, 1.0), (0.85, 0.62), (1.05, -0.25)], t)
    centre = mid_y - (who.brow_arch + 0.02 * shot.brow_raise) * arch - who.brow_tilt * (t - 0.4)
    centre = centre + 0.03 * shot.brow_knit * step(0.5, 0.0, t)
    thick = who.brow_thickness * table([(-0.05, 0.35), (0.08, 0.9), (0.3, 1.0), (0.7, 0.72), (1.05, 0.08)], t)
    off = y - centre
    strand = noise((t * length * 30.0 + off * 26.0) + 11.0 * side, off * 5.0 + 2.0)
    ragged = np.abs(off) - thick * (0.86 + 0.22 * strand)
    amount = edge(ragged, 0.022) * step(-0.04, 0.05, t) * (0.82 + 0.16 * strand) * who.brow_density
    colour = palette.blend(who.beard_colour, (0.12, 0.09, 0.08), 0.45)
    flesh.tint(where, np.clip(amount, 0.0, 1.0), colour)
