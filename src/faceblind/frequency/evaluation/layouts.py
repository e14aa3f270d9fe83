"""Verification sets as their owners publish them: lists of pairs beside folders of images.

LFW (``pairs.txt``), CALFW and CPLFW (``pairs_CALFW.txt``), CFP (``Protocol/``), and plain lists of two paths and a label,
as AgeDB-30 is often kept. The single-file form of all of them is in `faceblind.frequency.evaluation.bins`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError, FormatError
from faceblind.frequency.evaluation.bins import BytesFaces, open_bin
from faceblind.frequency.evaluation.pairs import PairSet, folds_within
from faceblind.frequency.faces import FileFaces

FOLDS = 10
PROTOCOLS = ("FP", "FF")
_SUFFIXES = (".jpg", ".png", ".jpeg", ".JPG", ".bmp", ".webp")
_MOST_CONTRADICTIONS = 0.01
_NUMBERED = re.compile(r"(.+)_\d+")
Row = tuple[str, str, bool, int | None, int]
"""First and second image, whether they show one person, fold or None, line."""


def open_pairs(
    path: str | Path, size: int | tuple[int, int], *, images: str | Path | None = None, protocol: str = "FP"
) -> tuple[PairSet, BytesFaces | FileFaces]:
    """Open a verification set, whatever its layout: the pairs, and the faces that they number.

    Parameters
    ----------
    path
        A ``.bin`` file, a list of pairs, or the folder of CFP (the one that holds ``Protocol``).
    images
        Folder of the (aligned) images, where it is not the list's own. For CFP the one that holds ``001/frontal/01.jpg``.
    protocol
        ``FP`` (frontal with profile) or ``FF`` of CFP.

    Raises
    ------
    DataError
        A file that is listed is not there; names it.
    FormatError
        A list that cannot be read; names the line.
    ImageError
        Images are damaged or of another shape; names them.
    """
    path = Path(path)
    if path.is_file() and path.suffix.lower() == ".bin":
        return open_bin(path, size)
    if path.is_dir():
        if not (path / "Protocol").is_dir():
            raise DataError(
                f"{path} is a folder without Protocol/, so it is not CFP: name the list of pairs, and its images with images"
            )
        return _opened(
            path, _read_cfp(path, protocol), size, *_cfp_places(path, images), name=f"cfp_{protocol.lower()}"
        )
    lines = _lines(path)
    folder = Path(images) if images is not None else path.parent
    if not folder.is_dir():
        raise DataError(f"no such folder of images: {folder}")
    cells = [_cells(text) for _, text in lines[:8]]
    if len(cells[0]) <= 2 and all(cell.isdigit() for cell in cells[0]) and len(cells) > 1 and len(cells[1]) in (3, 4):
        return _opened(path, _read_lfw(path, lines), size, folder, _by_number, _person_of_name)
    if all(len(row) == 2 for row in cells):
        return _opened(path, _read_rows(path, lines), size, folder, _as_it_is, _person_of_name)
    return _opened(path, _read_plain(path, lines), size, folder, _as_it_is, None)


def _opened(
    path: Path,
    rows: Sequence[Row],
    size: int | tuple[int, int],
    folder: Path,
    place: Callable[[Path, str], Path],
    person: Callable[[str], str] | None,
    *,
    name: str | None = None,
) -> tuple[PairSet, FileFaces]:
    """Give images numbers in the order in which they come, and find them all before anything else is done."""
    number: dict[str, int] = {}
    files: list[Path] = []
    missing: list[str] = []
    for left, right, _, _, line in rows:
        for image in (left, right):
            if image in number:
                continue
            number[image] = len(number)
            files.append(place(folder, image))
            if not files[-1].is_file():
                missing.append(f"{files[-1]} (line {line})")
    if missing:
        more = f" and {len(missing) - 5:,} more" if len(missing) > 5 else ""
        raise DataError(
            f"{path} lists {len(missing):,} images that are not there: {', '.join(missing[:5])}{more}; name the folder of "
            "the images"
        )
    same = np.array([row[2] for row in rows], dtype=np.bool_)
    fold = np.array([-1 if row[3] is None else row[3] for row in rows], dtype=np.int64)
    note = ""
    if (fold < 0).any():
        spread = folds_within(same, min(FOLDS, max(1, int(same.sum())), max(1, int((~same).sum()))))
        fold = np.where(fold < 0, spread, fold)
        note = "the list says no fold for some pairs: they are cut into folds as they stand, those of either kind by themselves"
    keys = list(number)
    people = None if person is None else np.array([person(key) for key in keys])
    first = np.array([number[row[0]] for row in rows], dtype=np.int64)
    second = np.array([number[row[1]] for row in rows], dtype=np.int64)
    if people is not None:
        note = "; ".join(filter(None, (note, _contradictions(path, people[first] == people[second], rows))))
    pairs = PairSet(
        name=name or path.stem,
        first=first,
        second=second,
        same=same,
        fold=np.unique(fold, return_inverse=True)[1].astype(np.int64),
        images=len(keys),
        people=people,
        note=note,
    )
    unknown = [""] * len(keys) if people is None else people.tolist()
    return pairs, FileFaces(files, keys, unknown, size)


def _contradictions(path: Path, named_same: NDArray[np.bool_], rows: Sequence[Row]) -> str:
    """Say how many labels the names of the files contradict; many mean a wrong column, or the list of another set."""
    wrong = np.flatnonzero(named_same != [row[2] for row in rows])
    if not wrong.size:
        return ""
    first, second, same, _, line = rows[wrong[0]]
    kind = "one person" if same else "two people"
    if wrong.size > _MOST_CONTRADICTIONS * len(rows):
        raise FormatError(
            f"{path}, line {line}: {first} and {second} are said to be {kind}, which their names contradict; so it is with "
            f"{wrong.size:,} of {len(rows):,} pairs: is the label in another column, or the list of another set?"
        )
    return f"{wrong.size:,} pairs have labels that the names of their files contradict (line {line}: {first}, {second}, {kind})"


def _read_lfw(path: Path, lines: Sequence[tuple[int, str]]) -> list[Row]:
    """Read ``pairs.txt``: folds and pairs of each kind in a fold, then names and numbers, fold by fold."""
    head = [int(cell) for cell in _cells(lines[0][1])]
    folds, each = (1, head[0]) if len(head) == 1 else head
    if len(lines) - 1 != 2 * folds * each:
        raise FormatError(
            f"{path} promises {folds} folds of {each} pairs of either kind, {2 * folds * each:,} lines; it has "
            f"{len(lines) - 1:,}: the file is incomplete"
        )
    rows: list[Row] = []
    for place, (line, text) in enumerate(lines[1:]):
        cells = _cells(text)
        fold, same = place // (2 * each), place // each % 2 == 0
        if len(cells) != (3 if same else 4) or not all(cell.isdigit() for cell in cells[1::2] + cells[2:3] * same):
            expected = "a name and two numbers" if same else "name, number, name, number"
            raise FormatError(f"{path}, line {line}: expected {expected}, got {text[:80]!r}")
        other = cells[0] if same else cells[2]
        rows.append((_numbered(cells[0], cells[1]), _numbered(other, cells[-1]), same, fold, line))
    return rows


def _read_rows(path: Path, lines: Sequence[tuple[int, str]]) -> list[Row]:
    """Read the lists of CALFW and CPLFW: two lines a pair, an image and a number each.

    The number is the fold of a pair of one person, from 1, or 1 for all of them; 0 stands for two people.
    """
    if len(lines) % 2:
        raise FormatError(
            f"{path} has {len(lines):,} lines, an odd number: two lines are a pair; the file is incomplete"
        )
    tokens = [_whole(path, line, _cells(text)[-1]) for line, text in lines]
    numbered = set(tokens) - {0} == set(range(1, FOLDS + 1))
    rows: list[Row] = []
    for place in range(0, len(lines), 2):
        (line, first), (after, second) = lines[place], lines[place + 1]
        cells, others = _cells(first), _cells(second)
        if len(cells) != 2 or len(others) != 2 or tokens[place] != tokens[place + 1]:
            raise FormatError(
                f"{path}, lines {line} and {after}: expected an image and a number each, the same number in both lines, got "
                f"{first[:60]!r} and {second[:60]!r}"
            )
        token = tokens[place]
        rows.append((cells[0], others[0], token > 0, token - 1 if numbered and token else None, line))
    return rows


def _read_plain(path: Path, lines: Sequence[tuple[int, str]]) -> list[Row]:
    """Read two paths, 1 or 0, and perhaps a fold in each line, with a header or without one."""
    rows: list[Row] = []
    for place, (line, text) in enumerate(lines):
        cells = _cells(text)
        if place == 0 and len(cells) in (3, 4) and not cells[2].isdigit():
            continue
        if len(cells) not in (3, 4) or cells[2] not in ("0", "1"):
            raise FormatError(
                f"{path}, line {line}: expected two paths, 1 (one person) or 0 (two), and perhaps a fold, got {text[:80]!r}"
            )
        fold = _whole(path, line, cells[3]) if len(cells) == 4 else None
        rows.append((cells[0], cells[1], cells[2] == "1", fold, line))
    return rows


def _read_cfp(root: Path, protocol: str) -> list[Row]:
    """Read ``Split/FP/01/same.txt`` and so on: numbers of images in ``Pair_list_F.txt`` and ``Pair_list_P.txt``."""
    if protocol not in PROTOCOLS:
        raise DataError(f"CFP has the protocols {', '.join(PROTOCOLS)}, got {protocol!r}")
    folder = root / "Protocol"
    frontal = _cfp_list(folder / "Pair_list_F.txt")
    other = frontal if protocol == "FF" else _cfp_list(folder / "Pair_list_P.txt")
    splits = folder / "Split" / protocol
    folds = sorted(entry for entry in splits.iterdir() if entry.name.isdigit()) if splits.is_dir() else []
    if not folds:
        raise DataError(f"{splits} holds no folds (01, 02, ...)")
    rows: list[Row] = []
    for fold, inner in enumerate(folds):
        for name, same in (("same.txt", True), ("diff.txt", False)):
            for line, text in _lines(inner / name):
                cells = _cells(text)
                known = len(cells) == 2 and cells[0] in frontal and cells[1] in other
                if not known:
                    raise FormatError(
                        f"{inner / name}, line {line}: expected the numbers of two images in the lists of {folder}, got "
                        f"{text[:80]!r}"
                    )
                rows.append((frontal[cells[0]], other[cells[1]], same, fold, line))
    return rows


def _cfp_list(path: Path) -> dict[str, str]:
    """Return the images of a list by number, as ``001/frontal/01.jpg``."""
    found: dict[str, str] = {}
    for line, text in _lines(path):
        cells = text.split(maxsplit=1)
        parts = PurePosixPath(cells[-1].replace("\\", "/")).parts[-3:]
        if len(cells) != 2 or not cells[0].isdigit() or len(parts) != 3 or ".." in parts:
            raise FormatError(f"{path}, line {line}: expected a number and a path, got {text[:80]!r}")
        found[cells[0]] = "/".join(parts)
    return found


def _cfp_places(
    root: Path, images: str | Path | None
) -> tuple[Path, Callable[[Path, str], Path], Callable[[str], str]]:
    return Path(images) if images is not None else root / "Data" / "Images", _as_it_is, lambda key: key.split("/")[0]


def _by_number(folder: Path, key: str) -> Path:
    """Return ``Name/Name_0001.jpg``, by whatever suffix it is there, or without the person's folder."""
    person = _person_of_name(key)
    for inner in (folder / person, folder):
        for suffix in _SUFFIXES:
            if (inner / f"{key}{suffix}").is_file():
                return inner / f"{key}{suffix}"
    return folder / person / f"{key}{_SUFFIXES[0]}"


