"""Erasers: fixed maps that remove identity from embeddings, the controls they must beat, and the saved artefact."""

from faceblind.erase.angles import SubspaceComparison, compare_projectors, overlap, principal_angles, principal_cosines
from faceblind.erase.base import Eraser, LinearEraser, MomentEraser
from faceblind.erase.controls import PCAEraser, PermutedISP, RandomEraser
from faceblind.erase.directions import DEFAULT_RANK, Directions
from faceblind.erase.fisher import FisherISP, RatioISP
from faceblind.erase.inlp import INLP
from faceblind.erase.isp import ISP
from faceblind.erase.leace import LEACE
from faceblind.erase.moments import IdentityMoments
from faceblind.erase.projector import Applied, Projector
from faceblind.erase.rank import RankChoice, smallest_rank
from faceblind.erase.rlace import RLACE
from faceblind.erase.sal import SAL

__all__ = [
    "DEFAULT_RANK",
    "INLP",
    "ISP",
    "LEACE",
    "RLACE",
    "SAL",
    "Applied",
    "Directions",
    "Eraser",
    "FisherISP",
    "IdentityMoments",
    "LinearEraser",
    "MomentEraser",
    "PCAEraser",
    "PermutedISP",
    "Projector",
    "RandomEraser",
    "RankChoice",
    "RatioISP",
    "SubspaceComparison",
    "compare_projectors",
    "overlap",
    "principal_angles",
    "principal_cosines",
    "smallest_rank",
]
