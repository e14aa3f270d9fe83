"""Order, names and looks of the releases: one colour, one dash and one marker each, the same in every plot.

The colours (in style.css, as ``--c-...``) are from Okabe and Ito's colour-blind safe set; dash and marker repeat
what the colour says, so a grey print reads as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from faceblind.audit.report.text import short


@dataclass(frozen=True)
class Look:
    """How a series is drawn: CSS class, dash pattern and marker."""

    css: str
    dash: str
    marker: str


@dataclass(frozen=True)
class _Release:
    name: str
    explanation: str
    look: Look


_RELEASES: Final[dict[str, _Release]] = {
    "raw": _Release("Raw", "the vectors as the encoder gives them", Look("c-raw", "", "circle")),
    "isp": _Release("After ISP", "the same vectors after the eraser", Look("c-isp", "", "square")),
    "isp-fisher": _Release(
        "After Fisher ISP", "directions by between- over within-person variance", Look("c-other1", "5 5", "plus")
    ),
    "isp-ratio": _Release(
        "After ratio ISP",
        "the directions of ISP in order of between- over within-person variance",
        Look("c-other2", "1 3", "down"),
    ),
    "sal": _Release("After SAL", "covariance with identities removed", Look("c-isp", "7 3", "diamond")),
    "leace": _Release(
        "After LEACE", "covariance with identities removed by the smallest edit", Look("c-planted", "", "triangle")
    ),
    "inlp": _Release("After INLP", "directions of one classifier after another removed", Look("c-other1", "", "cross")),
    "rlace": _Release("After RLACE", "directions removed in a game against a classifier", Look("c-other2", "", "star")),
    "erased": _Release("After erasing", "the same vectors after the eraser", Look("c-isp", "", "square")),
    "random": _Release(
        "Random control",
        "a random subspace of the same size removed: what removing anything costs",
        Look("c-random", "7 3", "triangle"),
    ),
    "pca": _Release(
        "PCA control",
        "the directions of largest variance removed, no identity labels used",
        Look("c-pca", "2 2.5", "diamond"),
    ),
    "permuted": _Release(
        "Permuted control",
        "the eraser fitted on shuffled identity labels: what it does without knowing who is who",
        Look("c-permuted", "9 3 2 3", "cross"),
    ),
    "planted": _Release(
        "Planted leak",
        "erased vectors with an identity code put back on purpose",
        Look("c-planted", "4 2 1 2", "star"),
    ),
}

_SPARE: Final = (Look("c-other1", "5 5", "plus"), Look("c-other2", "1 3", "down"))

MARKERS: Final = ("circle", "square", "triangle", "diamond", "cross", "down", "plus", "star")
"""Shapes for highlighted identities, in order."""


def erased_release(names: Iterable[str], method: str | None) -> str | None:
    """Return the release that the audited eraser made, or None when nothing was erased.

    It is called by the eraser's method (``isp`` unless another map was audited); whatever else is neither raw, nor a
    control, nor planted comes after that.
    """
    candidates = sorted(set(names) - {"raw", "random", "pca", "permuted", "planted"})
    for name in (method, "erased", "isp"):
        if name in candidates:
            return name
    return candidates[0] if candidates else None


def release_order(names: Iterable[str]) -> list[str]:
    """Return the releases once each: the known ones first in their fixed order, others by name."""
    known = list(_RELEASES)
    return sorted(set(names), key=lambda name: (known.index(name) if name in known else len(known), name))


def release_name(name: str) -> str:
    """Return the name to print; unknown releases keep their own."""
    return _RELEASES[name].name if name in _RELEASES else short(name)


def release_explanation(name: str) -> str:
    """Return what a release is, in a clause; empty when unknown."""
    return _RELEASES[name].explanation if name in _RELEASES else ""


def look(name: str) -> Look:
    """Return how a release is drawn."""
    if name in _RELEASES:
        return _RELEASES[name].look
    return _SPARE[sum(name.encode()) % len(_SPARE)]
