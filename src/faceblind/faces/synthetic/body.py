"""Neck, shoulders and what they wear."""

from __future__ import annotations

import numpy as np

from faceblind.faces.synthetic import palette
from faceblind.faces.synthetic.canvas import Canvas, Paint, window_of
from faceblind.faces.synthetic.clothes import dressed
from faceblind.faces.synthetic.fields import band, bell, edge, noise, slopes, step, table
from faceblind.faces.synthetic.head import Pose
from faceblind.faces.synthetic.identity import Identity
from faceblind.faces.synthetic.shot import Shot

_NECK_TOP = 0.35


def lay_body(canvas: Canvas, who: Identity, shot: Shot, pose: Pose) -> None:
    """Lay neck and shoulders, then the garment over them."""
    top = pose.origin[1] + _NECK_TOP * pose.scale
    window = window_of(canvas.side, (0, canvas.side), (top, canvas.side))
    if window.empty:
        return
    px, py = window.pixels()
    turn = 0.35 * np.sin(shot.body_yaw)
    y = np.asarray((py - pose.origin[1]) * (1.0 / pose.scale), dtype=np.float32)
    flat = (px - pose.origin[0]) * (1.0 / pose.scale)
    # Turning the body moves the breast sideways under a fixed neck.
    x = np.asarray(flat - turn * np.clip(y - 1.5, 0.0, 1.0), dtype=np.float32)

    neck, wide = who.neck_width, who.shoulders * float(np.cos(0.8 * shot.body_yaw))
    profile = (
        (_NECK_TOP, neck),
        (1.15, neck * 0.97),
        (1.50, neck + 0.05),
        (1.72, neck + 0.22),
        (1.90, neck + 0.55),
        (2.10, 0.55 * (neck + 0.55) + 0.45 * wide),
        (2.36, 0.93 * wide),
        (2.70, 1.02 * wide),
        (3.60, 1.06 * wide),
    )
    half = table(profile, y)
    slope = np.gradient(half[:, 0], y[:, 0])[:, None].astype(np.float32) if y.shape[0] > 1 else 0.0 * half
    outside = (np.abs(x) - half) / np.sqrt(1.0 + slope * slope)
    alpha = edge(outside, 1.2 / pose.scale).astype(np.float32)

    front = table(((_NECK_TOP, 0.12), (1.4, 0.18), (1.7, 0.22), (2.0, 0.36), (2.6, 0.55), (3.6, 0.5)), y)
    across = np.clip(1.0 - (x / half) ** 2, 0.0, 1.0)
    depth = -0.55 + (front + 0.55) * np.sqrt(across + 1e-4)
    depth -= 0.05 * bell(x, y, (0.0, 1.80), (0.10, 0.10))
    cords = band(np.abs(x) - 0.72 * neck + 0.62 * (y - 1.0), 0.16)
    depth += 0.025 * cords * step(1.8, 1.5, y) * step(1.0, 1.25, y)
    bones = band(y - 1.86 + 0.10 * np.abs(x), 0.08) * step(0.06, 0.2, np.abs(x))
    depth += 0.03 * bones
    depth = depth.astype(np.float32)
    mottle = 1.0 + 0.02 * noise(x * 5.0, y * 5.0)
    colour = palette.linear(who.skin)[:, None, None] * mottle
    canvas.lay(window, alpha, Paint(colour=colour, normal=slopes(depth, pose.scale), depth=depth, gloss=0.05, skin=1.0))
    cloth = dressed(shot, x, y, neck, depth, pose.scale)
    canvas.lay(window, alpha * cloth.alpha, cloth.paint)
