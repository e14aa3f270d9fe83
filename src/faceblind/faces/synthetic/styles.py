"""Hair styles as shapes: how far the hair stands off the skull, where it ends, and how its strands run."""

from __future__ import annotations

from dataclasses import dataclass, replace

from faceblind.faces.synthetic.identity import Identity

Knots = tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class Style:
    """One head of hair. Lengths in half head widths, angles in radians around the head (0 in front)."""

    side: float = 0.05
    top: float = 0.07
    front: float = 0.07
    """Thickness over the skull."""
    quiff: float = 0.0
    """Extra height over the forehead."""
    lean: float = 0.0
    """Extra height on one side: the sign of the parting's far side."""
    line: Knots = ()
    """(angle, y) of the lower edge, from the front to the back of the head."""
    flow: str = "crown"
    """How strands run: "crown" (down from the crown or parting), "part" (sideways from it) or "back"."""
    parted: bool = False
    strands: float = 9.0
    """Locks per radian."""
    ragged: float = 0.05
    curl: float = 0.0
    """0 straight to 1 coiled."""
    rough: float = 0.0
    """Bumps of the silhouette."""
    flare: float = 0.0
    """Widening per unit of length below the ears."""
    wave: float = 0.0
    back: float | None = None
    """Where hair behind the neck ends, or None for none."""
    knot: str = ""
    """"bun" or "tail"."""
    opacity: float = 1.0

    @property
    def long(self) -> bool:
        """Whether hair hangs below the ears and covers them."""
        return self.back is not None and not self.knot


def style_of(who: Identity) -> Style | None:
    """Shape of a person's hair; None when the scalp is bare."""
    if who.hair_style == "bald":
        return None
    v, wave = who.hair_volume, who.hair_wave
    short = Style(line=_short_line(who))
    name = who.hair_style
    if name == "buzz":
        return replace(short, side=0.012, top=0.015, front=0.02, strands=16.0, ragged=0.03, opacity=0.78)
    if name == "crop":
        return replace(
            short,
            side=0.03 + 0.03 * v,
            top=0.06 + 0.08 * v,
            front=0.09 + 0.06 * v,
            line=_short_line(who, fringe=0.10 + 0.22 * who.fringe),
            ragged=0.10,
        )
    if name == "side part":
        return replace(
            short, side=0.05, top=0.10 + 0.12 * v, front=0.10 + 0.05 * v, lean=0.10, flow="part", parted=True
        )
    if name == "quiff":
        return replace(short, side=0.03, top=0.10 + 0.1 * v, quiff=0.14 + 0.16 * v, flow="back", ragged=0.06)
    if name == "swept":
        return replace(short, side=0.06, top=0.06 + 0.07 * v, flow="back", ragged=0.03)
    if name == "curls":
        thick = 0.10 + 0.13 * v
        line = _short_line(who, fringe=0.05 + 0.2 * who.fringe, thick=True)
        return replace(
            short, side=0.7 * thick, top=1.3 * thick, front=0.14, line=line, curl=0.8, rough=0.022, ragged=0.05
        )
    if name == "afro":
        thick = 0.22 + 0.30 * v
        return replace(
            short,
            line=_short_line(who, thick=True),
            side=thick,
            top=1.15 * thick,
            front=0.10 + 0.4 * thick,
            curl=1.0,
            rough=0.025,
            ragged=0.04,
        )
    return _long_style(who, name, v, wave)


def _long_style(who: Identity, name: str, v: float, wave: float) -> Style:
    base = Style(side=0.07 + 0.09 * v, top=0.08 + 0.1 * v, front=0.10, parted=True, ragged=0.05)
    if name in {"bun", "ponytail"}:
        knot = "bun" if name == "bun" else "tail"
        return replace(
            base,
            side=0.04,
            top=0.05 + 0.05 * v,
            front=0.07,
            flow="back",
            parted=False,
            line=_short_line(who),
            knot=knot,
            back=1.7 + 0.6 * who.hair_length if knot == "tail" else None,
            ragged=0.03,
        )
    if name == "bob":
        end = 0.75 + 0.5 * who.hair_length
        return replace(base, line=_long_line(who, end, 0.98), back=end - 0.05, flare=0.08, wave=0.03 * wave)
    if name == "fringe bob":
        end = 0.75 + 0.4 * who.hair_length
        line = _long_line(who, end, 0.98, fringe=0.48 + 0.14 * who.fringe)
        return replace(base, line=line, back=end - 0.05, flare=0.06, parted=False, ragged=0.045)
    end = 1.75 + 0.9 * who.hair_length
    if name == "fringe long":
        line = _long_line(who, end, 0.98, fringe=0.46 + 0.16 * who.fringe)
        return replace(base, line=line, back=end, flare=0.05, parted=False, ragged=0.045, wave=0.03 * wave)
    if name == "waves":
        line = _long_line(who, end, 0.92)
        return replace(base, side=0.12 + 0.1 * v, line=line, back=end, flare=0.12, wave=0.06 + 0.05 * wave, rough=0.02)
    if name == "long curls":
        line = _long_line(who, end - 0.3, 0.95)
        return replace(
            base,
            side=0.2 + 0.16 * v,
            top=0.15 + 0.12 * v,
            line=line,
            back=end - 0.3,
            flare=0.2,
            curl=0.75,
            rough=0.03,
            ragged=0.07,
        )
    return replace(base, line=_long_line(who, end, 0.90 if name == "straight" else 0.84), back=end, flare=0.03)


def _short_line(who: Identity, fringe: float = 0.0, *, thick: bool = False) -> Knots:
    """Hairline of short hair: forehead, temples, sideburns, around the ear and the nape."""
    top = -who.hairline
    corner = top - who.hairline_recess + fringe * 0.7
    front = (
        (0.0, top + fringe),
        (0.30, top + fringe - 0.2 * who.hairline_recess),
        (0.62, corner + 0.05),
        (0.88, -0.50),
    )
    if thick:
        # Thick hair stands off the head: it has no sideburns and hides the top of the ears.
        return *front, (1.00, -0.25), (1.22, 0.12 * who.hair_volume), (2.00, 0.15), (3.20, 0.20)
    burn = 0.02 + 0.2 * who.hair_length
    ear = ((1.02, -0.26), (1.12, burn), (1.37, burn), (1.45, -0.24), (1.80, -0.22))
    return *front, *ear, (2.00, 0.30), (3.20, 0.30)


def _long_line(who: Identity, end: float, opening: float, fringe: float = 0.0) -> Knots:
    """Lower edge of long hair: the forehead, then down past the cheeks to the ends."""
    top = -who.hairline
    if fringe > 0:
        return (
            (0.0, top + fringe),
            (0.5, top + fringe + 0.02),
            (0.80, top + fringe + 0.10),
            (opening, 0.2),
            (opening + 0.16, end),
            (3.20, end + 0.05),
        )
    return (
        (0.0, top - 0.02),
        (0.35, top + 0.06),
        (0.62, top + 0.26),
        (0.80, -0.30),
        (opening, 0.25),
        (opening + 0.2, end - 0.1),
        (opening + 0.5, end),
        (3.20, end + 0.05),
    )
