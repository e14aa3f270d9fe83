"""The picture before light falls on it: colour, normal, depth and gloss of each pixel, laid back to front."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind.faces.synthetic.fields import Field


@dataclass(frozen=True)
class Window:
    """A rectangle of the canvas, as rows and columns."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def slices(self) -> tuple[slice, slice]:
        """Index of the rectangle in a plane."""
        return slice(self.top, self.bottom), slice(self.left, self.right)

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width."""
        return self.bottom - self.top, self.right - self.left

    @property
    def empty(self) -> bool:
        """Whether it has no pixels."""
        return self.bottom <= self.top or self.right <= self.left

    def flat(self, inside: NDArray[np.intp], side: int) -> NDArray[np.intp]:
        """Turn flat indices within the rectangle into flat indices of a canvas of `side`."""
        rows, columns = np.divmod(inside, self.right - self.left)
        index: NDArray[np.intp] = (rows + self.top) * side + (columns + self.left)
        return index

    def pixels(self) -> tuple[Field, Field]:
        """Coordinates of the pixel centres: x as a row, y as a column."""
        x = np.arange(self.left, self.right, dtype=np.float32)[None, :] + 0.5
        y = np.arange(self.top, self.bottom, dtype=np.float32)[:, None] + 0.5
        return x, y


def window_of(side: int, x: tuple[float, float], y: tuple[float, float]) -> Window:
    """Clip a rectangle of pixel coordinates to the canvas."""
    return Window(
        top=max(0, int(np.floor(y[0]))),
        bottom=min(side, int(np.ceil(y[1]))),
        left=max(0, int(np.floor(x[0]))),
        right=min(side, int(np.ceil(x[1]))),
    )


@dataclass(frozen=True)
class Paint:
    """What is laid on the canvas: arrays over a window (h, w), or over scattered pixels (n,), or scalars."""

    colour: Field
    """Linear light, (3, h, w), (3, 1, 1) or (3, n)."""
    normal: Field
    """View space, (3, h, w) or (3, n)."""
    depth: Field
    """View z, (h, w) or (n,)."""
    gloss: Field | float = 0.0
    skin: float = 0.0
    """1 for skin: light bleeds red past the shadow's edge."""


class Canvas:
    """Square planes that layers are laid on, back to front."""

    def __init__(self, side: int) -> None:
        self.side = side
        self.colour = np.zeros((3, side, side), dtype=np.float32)
        self.normal = np.zeros((3, side, side), dtype=np.float32)
        self.normal[2] = 1.0
        self.depth = np.full((side, side), -1.6, dtype=np.float32)
        self.gloss = np.zeros((side, side), dtype=np.float32)
        self.skin = np.zeros((side, side), dtype=np.float32)
        self.alpha = np.zeros((side, side), dtype=np.float32)

    def lay(self, window: Window, alpha: Field, paint: Paint) -> None:
        """Composite a layer with coverage `alpha` (h, w) over what is there."""
        at = window.slices
        for target, source in ((self.colour, paint.colour), (self.normal, paint.normal)):
            patch = target[:, at[0], at[1]]
            patch += alpha * (source - patch)
        for plane, value in ((self.gloss, paint.gloss), (self.skin, paint.skin)):
            here = plane[at]
            here += alpha * (value - here)
        depth = self.depth[at]
        np.copyto(depth, paint.depth, where=alpha > 0.5)
        cover = self.alpha[at]
        cover += alpha * (1.0 - cover)

    def lay_at(self, index: NDArray[np.intp], alpha: Field, paint: Paint) -> None:
        """Composite scattered pixels: `index` into the flat planes, and arrays (n,) or (3, n)."""
        for target, source in ((self.colour, paint.colour), (self.normal, paint.normal)):
            for k in range(3):
                _blend(target[k], index, alpha, source[k])
        for plane, value in ((self.gloss, paint.gloss), (self.skin, paint.skin), (self.alpha, 1.0)):
            _blend(plane, index, alpha, value)
        front = alpha > 0.5
        self.depth.reshape(-1)[index[front]] = paint.depth[front]


def _blend(plane: Field, index: NDArray[np.intp], alpha: Field, value: Field | float) -> None:
    flat = plane.reshape(-1)
    here = flat.take(index)
    here += alpha * (value - here)
    flat[index] = here
