"""The place behind the person: one of the templates, varied and thrown out of focus."""

from __future__ import annotations

import numpy as np

from faceblind.faces.synthetic.brush import Brush
from faceblind.faces.synthetic.fields import Field
from faceblind.faces.synthetic.indoors import INDOORS
from faceblind.faces.synthetic.outdoors import OUTDOORS
from faceblind.faces.synthetic.pillow import Image, ImageFilter
from faceblind.faces.synthetic.shot import Shot

TEMPLATES = INDOORS + OUTDOORS
_SIDE = 128


def scene_of(shot: Shot, side: int) -> Field:
    """Linear light (3, side, side) of the shot's background."""
    rng = np.random.default_rng(shot.scene_seed)
    brush = Brush(rng, _SIDE)
    TEMPLATES[shot.background](brush)
    image = brush.image
    if rng.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    # A random part of the scene, as from another place in the room.
    part = float(rng.uniform(0.45, 0.9)) * _SIDE
    left, top = (float(rng.uniform(0.0, _SIDE - part)) for _ in range(2))
    focus = float(rng.choice([0.011, 0.02, 0.036], p=[0.3, 0.4, 0.3]))
    image = image.filter(ImageFilter.GaussianBlur(focus * part))
    box = (left, top, left + part, top + part)
    image = image.resize((side, side), Image.Resampling.BICUBIC, box=box)
    level = shot.ambient * 1.15 + 0.2 * shot.key
    level *= float(rng.uniform(0.7, 1.2))
    tone = np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1)).astype(np.float32)
    tone *= tone
    # Another hour, another lamp: the same place is not the same colour twice.
    cast = np.exp(rng.normal(0.0, 0.22, 3)) * (level / 255.0**2)
    tone *= cast.astype(np.float32)[:, None, None]
    return tone
