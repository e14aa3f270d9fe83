"""Listing photographs and who is on them, from a folder per person or from a CSV file."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from faceblind._errors import DataError
from faceblind.data.findings import Finding
from faceblind.data.lists import read_csv

IMAGE_EXTENSIONS = frozenset(
    f".{extension}"
    for extension in (
        *("jpg", "jpeg", "jpe", "jfif", "jp2", "png", "apng", "webp", "gif", "avif"),
        *("bmp", "tif", "tiff", "ppm", "pgm"),
    )
)
"""Extensions (any case) that mark a file as a photograph when a folder is listed."""

SYNTHETIC_MARK = "synthetic.json"
"""A file of this name in the root, with ``{"synthetic": true}``, marks rendered people."""

_COLUMNS = ("path", "identity")
_OR_CSV = "or list the photographs in a CSV file with the columns path and identity"
_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Photo:
    """One photograph to embed."""

    path: Path
    sample: str
    """Key: the path relative to the root, with forward slashes."""
    identity: str


@dataclass(frozen=True, kw_only=True)
class PhotoFolder:
    """The photographs under a folder, in natural order of their keys (``p2`` before ``p10``)."""

    root: Path
    photos: tuple[Photo, ...]
    synthetic: bool
    """Whether the root is marked as holding rendered people."""
    notes: tuple[Finding, ...]
    """What was left out: hidden files, other files, folders without photographs."""

    def __len__(self) -> int:
        return len(self.photos)

    def __iter__(self) -> Iterator[Photo]:
        return iter(self.photos)


def list_photos(folder: str | Path, *, labels_csv: str | Path | None = None) -> PhotoFolder:
    """List the photographs of a folder and who is on them.

    Without `labels_csv`, each sub-folder is a person and holds that person's photographs directly. Hidden
    files and files that are not photographs by their extension (`IMAGE_EXTENSIONS`) are left out and counted
    in the notes. With `labels_csv`, a UTF-8 file with the columns ``path`` (relative to `folder`) and
    ``identity`` lists them; its other columns are ignored, and so are files it does not name.

    Returns
    -------
    PhotoFolder
        Sorted by natural order of the sample keys, so that the order is the same on every machine.

    Raises
    ------
    DataError
        No such folder, no photographs, photographs that belong to no person (directly in the root) or lie
        deeper than one folder, names that are not UTF-8; for a CSV: missing columns, empty cells, duplicate
        or outside paths, files that are not there. The message names the files or rows.
    """
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"{root} is not a folder" if root.exists() else f"no such folder: {root}")
    try:
        synthetic = _is_synthetic(root)
        if labels_csv is None:
            photos, notes = _from_folders(root)
        else:
            photos, notes = _from_csv(root, Path(labels_csv)), ()
    except OSError as error:
        raise DataError(f"cannot read {error.filename or root}: {error.strerror or error}") from error
    _refuse_odd_names(photos)
    photos.sort(key=lambda photo: _natural(photo.sample))
    return PhotoFolder(root=root, photos=tuple(photos), synthetic=synthetic, notes=notes)


def _from_folders(root: Path) -> tuple[list[Photo], tuple[Finding, ...]]:
    photos: list[Photo] = []
    stray, hidden, other, empty, deep = [], [], [], [], []
    for entry in sorted(root.iterdir()):
        if entry.name.startswith("."):
            hidden.append(entry.name)
        elif not entry.is_dir():
            if _is_photo(entry):
                stray.append(entry.name)
            elif entry.name != SYNTHETIC_MARK:
                other.append(entry.name)
        else:
            before = len(photos)
            for file in sorted(entry.iterdir()):
                sample = f"{entry.name}/{file.name}"
                if file.name.startswith("."):
                    hidden.append(sample)
                elif file.is_dir():
                    inner = next((path for path in sorted(file.rglob("*")) if _is_photo(path)), None)
                    if inner is None:
                        other.append(sample + "/")
                    else:
                        deep.append(inner.relative_to(root).as_posix())
                elif _is_photo(file):
                    photos.append(Photo(path=file, sample=sample, identity=entry.name))
                else:
                    other.append(sample)
            if len(photos) == before:
                empty.append(entry.name)
    if stray:
        raise DataError(
            f"{len(stray)} photographs lie directly in {root} and belong to no person: {_some(stray)}; "
            f"put each person's photographs in a folder of its own, {_OR_CSV}"
        )
    if deep:
        raise DataError(
            f"photographs lie deeper than {root}/PERSON/PHOTO: {_some(deep)}; "
            f"point at the folder that holds the people, {_OR_CSV}"
        )
    if not photos:
        raise DataError(
            f"no photographs under {root}: expected {root}/PERSON/PHOTO with one of the extensions "
            f"{' '.join(sorted(IMAGE_EXTENSIONS))}" + (f"; found only {_extensions(other)}" if other else "")
        )
    return photos, _notes(hidden, other, empty)


def _notes(hidden: list[str], other: list[str], empty: list[str]) -> tuple[Finding, ...]:
    not_photos = f"{len(other)} files or folders are not photographs by their extension and were left out"
    found = (
        ("hidden_files", hidden, f"{len(hidden)} hidden files or folders were left out"),
        ("other_files", other, f"{not_photos}: {_extensions(other)}"),
        ("empty_folders", empty, f"{len(empty)} folders hold no photographs: {_some(empty)}"),
    )
    return tuple(
        Finding(kind=kind, severity="note", count=len(names), examples=tuple(names[:_SHOWN]), message=message)
        for kind, names, message in found
        if names
    )


def _from_csv(root: Path, labels: Path) -> list[Photo]:
    photos: list[Photo] = []
    rows_of: defaultdict[str, list[int]] = defaultdict(list)
    missing = []
    for line, path_text, identity in _read_rows(labels):
        relative = PurePosixPath(path_text)
        if not path_text or not identity:
            what = "path" if not path_text else "identity"
            raise DataError(f"{labels}, line {line}: {what} is empty; fill it in or remove the line")
        if relative.is_absolute() or Path(path_text).is_absolute() or ".." in relative.parts:
            raise DataError(f"{labels}, line {line}: {path_text!r} must be a path relative to and inside {root}")
        sample = relative.as_posix()
        rows_of[sample].append(line)
        path = root / relative
        if not path.is_file():
            missing.append(f"{sample} (line {line})")
        photos.append(Photo(path=path, sample=sample, identity=identity))
    repeated = [f"{sample} (lines {_joined(lines)})" for sample, lines in rows_of.items() if len(lines) > 1]
    if repeated:
        raise DataError(f"{labels} lists {len(repeated)} photographs more than once: {_some(repeated)}")
    if missing:
        raise DataError(f"{labels}: {len(missing)} of {len(photos)} photographs are not under {root}: {_some(missing)}")
    if not photos:
        raise DataError(f"{labels} lists no photographs: only its header is there")
    return photos


def _read_rows(labels: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line number, path and identity of each row; blank lines are skipped."""
    if not labels.is_file():
        raise DataError(f"no such file: {labels}")
    for line, row in read_csv(labels, _COLUMNS, called="path and identity"):
        yield line, row["path"], row["identity"]


