"""Embeddings of a whole set of faces by a trained model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from faceblind._errors import UsageError
from faceblind.frequency.batches import calibration, generator_of, parts, read_batches, row_numbers
from faceblind.frequency.faces import FaceSource
from faceblind.frequency.model import Recogniser


def embed_faces(
    model: Recogniser,
    source: FaceSource,
    rows: ArrayLike | None = None,
    *,
    noise: bool = True,
    flip: bool = False,
    seed: int = 0,
    batch: int = 64,
    progress: Callable[[int, int], None] | None = None,
) -> NDArray[np.float32]:
    """Release faces and embed them, (n, d) unit rows.

    Each batch has a generator of its own from `seed` and its number: the same seed and batch size give the same releases.

    Raises
    ------
    DataError
        Rows that the source does not have, or faces of another size.
    UsageError
        A batch of none.
    """
    if batch < 1:
        raise UsageError(f"batch must be at least 1, got {batch}")
    taken = row_numbers(source, rows)
    found = np.empty((taken.size, model.recipe.embedding), dtype=np.float32)
    device = next(model.parameters()).device
    model.eval()
    done = 0
    with torch.no_grad():
        for number, (_, pixels) in enumerate(read_batches(source, parts(taken, batch))):
            generator = generator_of(seed, number, device)
            embedded = model.embed(pixels.to(device), generator, noise=noise, flip=flip)
            found[done : done + len(embedded)] = embedded.cpu().numpy()
            done += len(embedded)
            if progress is not None:
                progress(done, taken.size)
    return found


def make_ready(model: Recogniser, source: FaceSource, rows: NDArray[np.intp]) -> None:
    """Give a loaded release what is not saved with it, from faces of the people it was trained on (InstaHide's pool)."""
    if not model.release.calibrated:
        model.release.calibrate(calibration(source, rows))
