"""Colours of skin, hair, eyes and cloth, as sRGB in 0..1, and the two conversions that shading needs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from faceblind.faces.synthetic.fields import Field

Colour = tuple[float, float, float]

_SKIN = (
    (248, 226, 212),
    (242, 211, 188),
    (231, 192, 164),
    (217, 172, 138),
    (196, 147, 111),
    (170, 121, 87),
    (140, 96, 67),
    (110, 73, 51),
    (84, 55, 40),
    (62, 41, 32),
)
HAIR = {
    "black": (26, 22, 22),
    "soft black": (42, 34, 32),
    "dark brown": (62, 42, 32),
    "brown": (94, 64, 44),
    "chestnut": (112, 66, 42),
    "auburn": (132, 62, 36),
    "copper": (172, 86, 42),
    "dark blond": (148, 112, 70),
    "blond": (196, 160, 102),
    "platinum": (224, 206, 168),
    "grey": (142, 140, 138),
    "white": (214, 212, 208),
    "plum": (98, 42, 78),
    "teal": (36, 104, 112),
    "rose": (206, 120, 138),
}
EYES = {
    "near black": (38, 24, 18),
    "dark brown": (64, 38, 22),
    "brown": (98, 60, 32),
    "amber": (142, 94, 42),
    "hazel": (118, 104, 58),
    "green": (86, 118, 78),
    "grey": (122, 134, 142),
    "blue": (84, 124, 164),
    "pale blue": (140, 176, 202),
}


def rgb(red: float, green: float, blue: float) -> Colour:
    """Scale sRGB bytes to 0..1."""
    return red / 255.0, green / 255.0, blue / 255.0


def skin(tone: float, warmth: float, redness: float) -> Colour:
    """Skin colour.

    Parameters
    ----------
    tone : 0 (lightest) to 1 (darkest).
    warmth : -1 (olive, cool) to 1 (golden).
    redness : -1 to 1.
    """
    at = tone * (len(_SKIN) - 1)
    i = min(int(at), len(_SKIN) - 2)
    here, there = np.array(_SKIN[i]), np.array(_SKIN[i + 1])
    base = (here + (there - here) * (at - i)) / 255.0
    shift = np.array([0.012, 0.002, -0.035]) * warmth + np.array([0.02, -0.018, -0.012]) * redness
    red, green, blue = np.clip(base + shift * (0.4 + 0.6 * base), 0.02, 1.0)
    return float(red), float(green), float(blue)


def blend(a: Colour, b: Colour, t: float) -> Colour:
    """Blend two colours."""
    return a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t, a[2] + (b[2] - a[2]) * t


def scaled(a: Colour, k: float) -> Colour:
    """Make a colour brighter or darker, clipped to 0..1."""
    return min(a[0] * k, 1.0), min(a[1] * k, 1.0), min(a[2] * k, 1.0)


def hsv(hue: float, saturation: float, value: float) -> Colour:
    """Colour of a hue in 0..1 around the circle."""
    red, green, blue = (
        value - value * saturation * max(0.0, min(k, 4.0 - k, 1.0))
        for k in ((n + hue * 6.0) % 6.0 for n in (5.0, 3.0, 1.0))
    )
    return red, green, blue


def linear(colour: Sequence[float]) -> Field:
    """Light of a colour, (3,); gamma 2 stands in for the sRGB curve because its inverse is a square root."""
    value = np.asarray(colour, dtype=np.float32)
    return value * value


def bytes_of(colour: Colour) -> tuple[int, int, int]:
    """Return 0..255 integers for Pillow."""
    red, green, blue = (max(0, min(255, round(channel * 255))) for channel in colour)
    return red, green, blue
