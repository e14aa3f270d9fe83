"""MS1M and others of its form: RecordIO files, from which drawn images are unpacked, or a folder per person."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from faceblind._errors import FormatError, OutputError
from faceblind.data.datasets.draw import Drawn, Progress
from faceblind.data.datasets.facts import Facts
from faceblind.data.datasets.folders import list_tree
from faceblind.data.datasets.listing import Listing, find_file, need_folder, stem
from faceblind.data.datasets.looking import look_file, suffix_of
from faceblind.data.datasets.notes import Notes
from faceblind.data.datasets.records import FaceRecords

IMAGES = "images"
Place = Callable[[Drawn], tuple[Path, Mapping[str, str]]]


def find_records(directory: Path) -> Path | None:
    """Return ``train.rec``, or the only other ``.rec`` file, of a directory; None when there is none."""
    found = find_file(directory, ("train.rec",))
    if found is None:
        others = sorted(directory.glob("*.rec"))
        found = others[0] if len(others) == 1 else None
    return found


def list_ms1m(directory: Path, facts: Facts, output: Path, progress: Progress) -> tuple[Listing, Place | None]:
    """List RecordIO files or a folder per person; for RecordIO also return what unpacks the drawn images.

    Raises
    ------
    DataError
        Neither is there.
    FormatError
        Index or records are damaged where nothing can be read without them; names record and byte.
    """
    root, notes = need_folder(directory), Notes()
    path = find_records(root)
    if path is None:
        return list_tree(root, facts), None
    faces = FaceRecords(path, notes=notes, progress=progress)
    try:
        _check_property(path.with_name("property"), len(faces.people), notes)
    except BaseException:
        faces.close()
        raise
    listing = Listing(
        root=root,
        people=faces.people,
        notes=notes,
        counts={"images": len(faces), "identities": len(faces.people)},
        id_of=lambda number: f"{int(number):08d}",
        look=lambda number, label: faces.look(label, int(number)),
        file_of=lambda sample: str(int(stem(sample))) if stem(sample).isdigit() else sample,
        close=faces.close,
    )
    return listing, lambda drawn: _unpack(faces, drawn, output / IMAGES, progress)


def _check_property(path: Path, identities: int, notes: Notes) -> None:
    """Compare with ``property``: number of identities, height, width."""
    if not path.is_file():
        return
    first = path.read_text(encoding="ascii", errors="replace").strip().split(",")[0]
    if not first.isdigit():
        raise FormatError(f"{path}: expected identities,height,width, got {first[:80]!r}")
    if int(first) != identities:
        notes.add("count_differs", f"identities: {identities:,} here, {int(first):,} in {path.name}")


def _unpack(faces: FaceRecords, drawn: Drawn, folder: Path, progress: Progress) -> tuple[Path, dict[str, str]]:
    """Write the drawn images to ``folder/LABEL/NUMBER.jpg``; what an earlier run wrote whole is kept.

    Raises
    ------
    OutputError
        The folder cannot be written.
    FormatError
        The file changed since it was checked.
    """
    names: dict[str, str] = {}
    total = sum(map(len, drawn.people.values()))
    for person, numbers in drawn.people.items():
        inner = folder / person
        try:
            inner.mkdir(parents=True, exist_ok=True)
            for number in numbers:
                record = faces.read(int(number))
                name = f"{person}/{record.number:08d}{suffix_of(record.image)}"
                _write(folder / name, record.image, drawn.looks[number].sha256)
                names[number] = name
        except OSError as error:
            raise OutputError(f"cannot write {inner}: {error.strerror or error}") from error
        progress("unpacking images", len(names), total)
    return folder, names


def _write(path: Path, image: bytes, sha256: bytes) -> None:
    if path.is_file() and path.stat().st_size == len(image) and look_file(path).sha256 == sha256:
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_bytes(image)
        if look_file(temporary).sha256 != sha256:
            raise FormatError(f"record {int(path.stem)} is not what it was when it was checked: did the file change?")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
