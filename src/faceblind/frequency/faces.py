"""Where faces come from: arrays, a folder per person, or RecordIO; decoded when they are asked for.

Training reads every face in every epoch, so what cannot be read should be found before the first hour and not in the
third. Sources therefore look at every file once when they are opened (that it is whole, an image, and of a shape that
fits; nothing is decoded), which costs a small part of one epoch. What still fails later names its file.

Sources may be read from several threads at once.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faceblind._errors import DataError, FormatError, ImageError
from faceblind.data.datasets.draw import WRONG_LABEL
from faceblind.data.datasets.ms1m import find_records
from faceblind.data.datasets.notes import Notes
from faceblind.data.datasets.records import FaceRecords
from faceblind.data.findings import Finding
from faceblind.encoders.folder import list_photos
from faceblind.frequency.chips import chip_of_bytes, chip_of_file, size_of
from faceblind.frequency.face_looks import (
    Damaged,
    Progress,
    labels_of,
    problem_of_bytes,
    problem_of_file,
    row_list,
    sound,
    stacked,
)


class FaceSource(Protocol):
    """Faces of one size with a key and an identity each.

    Attributes
    ----------
    size : (H, W)
    sample : (n,) str, unique keys that are the same on every machine
    identity : (n,) str
    """

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels."""
        ...

    @property
    def sample(self) -> NDArray[np.str_]:
        """Unique keys, (n,)."""
        ...

    @property
    def identity(self) -> NDArray[np.str_]:
        """Who is on each, (n,)."""
        ...

    def __len__(self) -> int: ...

    def pixels(self, rows: ArrayLike) -> NDArray[np.uint8]:
        """Return faces, (b, H, W, 3) uint8 RGB, in the order of `rows`."""
        ...


class ArrayFaces:
    """Faces in memory.

    Parameters
    ----------
    faces : (n, H, W, 3) uint8
    identity : (n,) labels
    sample : (n,) unique keys, optional
        The numbers of the rows when missing.

    Raises
    ------
    DataError
        Another shape or type, or labels that do not match.
    """

    def __init__(
        self, faces: NDArray[np.uint8], identity: Sequence[str] | NDArray[np.str_], sample: Sequence[str] | None = None
    ) -> None:
        faces = np.asarray(faces)
        if faces.dtype != np.uint8 or faces.ndim != 4 or faces.shape[3] != 3:
            raise DataError(f"faces must be (n, height, width, 3) uint8, got {faces.dtype} of shape {faces.shape}")
        self._faces = faces
        self.size = size_of((faces.shape[1], faces.shape[2]))
        self.sample, self.identity = labels_of(
            [str(row) for row in range(len(faces))] if sample is None else sample, identity, len(faces)
        )

    @classmethod
    def of(cls, source: FaceSource, rows: ArrayLike | None = None, *, progress: Progress | None = None) -> ArrayFaces:
        """Decode (some of) another source once and for all: ``H * W * 3`` bytes a face."""
        rows = np.arange(len(source)) if rows is None else np.asarray(rows, dtype=np.int64)
        faces = np.empty((rows.size, *source.size, 3), dtype=np.uint8)
        for start in range(0, rows.size, 256):
            faces[start : start + 256] = source.pixels(rows[start : start + 256])
            if progress is not None:
                progress(min(start + 256, rows.size), rows.size)
        return cls(faces, source.identity[rows], source.sample[rows].tolist())

    def __len__(self) -> int:
        return len(self._faces)

    def pixels(self, rows: ArrayLike) -> NDArray[np.uint8]:
        """Return faces, (b, H, W, 3) uint8 RGB."""
        return self._faces[np.asarray(rows, dtype=np.int64)]


class FileFaces:
    """Faces in files, one each.

    Parameters
    ----------
    files, sample, identity
        One path, key and identity for each face.
    size
        Height and width, or one number for both.
    check
        Look at every file now.
    damaged
        ``"refuse"``: raise for what a look finds; ``"skip"``: leave it out and list it in `left_out`.
    progress
        Called with the number of files looked at, and of all.

    Attributes
    ----------
    left_out : tuple of str
        Key and reason of each file that was left out.

    Raises
    ------
    ImageError
        Files are no whole images or of another shape; names them.
    DataError
        Labels that do not match, keys given twice, or no face is left.
    """

    def __init__(
        self,
        files: Sequence[Path],
        sample: Sequence[str],
        identity: Sequence[str],
        size: int | tuple[int, int],
        *,
        check: bool = True,
        damaged: Damaged = "refuse",
        progress: Progress | None = None,
    ) -> None:
        self.size = size_of(size)
        keep, self.left_out = sound(
            ((key, partial(problem_of_file, path, self.size)) for key, path in zip(sample, files, strict=True)),
            len(files),
            check=check,
            damaged=damaged,
            progress=progress,
        )
        self._files = [files[row] for row in keep]
        self.sample, self.identity = labels_of(
            [sample[row] for row in keep], [identity[row] for row in keep], len(keep)
        )

    def __len__(self) -> int:
        return len(self._files)

    def pixels(self, rows: ArrayLike) -> NDArray[np.uint8]:
        """Return faces, (b, H, W, 3) uint8 RGB.

        Raises
        ------
        ImageError
            One cannot be decoded; names its file.
        """
        return stacked((chip_of_file(self._files[int(row)], self.size) for row in row_list(rows)), self.size)


