"""Attackers: they learn from released vectors and map vectors into a space where cosine is the score."""

from faceblind.attack.base import Attacker, Candidate, draw_images, freeze
from faceblind.attack.best_effort import BestEffort
from faceblind.attack.cosine import Cosine
from faceblind.attack.lda import LDA
from faceblind.attack.mlp import MLPProbe
from faceblind.attack.plda import PLDA
from faceblind.attack.ridge import RidgeProbe
from faceblind.attack.wccn import WCCN

__all__ = [
    "LDA",
    "PLDA",
    "WCCN",
    "Attacker",
    "BestEffort",
    "Candidate",
    "Cosine",
    "MLPProbe",
    "RidgeProbe",
    "draw_images",
    "freeze",
]
