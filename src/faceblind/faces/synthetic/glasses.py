"""Spectacles: frames in a plane before the eyes, their shadow on the skin, and a trace of reflection."""

from __future__ import annotations

import numpy as np

from faceblind.faces.synthetic import palette
from faceblind.faces.synthetic.canvas import Canvas, Paint, Window, window_of
from faceblind.faces.synthetic.face import Face
from faceblind.faces.synthetic.fields import Field, band, edge, step
from faceblind.faces.synthetic.head import Pose
from faceblind.faces.synthetic.identity import Identity
from faceblind.faces.synthetic.shading import light_direction
from faceblind.faces.synthetic.shot import Shot

# Half width, half height, roundness (1 is an ellipse), thickness of the frame.
_SHAPES = {
    "round": (0.300, 0.290, 1.0, 0.036),
    "square": (0.325, 0.245, 0.35, 0.052),
    "wide": (0.345, 0.225, 0.6, 0.060),
    "browline": (0.320, 0.250, 0.6, 0.026),
    "thin": (0.310, 0.230, 0.7, 0.020),
}


def lay_glasses(canvas: Canvas, face: Face, who: Identity, shot: Shot, pose: Pose) -> tuple[Window, Field]:
    """Lay the spectacles; returns the window and the coverage of their opaque parts."""
    at = face.layout
    front = max(face.solid.surface(0.0, at.eye_y - 0.02), face.solid.surface(at.eye_x, at.eye_y)) + 0.06
    corners = np.array([(sx, at.eye_y + dy, front - dz) for sx in (-1.15, 1.15) for dy in (-0.5, 0.5) for dz in (0, 1)])
    spots = pose.project(corners)
    low, high = spots.min(axis=0), spots.max(axis=0)
    window = window_of(canvas.side, (low[0], high[0]), (low[1], high[1]))
    if window.empty:
        return window, np.zeros(window.shape, dtype=np.float32)
    px, py = window.pixels()
    vx, vy = (px - pose.origin[0]) * (1.0 / pose.scale), (py - pose.origin[1]) * (1.0 / pose.scale)
    (ax, ay, az), (bx, by, bz) = pose.ray(vx, vy)
    t = (front - az) * (1.0 / bz)
    x, y = ax + bx * t, ay + by * t
    width = 1.3 / pose.scale
    frame, lens = _frame(who, x, y - at.eye_y - 0.05, at.eye_x, width)

    # The shadow falls where the light, going on past the frame, meets the skin a little behind it.
    lx, ly, lz = light_direction(shot)
    shift = 0.13 / max(lz, 0.35)
    cast, _ = _frame(who, x + lx * shift, y + ly * shift - at.eye_y - 0.05, at.eye_x, 0.05)
    patch = canvas.colour[:, window.slices[0], window.slices[1]]
    patch *= 1.0 - (0.34 * shot.shadow * shot.key) * cast

    arms = _arms(window, who, at.eye_x, at.eye_y, front, pose)
    hidden = canvas.depth[window.slices]
    opaque = np.maximum(frame, arms * (hidden < 0.75) * (1.0 - lens)).astype(np.float32)
    normal = np.empty((3, *window.shape), dtype=np.float32)
    normal[0], normal[1], normal[2] = pose.rotation[0, 2], pose.rotation[1, 2], pose.rotation[2, 2]
    normal[1] -= 0.35 * band(frame - 0.5, 0.5)
    glare = lens * step(0.10, 0.02, np.abs((x % 0.9) - 0.35 - 0.6 * (y - at.eye_y) + 0.2 * lx)) * 0.10
    patch += glare
    patch *= 1.0 - 0.05 * lens
    paint = Paint(
        colour=palette.linear(who.glasses_colour)[:, None, None],
        normal=normal,
        depth=t.astype(np.float32),
        gloss=0.35,
    )
    canvas.lay(window, opaque, paint)
    return window, opaque


def _frame(who: Identity, x: Field, y: Field, spacing: float, width: float) -> tuple[Field, Field]:
    """Coverage of the rims and bridge, and of the lenses."""
    half_w, half_h, roundness, thick = _SHAPES[who.glasses]
    half_w, half_h = half_w * who.glasses_size, half_h * who.glasses_size
    centre = max(spacing + 0.01, half_w + 0.06)
    u, v = np.abs(x) - centre, y
    corner = roundness * half_h
    qx = np.abs(u) - (half_w - corner)
    qy = np.abs(v) - (half_h - corner)
    outside = np.hypot(np.maximum(qx, 0.0), np.maximum(qy, 0.0)) + np.minimum(np.maximum(qx, qy), 0.0) - corner
    rim_thick = thick * (1.0 + 1.3 * step(0.0, -0.12, v)) if who.glasses == "browline" else thick
    rim = np.abs(outside) - 0.5 * rim_thick
    bridge = np.maximum(np.abs(x) - (centre - half_w), np.abs(y + 0.07 - 0.35 * x * x) - 0.5 * max(thick, 0.026))
    hinge = np.maximum(np.abs(np.abs(x) - centre - half_w - 0.05) - 0.06, np.abs(y + 0.4 * half_h) - 0.5 * thick)
    return edge(np.minimum(np.minimum(rim, bridge), hinge), width), edge(outside, width)


def _arms(window: Window, who: Identity, spacing: float, eye_y: float, front: float, pose: Pose) -> Field:
    """Coverage of the arms that run back to the ears."""
    half_w, half_h, _, thick = _SHAPES[who.glasses]
    out = max(spacing, half_w * who.glasses_size + 0.06) + half_w * who.glasses_size + 0.09
    px, py = window.pixels()
    cover = np.zeros(window.shape, dtype=np.float32)
    for side in (-1.0, 1.0):
        if side * pose.rotation[0, 2] > 0.04:
            continue
        ends = np.array(
            [
                (side * out, eye_y + 0.05 - 0.4 * half_h, front - 0.02),
                (side * (who.cheek_width + 0.03), eye_y - 0.02, 0.05),
            ]
        )
        a, b = pose.project(ends)
        run = b - a
        length = float(run @ run) + 1e-6
        ax, ay, dx, dy = (float(v) for v in (*a, *run))
        share = np.clip(((px - ax) * dx + (py - ay) * dy) * (1.0 / length), 0.0, 1.0)
        away = np.hypot(px - ax - share * dx, py - ay - share * dy)
        cover = np.maximum(cover, edge(away - 0.42 * thick * pose.scale, 1.3))
    return cover.astype(np.float32)
