"""What a report can show beyond the record: maps of the vectors and nearest neighbours with thumbnails.

These hold identities and photographs, so they are not part of the record and only appear when asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError

Method = Literal["t-SNE", "PCA"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Map:
    """One release laid out in two dimensions.

    Raises
    ------
    DataError
        `xy` is not (n, 2), is empty or not finite, or `identity` has another length.
    """

    release: str
    method: Method
    xy: NDArray[np.float64]
    """(n, 2), no unit."""
    identity: NDArray[np.str_]
    """(n,)"""

    def __post_init__(self) -> None:
        shape = np.shape(self.xy)
        if len(shape) != 2 or shape[1] != 2 or shape[0] == 0:
            raise DataError(f"a map needs xy of shape (n, 2) with n > 0, got {shape}")
        if np.shape(self.identity) != (shape[0],):
            raise DataError(f"a map needs one identity per point: {shape[0]} points, got {np.shape(self.identity)}")
        if not np.isfinite(self.xy).all():
            raise DataError(f"the {self.method} map of {self.release!r} holds NaN or infinity")


@dataclass(frozen=True, kw_only=True)
class Picture:
    """An image by its key, with a thumbnail when one could be made."""

    sample: str
    identity: str
    jpeg: bytes | None = None
    """A small JPEG, or None: a placeholder is shown."""


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """One of the nearest images of a query."""

    picture: Picture
    cosine: float
    same_person: bool


@dataclass(frozen=True, kw_only=True)
class NeighbourRow:
    """A query image and its nearest images, nearest first, before and after erasing."""

    query: Picture
    before: tuple[Neighbour, ...]
    after: tuple[Neighbour, ...] | None
    """None when nothing was erased."""


@dataclass(frozen=True, kw_only=True)
class ReportExtras:
    """Maps and neighbours for the report; empty parts are left out of it."""

    maps: tuple[Map, ...] = ()
    neighbours: tuple[NeighbourRow, ...] = ()
    map_rule: str = ""
    """How the points on the maps were chosen and laid out, in a sentence."""
    query_rule: str = ""
    """How the queries were chosen, in a sentence."""
