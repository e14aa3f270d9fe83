"""One photograph, start to end: layers from back to front, light, camera, and the ground truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind.faces.synthetic.body import lay_body
from faceblind.faces.synthetic.camera import develop
from faceblind.faces.synthetic.canvas import Canvas
from faceblind.faces.synthetic.ears import lay_ears
from faceblind.faces.synthetic.face import face_of, lay_face
from faceblind.faces.synthetic.fields import Field
from faceblind.faces.synthetic.glasses import lay_glasses
from faceblind.faces.synthetic.hair import lay_back_hair, lay_hair
from faceblind.faces.synthetic.head import pose_of
from faceblind.faces.synthetic.identity import Identity
from faceblind.faces.synthetic.pillow import Image
from faceblind.faces.synthetic.scene import scene_of
from faceblind.faces.synthetic.shading import lit
from faceblind.faces.synthetic.shot import Shot
from faceblind.faces.synthetic.styles import style_of

_OVERSAMPLING = 1.0
"""Canvas pixels per picture pixel. Every edge is antialiased as it is painted, so 1 is enough."""


@dataclass(frozen=True)
class Rendering:
    """A photograph and its ground truth."""

    image: NDArray[np.uint8]
    """(size, size, 3) sRGB."""
    mask: NDArray[np.bool_]
    """(size, size), True on the face."""
    landmarks: NDArray[np.float64]
    """(5, 2) x and y; pixel (i, j) covers [i, i + 1) x [j, j + 1)."""


def render(who: Identity, shot: Shot, size: int) -> Rendering:
    """Render one photograph of one person."""
    side = _side(size)
    pose = pose_of(shot, side)
    canvas = Canvas(side)
    style = style_of(who)
    face = face_of(who, shot, pose)
    if style is not None:
        lay_back_hair(canvas, who, style, pose)
    lay_body(canvas, who, shot, pose)
    proper = lay_face(canvas, face, who, shot, pose)
    lay_ears(canvas, who, pose)
    if who.glasses != "none":
        window, opaque = lay_glasses(canvas, face, who, shot, pose)
        proper[window.slices] *= 1.0 - opaque
    if style is not None:
        index, hair = lay_hair(canvas, who, style, pose)
        proper.reshape(-1)[index] *= 1.0 - hair
    light = lit(canvas, shot, pose.scale, scene_of(shot, side))
    mask = _resized(proper, size) > 0.5
    return Rendering(develop(light, shot, size), mask, face.landmarks * (size / side))


def landmarks_of(who: Identity, shot: Shot, size: int) -> NDArray[np.float64]:
    """Landmarks (5, 2) that `render` would give, in pixels."""
    side = _side(size)
    return face_of(who, shot, pose_of(shot, side)).landmarks * (size / side)


def _side(size: int) -> int:
    """Choose the side of the canvas: a multiple of 4, so that it can be pooled."""
    return 4 * max(12, round(size * _OVERSAMPLING / 4.0))


def _resized(plane: Field, size: int) -> Field:
    image = Image.fromarray(plane).resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(image, dtype=np.float32)
