"""Who a synthetic person is: everything that stays the same from photograph to photograph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faceblind.faces.synthetic import palette
from faceblind.faces.synthetic.palette import Colour

_STREAM = 1
"""First spawn key of all identity draws; shots use another, so the two can never share random numbers."""

_SHORT = ("bald", "buzz", "crop", "side part", "quiff", "swept", "curls", "afro")
_LONG = ("bob", "fringe bob", "straight", "side straight", "waves", "long curls", "bun", "ponytail", "fringe long")
_SHORT_WEIGHTS = (0.09, 0.12, 0.17, 0.17, 0.15, 0.10, 0.12, 0.08)
_LONG_WEIGHTS = (0.11, 0.10, 0.13, 0.13, 0.16, 0.12, 0.09, 0.09, 0.07)
_BEARDS = ("none", "stubble", "moustache", "goatee", "short beard", "full beard", "long beard")
_BEARD_WEIGHTS = (0.34, 0.17, 0.09, 0.10, 0.14, 0.11, 0.05)
_GLASSES = ("none", "round", "square", "wide", "browline", "thin")
_GLASSES_WEIGHTS = (0.68, 0.08, 0.07, 0.06, 0.05, 0.06)


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The fixed traits of one person. Lengths are in half head widths; `*_shape` run over about -1..1."""

    # Head outline and profile
    skull_width: float
    skull_height: float
    temple_width: float
    cheek_width: float
    jaw_width: float
    jaw_drop: float
    chin_width: float
    chin_length: float
    chin_forward: float
    cheekbones: float
    hollow_cheeks: float
    forehead_slope: float
    brow_ridge: float
    ear_size: float
    ear_angle: float
    neck_width: float
    shoulders: float
    # Eyes
    eye_spacing: float
    eye_height: float
    eye_width: float
    eye_open: float
    eye_tilt: float
    eye_depth: float
    lid_fold: float
    lid_weight: float
    lashes: float
    bags: float
    eye_colour: Colour
    # Brows
    brow_height: float
    brow_thickness: float
    brow_arch: float
    brow_tilt: float
    brow_length: float
    brow_density: float
    # Nose
    nose_length: float
    nose_width: float
    nose_bridge: float
    nose_bridge_width: float
    nose_hump: float
    nose_tip: float
    nose_tip_lift: float
    nose_forward: float
    # Mouth
    mouth_height: float
    mouth_width: float
    upper_lip: float
    lower_lip: float
    cupid_bow: float
    mouth_corners: float
    lip_colour: Colour
    # Skin
    skin: Colour
    tone: float
    blush: float
    freckles: float
    age: float
    wrinkles: float
    shine: float
    moles: tuple[tuple[float, float, float], ...]
    """(x, y, radius) in face coordinates."""
    scar: tuple[float, float, float, float] | None
    """(x, y, angle, length) in face coordinates."""
    skin_pattern: int
    """Seed of the freckle pattern."""
    # Hair
    hair_style: str
    hair_colour: Colour
    hair_light: Colour
    """Colour of the lighter strands."""
    hair_volume: float
    hair_length: float
    hair_wave: float
    hair_part: float
    """-1 (parted far on image left) to 1."""
    hairline: float
    hairline_recess: float
    fringe: float
    beard: str
    beard_colour: Colour
    glasses: str
    glasses_colour: Colour
    glasses_size: float


