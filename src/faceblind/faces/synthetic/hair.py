"""Hair as a shell around the skull: a dome that hangs on below the ears, with strands running over it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from faceblind.faces.synthetic import palette
from faceblind.faces.synthetic.canvas import Canvas, Paint, window_of
from faceblind.faces.synthetic.fields import Field, band, edge, noise, step, table
from faceblind.faces.synthetic.head import Pose
from faceblind.faces.synthetic.identity import Identity
from faceblind.faces.synthetic.shell import Shell, meet_shell, side_of
from faceblind.faces.synthetic.styles import Style


def lay_hair(canvas: Canvas, who: Identity, style: Style, pose: Pose) -> tuple[NDArray[np.intp], Field]:
    """Lay the hair in front of the head; returns flat canvas indices and their coverage."""
    shell = meet_shell(canvas.side, who, style, pose, ends=max(y for _, y in style.line) + 0.3, front=True)
    around = np.arctan2(np.abs(shell.unit[0]), shell.unit[2])
    limit = table(style.line, around)
    kept = np.flatnonzero(shell.y < limit + 3.0 * style.ragged + 0.05)
    shell, limit = shell.only(kept), limit[kept]
    across, along = _flow(shell, who, style)
    lock, fine = _strands(across, along, shell, style, who)
    over = shell.y - limit
    soft = 0.025 + 0.3 * style.ragged
    alpha = shell.coverage * edge(over - style.ragged * (0.7 * lock + 0.5 * fine), soft) * style.opacity
    if not style.long:
        # Short hair thins out at its lower edge; the skin shows through.
        alpha = alpha * (0.55 + 0.45 * step(0.02, -0.10, over))
    colour = _colour(who, lock, fine) * (0.72 + 0.28 * step(0.0, -0.12, over))
    if style.parted:
        seam = band(shell.unit[0] - 0.42 * who.hair_part, 0.022) * step(-0.45, -0.62, shell.unit[1])
        seam *= step(-0.25, 0.1, shell.unit[2])
        colour = colour + (0.55 * palette.linear(who.skin)[:, None] - colour) * (0.6 * seam)
    paint = Paint(
        colour=colour,
        normal=_ruffled(shell, lock, fine, style),
        depth=shell.depth,
        gloss=_gloss(shell, lock, style),
    )
    canvas.lay_at(shell.index, alpha, paint)
    return shell.index, alpha


def lay_back_hair(canvas: Canvas, who: Identity, style: Style, pose: Pose) -> None:
    """Lay the hair behind the neck: the far wall of the shell, a tail or a bun."""
    if style.knot == "bun":
        _lay_ball(canvas, who, style, pose)
    if style.back is None:
        return
    tail = style.knot == "tail"
    shell = meet_shell(canvas.side, who, style, pose, ends=style.back + 0.3, front=False)
    across = np.arctan2(shell.unit[0], -shell.unit[2])
    lock, fine = _strands(across, shell.y, shell, style, who)
    tips = style.ragged * (1.2 * lock + 0.5 * fine) + 0.05 * lock
    alpha = shell.coverage * edge(shell.y - style.back - tips, 0.06)
    if tail:
        middle = 0.5 * side_of(who) * step(-0.4, 1.2, shell.y)
        half = 0.30 * step(-0.6, 0.4, shell.y) * (1.0 - 0.55 * step(0.6, style.back + 0.1, shell.y))
        alpha = alpha * edge(np.abs(shell.x - middle) - half - 0.02 * lock, 0.03)
    shade = 0.62 if tail else 0.42
    normal = _ruffled(shell, lock, fine, style)
    normal[2] *= -1.0
    paint = Paint(colour=_colour(who, lock, fine) * shade, normal=normal, depth=np.full_like(alpha, -0.9), gloss=0.02)
    canvas.lay_at(shell.index, alpha, paint)


def _flow(shell: Shell, who: Identity, style: Style) -> tuple[Field, Field]:
    """Coordinates across and along the strands."""
    ux, uy, uz = shell.unit
    if style.flow == "back":
        return np.arctan2(ux, -uy + 0.12) * 1.3, uz * 1.4
    if style.flow == "part":
        root = 0.42 * who.hair_part
        return np.arctan2(uz, -uy + 0.05) * 1.1, np.abs(ux - root) * 1.3
    root_x = 0.42 * who.hair_part if style.parted else 0.0
    root_z = 0.25 if style.long else -0.35
    fade = step(0.0, -0.8, uy)
    return np.arctan2(ux - root_x * fade, uz - root_z * fade), shell.y


def _strands(across: Field, along: Field, shell: Shell, style: Style, who: Identity) -> tuple[Field, Field]:
    """Broad and fine variation between strands."""
    offset = float(who.skin_pattern % 61)
    if style.curl > 0.5:
        if style.curl > 0.9:
            broad = noise(shell.x * 5.0 + offset, shell.y * 5.0)
            return 0.7 * broad, noise(shell.x * 19.0 + 0.7 * broad, (shell.y - 0.6 * shell.z) * 19.0)
        # Ringlets: each lock sways to its own beat.
        beat = 2.6 * noise(across * 3.0 + offset, along * 1.2)
        across = across + 0.085 * np.sin(along * 15.0 + beat) + 0.03 * np.sin(along * 31.0 - beat)
    sway = style.wave * 6.0 * np.sin(along * 5.5) if style.wave else 0.0
    turn = across + 0.035 * noise(across * 2.0, along * 1.5 + offset) + 0.12 * sway
    lock = noise(turn * style.strands + offset, along * 0.7)
    fine = noise(turn * style.strands * 3.4, along * 1.1 + offset)
    return lock, fine


def _colour(who: Identity, lock: Field, fine: Field) -> Field:
    base = palette.linear(who.hair_colour)[:, None]
    light = palette.linear(who.hair_light)[:, None]
    share: Field = np.clip(0.35 + 0.30 * lock + 0.22 * fine, 0.0, 1.0)
    colour: Field = (base + (light - base) * share) * np.clip(1.0 + 0.16 * lock + 0.14 * fine, 0.3, 1.8)
    return colour


def _ruffled(shell: Shell, lock: Field, fine: Field, style: Style) -> Field:
    strength = 0.17 + 0.28 * style.curl
    normal = shell.normal.copy()
    normal[0] += strength * (0.7 * lock + 0.4 * fine)
    normal[1] += strength * (0.25 * fine + style.curl * 0.6 * lock)
    return normal


def _gloss(shell: Shell, lock: Field, style: Style) -> Field:
    halo = band(shell.unit[1] + 0.74 + 0.08 * lock, 0.3)
    return (1.0 - 0.9 * style.curl) * style.opacity * (0.10 + 0.38 * halo * (0.7 + 0.3 * lock))


def _lay_ball(canvas: Canvas, who: Identity, style: Style, pose: Pose) -> None:
    radius = 0.30 + 0.10 * who.hair_volume
    centre = pose.view(np.array([[0.0, -who.skull_height - 0.10, -0.35]]))[0]
    cx, cy = (float(centre[k]) * pose.scale + pose.origin[k] for k in (0, 1))
    reach = 1.1 * radius * pose.scale
    window = window_of(canvas.side, (cx - reach, cx + reach), (cy - reach, cy + reach))
    if window.empty:
        return
    px, py = window.pixels()
    scale = 1.0 / (radius * pose.scale)
    x, y = np.broadcast_arrays((px - cx) * scale, (py - cy) * scale * 1.12)
    inside = np.flatnonzero(x * x + y * y < 1.3)
    x, y = x.ravel()[inside], y.ravel()[inside]
    away = np.sqrt(x * x + y * y)
    z = np.sqrt(np.maximum(1.0 - away * away, 0.0))
    swirl = np.arctan2(y, x) + 2.2 * away
    lock, fine = noise(swirl * 2.2, away * 1.4), noise(swirl * 8.0, away * 2.0)
    paint = Paint(
        colour=_colour(who, lock, fine) * (0.6 + 0.4 * z),
        normal=np.stack((x + 0.2 * lock, y, z)).astype(np.float32),
        depth=float(centre[2]) + radius * z,
        gloss=0.15,
    )
    cover = edge((away - 1.0 - 0.03 * fine) * (1.0 / scale), 1.2)
    canvas.lay_at(window.flat(inside, canvas.side), cover.astype(np.float32), paint)
