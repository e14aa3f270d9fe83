"""Listing directories as they come: where the people's folders are, and what lies in them.

Everything is sorted by name, so that the order in which a file system lists things never matters.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from faceblind._errors import DataError
from faceblind.data.datasets.looking import Look, look_file
from faceblind.data.datasets.notes import Notes

IMAGE_SUFFIXES = frozenset(
    f".{s}"
    for s in ("jpg", "jpeg", "jpe", "jfif", "jp2", "png", "webp", "gif", "avif", "bmp", "tif", "tiff", "ppm", "pgm")
)
_MANY_FOLDERS = 20_000


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Who is in a data set, and on which files.

    Attributes
    ----------
    root : Path
        What file names are relative to.
    people : identity to names of files
    counts : what was counted, by the names of the published counts
    given : identity to part, where the data set says who is in which
    id_of : name of a file to the data set's own id of the image, which does not depend on where its folder is
    look : what opens a file, by its name and its identity
    file_of : sample key in a table to the name of the file, for images to leave out
    close : closes what was opened
    """

    root: Path
    people: Mapping[str, Sequence[str]]
    notes: Notes
    counts: Mapping[str, int]
    id_of: Callable[[str], str]
    look: Callable[[str, str], Look]
    given: Mapping[str, str] = field(default_factory=dict)
    file_of: Callable[[str], str] = str
    close: Callable[[], None] = field(default=lambda: None)


@dataclass(frozen=True)
class Folder:
    """Names in one folder, sorted."""

    folders: tuple[str, ...]
    images: tuple[str, ...]


def open_folder(path: Path, notes: Notes, shown: str = "") -> Folder:
    """List a folder; hidden files, other files and names that cannot be keys are noted.

    Raises
    ------
    DataError
        It cannot be listed.
    """
    folders, images = [], []
    for name, is_folder in _names(path):
        example = f"{shown}{name}"
        if name.startswith(".") or name == "__MACOSX":
            notes.add("hidden_file", ascii(example)[1:-1])
        elif not is_key(name):
            notes.add("unusable_name", ascii(example))
        elif is_folder:
            folders.append(name)
        elif PurePosixPath(name).suffix.lower() in IMAGE_SUFFIXES:
            images.append(name)
        else:
            notes.add("other_file", example)
    return Folder(tuple(folders), tuple(images))


def _names(path: Path) -> list[tuple[str, bool]]:
    """Return the names in a folder, sorted, and which are folders."""
    try:
        with os.scandir(path) as entries:
            return sorted((entry.name, entry.is_dir()) for entry in entries)
    except OSError as error:
        raise DataError(f"cannot list {path}: {error.strerror or error}") from error


def is_key(name: str) -> bool:
    """Whether a file name can be a key in a table and a cell in a CSV file."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return name == name.strip() and all(ord(letter) >= 32 for letter in name)


def need_folder(directory: str | Path) -> Path:
    """Return the directory.

    Raises
    ------
    DataError
        It is not there, or not a folder (an archive is to be unpacked first).
    """
    path = Path(directory)
    if not path.exists():
        raise DataError(f"no such folder: {path}")
    if not path.is_dir():
        raise DataError(f"{path} is a file, not a folder: unpack archives first and name the folder they made")
    return path


def find_folders(root: Path, fits: Callable[[Path, Folder], bool], *, depth: int = 4) -> list[Path]:
    """Return the nearest folders that fit, `root` first; what lies in a folder that fits is not searched.

    Raises
    ------
    DataError
        So many folders that this cannot be the data set's.
    """
    found, level, seen = [], [root], 0
    for _ in range(depth + 1):
        below = []
        for path in level:
            seen += 1
            if seen > _MANY_FOLDERS:
                raise DataError(
                    f"{root} holds more than {_MANY_FOLDERS:,} other folders: name the data set's own folder"
                )
            inside = open_folder(path, Notes())
            if fits(path, inside):
                found.append(path)
            else:
                below += [path / name for name in inside.folders]
        level = below
    return found


def find_file(root: Path, names: Sequence[str], *, depth: int = 3) -> Path | None:
    """Return the first file of one of these names (any case), nearest to `root`."""
    wanted = {name.casefold() for name in names}
    level = [root]
    for _ in range(depth + 1):
        below: list[Path] = []
        for path in level[:_MANY_FOLDERS]:
            for name, is_folder in _names(path):
                if is_folder and not name.startswith("."):
                    below.append(path / name)
                elif not is_folder and name.casefold() in wanted:
                    return path / name
        level = below if len(below) <= 64 else []  # that many are people or classes
    return None


def list_people(root: Path, parents: Sequence[Path], notes: Notes) -> dict[str, list[str]]:
    """List a folder per identity under each of `parents`; file names are relative to `root`."""
    people: dict[str, list[str]] = {}
    for parent in parents:
        prefix = relative(parent, root)
        inside = open_folder(parent, notes, prefix)
        notes.extend("stray_image", (prefix + name for name in inside.images))
        for name in inside.folders:
            person = open_folder(parent / name, notes, f"{prefix}{name}/")
            for deep in person.folders:
                notes.add("other_file", f"{prefix}{name}/{deep}/")
            if not person.images:
                notes.add("empty_folder", prefix + name)
                continue
            if name in people:
                notes.add("identity_in_two_folders", name)
            people.setdefault(name, []).extend(f"{prefix}{name}/{image}" for image in person.images)
    return people


def relative(path: Path, root: Path) -> str:
    """Return the prefix of names under `path`, relative to `root`: empty, or with a slash at its end."""
    inner = path.relative_to(root).as_posix()
    return "" if inner == "." else inner + "/"


def stem(file: str) -> str:
    """Return the name of a file without folders and extension."""
    return PurePosixPath(file).stem


def person_and_stem(file: str) -> str:
    """Return ``folder/name`` without what is above and without the extension."""
    path = PurePosixPath(file)
    return f"{path.parent.name}/{path.stem}"


def folder_listing(
    root: Path,
    people: Mapping[str, Sequence[str]],
    notes: Notes,
    *,
    id_of: Callable[[str], str] = person_and_stem,
    given: Mapping[str, str] | None = None,
) -> Listing:
    """Return the listing of files in folders."""
    counts = {"images": sum(map(len, people.values())), "identities": len(people)}
    return Listing(
        root=root,
        people=people,
        notes=notes,
        counts=counts,
        id_of=id_of,
        look=lambda file, _identity: look_file(root / file),
        given=given or {},
    )
