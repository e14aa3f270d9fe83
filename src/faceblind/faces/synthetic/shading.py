"""Light on the canvas: a key light with soft cast shadows, sky and fill, bounce in the hollows, and a rim."""

from __future__ import annotations

import numpy as np

from faceblind.faces.synthetic.canvas import Canvas
from faceblind.faces.synthetic.fields import Field, box_blurred, enlarged, pooled
from faceblind.faces.synthetic.shot import Shot

_BLEED = (0.34, 0.17, 0.12)
"""How far light wraps past the shadow's edge on skin, per channel: the red of blood under it."""
_SHADOW_SIDE = 128
_MARCH = 14


def light_direction(shot: Shot) -> tuple[float, float, float]:
    """Return the unit vector towards the key light in view space (y down)."""
    ce = float(np.cos(shot.light_elevation))
    return (
        float(np.sin(shot.light_azimuth)) * ce,
        -float(np.sin(shot.light_elevation)),
        float(np.cos(shot.light_azimuth)) * ce,
    )


def lit(canvas: Canvas, shot: Shot, scale: float, scene: Field) -> Field:
    """Linear light (3, side, side) of the canvas over its scene; the scene's mean colour tints the ambient light.

    Parameters
    ----------
    scale : render pixels per half head width.
    scene : (3, side, side) linear light of the background; overwritten.
    """
    shadow, hollow = _occlusion(canvas, shot, scale)
    hue = scene[:, ::4, ::4].mean(axis=(1, 2))
    hue = np.clip(hue / max(float(hue.mean()), 1e-3), 0.3, 2.0)
    covered = np.flatnonzero(canvas.alpha.ravel() > 0)
    alpha = canvas.alpha.reshape(-1).take(covered)
    shadow, hollow = shadow.reshape(-1).take(covered), hollow.reshape(-1).take(covered)
    nx, ny, nz = (canvas.normal[k].reshape(-1).take(covered) for k in range(3))
    skin = canvas.skin.reshape(-1).take(covered)

    lx, ly, lz = light_direction(shot)
    facing = nx * lx + ny * ly + nz * lz
    half = np.array([lx, ly, lz + 1.0])
    half /= np.linalg.norm(half)
    mirror = np.maximum(nx * float(half[0]) + ny * float(half[1]) + nz * float(half[2]), 0.0)
    for _ in range(3):
        mirror *= mirror
    shine = mirror * (0.16 + 0.7 * mirror)
    shine *= canvas.gloss.reshape(-1).take(covered)
    shine *= shadow * (1.15 * shot.key)
    sky = 0.80 - 0.24 * ny - (0.10 * lx) * nx
    sky *= hollow
    steady = np.maximum(0.25 * nz - (0.55 * lx / max(abs(lx), 0.2)) * nx, 0.0)
    steady *= 0.16 * hollow
    if shot.rim:
        away = np.clip(1.0 - nz, 0.0, 1.0)
        steady += away * away * (shot.rim * np.clip(0.4 - facing, 0.0, 1.0))
    for k in range(3):
        wrap = skin * _BLEED[k]
        light = np.maximum(facing + wrap, 0.0)
        light /= 1.0 + wrap
        # Shadows on skin stay warm: a little red gets through.
        light *= shadow + (1.0 - shadow) * (0.5 * wrap)
        light *= shot.key * shot.key_colour[k]
        ambient = sky * (shot.ambient * (0.75 + 0.25 * float(hue[k])))
        if k == 0:
            ambient *= 1.0 + (0.22 * skin) * (1.0 - hollow)
        light += ambient
        light += steady
        light *= canvas.colour[k].reshape(-1).take(covered)
        light += shine * shot.key_colour[k]
        plane = scene[k].reshape(-1)
        here = plane.take(covered)
        plane[covered] = here + (light - here) * alpha
    return scene


def _occlusion(canvas: Canvas, shot: Shot, scale: float) -> tuple[Field, Field]:
    """Soft shadow (1 lit, 0 dark) of the key light and openness (1 open) to the sky, from the depth plane."""
    wanted = max(1, round(canvas.side / _SHADOW_SIDE))
    factor = next(k for k in range(wanted, 0, -1) if canvas.side % k == 0)
    depth = pooled(canvas.depth, factor)
    unit = scale / factor
    lx, ly, lz = light_direction(shot)
    reach = 1.25 * unit
    run = float(np.hypot(lx, ly)) + 1e-6
    dark = np.zeros_like(depth)
    for k in range(1, _MARCH + 1):
        length = reach * (k / _MARCH) ** 1.5
        dx, dy = round(lx / run * length), round(ly / run * length)
        if dx == 0 and dy == 0:
            continue
        away = float(np.hypot(dx, dy)) / unit
        above = _shifted(depth, dx, dy) - depth - away * lz / run
        soft = 1.0 / (0.05 + 0.28 * away)
        np.maximum(dark, np.clip((above - 0.03) * soft, 0.0, 1.0), out=dark)
    dark = box_blurred(dark, 1)
    hollow = np.zeros_like(depth)
    for radius, weight in ((0.055, 0.75), (0.13, 0.6)):
        wide = box_blurred(box_blurred(depth, max(1, round(radius * unit))), max(1, round(radius * unit)))
        hollow += weight * np.clip((wide - depth) * (1.0 / (0.10 + 2.0 * radius)), 0.0, 1.0)
    return 1.0 - shot.shadow * enlarged(dark, factor), 1.0 / (1.0 + enlarged(hollow, factor))


def _shifted(plane: Field, dx: int, dy: int) -> Field:
    """Value at (x + dx, y + dy), or far away beyond the border."""
    out = np.full_like(plane, -9.0)
    h, w = plane.shape
    to_y = slice(max(0, -dy), min(h, h - dy))
    to_x = slice(max(0, -dx), min(w, w - dx))
    from_y = slice(max(0, dy), min(h, h + dy))
    from_x = slice(max(0, dx), min(w, w + dx))
    out[to_y, to_x] = plane[from_y, from_x]
    return out
