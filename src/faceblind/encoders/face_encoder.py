"""Face recognition networks as encoders: find the face, cut the chip, and let an ordinary encoder read it.

They are the positive control of an audit: they were made to read identity, so an audit that finds little with them has
gone wrong before the encoder. What ruins them without an error is the way to their input: a photograph that is not
aligned, another template, channels in the other order. All of that is in the fingerprint.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import EncoderError, ImageError
from faceblind.data.meta import Fingerprint
from faceblind.encoders.encoder import Encoder
from faceblind.faces.align import CHIP
from faceblind.faces.aligner import Aligner

ALIGNED = "aligned"
"""In place of a detector: the photographs are aligned chips already."""


class FaceEncoder(Encoder):
    """An encoder of aligned chips, made to take photographs.

    Photographs without a face (or with several, if the aligner is told so) raise `ImageError` in `prepare`, which an
    embedding run lists as skipped.

    Parameters
    ----------
    network
        Encoder of (112, 112, 3) uint8 RGB chips; its preparation of pixels stays its own.
    aligner
        Finds and cuts the chip; None when the photographs are chips of that size already.

    Raises
    ------
    EncoderError
        The aligner cuts chips of another size, or the network's fingerprint has no preprocessing to add to.
    """

    def __init__(self, network: Encoder, aligner: Aligner | None) -> None:
        if aligner is not None and aligner.size != CHIP:
            raise EncoderError(
                f"the aligner cuts chips of {aligner.size} pixels, face recognition networks take {CHIP}"
            )
        self._network, self._aligner = network, aligner
        steps = {"source": f"photographs are aligned {CHIP}x{CHIP} chips"} if aligner is None else aligner.steps()
        self._fingerprint = with_faces(network.fingerprint, steps)

    @property
    def fingerprint(self) -> Fingerprint:
        """Weights, preprocessing (detection and alignment included) and pooling that the vectors come from."""
        return self._fingerprint

    @property
    def projector(self) -> str | None:
        """Digest of the projector that is part of the network, if one is."""
        return self._network.projector

    @property
    def dim(self) -> int:
        """Length of the vectors that the network gives."""
        return self._network.dim

    def prepare(self, image: NDArray[np.uint8]) -> NDArray[Any]:
        """Find, choose, cut and prepare the face of one (H, W, 3) uint8 RGB photograph.

        Raises
        ------
        ImageError
            There is no face in it, or it is no chip although chips were promised.
        """
        return self._network.prepare(self.chip(image))

    def chip(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the (112, 112, 3) chip that the network sees of a photograph; raises as `prepare` does."""
        if self._aligner is not None:
            return self._aligner(image).chip
        require_chip(image, CHIP)
        return image

    def run(self, prepared: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        """Return the network's vectors of prepared chips."""
        return self._network.run(prepared)


def require_chip(image: NDArray[np.uint8], size: int) -> None:
    """Raise `ImageError` unless a photograph has the size of an aligned chip."""
    height, width = image.shape[:2]
    if (height, width) != (size, size):
        raise ImageError(
            f"{width}x{height} pixels is no aligned {size}x{size} chip: align it, or open the encoder with a detector"
        )


def with_faces(fingerprint: Fingerprint, steps: dict[str, Any]) -> Fingerprint:
    """Return a network's fingerprint with the way to its chips in the preprocessing, under ``"faces"``."""
    try:
        pixels = json.loads(fingerprint.preprocessing)
    except ValueError as error:
        raise EncoderError(f"the preprocessing of {fingerprint.encoder!r} is not JSON: {error}") from error
    if not isinstance(pixels, dict):
        raise EncoderError(f"the preprocessing of {fingerprint.encoder!r} is no JSON object")
    text = json.dumps({**pixels, "faces": steps}, sort_keys=True, separators=(",", ":"))
    return replace(fingerprint, preprocessing=text)
