"""Attackers: they learn from released vectors and map vectors into a space where cosine is the score."""

from faceblind.attack.base import Attacker, Candidate, draw_images, freeze
from faceblind.attack.cosine import Cosine
from faceblind.attack.ridge import RidgeProbe

__all__ = ["Attacker", "Candidate", "Cosine", "RidgeProbe", "draw_images", "freeze"]
