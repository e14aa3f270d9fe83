"""The head as a solid: an outline, a relief on its front, a pose, and where a camera ray meets it.

Head coordinates have x to image right, y down and z towards the viewer when the head looks straight ahead. The unit
is half a typical head's width and the eyes are near y = 0. The solid is::

    Q(x, y) + ((z - b(x, y)) / d)^2 = 1

where Q is the squared distance from the centre relative to the frontal outline, and b a relief (nose, sockets, lips,
chin). Rays are parallel, so a pixel is a line in z, followed by careful steps until it meets the solid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind.faces.synthetic.fields import Field, hermite, step
from faceblind.faces.synthetic.identity import Identity
from faceblind.faces.synthetic.shot import Shot

DEPTH = 1.06
"""Front semi-axis of the solid."""
CELL = 1.0 / 50.0
"""Spacing of the relief's table."""
LEFT, TOP = -1.32, -1.75
COLUMNS, ROWS = 133, 177
_STEPS, _MORE_STEPS = 6, 7
_CENTRE_Y = -0.06


@dataclass(frozen=True)
class Pose:
    """Rigid motion of the head and the camera's scale, in render pixels."""

    rotation: NDArray[np.float64]
    """(3, 3), head to view."""
    pivot: NDArray[np.float64]
    scale: float
    origin: tuple[float, float]
    """Pixel of view (0, 0)."""

    def view(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Head points (n, 3) to view coordinates."""
        moved: NDArray[np.float64] = (points - self.pivot) @ self.rotation.T + self.pivot
        return moved

    def project(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Head points (n, 3) to render pixels (n, 2), x then y."""
        pixels: NDArray[np.float64] = self.view(points)[:, :2] * self.scale + np.array(self.origin)
        return pixels

    def ray(self, vx: Field, vy: Field) -> tuple[tuple[Field, Field, Field], tuple[float, float, float]]:
        """Return start and direction in head space of the rays through view (vx, vy); the parameter is view z."""
        back = self.rotation.T
        px, py, pz = (float(p) for p in self.pivot)
        start = [
            np.asarray(
                (vx - px) * float(back[i, 0]) + (vy - py) * float(back[i, 1]) + float(self.pivot[i] - back[i, 2] * pz),
                dtype=np.float32,
            )
            for i in range(3)
        ]
        return (start[0], start[1], start[2]), (float(back[0, 2]), float(back[1, 2]), float(back[2, 2]))


def pose_of(shot: Shot, side: int) -> Pose:
    """Pose of a shot rendered on a square of `side` pixels."""
    cy, sy = np.cos(shot.yaw), np.sin(shot.yaw)
    cp, sp = np.cos(shot.pitch), np.sin(shot.pitch)
    cr, sr = np.cos(shot.roll), np.sin(shot.roll)
    turn = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    nod = np.array([[1, 0, 0], [0, cp, sp], [0, -sp, cp]])
    lean = np.array([[cr, -sr, 0], [sr, cr, 0], [0, 0, 1]])
    scale = shot.scale * side
    return Pose(
        rotation=lean @ nod @ turn,
        pivot=np.array([0.0, 0.95, -0.3]),
        scale=scale,
        origin=(side * (0.5 + shot.shift[0]), side * (0.5 + shot.shift[1]) - 0.1 * scale),
    )


def outline(who: Identity, jaw_open: float, beard: float) -> list[tuple[float, float]]:
    """(angle from straight up, radius) knots of the frontal outline's right half, about the head's centre."""
    drop = 0.13 * jaw_open
    points = [
        (0.0, -who.skull_height),
        (0.50 * who.skull_width, -0.89 * who.skull_height),
        (0.79 * who.skull_width, -0.66 * who.skull_height),
        (0.94 * who.skull_width, -0.41 * who.skull_height),
        (who.temple_width, -0.14),
        (who.cheek_width, 0.24),
        (0.5 * (who.cheek_width + who.jaw_width) + 0.015, 0.6 + 0.2 * drop),
        (who.jaw_width, who.jaw_drop + 0.5 * drop),
        (0.5 * (who.jaw_width + who.chin_width) + 0.035, 0.58 * who.chin_length + 0.42 * who.jaw_drop + 0.8 * drop),
        (who.chin_width, who.chin_length - 0.075 + drop),
        (0.0, who.chin_length + drop),
    ]
    knots = []
    for x, y in points:
        dy = y - _CENTRE_Y
        low = max(0.0, dy - 0.3) / 1.2
        knots.append((float(np.arctan2(x, -dy)), float(np.hypot(x, dy)) + beard * low))
    return sorted(knots)


@dataclass(frozen=True)
class Solid:
    """Tables of Q, b and their slopes over the frontal plane, (6, ROWS * COLUMNS): Q, b, Qx, Qy, bx, by."""

    tables: Field

    def at(self, x: Field, y: Field) -> Field:
        """All six tables at head (x, y), linearly interpolated, (6, n)."""
        u = np.clip((x - LEFT) * (1.0 / CELL), 0.0, COLUMNS - 1.01)
        v = np.clip((y - TOP) * (1.0 / CELL), 0.0, ROWS - 1.01)
        iu = u.astype(np.int32)
        iv = v.astype(np.int32)
        fu = u - iu.astype(np.float32)
        fv = v - iv.astype(np.float32)
        flat = iv * COLUMNS + iu
        flat = flat[None, :] + np.arange(0, 6 * ROWS * COLUMNS, ROWS * COLUMNS, dtype=np.int32)[:, None]
        values = self.tables.ravel()
        top: Field = values.take(flat)
        top += (values.take(flat + 1) - top) * fu
        flat += COLUMNS
        low = values.take(flat)
        low += (values.take(flat + 1) - low) * fu
        low -= top
        low *= fv
        top += low
        return top

    def surface(self, x: float, y: float) -> float:
        """Return z of the front surface at head (x, y)."""
        row = self.at(np.array([x], dtype=np.float32), np.array([y], dtype=np.float32))[:, 0]
        return float(row[1] + DEPTH * np.sqrt(max(0.0, 1.0 - float(row[0]))))


def grid() -> tuple[Field, Field]:
    """Coordinates of the tables: x as a row, y as a column."""
    x = (LEFT + CELL * np.arange(COLUMNS)).astype(np.float32)[None, :]
    y = (TOP + CELL * np.arange(ROWS)).astype(np.float32)[:, None]
    return x, y


def solid_of(knots: list[tuple[float, float]], relief: Field) -> Solid:
    """Build the tables of an outline and a relief (ROWS, COLUMNS)."""
    x, y = grid()
    angle = np.arctan2(np.abs(x), _CENTRE_Y - y)
    lookup = np.linspace(0.0, np.pi, 721)
    radius = hermite(knots, lookup)[(angle * (720.0 / np.pi)).astype(np.int32)]
    dy = y - _CENTRE_Y
    q = (x * x + dy * dy) / (radius * radius)
    stack = np.empty((6, ROWS, COLUMNS), dtype=np.float32)
    stack[0], stack[1] = q, relief
    for k, plane in ((2, q), (4, relief)):
        stack[k, :, 1:-1] = (plane[:, 2:] - plane[:, :-2]) * (0.5 / CELL)
        stack[k, :, [0, -1]] = 0.0
        stack[k + 1, 1:-1] = (plane[2:] - plane[:-2]) * (0.5 / CELL)
        stack[k + 1, [0, -1]] = 0.0
    return Solid(stack.reshape(6, -1))


@dataclass(frozen=True)
class Hits:
    """Where rays meet the head: arrays over the rays that come near it, (m,), but `normal` (3, m) in view space."""

    index: NDArray[np.intp]
    """Which of the rays asked for."""
    x: Field
    y: Field
    z: Field
    depth: Field
    """View z."""
    coverage: Field
    normal: Field


def meet(solid: Solid, pose: Pose, vx: Field, vy: Field, start: Field) -> Hits:
    """Follow the rays through view (vx, vy), (n,) each, from view z `start` back to the head."""
    (ax, ay, az), (bx, by, bz) = pose.ray(vx, vy)
    inverse = 1.0 / DEPTH
    t, best = _march(solid, (ax, ay, az), (bx, by, bz), start, _STEPS)
    # Rays that graze the nose creep past it: give those few the steps they lack.
    slow = np.flatnonzero((best > 0.02) & (best < 0.4))
    begin = (ax[slow], ay[slow], az[slow])
    t[slow], best[slow] = _march(solid, begin, (bx, by, bz), t[slow], _MORE_STEPS)
    index = np.flatnonzero(best < 0.06)
    ax, ay, az, t = ax[index], ay[index], az[index], t[index]
    # Close to the surface the equation is nearly quadratic along the ray: its discriminant tells hits from misses
    # smoothly, which antialiases the outline.
    row = solid.at(ax + bx * t, ay + by * t)
    h = (az + bz * t - row[1]) * inverse
    value = row[0] + h * h - 1.0
    fz = (2.0 * inverse) * h
    gradient = np.stack((row[2] - fz * row[4], row[3] - fz * row[5], fz))
    slope = gradient[0] * bx + gradient[1] * by + fz * bz
    curve = 2.0 * (bx * bx + 0.55 * by * by + bz * bz * inverse * inverse)
    discriminant = slope * slope - 2.0 * curve * value
    move = (np.sqrt(np.maximum(discriminant, 0.0)) - slope) * (1.0 / curve)
    move = np.clip(move, -0.12, 0.12)
    t = t + move
    gradient[0] += 2.0 * bx * move
    gradient[1] += 1.1 * by * move
    gradient[2] += (2.0 * inverse * inverse * bz) * move
    gradient *= 1.0 / np.sqrt((gradient * gradient).sum(axis=0) + 1e-9)
    coverage = np.clip(0.5 + discriminant * (0.25 * pose.scale / curve), 0.0, 1.0)
    # Where the nose hides a cheek the same happens, but there the head goes on behind it.
    coverage = np.maximum(coverage, step(0.66, 0.5, row[0]))
    normal = pose.rotation.astype(np.float32) @ gradient
    return Hits(index, ax + bx * t, ay + by * t, az + bz * t, t, coverage, normal)


def _march(
    solid: Solid, start: tuple[Field, Field, Field], direction: tuple[float, float, float], t: Field, steps: int
) -> tuple[Field, Field]:
    """Step back along rays from parameter t; returns where each came nearest to the solid, and how near."""
    (ax, ay, az), (bx, by, bz) = start, direction
    q_table, b_table = solid.tables[0], solid.tables[1]
    t = t.copy()
    nearest = t.copy()
    best = np.full(t.shape, 9.0, dtype=np.float32)
    for _ in range(steps):
        x, y = ax + bx * t, ay + by * t
        column = ((x - (LEFT - 0.5 * CELL)) * (1.0 / CELL)).astype(np.int32)
        flat = ((y - (TOP - 0.5 * CELL)) * (1.0 / CELL)).astype(np.int32)
        np.clip(flat, 0, ROWS - 1, out=flat)
        flat *= COLUMNS
        flat += np.clip(column, 0, COLUMNS - 1)
        h = (az + bz * t - b_table.take(flat)) * (1.0 / DEPTH)
        gap = np.sqrt(q_table.take(flat) + h * h) - 1.0
        closer = gap < best
        np.copyto(best, gap, where=closer)
        np.copyto(nearest, t, where=closer)
        t -= np.minimum(gap * 0.85, 0.6)
    return nearest, best
