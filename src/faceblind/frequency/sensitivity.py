"""How far each coefficient ranges over public faces: what the scale of the noise is made from.

The range of a coefficient over a data set is no bound for other faces. Values are therefore clipped to it before noise
is added, and then it is one.
"""

from __future__ import annotations

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
    """

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    std: NDArray[np.float64]
    images: int

    def __post_init__(self) -> None:
        if self.low.shape != self.high.shape or self.low.ndim != 3 or self.std.shape != self.low.shape[:1]:
            raise DataError(
                f"low and high must be one (channels, rows, columns) and std one per channel, got {self.low.shape}, "
                f"{self.high.shape} and {self.std.shape}"
            )
        if not (np.isfinite(self.low).all() and np.isfinite(self.high).all() and (self.high >= self.low).all()):
            raise DataError("ranges must be finite with low <= high; calibrate again on whole images")

    @property
    def range(self) -> NDArray[np.float32]:
        """Largest minus smallest, (C, m, n): the sensitivity of the paper."""
        return self.high - self.low

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
        if self._low is None or self._high is None or self._sum is None or self._square is None:
            self._low, self._high, self._sum, self._square = low, high, total, square
        else:
            np.minimum(self._low, low, out=self._low)
            np.maximum(self._high, high, out=self._high)
            self._sum += total
            self._square += square
        self.images += checked.shape[0]

    def result(self) -> Sensitivity:
        """Return the ranges.

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
        return Sensitivity(self._low.copy(), self._high.copy(), np.sqrt(variance), self.images)


def save_sensitivity(sensitivity: Sensitivity, path: str | Path) -> None:
    """Write ranges as safetensors, atomically, to calibrate once and train many times."""
    from safetensors.numpy import save

    from faceblind._files import write_bytes

    arrays = {"low": sensitivity.low, "high": sensitivity.high, "std": sensitivity.std}
    header = {"faceblind.sensitivity": json.dumps({"images": sensitivity.images})}
    write_bytes(path, save({k: np.ascontiguousarray(v) for k, v in arrays.items()}, metadata=header))


def load_sensitivity(path: str | Path) -> Sensitivity:
    """Read what `save_sensitivity` wrote.

    Raises
    ------
    FormatError
        Missing, damaged, or another kind of file.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            images = json.loads((file.metadata() or {})["faceblind.sensitivity"])["images"]
            low, high, std = (file.get_tensor(name) for name in ("low", "high", "std"))
    except FileNotFoundError as error:
        raise FormatError(f"{path} is missing; write it with save_sensitivity") from error
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise FormatError(f"{path} holds no sensitivity ({error}); write it with save_sensitivity") from error
    return Sensitivity(low, high, std, int(images))


def _checked(values: NDArray[np.floating[Any]], shape: tuple[int, ...] | None) -> NDArray[np.float32]:
    found = np.asarray(values, dtype=np.float32)
    if found.ndim != 4 or (shape is not None and found.shape[1:] != shape):
        raise DataError(f"values must be (images, {shape or 'channels, rows, columns'}), got {found.shape}")
    if not np.isfinite(found).all():
        raise DataError("values to calibrate on are not all finite; check the images")
    return found
