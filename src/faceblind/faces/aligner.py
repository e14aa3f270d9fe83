"""A photograph to the aligned chip of the face it is about: detect, choose, cut; and a record of how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError, UsageError
from faceblind.faces.align import CHIP, INTERPOLATIONS, TEMPLATE, align
from faceblind.faces.detect import Choice, Detector, Face, choose_face


@dataclass(frozen=True, eq=False, kw_only=True)
class Aligned:
    """A chip and the face it shows."""

    chip: NDArray[np.uint8]
    """(size, size, 3) uint8 RGB."""
    face: Face
    faces: int
    """How many the detector found."""


class Aligner:
    """Cuts the aligned chip of one face out of a photograph; safe to call from several threads.

    Parameters
    ----------
    detector
        From `open_detector`, or your own.
    choice
        Which face, if there are several; see `choose_face`.
    size, interpolation
        See `warp`.
    """

    def __init__(
        self, detector: Detector, *, choice: Choice = "central", size: int = CHIP, interpolation: str = "bilinear"
    ) -> None:
        if choice not in get_args(Choice):
            raise UsageError(f"the choice of a face must be one of {', '.join(get_args(Choice))}, got {choice!r}")
        if size < 1:
            raise DataError(f"size must be at least 1 pixel, got {size}")
        if interpolation not in INTERPOLATIONS:
            raise DataError(f"interpolation must be one of {', '.join(INTERPOLATIONS)}, got {interpolation!r}")
        self.detector, self.choice, self.size, self.interpolation = detector, choice, size, interpolation

    def __call__(self, image: NDArray[np.uint8]) -> Aligned:
        """Align a (H, W, 3) uint8 RGB photograph; raises `ImageError` when there is no face, or not the one asked for."""
        faces = self.detector.detect(image)
        face = choose_face(faces, image.shape, self.choice)
        chip = align(image, face.points, size=self.size, interpolation=self.interpolation)
        return Aligned(chip=chip, face=face, faces=len(faces))

    def steps(self) -> dict[str, Any]:
        """Return everything that decides a chip's pixels, as JSON types: part of an encoder's fingerprint."""
        return {
            "choice": self.choice,
            "detector": self.detector.facts(),
            "interpolation": self.interpolation,
            "size": self.size,
            "template": TEMPLATE.tolist(),
            "transform": "least-squares similarity; pixels averaged in blocks below half size; black outside",
        }
