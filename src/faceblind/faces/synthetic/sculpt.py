"""The relief of a face: brow, sockets, nose, cheeks, lips and chin, as a height over the head's smooth front."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faceblind.faces.synthetic.fields import Field, band, bell, hermite, step
from faceblind.faces.synthetic.head import grid
from faceblind.faces.synthetic.identity import Identity
from faceblind.faces.synthetic.shot import Shot


@dataclass(frozen=True)
class Layout:
    """Where the features of one face are in one shot, in head x and y."""

    eye_x: float
    eye_y: float
    eye_half: float
    nose_y: float
    """Nose tip."""
    mouth_y: float
    mouth_half: float
    corner_y: float
    gap: float
    """Half opening between the lips."""
    jaw: float
    """How far the chin is lowered, 0..1."""


def layout_of(who: Identity, shot: Shot) -> Layout:
    """Place the features, moved by the expression."""
    half = who.mouth_width * (1.0 + 0.16 * max(shot.smile, 0.0) - 0.10 * shot.mouth_open)
    gap = 0.085 * shot.mouth_open + (0.028 if shot.smile > 0.55 else 0.0)
    lift = 0.065 * shot.smile + 0.014 + who.mouth_corners
    return Layout(
        eye_x=who.eye_spacing,
        eye_y=who.eye_height,
        eye_half=who.eye_width,
        nose_y=who.nose_length - 0.06 - who.nose_tip_lift - 0.012 * shot.smile,
        mouth_y=who.mouth_height + 0.025 * shot.mouth_open - 0.012 * shot.smile,
        mouth_half=half,
        corner_y=-lift,
        gap=gap,
        jaw=float(np.clip(shot.mouth_open, 0.0, 1.2)),
    )


def relief_of(who: Identity, shot: Shot, at: Layout, beard: float) -> Field:
    """Height map (ROWS, COLUMNS) over the tables' grid; `beard` adds thickness over the jaw."""
    x, y = grid()
    ax = np.abs(x)
    drop = 0.1 * at.jaw
    base = who.nose_length
    height = np.zeros((y.shape[0], x.shape[1]), dtype=np.float32)

    # Broad masses: forehead, middle of the face, muzzle and chin.
    height += (0.10 + who.forehead_slope) * bell(x, y, (0.0, -0.75), (0.55, 0.33))
    height += 0.10 * bell(x, y, (0.0, 0.25), (0.5, 0.4))
    height += 0.13 * bell(x, y, (0.0, at.mouth_y + 0.02), (0.42, 0.28))
    height += (0.26 + who.chin_forward) * bell(x, y, (0.0, who.chin_length - 0.2 + drop), (0.32, 0.17))
    height += (0.06 + who.cheekbones) * bell(ax, y, (0.62, 0.27), (0.2, 0.17))
    height -= who.hollow_cheeks * bell(ax, y, (0.62, 0.78), (0.17, 0.22))
    height += 0.05 * max(shot.smile, 0.0) * bell(ax, y, (0.5, 0.48), (0.16, 0.13))
    height += beard * step(0.45, 0.8, y) * step(0.0, 0.45, np.maximum(ax, y - 0.62))

    # Brow and eyes.
    brow_y = at.eye_y - who.brow_height - 0.05 * shot.brow_raise
    height += (0.03 + who.brow_ridge) * bell(ax, y, (0.34, brow_y + 0.02), (0.27, 0.075))
    height -= who.eye_depth * bell(ax, y, (at.eye_x - 0.02, at.eye_y - 0.02), (0.24, 0.15))
    height += 0.085 * bell(ax, y, (at.eye_x, at.eye_y), (0.16, 0.1))
    height -= 0.02 * who.bags * bell(ax, y, (at.eye_x, at.eye_y + 0.2), (0.16, 0.035))

    # Nose: a ridge that grows towards the tip, a ball, and wings.
    ridge = hermite(
        [
            (at.eye_y - 0.34, 0.0),
            (at.eye_y - 0.12, 0.55 * who.nose_bridge),
            (at.eye_y + 0.1, who.nose_bridge + who.nose_hump),
            (at.nose_y - 0.12, 0.78 * who.nose_forward + 0.5 * who.nose_hump),
            (at.nose_y, who.nose_forward),
            (base + 0.03, 0.30 * who.nose_forward),
            (base + 0.12, 0.0),
        ],
        y,
    )
    width = hermite(
        [
            (at.eye_y - 0.3, who.nose_bridge_width * 1.3),
            (at.eye_y, who.nose_bridge_width),
            (at.nose_y - 0.05, 0.5 * (who.nose_tip + who.nose_bridge_width)),
            (base + 0.05, who.nose_tip * 1.15),
        ],
        y,
    )
    across = x / width
    height += ridge / (1.0 + across * across * (0.75 + 0.25 * across * across))
    height += 0.05 * bell(x, y, (0.0, at.nose_y + 0.01), (who.nose_tip * 0.72, 0.075))
    wing_x = who.nose_width - 0.065
    height += 0.13 * bell(ax, y, (wing_x, base - 0.045), (0.062, 0.068))
    height -= 0.07 * bell(ax, y, (0.48 * who.nose_width, base + 0.035), (0.05, 0.025))

    # Folds from the nose to the corners of the mouth.
    smile = max(shot.smile, 0.0)
    fold = 0.008 + 0.022 * who.wrinkles + 0.016 * smile
    along = np.clip((y - base + 0.06) / (at.mouth_y + 0.08 - base), 0.0, 1.0)
    line = who.nose_width + 0.03 + (at.mouth_half * 0.98 - who.nose_width) * along + 0.05 * np.sin(np.pi * along)
    inside = step(base - 0.08, base + 0.08, y) * step(at.mouth_y + 0.2, at.mouth_y - 0.02, y)
    height -= fold * band(ax - line, 0.075) * inside

    # Lips.
    corner = at.mouth_y + at.corner_y * np.minimum((x / at.mouth_half) ** 2, 1.3)
    inner = np.clip(1.0 - (x / at.mouth_half) ** 2, 0.0, 1.0)
    upper, lower = 0.9 * who.upper_lip, 0.9 * who.lower_lip
    height += 0.055 * inner * np.exp(-0.5 * ((y - corner + at.gap + 0.55 * upper) / (0.62 * upper + 0.01)) ** 2)
    height += 0.070 * inner * np.exp(-0.5 * ((y - corner - at.gap - 0.55 * lower) / (0.6 * lower + 0.01)) ** 2)
    height -= (0.03 + 0.5 * at.gap) * np.sqrt(inner) * np.exp(-0.5 * ((y - corner) / (0.018 + 0.6 * at.gap)) ** 2)
    height -= 0.02 * bell(ax, y, (at.mouth_half + 0.03, at.mouth_y + at.corner_y), (0.045, 0.05))
    height -= 0.02 * bell(x, y, (0.0, 0.5 * (base + at.mouth_y - upper) + 0.02), (0.032, 0.06))
    height -= 0.055 * bell(x, y, (0.0, at.mouth_y + at.gap + who.lower_lip + 0.07), (0.17, 0.042))
    return height.astype(np.float32)
