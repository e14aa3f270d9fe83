"""Faces in RecordIO: which records are of whom, and reading them one by one.

As in faces_emore and its kin: record 0 holds no image but two labels, the number after the last image and the number after
the last identity; an identity's record holds the range of its images. Files without such a record 0 are read through once
for their labels.
"""

from __future__ import annotations

import io
import math
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, overload

from faceblind._errors import FormatError
from faceblind.data.datasets.draw import WRONG_LABEL, Progress
from faceblind.data.datasets.looking import Look, look
from faceblind.data.datasets.notes import Notes
from faceblind.data.datasets.recordio import ImageHeader, RecordFile, RecordIndex

_PROBES, _VOTES = 16, 3
_STEP = 4096


class FaceRecord(NamedTuple):
    """One image of a RecordIO file: its number, who is on it, and the JPEG or PNG file as bytes."""

    number: int
    label: int
    image: bytes


class Numbers(Sequence[str]):
    """Numbers of records as text, made when asked for."""

    def __init__(self, numbers: range | array[int]) -> None:
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        return Numbers(self._numbers[place]) if isinstance(place, slice) else str(self._numbers[place])


class FaceRecords:
    """The images of a RecordIO file by identity; use as a context manager.

    >>> with FaceRecords("faces_emore/train.rec") as faces:  # doctest: +SKIP
    ...     for number, label, image in faces:
    ...         ...

    Attributes
    ----------
    people : label, as text, to the numbers of the images
    """

    def __init__(
        self, path: str | Path, *, notes: Notes | None = None, progress: Progress = lambda _what, _done, _of: None
    ) -> None:
        self._file = RecordFile(path)
        self._notes = notes or Notes()
        try:
            self._index = self._open_index(progress)
            self._check_end()
            first, _ = self._file.header(self._index.offset(0)) if 0 in self._index else (None, b"")
            self._images: range | None = None
            self.people: Mapping[str, Numbers]
            if first is not None and first.flag >= 2:
                self.people = self._from_ranges(first)
            else:
                self.people = self._from_labels(progress)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> FaceRecords:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __len__(self) -> int:
        return sum(map(len, self.people.values()))

    def __iter__(self) -> Iterator[FaceRecord]:
        """Yield all images in the order of the file's numbers; what does not belong to an identity is passed over."""
        for number in self._index.numbers.tolist():
            if self._images is None or number in self._images:
                yield self.read(number)

    def read(self, number: int) -> FaceRecord:
        """Return an image.

        Raises
        ------
        FormatError
            The record is damaged, or its label is not a whole number; names record and byte.
        DataError
            No such record.
        """
        offset = self._index.offset(number)
        try:
            header, image = self._file.header(offset)
        except FormatError as error:
            raise FormatError(f"record {number}: {error}") from error
        return FaceRecord(number, self._whole(header.labels[0], number, offset), image)

    def look(self, label: str, number: int) -> Look:
        """Look at an image as at a file, without unpacking it; another label than `label` is a problem."""
        try:
            record = self.read(number)
        except FormatError as error:
            return Look(0, b"", f"is damaged: {error}")
        found = look(io.BytesIO(record.image))
        if str(record.label) != label and found.problem is None:
            return Look(found.size, found.sha256, f"{WRONG_LABEL} {record.label} among those of {label}")
        return found

    def _open_index(self, progress: Progress) -> RecordIndex:
        path = self._file.path.with_suffix(".idx")
        if path.is_file():
            return RecordIndex.read(path, self._file)
        self._notes.add("no_index", self._file.path.name)
        progress("counting records", 0, 1)
        return RecordIndex.scanned(self._file)

    def _check_end(self) -> None:
        if not len(self._index):
            raise FormatError(f"{self._file.path} holds no records")
        last = int(self._index.offsets.argmax())
        number = int(self._index.numbers[last])
        try:
            _, after = self._file.read(int(self._index.offsets[last]))
        except FormatError as error:
            raise FormatError(f"record {number}, the last one: {error}") from error
        if after < self._file.size:
            self._notes.add("not_indexed", f"after record {number}", count=self._file.size - after)

    def _from_ranges(self, first: ImageHeader) -> dict[str, Numbers]:
        images = self._whole(first.labels[0], 0, 0)
        end = self._whole(first.labels[1], 0, 0)
        path = self._file.path
        if not 1 <= images <= end:
            raise FormatError(f"{path}, record 0: images end at {images} and identities at {end}, which is no range")
        if end - images and end - 1 not in self._index:
            raise FormatError(
                f"{path}, record 0: identities are to be records {images} to {end - 1}, but the index ends at "
                f"{int(self._index.numbers[-1])}: index and records are not of one data set"
            )
        self._images = range(1, images)
        ranges: list[range] = []
        for number in range(images, end):
            offset = self._index.offset(number)
            header, _ = self._file.header(offset)
            if header.flag < 2:
                raise FormatError(
                    f"{path}, record {number}, byte {offset:,}: no range of images, though it is an identity's"
                )
            start, stop = (self._whole(label, number, offset) for label in header.labels[:2])
            if not 1 <= start <= stop <= images:
                raise FormatError(
                    f"{path}, record {number}, byte {offset:,}: images {start} to {stop} lie outside of 1 to {images}"
                )
            ranges.append(range(start, stop))
        return self._named(ranges)

    def _named(self, ranges: list[range]) -> dict[str, Numbers]:
        """Name each range by the label of its images: its place, unless most probes show that the file counts otherwise."""
        filled = [place for place, numbers in enumerate(ranges) if numbers]
        probes = filled[:: max(1, len(filled) // _PROBES)]
        placed = 2 * sum(self._label(ranges[place]) == place for place in probes) >= len(probes)
        people: dict[str, Numbers] = {}
        for place in filled:
            label = place if placed else self._label(ranges[place])
            if label is None or label < 0 or str(label) in people:
                what = "cannot be read" if label is None else f"{WRONG_LABEL} {label} of another identity"
                self._notes.add("label_mismatch", f"record {ranges[place][0]} {what}", count=len(ranges[place]))
            else:
                people[str(label)] = Numbers(ranges[place])
        if len(ranges) - len(filled):
            self._notes.add("empty_folder", "identities without records", count=len(ranges) - len(filled))
        return people

    def _label(self, numbers: range) -> int | None:
        """Return the label that most of the first images of a range carry."""
        found: Counter[int] = Counter()
        for number in numbers[:_VOTES]:
            with suppress(FormatError):
                found[self.read(number).label] += 1
        return found.most_common(1)[0][0] if found else None

    def _from_labels(self, progress: Progress) -> Mapping[str, Numbers]:
        found: dict[int, array[int]] = {}
        total = len(self._index)
        for done, number in enumerate(self._index.numbers.tolist()):
            if done % _STEP == 0:
                progress("reading labels", done, total)
            try:
                label = self.read(number).label
            except FormatError as error:
                self._notes.add("damaged_image", str(error))
                continue
            if label < 0:
                self._notes.add("label_mismatch", f"record {number} {WRONG_LABEL} {label}")
            else:
                found.setdefault(label, array("q")).append(number)
        return {str(label): Numbers(numbers) for label, numbers in sorted(found.items())}

    def _whole(self, label: float, number: int, offset: int) -> int:
        if not math.isfinite(label) or not label.is_integer() or abs(label) >= 1 << 24:
            raise FormatError(
                f"{self._file.path}, record {number}, byte {offset:,}: label {label!r} is not a whole number that float32 "
                "holds exactly"
            )
        return int(label)
