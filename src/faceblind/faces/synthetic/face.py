"""The bare head, painted: skin, eyes, brows, nose, mouth and beard, with its ground truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind.faces.synthetic.canvas import Canvas, Paint, window_of
from faceblind.faces.synthetic.eyes import paint_brows, paint_eyes
from faceblind.faces.synthetic.fields import Field
from faceblind.faces.synthetic.flesh import Flesh, paint_skin
from faceblind.faces.synthetic.head import Pose, Solid, meet, outline, solid_of
from faceblind.faces.synthetic.identity import Identity
from faceblind.faces.synthetic.mouth import BEARD_THICKNESS, paint_beard, paint_mouth, paint_nostrils
from faceblind.faces.synthetic.sculpt import Layout, layout_of, relief_of
from faceblind.faces.synthetic.shot import Shot


@dataclass(frozen=True)
class Face:
    """The head of one shot: its solid, and where its features are."""

    solid: Solid
    layout: Layout
    landmarks: NDArray[np.float64]
    """(5, 2) render pixels."""


def face_of(who: Identity, shot: Shot, pose: Pose) -> Face:
    """Build the solid of one shot and find its landmarks."""
    at = layout_of(who, shot)
    beard = BEARD_THICKNESS.get(who.beard, 0.0)
    solid = solid_of(outline(who, at.jaw, beard), relief_of(who, shot, at, beard))
    corner = (at.mouth_half, at.mouth_y + at.corner_y)
    spots = [
        (-at.eye_x, at.eye_y),
        (at.eye_x, at.eye_y),
        (0.0, at.nose_y),
        (-corner[0], corner[1]),
        corner,
    ]
    points = np.array([(x, y, solid.surface(x, y)) for x, y in spots])
    return Face(solid, at, pose.project(points))


def lay_face(canvas: Canvas, face: Face, who: Identity, shot: Shot, pose: Pose) -> Field:
    """Lay the head on the canvas; returns the coverage of the face proper, (side, side).

    The face proper is the front of the head below the hairline: no scalp, no ears, no neck. Layers that come later
    (hair, spectacle frames) take their share away.
    """
    proper = np.zeros((canvas.side, canvas.side), dtype=np.float32)
    middle = 0.5 * (who.chin_length + 0.13 * face.layout.jaw - who.skull_height)
    tall = 0.5 * (who.chin_length + 0.13 * face.layout.jaw + who.skull_height) + 0.24
    centre = pose.view(np.array([[0.0, middle, 0.1]]))[0]
    cx, cy = (float(centre[k] * pose.scale + pose.origin[k]) for k in (0, 1))
    wide, high = 1.2 * pose.scale, tall * pose.scale
    window = window_of(canvas.side, (cx - wide, cx + wide), (cy - high, cy + high))
    if window.empty:
        return proper
    px, py = window.pixels()
    open_ = 1.0 - (((px - cx) * (1.0 / wide)) ** 2 + ((py - cy) * (1.0 / high)) ** 2)
    active = np.flatnonzero(open_ > 0.0)
    rows, columns = np.divmod(active, window.shape[1])
    vx = (px.ravel()[columns] - pose.origin[0]) * (1.0 / pose.scale)
    vy = (py.ravel()[rows] - pose.origin[1]) * (1.0 / pose.scale)
    start = 0.25 + 1.3 * np.sqrt(open_.ravel()[active])
    hits = meet(face.solid, pose, vx, vy, start)
    shown = np.flatnonzero(hits.coverage)
    active = window.flat(active[hits.index[shown]], canvas.side)
    flesh = Flesh(
        x=hits.x[shown],
        y=hits.y[shown],
        colour=np.empty((3, active.size), dtype=np.float32),
        normal=np.ascontiguousarray(hits.normal[:, shown]),
        gloss=np.zeros(active.size, dtype=np.float32),
        pixel=1.0 / pose.scale,
    )
    at = face.layout
    paint_skin(flesh, who, at)
    paint_nostrils(flesh, who, at)
    paint_beard(flesh, who, at)
    paint_mouth(flesh, who, at)
    paint_eyes(flesh, who, shot, at)
    paint_brows(flesh, who, shot, at)

    coverage = hits.coverage[shown]
    paint = Paint(colour=flesh.colour, normal=flesh.normal, depth=hits.depth[shown], gloss=flesh.gloss, skin=1.0)
    canvas.lay_at(active, coverage, paint)
    limit = who.hairline + 0.02
    front = (flesh.y > -limit) & (hits.z[shown] > 0.12)
    proper.reshape(-1)[active] = coverage * front
    return proper
