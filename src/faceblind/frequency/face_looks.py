"""Looking at every face once before hours of work, and keeping only what is sound."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faceblind._errors import DataError, ImageError
from faceblind.data.datasets.looking import look
from faceblind.frequency.chips import problem_of_header

Progress = Callable[[int, int], None]
Damaged = Literal["refuse", "skip"]
_SHOWN = 5


def labels_of(
    sample: Sequence[str], identity: Sequence[str] | NDArray[np.str_], faces: int
) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
    """Return keys and identities as arrays.

    Raises
    ------
    DataError
        Not one each, no face at all, or a key given twice.
    """
    keys, who = np.asarray(sample, dtype=np.str_), np.asarray(identity, dtype=np.str_)
    if keys.shape != (faces,) or who.shape != (faces,):
        raise DataError(f"{faces} faces need one key and one identity each, got {keys.shape} and {who.shape}")
    if not faces:
        raise DataError("there are no faces: every file was left out, or none was given")
    unique, counts = np.unique(keys, return_counts=True)
    if unique.size < faces:
        raise DataError(
            f"the key {str(unique[counts.argmax()])!r} stands for {int(counts.max())} faces; keys are unique"
        )
    return keys, who


def sound(
    looks: Iterable[tuple[str, Callable[[], str | None]]],
    total: int,
    *,
    check: bool,
    damaged: Damaged,
    progress: Progress | None,
    always: str = "\0",
) -> tuple[list[int], tuple[str, ...]]:
    """Return the rows whose look finds nothing, and what was found for the others.

    Parameters
    ----------
    looks
        A name for messages, and what tells a problem or None, for each row.
    always
        Problems that begin so are left out even where damage is refused.

    Raises
    ------
    ImageError
        With ``damaged="refuse"``, when anything was found; names the first few.
    """
    if not check:
        return list(range(total)), ()
    keep: list[int] = []
    left: list[str] = []
    bad: list[str] = []
    for row, (key, problem) in enumerate(looks):
        found = problem()
        if found is None:
            keep.append(row)
        else:
            left.append(f"{key}: {found}")
            if not found.startswith(always):
                bad.append(left[-1])
        if progress is not None and (row % 256 == 255 or row + 1 == total):
            progress(row + 1, total)
    if bad and damaged == "refuse":
        more = f"; and {len(bad) - _SHOWN:,} more" if len(bad) > _SHOWN else ""
        raise ImageError(
            f"{len(bad):,} of {total:,} images cannot be used: {'; '.join(bad[:_SHOWN])}{more}: get them again or remove "
            "them, or skip what is damaged"
        )
    return keep, tuple(left)


def problem_of_file(path: Path, size: tuple[int, int]) -> str | None:
    """Tell why a file cannot become a chip of a size, or None; it is read, not decoded."""
    try:
        return problem_of_bytes(path.read_bytes(), size)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"


def problem_of_bytes(data: bytes, size: tuple[int, int]) -> str | None:
    """Tell why an image file in memory cannot become a chip of a size, or None."""
    return look(io.BytesIO(data)).problem or problem_of_header(data, size)


def row_list(rows: ArrayLike) -> list[int]:
    """Return row numbers of an index array or a mask."""
    asked = np.asarray(rows)
    chosen: list[int] = np.arange(asked.size)[asked].tolist() if asked.dtype == np.bool_ else asked.reshape(-1).tolist()
    return chosen


def stacked(chips: Iterable[NDArray[np.uint8]], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Stack chips of a size, (b, H, W, 3); also none."""
    made = list(chips)
    return np.stack(made) if made else np.empty((0, *size, 3), dtype=np.uint8)
