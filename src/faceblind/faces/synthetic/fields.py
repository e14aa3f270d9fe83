"""Smooth scalar fields on arrays: steps, bells, curves and tileable noise, in float32 throughout.

Everything the renderer paints is a product of these, so edges are antialiased by construction and no
supersampling is needed for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Field = NDArray[np.floating[Any]]
"""Real array; float32 in practice, which numpy's types cannot follow through arithmetic with Python floats."""

_TILE = 256
_TILE_SEED = 20_240_229


def step(low: float, high: float, x: Field) -> Field:
    """Rise from 0 at `low` to 1 at `high` with zero slope at both ends (falls when low > high)."""
    t: Field = np.clip((x - low) * (1.0 / (high - low)), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


def edge(signed: Field, width: float) -> Field:
    """Coverage of the inside (signed < 0) of an outline, antialiased over `width`."""
    cover: Field = np.clip(0.5 - signed * (1.0 / width), 0.0, 1.0)
    return cover


def bell(x: Field, y: Field, centre: tuple[float, float], sigma: tuple[float, float]) -> Field:
    """Gaussian bump of height 1."""
    u = (x - centre[0]) * (1.0 / sigma[0])
    v = (y - centre[1]) * (1.0 / sigma[1])
    if u.shape != v.shape:  # a row and a column
        return np.exp(-0.5 * (u * u)) * np.exp(-0.5 * (v * v))
    return np.exp(-0.5 * (u * u + v * v))


def band(x: Field, width: Field | float) -> Field:
    """Bump of height 1 around x = 0 that is 0 beyond `width`; cheaper than a Gaussian."""
    t = np.clip(1.0 - np.abs(x) * (1.0 / width), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


def hermite(knots: Sequence[tuple[float, float]], x: ArrayLike) -> Field:
    """Evaluate a smooth curve through `knots` (sorted by their first coordinate), flat beyond the ends.

    The tangents are those of Fritsch and Butland, so the curve never overshoots its knots.
    """
    kx = np.array([k[0] for k in knots])
    ky = np.array([k[1] for k in knots])
    width = np.diff(kx)
    slope = np.diff(ky) / width
    tangent = np.zeros_like(ky)
    left, right = slope[:-1], slope[1:]
    same = left * right > 0
    total = np.where(same, left + right, 1.0)
    tangent[1:-1] = np.where(same, 2.0 * left * right / total, 0.0)
    at = np.clip(np.asarray(x, dtype=np.float64), kx[0], kx[-1])
    i = np.clip(np.searchsorted(kx, at, side="right") - 1, 0, len(kx) - 2)
    h = width[i]
    t = (at - kx[i]) / h
    t2, t3 = t * t, t * t * t
    value = (
        (2 * t3 - 3 * t2 + 1) * ky[i]
        + (t3 - 2 * t2 + t) * h * tangent[i]
        + (3 * t2 - 2 * t3) * ky[i + 1]
        + (t3 - t2) * h * tangent[i + 1]
    )
    smooth: Field = value.astype(np.float32)
    return smooth


def table(knots: Sequence[tuple[float, float]], x: Field, cells: int = 512) -> Field:
    """`hermite` by look-up, for large arrays."""
    low, high = knots[0][0], knots[-1][0]
    values = hermite(knots, np.linspace(low, high, cells))
    at = np.clip((x - low) * ((cells - 1) / (high - low)), 0, cells - 1.001)
    i = at.astype(np.intp)
    here = values[i]
    value: Field = here + (values[i + 1] - here) * (at - i).astype(np.float32)
    return value


@lru_cache(maxsize=1)
def _tile() -> Field:
    rng = np.random.default_rng(_TILE_SEED)
    spectrum = np.fft.rfft2(rng.standard_normal((_TILE, _TILE)))
    fy = np.fft.fftfreq(_TILE)[:, None]
    fx = np.fft.rfftfreq(_TILE)[None, :]
    # One noise cell is about four samples of the tile, so that linear look-up looks smooth.
    smooth = np.exp(-0.5 * ((fx * fx + fy * fy) / 0.09**2))
    noise = np.fft.irfft2(spectrum * smooth, s=(_TILE, _TILE))
    noise /= noise.std()
    wide = np.zeros((_TILE + 1, _TILE + 1), dtype=np.float32)
    wide[:_TILE, :_TILE] = noise
    wide[_TILE, :_TILE] = noise[0]
    wide[:, _TILE] = wide[:, 0]
    return wide


def noise(u: Field, v: Field) -> Field:
    """Smooth noise of mean 0 and deviation 1 with a feature size of about 1 in (u, v); |u| and |v| below 1e4."""
    tile = _tile()
    # The shift is a whole number of tiles that makes both positive, so that truncation is floor.
    a = u * 4.0 + 40_960.0
    b = v * 4.0 + 40_960.0
    ia = a.astype(np.int32)
    ib = b.astype(np.int32)
    fa = a - ia.astype(np.float32)
    fb = b - ib.astype(np.float32)
    flat = (ib & (_TILE - 1)) * (_TILE + 1) + (ia & (_TILE - 1))
    values = tile.ravel()
    top = values.take(flat)
    top += (values.take(flat + 1) - top) * fa
    flat += _TILE + 1
    low = values.take(flat)
    flat += 1
    low += (values.take(flat) - low) * fa
    low -= top
    low *= fb
    top += low
    return top


def pooled(plane: Field, factor: int) -> Field:
    """Mean over factor x factor blocks; the sides must be multiples of `factor`."""
    if factor == 1:
        return plane
    h, w = plane.shape
    rows = plane[0::factor] + plane[1::factor]
    for k in range(2, factor):
        rows = rows + plane[k::factor]
    out = rows[:, 0::factor] + rows[:, 1::factor]
    for k in range(2, factor):
        out = out + rows[:, k::factor]
    out *= 1.0 / (factor * factor)
    return out.reshape(h // factor, w // factor)


def enlarged(plane: Field, factor: int) -> Field:
    """Linear interpolation of `pooled` cells back to factor times the size."""
    if factor == 1:
        return plane
    return _enlarged_rows(_enlarged_rows(plane, factor).T, factor).T


def _enlarged_rows(plane: Field, factor: int) -> Field:
    out = np.empty((plane.shape[0] * factor, plane.shape[1]), dtype=np.float32)
    above = np.concatenate((plane[:1], plane[:-1]))
    below = np.concatenate((plane[1:], plane[-1:]))
    for k in range(factor):
        at = (k + 0.5) / factor - 0.5
        other = above if at < 0 else below
        out[k::factor] = plane + (other - plane) * abs(at)
    return out


def box_blurred(plane: Field, radius: int) -> Field:
    """Mean over a (2 radius + 1) square, with the border repeated."""
    return _box_rows(_box_rows(plane, radius).T, radius).T


def _box_rows(plane: Field, radius: int) -> Field:
    padded = np.concatenate((np.repeat(plane[:1], radius + 1, axis=0), plane, np.repeat(plane[-1:], radius, axis=0)))
    total = np.cumsum(padded, axis=0, dtype=np.float64)
    width = 2 * radius + 1
    return ((total[width:] - total[:-width]) * (1.0 / width)).astype(np.float32)


def slopes(depth: Field, scale: float) -> Field:
    """Return unit normals (3, h, w) of a height field in view space."""
    gx = np.zeros_like(depth)
    gy = np.zeros_like(depth)
    gx[:, 1:-1] = (depth[:, 2:] - depth[:, :-2]) * (-0.5 * scale)
    gy[1:-1] = (depth[2:] - depth[:-2]) * (-0.5 * scale)
    length = 1.0 / np.sqrt(gx * gx + gy * gy + 1.0)
    return np.stack((gx * length, gy * length, length))
