"""A plain CSV file: path, identity and, optionally, split."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from faceblind._errors import DataError
from faceblind.data.datasets.facts import Facts
from faceblind.data.datasets.listing import Listing, folder_listing, is_key
from faceblind.data.datasets.notes import Notes
from faceblind.data.lists import read_csv
from faceblind.data.split import PARTS

_PARTS = {**{name: name for name in PARTS}, "train": "fit", "val": "validation", "valid": "validation", "": ""}


def list_csv(directory: Path, facts: Facts) -> Listing:
    """List the images of a CSV file; `directory` is the file, or a folder with one CSV file in it.

    Paths are relative to the folder of the file. Parts of the column split are those of an audit; train means fit, and val and
    valid mean validation; an empty cell leaves the identity out.

    Raises
    ------
    DataError
        No file, several files, empty cells, paths that lead outside, or no image that is there.
    FormatError
        Columns are missing.
    """
    path, notes = _file(directory, facts), Notes()
    root = path.parent
    identity_of: dict[str, str] = {}
    unclear: set[str] = set()
    parts: dict[str, set[str]] = {}
    for line, row in read_csv(path, ("path", "identity"), optional=("split",)):
        file, identity = _checked(path, line, row)
        if file in identity_of:
            if identity_of[file] == identity:
                notes.add("listed_twice", f"{file}, line {line}")
            else:
                unclear.add(file)
                notes.add("two_identities_one_file", f"{file}: {identity_of[file]} and {identity}, line {line}")
            continue
        identity_of[file] = identity
        if "split" in row:
            parts.setdefault(identity, set()).add(_PARTS[row["split"].casefold()])
    people: dict[str, list[str]] = {}
    for file, identity in identity_of.items():
        if not (root / file).is_file():
            notes.add("listed_file_missing", file)
        elif file not in unclear:
            people.setdefault(identity, []).append(file)
    if not people:
        raise DataError(f"{path}: none of the {len(identity_of)} images it lists is under {root}")
    shared = sorted(identity for identity, found in parts.items() if len(found) > 1)
    notes.extend("identity_in_two_splits", shared)
    given = {identity: next(iter(found)) for identity, found in parts.items() if len(found) == 1}
    listing = folder_listing(root, {name: sorted(files) for name, files in people.items()}, notes, id_of=str)
    return Listing(**{**vars(listing), "given": {name: part for name, part in given.items() if part}})


def _file(directory: Path, facts: Facts) -> Path:
    path = Path(directory)
    if path.is_file():
        return path
    if not path.is_dir():
        raise DataError(f"no such file or folder: {path}")
    found = sorted(path.glob("*.csv"))
    if len(found) != 1:
        there = ", ".join(file.name for file in found[:5]) or "none"
        raise DataError(f"{path} must hold one CSV file ({facts.point_at}); there is {there}: name the file itself")
    return found[0]


def _checked(path: Path, line: int, row: dict[str, str]) -> tuple[str, str]:
    text, identity = row["path"], row["identity"]
    if not text or not identity:
        raise DataError(
            f"{path}, line {line}: {'path' if not text else 'identity'} is empty; fill it in or remove the line"
        )
    inner = PurePosixPath(text)
    if inner.is_absolute() or Path(text).is_absolute() or ".." in inner.parts:
        raise DataError(f"{path}, line {line}: {text!r} must be a path relative to and inside {path.parent}")
    if not is_key(text) or not is_key(identity):
        raise DataError(f"{path}, line {line}: path and identity must not hold line breaks or control characters")
    if row.get("split", "").casefold() not in _PARTS:
        raise DataError(f"{path}, line {line}: split {row['split']!r} is none of {', '.join(filter(None, _PARTS))}")
    return inner.as_posix(), identity
