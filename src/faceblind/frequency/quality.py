"""How close a recovered picture is to the true one: PSNR and SSIM, averaged over people, and the floor of both."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from faceblind._errors import DataError
from faceblind.measure import SubjectBootstrap

_PEAK = 255.0


def psnr(found: NDArray[Any], true: NDArray[Any]) -> NDArray[np.float64]:
    """Return the peak signal-to-noise ratio in dB of each image (b, H, W, 3) in 0..255; at most 100."""
    a, b = _pair(found, true)
    error = np.square(a - b).mean(axis=(1, 2, 3))
    found_db: NDArray[np.float64] = 10 * np.log10(_PEAK**2 / np.maximum(error, _PEAK**2 * 1e-10))
    return found_db


def ssim(found: NDArray[Any], true: NDArray[Any], *, sigma: float = 1.5) -> NDArray[np.float64]:
    """Return the structural similarity of each image (b, H, W, 3) in 0..255 (Wang et al. 2004): Gaussian windows, mean of channels.

    A border of half a window is left out of the mean, as in the usual implementations.

    Raises
    ------
    DataError
        Images of other shapes, or smaller than a window.
    """
    a, b = _pair(found, true)
    half = int(3.5 * sigma + 0.5)
    if min(a.shape[1:3]) <= 2 * half:
        raise DataError(f"SSIM needs images of more than {2 * half} pixels a side, got {a.shape[1]} x {a.shape[2]}")

    def blurred(x: NDArray[np.float64]) -> NDArray[np.float64]:
        smooth: NDArray[np.float64] = gaussian_filter(x, sigma=(0, sigma, sigma, 0), truncate=3.5)
        return smooth

    c1, c2 = (0.01 * _PEAK) ** 2, (0.03 * _PEAK) ** 2
    mean_a, mean_b = blurred(a), blurred(b)
    var_a, var_b, cov = blurred(a * a) - mean_a**2, blurred(b * b) - mean_b**2, blurred(a * b) - mean_a * mean_b
    value = (2 * mean_a * mean_b + c1) * (2 * cov + c2) / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))
    inner: NDArray[np.float64] = value[:, half:-half, half:-half].mean(axis=(1, 2, 3))
    return inner


def constant_floor(public: NDArray[np.uint8], true: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the constant image that knows the mean colour of public faces, for every true one, (b, H, W, 3)."""
    return np.broadcast_to(public.mean(axis=(0, 1, 2), dtype=np.float64), true.shape).copy()


def over_people(
    values: NDArray[np.float64], identity: NDArray[np.str_], *, draws: int = 1000, seed: int = 0
) -> dict[str, float]:
    """Average over the images of each person, then over people; the interval (95 %) draws people.

    Returns
    -------
    dict
        ``mean``, ``low``, ``high``.

    Raises
    ------
    DataError
        Fewer than two people.
    """
    names, codes = np.unique(identity, return_inverse=True)
    if names.size < 2:
        raise DataError(f"an interval over people needs at least two, got {names.size}")
    each = np.bincount(codes, weights=values) / np.bincount(codes)
    bootstrap = SubjectBootstrap.of(names.size, draws=draws, rng=np.random.default_rng([seed, 0xF4CE]))
    weights = bootstrap.weights.astype(np.float64)
    drawn = weights @ each / weights.sum(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return {"mean": float(each.mean()), "low": float(low), "high": float(high)}


def _pair(found: NDArray[Any], true: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    a, b = np.asarray(found, dtype=np.float64), np.asarray(true, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 4:
        raise DataError(f"images to compare must both be (images, height, width, 3), got {a.shape} and {b.shape}")
    if not np.isfinite(a).all():
        raise DataError("recovered images hold values that are not finite")
    return a, b