class FolderFaces(FileFaces):
    """Faces in a folder that has one sub-folder per person, or a CSV file with the columns path and identity.

    Sorted by key (``p2/1.jpg`` before ``p10/1.jpg``); people with one face are kept. See `FileFaces` for the parameters.
    """

    def __init__(
        self,
        folder: str | Path,
        size: int | tuple[int, int],
        *,
        labels: str | Path | None = None,
        check: bool = True,
        damaged: Damaged = "refuse",
        progress: Progress | None = None,
    ) -> None:
        listed = list_photos(folder, labels_csv=labels)
        self.findings: tuple[Finding, ...] = listed.notes
        super().__init__(
            [photo.path for photo in listed.photos],
            [photo.sample for photo in listed.photos],
            [photo.identity for photo in listed.photos],
            size,
            check=check,
            damaged=damaged,
            progress=progress,
        )


class RecordFaces:
    """Faces in a RecordIO file (``train.rec``, ``train.idx``), as MS1M and its kin come; keys are ``LABEL/NUMBER``.

    Records that carry another label than the range they lie in are always left out. See `FileFaces` for the parameters.

    Raises
    ------
    FormatError
        File or index are damaged; names record and byte.
    """

    def __init__(
        self,
        path: str | Path,
        size: int | tuple[int, int],
        *,
        check: bool = True,
        damaged: Damaged = "refuse",
        progress: Progress | None = None,
    ) -> None:
        self.size = size_of(size)
        self.path = Path(path)
        notes = Notes()
        self._records = FaceRecords(self.path, notes=notes)
        self._lock = threading.Lock()  # records share one place in one open file
        self.findings: tuple[Finding, ...] = notes.findings()
        try:
            found = sorted((int(number), who) for who, numbers in self._records.people.items() for number in numbers)
            keys = [f"{who}/{number:08d}" for number, who in found]
            keep, self.left_out = sound(
                ((f"{self.path}, record {number}", partial(self._problem, number, who)) for number, who in found),
                len(found),
                check=check,
                damaged=damaged,
                progress=progress,
                always=WRONG_LABEL,
            )
            self._numbers = np.array([found[row][0] for row in keep], dtype=np.int64)
            self.sample, self.identity = labels_of([keys[r] for r in keep], [found[r][1] for r in keep], len(keep))
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return int(self._numbers.size)

    def close(self) -> None:
        """Close the file."""
        self._records.close()

    def pixels(self, rows: ArrayLike) -> NDArray[np.uint8]:
        """Return faces, (b, H, W, 3) uint8 RGB.

        Raises
        ------
        ImageError
            One cannot be decoded; names its record.
        FormatError
            The file is damaged there.
        """
        return stacked((self._chip(int(self._numbers[row])) for row in row_list(rows)), self.size)

    def _chip(self, number: int) -> NDArray[np.uint8]:
        with self._lock:
            image = self._records.read(number).image
        try:
            return chip_of_bytes(image, self.size)
        except ImageError as error:
            raise ImageError(f"{self.path}, record {number}: {error}") from error

    def _problem(self, number: int, who: str) -> str | None:
        try:
            record = self._records.read(number)
        except FormatError as error:
            return f"is damaged: {error}"
        if str(record.label) != who:
            return f"{WRONG_LABEL} {record.label} among those of {who}"
        return problem_of_bytes(record.image, self.size)


def open_faces(
    path: str | Path,
    size: int | tuple[int, int],
    *,
    labels: str | Path | None = None,
    check: bool = True,
    damaged: Damaged = "refuse",
    progress: Progress | None = None,
) -> FolderFaces | RecordFaces:
    """Open a folder of aligned chips (one sub-folder per person), a folder with RecordIO files, or a ``.rec`` file.

    Raises
    ------
    DataError
        Nothing of the kind is there.
    ImageError
        With ``check`` and ``damaged="refuse"``: some files cannot be used; names them.
    """
    path = Path(path)
    if path.is_file() and path.suffix.lower() != ".rec":
        hint = "; pairs in a .bin file are for: faceblind frequency evaluate" if path.suffix.lower() == ".bin" else ""
        raise DataError(f"{path} is a file: name a folder with one sub-folder per person, or a .rec file{hint}")
    records = path if path.is_file() else find_records(path) if path.is_dir() and labels is None else None
    if records is not None:
        return RecordFaces(records, size, check=check, damaged=damaged, progress=progress)
    return FolderFaces(path, size, labels=labels, check=check, damaged=damaged, progress=progress)
