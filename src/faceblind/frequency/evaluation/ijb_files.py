"""The lists and images of IJB-B and IJB-C, as InsightFace distributes them: ``meta`` and ``loose_crop``.

A list of pairs has up to 16 million lines; it is read as a stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faceblind._errors import DataError, FormatError, ImageError
from faceblind.encoders.images import load_image
from faceblind.faces.align import align
from faceblind.frequency.chips import size_of
from faceblind.frequency.face_looks import row_list, stacked

_LINES = 1 << 20


@dataclass(frozen=True, eq=False)
class IjbSet:
    """IJB-B or IJB-C as InsightFace distributes its lists.

    Attributes
    ----------
    name : ``ijbb`` or ``ijbc``
    root : folder of ``meta`` and ``loose_crop``
    images : (n,) names of files in ``loose_crop``
    points : (n, 5, 2) float64, eyes, nose and mouth corners in them
    score : (n,) float64, the face detector's
    template, medium : (n,) int64
    """

    name: str
    root: Path
    images: tuple[str, ...]
    points: NDArray[np.float64]
    score: NDArray[np.float64]
    template: NDArray[np.int64]
    medium: NDArray[np.int64]

    @property
    def pairs_file(self) -> Path:
        """List of pairs of templates."""
        return self.root / "meta" / f"{self.name}_template_pair_label.txt"


def open_ijb(root: str | Path) -> IjbSet:
    """Read ``meta/ijbc_face_tid_mid.txt`` and ``meta/ijbc_name_5pts_score.txt`` (or ``ijbb_...``) of a folder.

    Raises
    ------
    DataError
        A file or the folder ``loose_crop`` is missing; names it.
    FormatError
        A line that cannot be read (named), or lists that do not go together.
    """
    root = Path(root)
    found = sorted((root / "meta").glob("*_face_tid_mid.txt"))
    if len(found) != 1:
        raise DataError(
            f"{root / 'meta'} holds {len(found)} lists like ijbc_face_tid_mid.txt; expected one: name the folder of IJB-B or "
            "of IJB-C, which holds meta and loose_crop"
        )
    name = found[0].name.removesuffix("_face_tid_mid.txt")
    points_file = root / "meta" / f"{name}_name_5pts_score.txt"
    images, numbers = _table(found[0], 3, np.int64)
    names, measured = _table(points_file, 12, np.float64)
    if images != names:
        at = next(
            (i for i, pair in enumerate(zip(images, names, strict=False)) if pair[0] != pair[1]),
            min(len(images), len(names)),
        )
        raise FormatError(
            f"{found[0].name} and {points_file.name} in {root / 'meta'} list other images from line {at + 1} on: they are not of "
            "one data set"
        )
    if not (root / "loose_crop").is_dir():
        raise DataError(f"no such folder: {root / 'loose_crop'}, where the images of {name} are to be")
    made = IjbSet(
        name=name,
        root=root,
        images=tuple(images),
        points=measured[:, :10].reshape(-1, 5, 2),
        score=measured[:, 10],
        template=numbers[:, 0],
        medium=numbers[:, 1],
    )
    if not made.pairs_file.is_file():
        raise DataError(f"no such file: {made.pairs_file}")
    return made


class IjbFaces:
    """The faces of an IJB set, aligned by their five points as they are asked for; identities are template numbers.

    Raises
    ------
    DataError
        A size that is no square: the places of the five points are given for one.
    """

    def __init__(self, ijb: IjbSet, size: int | tuple[int, int]) -> None:
        self.size = size_of(size)
        if self.size[0] != self.size[1]:
            raise DataError(f"faces are aligned to squares, got {self.size[0]} x {self.size[1]}")
        self._ijb = ijb
        self.sample: NDArray[np.str_] = np.array(ijb.images)
        self.identity: NDArray[np.str_] = ijb.template.astype(np.str_)

    def __len__(self) -> int:
        return len(self._ijb.images)

    def pixels(self, rows: ArrayLike) -> NDArray[np.uint8]:
        """Return faces, (b, H, W, 3) uint8 RGB.

        Raises
        ------
        ImageError
            An image is not there or cannot be decoded, or its points are no face; names it.
        """
        return stacked((self._chip(row) for row in row_list(rows)), self.size)

    def _chip(self, row: int) -> NDArray[np.uint8]:
        path = self._ijb.root / "loose_crop" / self._ijb.images[row]
        image = load_image(path)
        try:
            return align(image, self._ijb.points[row], size=self.size[0])
        except ImageError as error:
            raise ImageError(f"{path}: {error}") from error


def listed_pairs(
    path: Path, ids: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]]:
    """Yield rows of templates and labels, a million lines at a time."""
    for line, lines in _chunks(path):
        table = _numbers(path, line, lines, 3, np.int64)
        bad = ~np.isin(table[:, 2], (0, 1))
        if bad.any():
            at = int(bad.argmax())
            raise FormatError(f"{path}, line {line + at}: the label is 0 or 1, got {table[at, 2]}")
        rows = np.minimum(np.searchsorted(ids, table[:, :2]), ids.size - 1)
        unknown = (ids[rows] != table[:, :2]).any(axis=1)
        if unknown.any():
            at = int(unknown.argmax())
            raise FormatError(f"{path}, line {line + at}: template {table[at, 0]} or {table[at, 1]} has no images")
        yield rows[:, 0].astype(np.int32), rows[:, 1].astype(np.int32), table[:, 2] == 1


def _table(path: Path, columns: int, kind: type[np.int64] | type[np.float64]) -> tuple[list[str], NDArray[Any]]:
    """Read lines of a name and numbers."""
    names: list[str] = []
    tables: list[NDArray[Any]] = []
    for line, lines in _chunks(path):
        cut = [text.split(None, 1) for text in lines]
        short = next((place for place, cells in enumerate(cut) if len(cells) < 2), None)
        if short is not None:
            raise FormatError(
                f"{path}, line {line + short}: expected a name and {columns - 1} numbers, got {lines[short]!r}"
            )
        names += [cells[0] for cells in cut]
        tables.append(_numbers(path, line, [cells[1] for cells in cut], columns - 1, kind))
    return names, np.concatenate(tables)


def _chunks(path: Path) -> Iterator[tuple[int, list[str]]]:
    line = 1
    try:
        with path.open(encoding="ascii") as stream:
            while lines := list(islice(stream, _LINES)):
                read = len(lines)
                while lines and not lines[-1].strip():  # empty lines at the end
                    lines.pop()
                if lines:
                    yield line, lines
                line += read
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not a text file: {error}") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    if line == 1:
        raise FormatError(f"{path} is empty")


def _numbers(
    path: Path, line: int, lines: list[str], columns: int, kind: type[np.int64] | type[np.float64]
) -> NDArray[Any]:
    try:
        table = np.loadtxt(lines, dtype=kind, ndmin=2, comments=None)
    except ValueError:
        table = np.empty((0, 0))
    if table.shape != (len(lines), columns) or not np.isfinite(table).all():
        at = next((place for place, text in enumerate(lines) if not _reads(text, columns, kind)), 0)
        raise FormatError(f"{path}, line {line + at}: expected {columns} numbers, got {lines[at].strip()[:80]!r}")
    return table


def _reads(text: str, columns: int, kind: type[np.int64] | type[np.float64]) -> bool:
    try:
        return len([kind(cell) for cell in text.split() if np.isfinite(float(cell))]) == columns
    except ValueError:
        return False