def _as_it_is(folder: Path, key: str) -> Path:
    return folder / key


def _numbered(name: str, number: str) -> str:
    return f"{name}_{int(number):04d}"


def _person_of_name(key: str) -> str:
    """Return the person of ``Name_Surname_0001`` or ``Name_Surname_3.jpg``."""
    stem = PurePosixPath(key).name
    stem = stem[: -len(PurePosixPath(stem).suffix)] if PurePosixPath(stem).suffix.lower() in _SUFFIXES else stem
    found = _NUMBERED.fullmatch(stem)
    return found[1] if found else stem


def _cells(text: str) -> list[str]:
    """Cut a line at tabs, else commas, else spaces."""
    mark = "\t" if "\t" in text else "," if "," in text else None
    return [cell.strip() for cell in text.split(mark)]


def _whole(path: Path, line: int, cell: str) -> int:
    if not cell.isdigit():
        raise FormatError(f"{path}, line {line}: expected a whole number, got {cell[:40]!r}")
    return int(cell)


def _lines(path: Path) -> list[tuple[int, str]]:
    return list(_read_lines(path))


def _read_lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8-sig") as stream:
            lines = [(number, text.strip()) for number, text in enumerate(stream, start=1) if text.strip()]
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not a UTF-8 text file: {error}") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    if not lines:
        raise FormatError(f"{path} is empty")
    yield from lines
