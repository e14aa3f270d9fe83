"""Data sets that are a folder per person: VGGFace2, LFW, and any other tree of that form."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path

from faceblind._errors import FormatError
from faceblind.data.datasets.facts import Facts
from faceblind.data.datasets.listing import (
    Folder,
    Listing,
    find_file,
    find_folders,
    folder_listing,
    list_people,
    need_folder,
    open_folder,
)
from faceblind.data.datasets.notes import Notes

_VGG_PERSON, _VGG_IMAGE = re.compile(r"n\d{6}"), re.compile(r"\d{4}_\d{2}")
_LFW_IMAGE = re.compile(r"(.+)_\d{4}")
_LFW = ("lfw", "lfw-deepfunneled", "lfw_funneled", "lfw-funneled", "lfwa", "lfw2")


def list_vggface2(directory: Path, facts: Facts) -> Listing:
    """List VGGFace2: ``train/n000002/0001_01.jpg``, ``test/n000001/...``, and ``identity_meta.csv`` where it is there.

    Raises
    ------
    DataError
        No folders named like its identities.
    FormatError
        ``identity_meta.csv`` cannot be read.
    """
    root, notes = need_folder(directory), Notes()
    parents = find_folders(root, lambda _path, inside: any(map(_VGG_PERSON.fullmatch, inside.folders)))
    if not parents:
        raise facts.missing(root, "no folders of identities", "train/n000002/, test/n000001/ (n and six digits)")
    people = list_people(root, parents, notes)
    notes.extend("unusual_name", _unlike(people, _VGG_PERSON, _VGG_IMAGE))
    meta = find_file(root, ("identity_meta.csv",))
    if meta is not None:
        _check_meta(meta, people, notes)
    return folder_listing(root, people, notes)


def list_lfw(directory: Path, facts: Facts) -> Listing:
    """List LFW: ``lfw/Name_Surname/Name_Surname_0001.jpg``, funneled or not.

    Raises
    ------
    DataError
        No such folder, or several versions of it side by side.
    """
    root, notes = need_folder(directory), Notes()
    parents = find_folders(root, lambda path, inside: _holds_people(path, inside), depth=3)
    if not parents:
        raise facts.missing(root, "no folders of people", "lfw/Name_Surname/Name_Surname_0001.jpg")
    if len(parents) > 1:
        named = ", ".join(str(path.relative_to(root)) for path in parents)
        raise facts.missing(
            root, f"several versions of the data set lie side by side ({named})", "one: name its folder"
        )
    people = list_people(root, parents, notes)
    notes.extend(
        "unusual_name",
        (
            file
            for person, files in people.items()
            for file in files
            if (found := _LFW_IMAGE.fullmatch(Path(file).stem)) is None or found[1] != person
        ),
    )
    listing = folder_listing(root, people, notes)
    rich = sum(len(files) >= 20 for files in people.values())
    return Listing(**{**vars(listing), "counts": {**listing.counts, "identities with 20 or more images": rich}})


def list_tree(directory: Path, facts: Facts) -> Listing:
    """List a folder per person, here or one or more folders down.

    Raises
    ------
    DataError
        No folder that holds folders with images.
    """
    root, notes = need_folder(directory), Notes()
    parents = find_folders(root, lambda path, inside: _holds_people(path, inside), depth=3)
    if not parents:
        raise facts.missing(root, "neither RecordIO files nor folders of people", "train.rec, or PERSON/IMAGE.jpg")
    return folder_listing(root, list_people(root, parents, notes), notes)


def _holds_people(path: Path, inside: Folder) -> bool:
    """Whether one of a few sub-folders holds images directly."""
    probe = [name for name in inside.folders if name.casefold() not in _LFW]
    probe = [*probe[:4], *probe[-4:]]
    return any(open_folder(path / name, Notes()).images for name in probe)


def _unlike(people: dict[str, list[str]], person: re.Pattern[str], image: re.Pattern[str]) -> Iterable[str]:
    for name, files in people.items():
        if not person.fullmatch(name):
            yield name + "/"
            continue
        yield from (file for file in files if not image.fullmatch(Path(file).stem))


def _check_meta(meta: Path, people: dict[str, list[str]], notes: Notes) -> None:
    """Compare with ``identity_meta.csv``: Class_ID, Name, Sample_Num, Flag, Gender."""
    names: dict[str, list[str]] = {}
    try:
        with meta.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, skipinitialspace=True)
            header = [cell.strip().casefold() for cell in next(reader, [])]
            if header[:3] != ["class_id", "name", "sample_num"]:
                raise FormatError(f"{meta}: expected the columns Class_ID, Name, Sample_Num, got {','.join(header)!r}")
            for row in reader:
                cells = [cell.strip() for cell in row]
                if len(cells) < 3:
                    continue
                # A name that holds a comma and no quotes shifts what comes after it: count from the end.
                identity, name = cells[0], cells[1].strip('"')
                number = cells[2] if len(cells) <= len(header) else cells[len(cells) - len(header) + 2]
                names.setdefault(name, []).append(identity)
                if identity not in people:
                    notes.add("identity_missing", identity)
                elif number.isdigit() and int(number) != len(people[identity]):
                    notes.add("identity_counts_differ", f"{identity}: {len(people[identity])} here, {number} listed")
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"{meta} is not a UTF-8 CSV file: {error}") from error
    for name, identities in sorted(names.items()):
        if len(identities) > 1:
            notes.add("one_name_two_identities", f"{name}: {', '.join(identities)}")
