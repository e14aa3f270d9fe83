"""Would a face recogniser know the person in a recovered picture? Feature similarity and re-identification."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind.data.embeddings import unit_rows
from faceblind.encoders import open_encoder
from faceblind.encoders.face_encoder import ALIGNED
from faceblind.frequency.attacks.matching import match, point
from faceblind.frequency.chips import fit
from faceblind.frequency.quality import over_people

Judge = Callable[[NDArray[np.uint8]], NDArray[np.float32]]
"""Embeds images (b, H, W, 3) as unit rows (b, d)."""
SIDE = 112


def open_judge(name: str, *, weights: str | Path | None = None, threads: int | None = None) -> Judge:
    """Open a face recogniser for aligned faces of any size, such as ``edgeface-xs`` with its ONNX file.

    Raises
    ------
    EncoderError
        See `faceblind.encoders.open_encoder`.
    """
    encoder = open_encoder(name, weights=weights, detector=ALIGNED, threads=threads)

    def judge(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        chips = [fit(image, (SIDE, SIDE)) for image in images]
        return unit_rows(encoder.run([encoder.prepare(chip) for chip in chips]))

    return judge


def feature_similarity(
    recovered: NDArray[np.float32], original: NDArray[np.float32], identity: NDArray[np.str_], *, seed: int = 0
) -> dict[str, float]:
    """Return the mean cosine of each recovered face with its original, (n, d) unit rows each, with an interval over people."""
    return over_people(np.einsum("nd,nd->n", recovered, original).astype(np.float64), identity, seed=seed)


def reidentify(
    recovered: NDArray[np.float32],
    original: NDArray[np.float32],
    gallery: NDArray[np.float32],
    identity: NDArray[np.str_],
    gallery_identity: NDArray[np.str_],
    *,
    far: float = 1e-2,
    seed: int = 0,
) -> dict[str, Any]:
    """Match recovered faces with *other* photographs of the people.

    Parameters
    ----------
    recovered, original : (n, d) float32
        Unit rows.
    gallery : (m, d) float32
        Other photographs of the same people.
    far
        Target FAR; the threshold is set on these people, where the attacker is strongest.

    Returns
    -------
    dict
        An operating point, with ``original`` (the true faces in their place: the ceiling) and ``null`` (recovered faces given
        to other people: chance).
    """
    found = match(recovered, identity, gallery, gallery_identity, far=far, seed=seed)
    true = point(original, identity, gallery, gallery_identity, far=far, seed=seed) | {"draws": None}
    return found | {"original": true}
