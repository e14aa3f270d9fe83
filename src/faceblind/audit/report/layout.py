"""Vectors to two dimensions: t-SNE when scikit-learn is installed, else the two leading principal components."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from faceblind.audit.report.extras import Method

_PERPLEXITY = 30.0
_ITERATIONS = 600
_FEWEST = 8
"""Below this many points t-SNE has no neighbourhoods to keep; principal components are drawn."""


def lay_out(unit: NDArray[np.float32], *, seed: int) -> tuple[Method, NDArray[np.float64]]:
    """Lay out unit vectors in two dimensions.

    Parameters
    ----------
    unit : (n, d) float32
        Rows of unit length, so that Euclidean neighbours are cosine neighbours.
    seed
        Random state of t-SNE.

    Returns
    -------
    method
        ``"t-SNE"`` or ``"PCA"``: what was done.
    xy : (n, 2) float64
    """
    centred = np.asarray(unit, dtype=np.float64)
    centred = centred - centred.mean(axis=0)
    leading = principal(centred)
    # t-SNE divides by the spread of its start; identical vectors have none.
    if unit.shape[0] < _FEWEST or float(np.ptp(leading[:, 0])) < 1e-9:
        return "PCA", leading
    try:
        import sklearn.manifold
        import threadpoolctl
    except ImportError:
        return "PCA", leading
    tsne = sklearn.manifold.TSNE(
        n_components=2,
        init="pca",
        perplexity=min(_PERPLEXITY, (unit.shape[0] - 1) / 3),
        learning_rate="auto",
        max_iter=_ITERATIONS,
        random_state=seed,
    )
    # One thread: sums in another order would move points, and the same input must give the same picture.
    with threadpoolctl.threadpool_limits(limits=1):
        xy = tsne.fit_transform(np.asarray(unit, dtype=np.float32))
    return "t-SNE", np.asarray(xy, dtype=np.float64)


def principal(centred: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the first two principal components of centred rows (n, d) as (n, 2); signs are fixed."""
    # The smaller Gram matrix is enough, and n x n is never built for a long table.
    values, vectors = np.linalg.eigh(centred.T @ centred)
    axes = vectors[:, np.argsort(values)[::-1][:2]]
    top = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
    axes = axes * np.where(top < 0, -1.0, 1.0)
    xy = np.zeros((centred.shape[0], 2))
    xy[:, : axes.shape[1]] = centred @ axes
    return xy