def identity_of(seed: int, person: int) -> Identity:
    """Draw the traits of one person; the same (seed, person) always gives the same traits."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM, person)))

    def spread(centre: float, deviation: float, limit: float = 2.0) -> float:
        # A flat-topped spread: populations of a few hundred should reach the ends of every trait.
        z = 0.6 * rng.uniform(-1.9, 1.9) + 0.55 * rng.standard_normal()
        return float(centre + deviation * np.clip(z, -limit, limit))

    def one_of(names: tuple[str, ...], weights: tuple[float, ...]) -> str:
        p = np.array(weights)
        return str(rng.choice(names, p=p / p.sum()))

    build = float(np.clip(rng.beta(0.45, 0.45), 0.0, 1.0))  # 0: finer features, 1: heavier ones
    age = float(rng.beta(1.3, 1.6))
    tone = float(np.clip(rng.beta(0.9, 1.15), 0.0, 1.0))
    face = spread(0.0, 1.0)  # long and narrow to short and wide
    heavy = build - 0.5

    base = palette.skin(tone, spread(0.0, 0.6), spread(0.0, 0.5))
    hair_name = _hair_name(rng, tone, age)
    hair = palette.rgb(*palette.HAIR[hair_name])
    short = rng.random() < 0.12 + 0.76 * build
    style = one_of(_SHORT, _SHORT_WEIGHTS) if short else one_of(_LONG, _LONG_WEIGHTS)
    beard = one_of(_BEARDS, _BEARD_WEIGHTS) if build > 0.6 and short else "none"
    glasses = one_of(_GLASSES, _GLASSES_WEIGHTS)
    tint = spread(0.5, 0.25)
    lips = palette.blend(palette.scaled(base, 0.80), (0.66, 0.28, 0.28), 0.30 + 0.12 * tint)
    if build < 0.4 and rng.random() < 0.45:
        lips = palette.blend(lips, palette.hsv(rng.uniform(-0.06, 0.03) % 1.0, 0.75, rng.uniform(0.45, 0.8)), 0.6)

    return Identity(
        skull_width=spread(0.96, 0.03),
        skull_height=spread(1.36, 0.05) - 0.02 * face,
        temple_width=spread(0.91, 0.03),
        cheek_width=spread(0.93, 0.04) + 0.02 * face,
        jaw_width=spread(0.725, 0.05) + 0.08 * heavy + 0.025 * face,
        jaw_drop=spread(0.92, 0.07),
        chin_width=spread(0.31, 0.055) + 0.08 * heavy,
        chin_length=spread(1.42, 0.06) + 0.05 * heavy - 0.05 * face,
        chin_forward=spread(0.0, 0.06),
        cheekbones=spread(0.06, 0.04),
        hollow_cheeks=max(0.0, spread(0.04, 0.04) + 0.02 * age),
        forehead_slope=spread(0.0, 0.05),
        brow_ridge=max(0.0, spread(0.03, 0.025) + 0.06 * heavy),
        ear_size=spread(0.29, 0.035) + 0.03 * age,
        ear_angle=spread(0.5, 0.2),
        neck_width=spread(0.56, 0.04) + 0.16 * heavy,
        shoulders=spread(1.95, 0.10) + 0.35 * heavy,
        eye_spacing=spread(0.425, 0.024),
        eye_height=spread(0.0, 0.03),
        eye_width=spread(0.226, 0.019) - 0.012 * heavy,
        eye_open=spread(0.48, 0.08) - 0.05 * heavy - 0.04 * age,
        eye_tilt=spread(0.04, 0.075),
        eye_depth=spread(0.13, 0.03) + 0.03 * heavy,
        lid_fold=float(np.clip(spread(0.62, 0.4), 0.0, 1.0)),
        lid_weight=spread(0.0, 0.4),
        lashes=float(np.clip(spread(0.5, 0.2) - 0.5 * heavy, 0.1, 1.0)),
        bags=float(np.clip(spread(0.25, 0.2) + 0.5 * (age - 0.4), 0.0, 1.0)),
        eye_colour=palette.rgb(*palette.EYES[_eye_name(rng, tone)]),
        brow_height=spread(0.285, 0.035) - 0.04 * heavy,
        brow_thickness=max(0.022, spread(0.05, 0.016) + 0.026 * heavy),
        brow_arch=spread(0.06, 0.04) - 0.03 * heavy,
        brow_tilt=spread(-0.035, 0.04),
        brow_length=spread(0.285, 0.025),
        brow_density=float(np.clip(spread(0.75, 0.18), 0.3, 1.0)),
        nose_length=spread(0.60, 0.05) - 0.015 * face,
        nose_width=spread(0.215, 0.032) + 0.03 * heavy + 0.03 * (tone - 0.5),
        nose_bridge=spread(0.17, 0.045) + 0.04 * heavy,
        nose_bridge_width=spread(0.095, 0.018) + 0.02 * heavy,
        nose_hump=spread(0.0, 0.022),
        nose_tip=spread(0.115, 0.02),
        nose_tip_lift=spread(0.0, 0.03),
        nose_forward=spread(0.36, 0.045),
        mouth_height=spread(0.915, 0.035) + 0.01 * heavy,
        mouth_width=spread(0.335, 0.035) + 0.02 * heavy,
        upper_lip=max(0.035, spread(0.078, 0.022) - 0.02 * heavy + 0.03 * (tone - 0.4)),
        lower_lip=max(0.05, spread(0.105, 0.024) - 0.02 * heavy + 0.03 * (tone - 0.4)),
        cupid_bow=float(np.clip(spread(0.5, 0.3), 0.0, 1.2)),
        mouth_corners=spread(0.0, 0.016),
        lip_colour=lips,
        skin=base,
        tone=tone,
        blush=float(np.clip(spread(0.35, 0.25), 0.0, 1.0)),
        freckles=float(rng.uniform(0.3, 1.0)) if rng.random() < (0.3 if tone < 0.4 else 0.06) else 0.0,
        age=age,
        wrinkles=float(np.clip(1.5 * age - 0.35 + 0.2 * rng.standard_normal(), 0.0, 1.0)),
        shine=float(rng.uniform(0.5, 1.3)),
        moles=_moles(rng),
        scar=_scar(rng) if rng.random() < 0.07 else None,
        skin_pattern=int(rng.integers(2**31)),
        hair_style=style,
        hair_colour=hair,
        hair_light=palette.scaled(palette.blend(hair, (0.85, 0.62, 0.4), 0.06), float(rng.uniform(1.15, 1.5))),
        hair_volume=float(rng.uniform(0.0, 1.0)),
        hair_length=float(rng.uniform(0.0, 1.0)),
        hair_wave=float(rng.uniform(0.0, 1.0)),
        hair_part=float(rng.choice([-1.0, 1.0]) * rng.uniform(0.15, 0.75)),
        hairline=spread(0.82, 0.055) + 0.04 * heavy * age,
        hairline_recess=float(np.clip(spread(0.06, 0.06) + 0.18 * heavy * age, 0.0, 0.3)),
        fringe=float(rng.uniform(0.0, 1.0)),
        beard=beard,
        beard_colour=palette.scaled(hair, float(rng.uniform(0.8, 1.15))),
        glasses=glasses,
        glasses_colour=_frame_colour(rng),
        glasses_size=float(rng.uniform(0.9, 1.15)),
    )


def _hair_name(rng: np.random.Generator, tone: float, age: float) -> str:
    if age > 0.55 and rng.random() < 0.75 * (age - 0.3):
        return str(rng.choice(["grey", "white"]))
    if rng.random() < 0.04:
        return str(rng.choice(["plum", "teal", "rose"]))
    dark = ["black", "soft black", "dark brown"]
    fair = ["brown", "chestnut", "auburn", "copper", "dark blond", "blond", "platinum"]
    return str(rng.choice(dark if rng.random() < 0.18 + 1.3 * tone else fair))


def _eye_name(rng: np.random.Generator, tone: float) -> str:
    dark = ["near black", "dark brown", "brown"]
    fair = ["amber", "hazel", "green", "grey", "blue", "pale blue", "brown"]
    return str(rng.choice(dark if rng.random() < 0.15 + 1.4 * tone else fair))


def _frame_colour(rng: np.random.Generator) -> Colour:
    dark = [(20, 20, 22), (64, 38, 24), (30, 34, 60), (96, 24, 30), (120, 84, 44), (140, 140, 146)]
    red, green, blue = dark[int(rng.integers(len(dark)))]
    return palette.rgb(red, green, blue)


def _moles(rng: np.random.Generator) -> tuple[tuple[float, float, float], ...]:
    count = int(rng.choice([0, 0, 0, 1, 1, 2, 3]))
    return tuple(
        (float(rng.uniform(-0.7, 0.7)), float(rng.uniform(-0.5, 1.15)), float(rng.uniform(0.016, 0.034)))
        for _ in range(count)
    )


def _scar(rng: np.random.Generator) -> tuple[float, float, float, float]:
    side = float(rng.choice([-1.0, 1.0]))
    return side * float(rng.uniform(0.3, 0.6)), float(rng.uniform(-0.45, 0.9)), float(rng.uniform(0, np.pi)), 0.16
