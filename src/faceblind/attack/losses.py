"""What networks are trained to do: name training identities, or bring images of one identity together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from faceblind.attack.network import Floats


def cross_entropy(logits: Floats, codes: NDArray[np.intp]) -> tuple[float, Floats]:
    """Return the mean cross-entropy of softmax outputs (n, m) and its derivative by them; `logits` is overwritten."""
    rows = np.arange(codes.size)
    logits -= logits.max(axis=1, keepdims=True)
    chosen = logits[rows, codes].astype(np.float64)
    np.exp(logits, out=logits)
    total = logits.sum(axis=1, keepdims=True)
    loss = float(np.mean(np.log(total[:, 0].astype(np.float64)) - chosen))
    logits /= total
    logits[rows, codes] -= 1
    logits /= codes.size
    return loss, logits


def supervised_contrastive(outputs: Floats, codes: NDArray[np.intp], temperature: float) -> tuple[float, Floats]:
    """Return the supervised contrastive loss of (n, q) outputs under cosine, and its derivative by them.

    Every image should find the others of its identity among all other images of the batch (Khosla et al. 2020, with the
    mean outside the logarithm). Images whose identity is alone in the batch are only there to be told apart.
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", outputs, outputs))[:, None] + np.finfo(outputs.dtype).tiny
    unit = outputs / lengths
    scores = unit @ unit.T
    scores /= temperature
    np.fill_diagonal(scores, -np.inf)
    scores -= scores.max(axis=1, keepdims=True)
    share = np.exp(scores)
    total = share.sum(axis=1, keepdims=True)
    share /= total
    wanted = (codes[:, None] == codes[None, :]).astype(outputs.dtype)
    np.fill_diagonal(wanted, 0)
    others = wanted.sum(axis=1, keepdims=True)
    paired = others > 0
    wanted /= np.maximum(others, 1)
    anchors = max(int(paired.sum()), 1)
    np.fill_diagonal(scores, 0)
    loss = float(np.sum(paired * np.log(total)) - np.sum(wanted * scores)) / anchors
    slope = (share * paired - wanted) / outputs.dtype.type(anchors * temperature)
    by_unit = (slope + slope.T) @ unit
    by_unit -= unit * np.einsum("ij,ij->i", by_unit, unit)[:, None]  # along the row, length normalisation takes it off
    return loss, by_unit / lengths
