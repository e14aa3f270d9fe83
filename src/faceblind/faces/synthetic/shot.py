"""How one photograph was taken: everything that varies from image to image, drawn without looking at the person."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faceblind.faces.synthetic import palette
from faceblind.faces.synthetic.palette import Colour

_STREAM = 2
SCENES = 24
"""Number of background templates; `Shot.background` is 0 .. SCENES - 1."""

CLOTHES = ("crew", "vee", "shirt", "hoodie", "turtleneck", "blazer", "scoop", "polo")
PATTERNS = ("plain", "stripes", "pinstripes", "checks", "dots", "knit")
_PATTERN_WEIGHTS = (0.42, 0.16, 0.1, 0.12, 0.06, 0.14)


@dataclass(frozen=True, kw_only=True)
class Shot:
    """The nuisance of one photograph. Angles are radians; lengths are in half head widths unless noted."""

    # Pose
    yaw: float
    """Positive turns the face towards image right."""
    pitch: float
    """Positive looks down."""
    roll: float
    body_yaw: float
    # Expression
    smile: float
    mouth_open: float
    brow_raise: float
    brow_knit: float
    eye_close: float
    squint: float
    gaze: tuple[float, float]
    # Light
    light_azimuth: float
    light_elevation: float
    key: float
    ambient: float
    key_colour: Colour
    rim: float
    shadow: float
    # Place and dress
    background: int
    scene_seed: int
    cloth: str
    pattern: str
    cloth_colour: Colour
    second_colour: Colour
    # Camera
    scale: float
    """Half head widths to a share of the image's side."""
    shift: tuple[float, float]
    """Of the head, as a share of the image's side."""
    blur: float
    """Standard deviation as a share of the image's side."""
    noise: float
    exposure: float
    white_balance: tuple[float, float, float]
    contrast: float
    saturation: float
    jpeg: int
    """JPEG quality, or 0 for none."""
    grain_seed: int


def shot_of(seed: int, person: int, shot: int) -> Shot:
    """Draw one photograph's nuisance; the same (seed, person, shot) always gives the same draw."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM, person, shot)))

    def normal(deviation: float, limit: float) -> float:
        return float(np.clip(deviation * rng.standard_normal(), -limit, limit))

    smile = float(rng.choice([0.0, 0.35, 0.8], p=[0.4, 0.3, 0.3]) + rng.uniform(-0.2, 0.2))
    mouth_open = float(rng.choice([0.0, 0.35, 0.8], p=[0.62, 0.24, 0.14]) * rng.uniform(0.5, 1.2))
    yaw = normal(0.24, 0.46)
    warmth = normal(0.07, 0.16)
    balance = normal(0.035, 0.08)
    hue = float(rng.uniform())
    saturation = float(rng.choice([0.12, 0.5, 0.8]) * rng.uniform(0.5, 1.1))
    value = float(rng.uniform(0.12, 0.92))
    return Shot(
        yaw=yaw,
        pitch=normal(0.12, 0.26),
        roll=normal(0.075, 0.2),
        body_yaw=0.45 * yaw + normal(0.16, 0.35),
        smile=smile,
        mouth_open=mouth_open,
        brow_raise=normal(0.35, 0.8),
        brow_knit=max(0.0, normal(0.22, 0.7)),
        eye_close=float(rng.choice([0.0, 0.35, 1.0], p=[0.8, 0.16, 0.04])),
        squint=float(np.clip(0.35 * smile + normal(0.15, 0.3), 0.0, 0.6)),
        gaze=(float(np.clip(-0.6 * yaw + normal(0.2, 0.45), -0.5, 0.5)), normal(0.12, 0.25)),
        light_azimuth=float(rng.uniform(-1.15, 1.15)),
        light_elevation=float(rng.uniform(0.1, 0.95)),
        key=float(rng.uniform(0.55, 1.05)),
        ambient=float(rng.uniform(0.34, 0.62)),
        key_colour=(1.0 + warmth, 1.0, 1.0 - 1.3 * warmth),
        rim=float(rng.choice([0.0, 1.0], p=[0.6, 0.4]) * rng.uniform(0.2, 0.7)),
        shadow=float(rng.uniform(0.35, 0.9)),
        background=int(rng.integers(SCENES)),
        scene_seed=int(rng.integers(2**31)),
        cloth=str(rng.choice(CLOTHES)),
        pattern=str(rng.choice(PATTERNS, p=_PATTERN_WEIGHTS)),
        cloth_colour=palette.hsv(hue, saturation, value),
        second_colour=palette.hsv(
            (hue + float(rng.choice([0.0, 0.08, 0.5]))) % 1.0,
            saturation * float(rng.uniform(0.2, 1.0)),
            value * 0.5 if value > 0.5 else 0.45 + 0.6 * value,
        ),
        scale=float(rng.uniform(0.215, 0.272)),
        shift=(normal(0.035, 0.08), normal(0.025, 0.05)),
        blur=float(rng.choice([0.0, 0.0016, 0.0032], p=[0.5, 0.35, 0.15])),
        noise=float(rng.choice([0.003, 0.009, 0.017], p=[0.5, 0.35, 0.15])),
        exposure=float(np.exp(normal(0.14, 0.3))),
        white_balance=(1.0 + balance, 1.0 + normal(0.012, 0.03), 1.0 - balance),
        contrast=1.0 + normal(0.06, 0.15),
        saturation=1.0 + normal(0.12, 0.3),
        jpeg=int(rng.choice([0, 88, 72, 55], p=[0.4, 0.25, 0.2, 0.15])),
        grain_seed=int(rng.integers(2**31)),
    )
