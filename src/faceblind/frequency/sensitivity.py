"""How far each coefficient ranges over public faces: what the scale of the noise is made from.

The range of a coefficient over a data set is no bound for other faces. Values are therefore clipped to it before noise
is added, and then it is one.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError, FormatError


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Smallest and largest value of each element over public faces.

    Attributes
    ----------
    low, high : (C, m, n) float32
    std : (C,) float64
        Spread of each channel, over faces and places: the signal that noise is compared with.
    images : int
        Faces that were looked at.
    source : str
        What faces they were, in words; empty when nobody said.
    """

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    std: NDArray[np.float64]
    images: int
    source: str = ""

    def __post_init__(self) -> None:
        if self.low.shape != self.high.shape or self.low.ndim != 3 or self.std.shape != self.low.shape[:1]:
            raise DataError(
                f"low and high must be one (channels, rows, columns) and std one per channel, got {self.low.shape}, "
                f"{self.high.shape} and {self.std.shape}"
            )
        if not (np.isfinite(self.low).all() and np.isfinite(self.high).all() and (self.high >= self.low).all()):
            raise DataError("ranges must be finite with low <= high; calibrate again on whole images")
        if not (np.isfinite(self.std).all() and (self.std >= 0).all() and self.images > 0):
            raise DataError(
                f"std must be finite and not negative, and images positive, got {self.images} images; calibrate again"
            )

    @property
    def range(self) -> NDArray[np.float32]:
        """Largest minus smallest, (C, m, n): the sensitivity of the paper."""
        return self.high - self.low

    @property
    def digest(self) -> str:
        """SHA-256 of the ranges, the spread and the number of faces: which calibration noise was made for."""
        found = hashlib.sha256(f"{self.low.shape} {self.images}".encode())
        for values, kind in ((self.low, "<f4"), (self.high, "<f4"), (self.std, "<f8")):
            found.update(np.ascontiguousarray(values, dtype=kind).tobytes())
        return found.hexdigest()

    def outside(self, values: NDArray[np.floating[Any]]) -> float:
        """Return the share of elements of other faces, (b, C, m, n), that lie outside and would be clipped."""
        checked = _checked(values, self.low.shape)
        return float(((checked < self.low) | (checked > self.high)).mean())


@dataclass
class SensitivityMeter:
    """Takes faces batch by batch; what it finds does not depend on how they were cut into batches, but for rounding."""

    images: int = 0
    _low: NDArray[np.float32] | None = field(default=None, repr=False)
    _high: NDArray[np.float32] | None = field(default=None, repr=False)
    _sum: NDArray[np.float64] | None = field(default=None, repr=False)
    _square: NDArray[np.float64] | None = field(default=None, repr=False)

    def update(self, values: NDArray[np.floating[Any]]) -> None:
        """Take a batch (b, C, m, n).

        Raises
        ------
        DataError
            Another shape than before, or values that are not finite.
        """
        checked = _checked(values, None if self._low is None else self._low.shape)
        if not checked.shape[0]:
            return
        low, high = checked.min(axis=0), checked.max(axis=0)
        total = checked.sum(axis=(0, 2, 3), dtype=np.float64)
        square = np.einsum("bcmn,bcmn->c", checked, checked, dtype=np.float64)
        self.merge(SensitivityMeter(checked.shape[0], low, high, total, square))

    def merge(self, other: SensitivityMeter) -> None:
        """Take in what another meter saw, as if its faces had come here.

        Raises
        ------
        DataError
            It measured another shape.
        """
        if other._low is None or other._high is None or other._sum is None or other._square is None:
            return
        if self._low is None or self._high is None or self._sum is None or self._square is None:
            self._low, self._high = other._low.copy(), other._high.copy()
            self._sum, self._square = other._sum.copy(), other._square.copy()
        elif other._low.shape != self._low.shape:
            raise DataError(f"a meter of {other._low.shape} cannot be merged into one of {self._low.shape}")
        else:
            np.minimum(self._low, other._low, out=self._low)
            np.maximum(self._high, other._high, out=self._high)
            self._sum = self._sum + other._sum
            self._square = self._square + other._square
        self.images += other.images

    def result(self, *, source: str = "") -> Sensitivity:
        """Return the ranges; `source` says in words which faces they are from.

        Raises
        ------
        DataError
            Fewer than two faces were seen: one has no range.
        """
        if self.images < 2 or self._low is None or self._high is None or self._sum is None or self._square is None:
            raise DataError(f"calibration needs at least two faces, got {self.images}; give it more")
        places = self.images * self._low.shape[1] * self._low.shape[2]
        mean = self._sum / places
        variance = np.maximum(self._square / places - mean**2, 0)
        return Sensitivity(self._low.copy(), self._high.copy(), np.sqrt(variance), self.images, source)


def save_sensitivity(sensitivity: Sensitivity, path: str | Path) -> None:
    """Write ranges as safetensors, atomically, to calibrate once and train many times."""
    from safetensors.numpy import save

    from faceblind._files import write_bytes

    arrays = {"low": sensitivity.low, "high": sensitivity.high, "std": sensitivity.std}
    said = {"images": sensitivity.images, "source": sensitivity.source, "digest": sensitivity.digest}
    header = {"faceblind.sensitivity": json.dumps(said)}
    write_bytes(path, save({k: np.ascontiguousarray(v) for k, v in arrays.items()}, metadata=header))


def load_sensitivity(path: str | Path) -> Sensitivity:
    """Read what `save_sensitivity` wrote.

    Raises
    ------
    FormatError
        Missing, damaged, changed since it was written, or another kind of file.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            said = json.loads((file.metadata() or {})["faceblind.sensitivity"])
            images, source, digest = int(said["images"]), str(said["source"]), str(said["digest"])
            low, high, std = (file.get_tensor(name) for name in ("low", "high", "std"))
    except FileNotFoundError as error:
        raise FormatError(f"{path} is missing; write it with save_sensitivity") from error
    except (SafetensorError, KeyError, ValueError, TypeError, OSError) as error:
        raise FormatError(f"{path} holds no sensitivity ({error}); write it with save_sensitivity") from error
    try:
        found = Sensitivity(low, high, std, images, source)
    except DataError as error:
        raise FormatError(f"{path}: {error}") from error
    if found.digest != digest:
        raise FormatError(f"{path} was changed since it was written: its digest is another; calibrate again")
    return found


def _checked(values: NDArray[np.floating[Any]], shape: tuple[int, ...] | None) -> NDArray[np.float32]:
    found = np.asarray(values, dtype=np.float32)
    if found.ndim != 4 or (shape is not None and found.shape[1:] != shape):
        raise DataError(f"values must be (images, {shape or 'channels, rows, columns'}), got {found.shape}")
    if not np.isfinite(found).all():
        raise DataError("values to calibrate on are not all finite; check the images")
    return found
