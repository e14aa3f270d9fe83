"""Numbers printed in the DCTDP paper (arXiv 2207.07316, ECCV 2022), in percent and dB; never mixed with measured ones."""

from __future__ import annotations

from typing import Final

SETS: Final = ("LFW", "CFP-FP", "AgeDB", "CALFW", "CPLFW", "IJB-B", "IJB-C")
"""Columns of Tab. 1: accuracy on five sets, TPR at FPR 1e-4 on the two IJB sets."""

TAB1: Final[dict[str, tuple[float, ...]]] = {
    "ArcFace": (99.60, 98.32, 95.88, 94.16, 92.68, 91.02, 93.25),
    "CosFace": (99.63, 98.52, 95.83, 93.96, 93.30, 90.79, 93.14),
    "PEEP": (98.41, 74.47, 87.47, 90.06, 79.58, 5.82, 6.02),
    "Cloak": (98.91, 87.97, 92.60, 92.18, 83.43, 33.58, 33.82),
    "InstaHide": (96.53, 83.20, 79.58, 86.24, 81.03, 61.88, 69.02),
    "DCTDP ArcFace, eps 0.5": (99.48, 97.20, 94.37, 93.47, 90.60, 89.33, 91.22),
    "DCTDP CosFace, eps 0.5": (99.47, 97.16, 94.13, 93.36, 90.88, 89.37, 91.21),
}

FIG7_SETS: Final = ("LFW", "CFP-FP", "CPLFW", "AgeDB", "CALFW")
FIG7_PSNR: Final[dict[str, tuple[float, ...]]] = {
    "Cloak": (20.292, 20.069, 19.705, 19.946, 20.327),
    "InstaHide": (23.519, 22.807, 22.546, 23.271, 23.010),
    "DCTDP": (14.281, 13.145, 13.515, 13.330, 13.330),
}
FIG7_SIMILARITY: Final[dict[str, tuple[float, ...]]] = {
    "Cloak": (0.564, 0.464, 0.578, 0.574, 0.526),
    "InstaHide": (0.729, 0.649, 0.732, 0.737, 0.693),
    "DCTDP": (0.214, 0.175, 0.264, 0.250, 0.202),
}

FIG8_BUDGETS: Final = (0.5, 1.0, 2.0, 4.0)
FIG8_DROP: Final[dict[str, tuple[float, ...]]] = {
    "CPLFW": (2.08, 1.45, 1.82, 0.18),
    "AgeDB": (1.52, 1.47, 1.42, 0.55),
    "CFP-FP": (1.12, 0.97, 0.97, 0.19),
    "CALFW": (0.70, 0.41, 0.56, 0.18),
    "LFW": (0.12, 0.18, 0.08, 0.07),
}
"""Accuracy drop in points, read off the figure."""

FIG8_RIGHT: Final = ((19.7, 95.3), (17.8, 93.4), (14.7, 93.3), (13.5, 92.5))
"""PSNR of recovered faces and accuracy, read off the figure; the data set is not stated."""

TAB3_EQUAL: Final = 65.966
"""LFW accuracy with equal budgets of mean 0.5: noise put on a network that was trained without it."""

TEXT_DROPS: Final = ((("LFW",), 0.14), (("CALFW",), 0.65), (("CFP-FP", "AgeDB", "CPLFW"), 2.5))
"""Average drops against RGB that the text states, over both heads."""


def table_drop(sets: tuple[str, ...]) -> float:
    """Return the average drop of Tab. 1 over the named sets and both heads, in points."""
    found = [
        TAB1[head][SETS.index(name)] - TAB1[f"DCTDP {head}, eps 0.5"][SETS.index(name)]
        for head in ("ArcFace", "CosFace")
        for name in sets
    ]
    return sum(found) / len(found)
