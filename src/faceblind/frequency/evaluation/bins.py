"""Verification sets in one file, as InsightFace hands them out: ``lfw.bin``, ``cfp_fp.bin``, ``agedb_30.bin`` and so on.

A file is a pickle of two lists: images (JPEG files, two for each pair) and whether each pair shows one person. It is read
as data and never unpickled (`read_pickle_data`).
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faceblind._errors import FormatError, ImageError
from faceblind.data.datasets.looking import look
from faceblind.frequency.chips import chip_of_bytes, size_of
from faceblind.frequency.evaluation.pairs import PairSet, contiguous_folds, linked_people
from faceblind.frequency.evaluation.pickle_data import read_pickle_data
from faceblind.frequency.face_looks import row_list, stacked

FOLDS = 10
_EXPECTED = "expected a pickle of (list of JPEG files, list of True or False), as lfw.bin of InsightFace"
INFERRED = "people taken from equal images and from the pairs said to be of one person; one person may count as several"


class BytesFaces:
    """Faces whose image files lie in memory; identities are what the pairs tell about them."""

    def __init__(
        self, path: Path, images: Sequence[bytes], identity: NDArray[np.str_], size: int | tuple[int, int]
    ) -> None:
        self.path, self._images = path, images
        self.size = size_of(size)
        self.identity = identity
        self.sample: NDArray[np.str_] = np.array([f"{path.name}/{row:06d}" for row in range(len(images))])

    def __len__(self) -> int:
        return len(self._images)

    def pixels(self, rows: ArrayLike) -> NDArray[np.uint8]:
        """Return faces, (b, H, W, 3) uint8 RGB.

        Raises
        ------
        ImageError
            One cannot be decoded or has another shape; names the file and the image's number.
        """
        return stacked((self._chip(row) for row in row_list(rows)), self.size)

    def _chip(self, row: int) -> NDArray[np.uint8]:
        try:
            return chip_of_bytes(self._images[row], self.size)
        except ImageError as error:
            raise ImageError(f"{self.path}, image {row} (pair {row // 2}): {error}") from error


def read_bin(path: str | Path) -> tuple[list[bytes], NDArray[np.bool_]]:
    """Return the image files and, for each two of them, whether they show one person.

    Raises
    ------
    FormatError
        Not such a file, cut off or damaged (names the byte or the image), an odd or different number of images, or a
        pickle that asks to run anything: nothing is run.
    """
    path = Path(path)
    held = read_pickle_data(path)
    if not isinstance(held, list) or len(held) != 2 or not isinstance(held[0], list):
        raise FormatError(f"{path}: {_EXPECTED}; got {_called(held)}")
    images = [_image(path, number, entry) for number, entry in enumerate(held[0])]
    same = _labels(path, held[1])
    if len(images) % 2:
        raise FormatError(f"{path} holds {len(images):,} images, an odd number: pairs have two; the file is incomplete")
    if len(images) != 2 * same.size:
        raise FormatError(
            f"{path} holds {len(images):,} images and {same.size:,} labels; there must be two images for each label"
        )
    if not images:
        raise FormatError(f"{path} holds no pairs")
    return images, same


def open_bin(path: str | Path, size: int | tuple[int, int], *, folds: int = FOLDS) -> tuple[PairSet, BytesFaces]:
    """Open a ``.bin`` file: the pairs, with folds as the official protocol cuts them, and the faces in their order.

    Raises
    ------
    FormatError
        See `read_bin`.
    """
    path = Path(path)
    images, same = read_bin(path)
    first, second = np.arange(0, len(images), 2), np.arange(1, len(images), 2)
    codes: dict[bytes, int] = {}
    picture = np.array([codes.setdefault(hashlib.sha256(image).digest(), len(codes)) for image in images])
    people = linked_people(picture[first[same]], picture[second[same]], len(codes))[picture]
    identity: NDArray[np.str_] = np.char.add("person ", people.astype(np.str_))
    pairs = PairSet(
        name=path.stem,
        first=first,
        second=second,
        same=same,
        fold=contiguous_folds(same.size, min(folds, same.size)),
        images=len(images),
        people=identity,
        note=INFERRED,
    )
    return pairs, BytesFaces(path, images, identity, size)


def _image(path: Path, number: int, entry: Any) -> bytes:
    if isinstance(entry, np.ndarray) and entry.dtype == np.uint8 and max(entry.shape, default=0) == entry.size:
        entry = entry.tobytes()
    if not isinstance(entry, bytes | bytearray):
        raise FormatError(f"{path}: image {number} is {_called(entry)}, not the bytes of a JPEG file")
    data = bytes(entry)
    problem = look(io.BytesIO(data)).problem
    if problem is not None:
        raise FormatError(f"{path}: image {number} (pair {number // 2}) {problem}")
    return data


def _labels(path: Path, labels: Any) -> NDArray[np.bool_]:
    if isinstance(labels, np.ndarray) and labels.ndim == 1:
        labels = labels.tolist()
    if not isinstance(labels, list):
        raise FormatError(f"{path}: {_EXPECTED}; the labels are {_called(labels)}")
    for number, label in enumerate(labels):
        if not isinstance(label, bool | int) or label not in (0, 1):
            raise FormatError(f"{path}: label {number} is {_called(label)}, neither True nor False")
    return np.array(labels, dtype=np.bool_)


def _called(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"a list of {len(value)} ({', '.join(type(part).__name__ for part in value[:3])})"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    return repr(value)[:40] if isinstance(value, int | float | str) else type(value).__name__
