"""Covariances made fit for inversion: shrunk towards a sphere, and split into a pair of half powers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from faceblind._errors import UsageError
from faceblind.erase.threads import one_thread

Shrinkage = float | Literal["auto"] | None
"""A weight from 0 to 1 for the sphere, ``"auto"`` to estimate it, None for none."""


def check_shrinkage(shrinkage: Shrinkage) -> None:
    """Raise `UsageError` for anything but a weight, ``"auto"`` or None."""
    if shrinkage is None or shrinkage == "auto":
        return
    if isinstance(shrinkage, (bool, str)) or not 0 <= shrinkage <= 1:
        raise UsageError(f"shrinkage is 'auto', None or a weight from 0 to 1, got {shrinkage!r}")


def shrinkage_weight(covariance: NDArray[np.float64], samples: int, shrinkage: Shrinkage) -> float:
    """Return the weight of the sphere.

    ``"auto"`` is the asymptotically optimal linear shrinkage towards the sphere of the same trace,
    ``(tr S)^2 / n / (|S|^2 - (tr S)^2 / d)``, from Bodnar, Gupta and Parolya (2014, arXiv 1308.2608). It is cut to [0, 1]:
    near-isotropic samples with n about d would otherwise give weights beyond 1, and a negative share to the sample.
    """
    check_shrinkage(shrinkage)
    if shrinkage != "auto":
        return float(shrinkage or 0.0)
    trace = float(np.trace(covariance))
    spread = float(np.einsum("ij,ij->", covariance, covariance)) - trace**2 / covariance.shape[0]
    noise = trace**2 / max(1, samples)
    return 1.0 if noise >= spread else noise / spread


def shrunk(covariance: NDArray[np.float64], weight: float, ridge: float = 0.0) -> NDArray[np.float64]:
    """Return ``(1 - weight) S + (weight + ridge) tr(S)/d I``."""
    dim = covariance.shape[0]
    sphere = (weight + ridge) * float(np.trace(covariance)) / dim
    return np.asarray((1 - weight) * covariance + sphere * np.eye(dim))


@dataclass(frozen=True, eq=False)
class Whitening:
    """Half powers of a covariance on its k usable dimensions: ``down @ x`` is white, and ``up`` undoes ``down``.

    Attributes
    ----------
    down : (k, d) float64
        Whitening, ``diag(l)^-1/2 V^T``.
    up : (d, k) float64
        Its pseudo-inverse, ``V diag(l)^1/2``.
    """

    down: NDArray[np.float64]
    up: NDArray[np.float64]

    @classmethod
    def of(cls, covariance: NDArray[np.float64]) -> Whitening:
        """Decompose; dimensions with nothing but rounding in them are left out."""
        with one_thread(covariance.shape[0]):
            values, vectors = linalg.eigh(covariance)
        used = values > max(float(values[-1]), 0.0) * covariance.shape[0] * np.finfo(np.float64).eps
        root = np.sqrt(values[used])
        return cls(vectors[:, used].T / root[:, None], vectors[:, used] * root)
