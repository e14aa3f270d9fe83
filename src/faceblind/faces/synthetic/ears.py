"""Ears: tilted plates at the sides of the head, hidden where the head is nearer."""

from __future__ import annotations

import numpy as np

from faceblind.faces.synthetic import palette
from faceblind.faces.synthetic.canvas import Canvas, Paint, window_of
from faceblind.faces.synthetic.fields import band, edge, step
from faceblind.faces.synthetic.head import Pose
from faceblind.faces.synthetic.identity import Identity


def lay_ears(canvas: Canvas, who: Identity, pose: Pose) -> None:
    """Lay both ears over the head, where the depth allows."""
    for side in (-1.0, 1.0):
        _lay_ear(canvas, who, pose, side)


def _lay_ear(canvas: Canvas, who: Identity, pose: Pose, side: float) -> None:
    half = who.ear_size
    root = np.array([side * (who.cheek_width - 0.05), 0.13, -0.02])
    out = np.array([side * np.sin(who.ear_angle), 0.0, -np.cos(who.ear_angle)])
    down = np.array([0.0, 0.98, 0.14])
    u, v = pose.rotation @ out, pose.rotation @ down
    facing = np.cross(u, v) * side
    if abs(facing[2]) < 0.08:
        return
    centre = pose.view(root[None, :])[0]
    cx, cy = (float(centre[k]) * pose.scale + pose.origin[k] for k in (0, 1))
    reach = 2.0 * half * pose.scale
    window = window_of(canvas.side, (cx - reach, cx + reach), (cy - reach, cy + reach))
    if window.empty:
        return
    px, py = window.pixels()
    dx, dy = np.broadcast_arrays((px - cx) * (1.0 / pose.scale), (py - cy) * (1.0 / pose.scale))
    determinant = 1.0 / float(u[0] * v[1] - u[1] * v[0])
    s = (dx * float(v[1]) - dy * float(v[0])) * determinant
    t = (dy * float(u[0]) - dx * float(u[1])) * determinant * (1.0 / half)
    s = s * (1.0 / half)

    # An egg leaning back, wide at the top, with a lobe.
    lean = s - 0.42 + 0.10 * t
    wide = 0.66 - 0.16 * step(-0.1, 1.0, t)
    radius = np.sqrt((lean / wide) ** 2 + t * t)
    width = 1.3 / (pose.scale * half * 0.5)
    depth = float(centre[2]) + float(u[2]) * half * s + float(v[2]) * half * t
    hidden = canvas.depth[window.slices] > depth + 0.02
    alpha = edge(radius - 1.0, width) * ~hidden
    bowl = step(0.72, 0.30, np.hypot((lean + 0.10) / (0.62 * wide), (t - 0.05) * 1.25))
    ridge = band(radius - 0.84, 0.2)
    colour = palette.linear(who.skin)[:, None, None] * np.array([1.0, 0.86, 0.84], dtype=np.float32)[:, None, None]
    colour = colour * (1.0 - 0.58 * bowl) * (0.82 + 0.3 * ridge) * (1.0 - 0.3 * band(radius - 0.66, 0.12))
    front = facing / np.linalg.norm(facing) * np.sign(facing[2])
    normal = np.empty((3, *window.shape), dtype=np.float32)
    slope = 0.55 * np.clip(radius - 0.6, 0.0, 1.0)
    for k in range(3):
        normal[k] = 0.55 * float(front[k]) + slope * (lean * float(u[k]) + t * float(v[k])) / np.maximum(radius, 0.3)
    normal[2] += 0.35
    normal *= 1.0 / np.sqrt((normal * normal).sum(axis=0) + 1e-6)
    canvas.lay(
        window,
        alpha.astype(np.float32),
        Paint(colour=colour, normal=normal, depth=depth.astype(np.float32), gloss=0.06, skin=1.0),
    )
