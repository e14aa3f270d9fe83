"""Synthetic people: labelled portraits drawn from a seed, so that demos and tests never need a real face.

Each person has fixed traits (`identity`), each photograph its own pose, expression, light, place, dress and camera
(`shot`), drawn independently. The head is a solid in three dimensions that is posed, painted and lit; hair, ears,
spectacles, body and background are laid around it. Nothing here resembles a real person except by chance.
"""

from __future__ import annotations

from faceblind.faces.synthetic.folder import render_folder
from faceblind.faces.synthetic.people import Portrait, SyntheticPeople
from faceblind.faces.synthetic.sheet import contact_sheet
from faceblind.faces.synthetic.shot import SCENES

__all__ = ["SCENES", "Portrait", "SyntheticPeople", "contact_sheet", "render_folder"]
