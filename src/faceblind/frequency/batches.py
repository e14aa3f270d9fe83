"""Faces from a source to tensors, read ahead by threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from faceblind._errors import DataError
from faceblind.encoders.ahead import worked_ahead
from faceblind.frequency.faces import FaceSource

WORKERS, WINDOW = 2, 6


def tensor_of(images: NDArray[np.uint8]) -> Tensor:
    """Turn images (b, H, W, 3) into pixels (b, 3, H, W), float32 in 0..255."""
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2))).float()


def images_of(pixels: Tensor) -> NDArray[np.float32]:
    """Turn pixels (b, 3, H, W) into images (b, H, W, 3), float32."""
    found: NDArray[np.float32] = pixels.detach().cpu().permute(0, 2, 3, 1).contiguous().numpy()
    return found


def row_numbers(source: FaceSource, rows: ArrayLike | None = None) -> NDArray[np.intp]:
    """Return rows of a source as numbers: from numbers, a mask, or None for all.

    Raises
    ------
    DataError
        Numbers that are not whole or not in the source, or a mask of another length.
    """
    total = len(source)
    asked = np.arange(total) if rows is None else np.asarray(rows)
    if asked.size == 0:
        return np.empty(0, dtype=np.intp)
    if asked.ndim != 1 or asked.dtype.kind not in "iub":
        raise DataError(f"rows must be a list of whole numbers or a mask, got {asked.dtype} of shape {asked.shape}")
    if asked.dtype == np.bool_:
        if asked.size != total:
            raise DataError(f"a mask of rows must have one value for each of the {total} faces, got {asked.size}")
        return np.flatnonzero(asked)
    if (wrong := asked[(asked < 0) | (asked >= total)]).size:
        raise DataError(f"row {wrong[0]} is not there: the source has {total} faces, numbered from 0")
    return asked.astype(np.intp)


def generator_of(seed: int, number: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return the randomness of one batch: it does not depend on what other batches drew."""
    return torch.Generator(device).manual_seed((seed * 1_000_003 + number) % 2**63)


def parts(rows: NDArray[np.intp], size: int) -> list[NDArray[np.intp]]:
    """Cut rows into batches."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def read_batches(source: FaceSource, cut: Sequence[NDArray[np.intp]]) -> Iterator[tuple[NDArray[np.intp], Tensor]]:
    """Yield each batch of rows with its pixels, in order."""

    def read(rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], Tensor]:
        return rows, tensor_of(source.pixels(rows))

    with worked_ahead(read, cut, workers=WORKERS, window=WINDOW, name="faceblind-faces") as found:
        yield from found


def batches(source: FaceSource, rows: NDArray[np.intp], size: int) -> Iterator[tuple[Tensor, list[str]]]:
    """Yield pixels and identities: what `Release.calibrate` takes as ``partial(batches, source, rows, size)``."""
    for taken, pixels in read_batches(source, parts(rows, size)):
        yield pixels, [str(source.identity[row]) for row in taken]


def calibration(
    source: FaceSource, rows: NDArray[np.intp], size: int = 64
) -> partial[Iterator[tuple[Tensor, list[str]]]]:
    """Return what `Release.calibrate` passes over, as often as it likes."""
    return partial(batches, source, rows, size)