def _is_synthetic(root: Path) -> bool:
    mark = root / SYNTHETIC_MARK
    if not mark.is_file():
        return False
    try:
        value = json.loads(mark.read_text(encoding="utf-8"))["synthetic"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f'{mark} must be JSON with "synthetic": true or false ({error!r})') from error
    if not isinstance(value, bool):
        raise DataError(f'{mark}: "synthetic" must be true or false, got {value!r}')
    return value


def _refuse_odd_names(photos: list[Photo]) -> None:
    odd = [ascii(photo.sample) for photo in photos if not _is_text(photo.sample)]
    if odd:
        raise DataError(f"{len(odd)} file names are not UTF-8 and cannot be keys: {_some(odd)}; rename them")


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _is_photo(path: Path) -> bool:
    # A dangling link named like a photograph counts: it then shows up among the skipped, not nowhere.
    hidden = path.name.startswith(".")
    return not hidden and path.suffix.lower() in IMAGE_EXTENSIONS and not path.is_dir()


def _natural(key: str) -> tuple[list[tuple[int, str]], str]:
    """Sort key: runs of ASCII digits by value, everything else by code point; the key itself breaks ties."""
    parts = re.split(r"([0-9]+)", key)
    return [(int(part), "") if i % 2 else (-1, part) for i, part in enumerate(parts)], key


def _extensions(names: list[str]) -> str:
    counts = Counter(PurePosixPath(name).suffix.lower() or "no extension" for name in names)
    return ", ".join(f"{count} {extension}" for extension, count in sorted(counts.items())[:_SHOWN])


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _joined(lines: list[int]) -> str:
    return ", ".join(map(str, lines))
