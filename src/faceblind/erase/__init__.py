"""Erasers: fixed maps that remove identity from embeddings, the controls they must beat, and the saved artefact."""

from faceblind.erase.base import Eraser, LinearEraser
from faceblind.erase.controls import PCAEraser, PermutedISP, RandomEraser
from faceblind.erase.isp import ISP
from faceblind.erase.moments import IdentityMoments
from faceblind.erase.projector import Applied, Projector
from faceblind.erase.rank import RankChoice, smallest_rank

__all__ = [
    "ISP",
    "Applied",
    "Eraser",
    "IdentityMoments",
    "LinearEraser",
    "PCAEraser",
    "PermutedISP",
    "Projector",
    "RandomEraser",
    "RankChoice",
    "smallest_rank",
]
