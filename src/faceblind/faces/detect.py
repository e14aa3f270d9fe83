"""What a face detector is to faceblind: a photograph in, faces with five points out, and facts for a fingerprint."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import ImageError, UsageError

Choice = Literal["central", "largest", "score", "only"]
"""Which face of a photograph is meant; see `choose_face`."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Face:
    """One face in a photograph, in its pixels (counted from the centre of the first)."""

    box: tuple[float, float, float, float]
    """Left, top, right, bottom."""
    score: float
    """How sure the detector is, 0 to 1 for the networks; detectors cannot be compared by it."""
    points: NDArray[np.float64]
    """(5, 2): see `faceblind.faces.align.POINTS`."""

    @property
    def area(self) -> float:
        """Area of the box in pixels."""
        left, top, right, bottom = self.box
        return max(right - left, 0.0) * max(bottom - top, 0.0)


class Detector(Protocol):
    """Finds faces. The same photograph gives the same faces, whatever else is going on."""

    def detect(self, image: NDArray[np.uint8]) -> list[Face]:
        """Find the faces of a (H, W, 3) uint8 RGB photograph, the best score first; none is an empty list.

        Safe to call from several threads; uses one.
        """

    def facts(self) -> dict[str, Any]:
        """Return what decides the faces (name, hash of the weights, sizes, thresholds), as JSON types."""


def choose_face(faces: Sequence[Face], shape: tuple[int, ...], choice: Choice = "central") -> Face:
    """Return the face that a photograph is about.

    Parameters
    ----------
    faces
        From `Detector.detect`.
    shape
        (height, width, ...) of the photograph.
    choice
        ``"central"``: the largest box, where a box counts for less the farther it is from the middle: its area is
        divided by ``1 + (2 d / s)^2``, d the distance of its centre from that of the photograph, s its shorter side.
        A face whose centre is at the edge counts for half. ``"largest"``: the largest box.
        ``"score"``: the one the detector is most sure of. ``"only"``: refuses photographs with several faces.
        Ties go to the earlier one.

    Raises
    ------
    ImageError
        There is no face, or several with ``"only"``.
    UsageError
        No such choice.
    """
    if choice not in get_args(Choice):
        raise UsageError(f"the choice of a face must be one of {', '.join(get_args(Choice))}, got {choice!r}")
    if not faces:
        raise ImageError("no face was found in it")
    if choice == "only" and len(faces) > 1:
        raise ImageError(f"{len(faces)} faces were found in it, and only photographs of one face are asked for")
    height, width = shape[:2]

    def worth(face: Face) -> float:
        if choice == "score":
            return face.score
        if choice == "largest":
            return face.area
        left, top, right, bottom = face.box
        away = math.hypot((left + right - width + 1) / 2, (top + bottom - height + 1) / 2)
        return face.area / (1.0 + (2.0 * away / min(height, width)) ** 2)

    return max(faces, key=worth)  # the first of equals
