"""Boxes that mean the same face: non-maximum suppression."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def suppress(boxes: NDArray[np.float64], scores: NDArray[np.float64], *, overlap: float) -> NDArray[np.intp]:
    """Keep the best of boxes that overlap.

    Best first, a box is kept unless one kept before covers too much of it, in terms of intersection over union.

    Parameters
    ----------
    boxes
        (n, 4): left, top, right, bottom.
    scores
        (n,).
    overlap
        Intersection over union above which two boxes are the same face.

    Returns
    -------
    (m,) positions
        Of the kept boxes, the best score first; of equal scores the earlier box first.
    """
    order = np.argsort(-scores, kind="stable")
    areas = np.prod(np.maximum(boxes[:, 2:] - boxes[:, :2], 0.0), axis=1)
    kept: list[int] = []
    while order.size:
        best, rest = order[0], order[1:]
        kept.append(int(best))
        low = np.maximum(boxes[rest, :2], boxes[best, :2])
        high = np.minimum(boxes[rest, 2:], boxes[best, 2:])
        common = np.prod(np.maximum(high - low, 0.0), axis=1)
        union = areas[rest] + areas[best] - common
        order = rest[common <= overlap * union]
    return np.array(kept, dtype=np.intp)
