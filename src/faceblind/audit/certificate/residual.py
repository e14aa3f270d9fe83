"""What numerical precision leaves in the removed directions: the largest ``|basis^T z|`` after `apply`, by storage."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind.erase import Projector

PROBES = 256
_DTYPES = ("float32", "float16")


def residual_of(projector: Projector, vectors: NDArray[np.float32]) -> dict[str, dict[str, float]]:
    """Apply to (n, d) vectors and measure what is left along the removed directions, per storage type.

    Returns
    -------
    dict
        For ``float32`` and ``float16``: ``largest`` and ``mean`` of ``|basis^T z|`` over rows and directions, where z is
        the released row of unit length as stored. An affine map leaves the same reading in all rows, before they are
        scaled: for it z is the row before scaling, less the mean.
    """
    mean = projector.mean
    released = projector.apply(vectors, renormalise=mean is None).vectors
    found = {}
    for name in _DTYPES:
        stored = released.astype(name).astype(np.float64)
        left = np.abs((stored if mean is None else stored - mean) @ projector.basis)
        found[name] = {"largest": float(left.max()), "mean": float(left.mean())}
    return found


def probe_vectors(dim: int) -> NDArray[np.float32]:
    """Return fixed (256, dim) vectors, the same everywhere, for a check that needs no table."""
    rows, columns = np.arange(1, PROBES + 1)[:, None], np.arange(1, dim + 1)[None, :]
    return np.asarray(np.cos(np.sqrt(2.0) * rows * columns + rows), dtype=np.float32)


def residuals(projector: Projector, test_vectors: NDArray[np.float32]) -> dict[str, Any]:
    """Return the residual on the test images and on the fixed probe vectors."""
    return {
        "measure": "|basis^T z| of released unit vectors z, largest and mean over rows and removed directions",
        "test_images": residual_of(projector, test_vectors),
        "probe_vectors": residual_of(projector, probe_vectors(projector.dim)),
    }
