"""The shell that hair fills: a dome around the skull that hangs on below the ears, and where camera rays meet it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind.faces.synthetic.canvas import window_of
from faceblind.faces.synthetic.fields import Field, noise, step
from faceblind.faces.synthetic.head import Pose
from faceblind.faces.synthetic.identity import Identity
from faceblind.faces.synthetic.styles import Style

_CENTRE = (0.0, -0.28, -0.15)
_FRONT = 1.25


@dataclass(frozen=True)
class Shell:
    """Where rays meet the shell; arrays (n,) over the pixels near it, `normal` (3, n)."""

    index: NDArray[np.intp]
    """Flat canvas indices."""
    coverage: Field
    depth: Field
    x: Field
    y: Field
    z: Field
    unit: tuple[Field, Field, Field]
    """Direction from the centre, relative to the axes (unit length on the dome)."""
    normal: Field

    def only(self, kept: NDArray[np.intp]) -> Shell:
        """Select some of the pixels."""
        return Shell(
            self.index[kept],
            self.coverage[kept],
            self.depth[kept],
            self.x[kept],
            self.y[kept],
            self.z[kept],
            (self.unit[0][kept], self.unit[1][kept], self.unit[2][kept]),
            self.normal[:, kept],
        )


def meet_shell(side: int, who: Identity, style: Style, pose: Pose, *, ends: float, front: bool) -> Shell:
    """Find the near or the far wall of the shell on a canvas of `side`, down to y = `ends`."""
    rx = who.skull_width + style.side
    ry = who.skull_height + _CENTRE[1] + style.top
    rz = _FRONT + style.front
    extra = 1.0 + style.quiff + style.lean + 2.0 * style.rough + style.wave + style.flare * max(ends, 0.0)
    # Bounds: the dome's extent, and that of its lower rim.
    radii = np.array([rx, ry, rz]) * extra
    reach = np.sqrt((pose.rotation[:2] ** 2) @ radii**2)
    dome = pose.view(np.array([_CENTRE]))[0, :2]
    rim = pose.view(np.array([[0.0, ends, _CENTRE[2]]]))[0, :2]
    low = np.minimum(dome - reach, rim - np.array([reach[0], 0.35])) * pose.scale + pose.origin
    high = np.maximum(dome + np.array([reach[0], 0.3]), rim + np.array([reach[0], 0.35])) * pose.scale + pose.origin
    window = window_of(side, (low[0], high[0]), (low[1], high[1]))
    px, py = window.pixels()
    vx, vy = (px - pose.origin[0]) * (1.0 / pose.scale), (py - pose.origin[1]) * (1.0 / pose.scale)

    def rays(vx: Field, vy: Field) -> tuple[Field, Field, Field]:
        starts, _ = pose.ray(vx, vy)
        return starts[0] - _CENTRE[0], starts[1] - _CENTRE[1], starts[2] - _CENTRE[2]

    ax, ay, az = rays(vx, vy)
    bx, by, bz = (float(d) for d in pose.rotation[2])
    sign = 1.0 if front else -1.0

    def solve(ax: Field, ay: Field, az: Field, t: Field | float, swell: Field | float) -> tuple[Field, Field, float]:
        kx, ky, kz = 1.0 / rx, 1.0 / ry, 1.0 / rz
        dome = np.minimum(ay + by * t, 0.0) * ky
        a = (bx * kx) ** 2 + (bz * kz) ** 2
        b = ax * (bx * kx * kx) + az * (bz * kz * kz)
        gap = b * b - a * ((ax * kx) ** 2 + (az * kz) ** 2 + dome * dome - swell * swell)
        return (sign * np.sqrt(np.maximum(gap, 0.0)) - b) * (1.0 / a), gap, a

    t, gap, a = solve(ax, ay, az, 0.5 * sign, 1.0)
    active = np.flatnonzero(gap > -1.2 * (extra * extra - 1.0) - 0.12)
    rows, columns = np.divmod(active, window.shape[1] or 1)
    index = (rows + window.top) * side + (columns + window.left)
    ax, ay, az = rays(vx.ravel().take(columns), vy.ravel().take(rows))
    t = t.ravel().take(active)
    # Bumps are taken where the ray passes nearest the middle, so that they do not move while the hit is sought.
    middle = -(ax * bx / rx**2 + az * bz / rz**2) * (1.0 / (bx * bx / rx**2 + bz * bz / rz**2))
    bumps = _bumps(ax + bx * middle, ay + by * middle, az + bz * middle, style)
    swell = bumps
    for _ in range(3 if style.quiff else 2):
        swell = bumps * _swell(ax + bx * t, ay + by * t, az + bz * t, (rx, ry, rz), who, style)
        t, gap, a = solve(ax, ay, az, t, swell)
    keep = np.flatnonzero(gap > -0.03)
    ax, ay, az, t, gap = (p.take(keep) for p in (ax, ay, az, t, gap))
    index = index.take(keep)
    shrink = 1.0 / swell.take(keep)
    x, y, z = ax + bx * t, ay + by * t, az + bz * t
    unit = (x * shrink * (1.0 / rx), np.minimum(y, 0.0) * shrink * (1.0 / ry), z * shrink * (1.0 / rz))
    normal = np.stack((unit[0] * (1.0 / rx), unit[1] * (1.0 / ry), unit[2] * (1.0 / rz)))
    normal *= 1.0 / np.sqrt((normal * normal).sum(axis=0) + 1e-9)
    normal = pose.rotation.astype(np.float32) @ normal
    coverage = np.clip(0.5 + gap * (0.5 / a * pose.scale / rx * shrink), 0.0, 1.0)
    return Shell(index, coverage, t, x + _CENTRE[0], y + _CENTRE[1], z + _CENTRE[2], unit, normal)


def _swell(x: Field, y: Field, z: Field, radii: tuple[float, float, float], who: Identity, style: Style) -> Field:
    below = np.maximum(y, 0.0)
    ux, uy, uz = x * (1.0 / radii[0]), np.minimum(y, 0.0) * (1.0 / radii[1]), z * (1.0 / radii[2])
    swell = 1.0 + style.flare * below
    if not style.long:
        swell = swell - 0.45 * below
    if style.quiff:
        swell = swell + style.quiff * step(0.05, 0.75, uz) * step(-0.25, -0.8, uy)
    if style.lean:
        swell = swell + style.lean * step(-0.2, 0.7, -side_of(who) * ux) * step(0.1, -0.6, uy)
    return np.asarray(swell, dtype=np.float32)


def side_of(who: Identity) -> float:
    """Return the side of the parting: -1 or 1."""
    return 1.0 if who.hair_part > 0 else -1.0


def _bumps(x: Field, y: Field, z: Field, style: Style) -> Field:
    """Clumps and waves of the silhouette."""
    bumps = np.ones_like(x)
    if style.rough:
        around = np.arctan2(x, -y - 0.3)
        bumps += style.rough * (noise(around * 5.0 + 5.0, z * 2.0) + 0.5 * noise(around * 13.0, z * 2.0))
    if style.wave:
        bumps += style.wave * np.sin(y * 5.5 + np.sign(x)) * step(0.0, 0.5, np.maximum(y, 0.0))
    return bumps
