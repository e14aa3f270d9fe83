"""A small painting kit for backgrounds: shapes in unit coordinates on a low-resolution picture."""

from __future__ import annotations

import numpy as np

from faceblind.faces.synthetic import palette
from faceblind.faces.synthetic.palette import Colour
from faceblind.faces.synthetic.pillow import Image, ImageDraw, ImageFilter


class Brush:
    """Draws on a square whose corners are (0, 0) and (1, 1); y runs down."""

    def __init__(self, rng: np.random.Generator, side: int) -> None:
        self.rng = rng
        self.side = side
        self._pool: list[float] = []
        self._start(Image.new("RGB", (side, side)))

    def _start(self, image: Image.Image) -> None:
        self.image = image
        self._draw = ImageDraw.Draw(image)

    def uniform(self, low: float, high: float) -> float:
        """One random number."""
        if not self._pool:  # drawn in bulk: single draws cost more than the shapes they place
            self._pool = self.rng.random(256).tolist()
        return low + (high - low) * self._pool.pop()

    def chance(self, p: float) -> bool:
        """Return True with probability p."""
        return self.uniform(0.0, 1.0) < p

    def near(self, colour: Colour, spread: float = 0.05) -> Colour:
        """Return a colour close to `colour`."""
        # A sum of three uniforms is close enough to normal, of deviation 1 over -3..3.
        light, red, green, blue = (
            spread * 2.0 * (self.uniform(-0.5, 0.5) + self.uniform(-0.5, 0.5) + self.uniform(-0.5, 0.5))
            for _ in range(4)
        )
        shifts = (light + 0.4 * red, light + 0.4 * green, light + 0.4 * blue)
        return tuple(min(max(c + d, 0.0), 1.0) for c, d in zip(colour, shifts, strict=True))  # type: ignore[return-value]

    def gradient(self, top: Colour, bottom: Colour, y0: float = 0.0, y1: float = 1.0) -> None:
        """Fill the band y0..y1 with a vertical gradient."""
        first, last = round(y0 * self.side), round(y1 * self.side)
        rows = max(last - first, 1)
        share = np.linspace(0.0, 1.0, rows)[:, None, None]
        block = np.array(top) + (np.array(bottom) - np.array(top)) * share
        block = np.repeat(np.clip(block * 255, 0, 255).astype(np.uint8), self.side, axis=1)
        self.image.paste(Image.fromarray(block), (0, first))

    def glow(self, x: float, y: float, radius: float, colour: Colour, strength: float) -> None:
        """Add light around a point."""
        axis = (np.arange(self.side) + 0.5) / self.side
        fall = np.exp(-(((axis[None, :] - x) / radius) ** 2) - ((axis[:, None] - y) / radius) ** 2)
        pixels = np.asarray(self.image, dtype=np.float32)
        pixels = pixels + (255.0 * strength) * fall[..., None] * np.array(colour)
        self._start(Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)))

    def rect(self, x0: float, y0: float, x1: float, y1: float, colour: Colour) -> None:
        """Fill a rectangle."""
        s = self.side
        box = (min(x0, x1) * s, min(y0, y1) * s, max(x0, x1) * s, max(y0, y1) * s)
        self._draw.rectangle(box, fill=palette.bytes_of(colour))

    def disc(self, x: float, y: float, rx: float, ry: float, colour: Colour) -> None:
        """Fill an ellipse."""
        s = self.side
        self._draw.ellipse(((x - rx) * s, (y - ry) * s, (x + rx) * s, (y + ry) * s), fill=palette.bytes_of(colour))

    def shape(self, points: list[tuple[float, float]], colour: Colour) -> None:
        """Fill a polygon."""
        self._draw.polygon([(x * self.side, y * self.side) for x, y in points], fill=palette.bytes_of(colour))

    def line(self, points: list[tuple[float, float]], width: float, colour: Colour) -> None:
        """Draw a line through points."""
        pixels = max(1, round(width * self.side))
        self._draw.line([(x * self.side, y * self.side) for x, y in points], palette.bytes_of(colour), pixels)

    def lights(self, count: int, size: tuple[float, float], colours: list[Colour], y: tuple[float, float]) -> None:
        """Out-of-focus lights: translucent discs."""
        layer = Image.new("RGB", self.image.size)
        pen = ImageDraw.Draw(layer)
        for _ in range(count):
            x, v = self.uniform(-0.05, 1.05) * self.side, self.uniform(*y) * self.side
            r = self.uniform(*size) * self.side
            colour = palette.scaled(colours[int(self.uniform(0, len(colours)))], self.uniform(0.35, 1.0))
            pen.ellipse((x - r, v - r, x + r, v + r), fill=palette.bytes_of(colour))
        both = np.asarray(self.image, dtype=np.int16) + np.asarray(layer, dtype=np.int16)
        self._start(Image.fromarray(np.clip(both, 0, 255).astype(np.uint8)))

    def soften(self, radius: float) -> None:
        """Blur everything so far; radius in unit lengths."""
        self._start(self.image.filter(ImageFilter.GaussianBlur(radius * self.side)))

    def foliage(self, count: int, size: tuple[float, float], colours: list[Colour], y: tuple[float, float]) -> None:
        """Scatter leaf clumps over a band."""
        for _ in range(count):
            colour = self.near(colours[int(self.uniform(0, len(colours)))], 0.05)
            r = self.uniform(*size)
            self.disc(self.uniform(-0.05, 1.05), self.uniform(*y), r, r * self.uniform(0.6, 1.1), colour)
