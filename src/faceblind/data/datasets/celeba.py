"""CelebA: aligned crops in one folder, and a file that says who is on each.

As its owner gives it: ``Img/img_align_celeba.zip`` (unpacked), ``Anno/identity_CelebA.txt``, ``Eval/list_eval_partition.txt``.
Mirrors nest the images once more, turn the lists into CSV files, and often lack the identity file, without which nobody
knows who is on a picture.
"""

from __future__ import annotations

from pathlib import Path

from faceblind._errors import FormatError
from faceblind.data.datasets.facts import Facts
from faceblind.data.datasets.listing import (
    Listing,
    find_file,
    find_folders,
    folder_listing,
    need_folder,
    open_folder,
    relative,
    stem,
)
from faceblind.data.datasets.notes import Notes
from faceblind.data.lists import read_pairs

_IMAGES = ("img_align_celeba", "img_align_celeba_png", "img_celeba")
_IDENTITY = tuple(f"{name}.{s}" for name in ("identity_celeba", "list_identity_celeba") for s in ("txt", "csv"))
_PARTITION = ("list_eval_partition.txt", "list_eval_partition.csv")


def list_celeba(directory: Path, facts: Facts) -> Listing:
    """List CelebA.

    Raises
    ------
    DataError
        No images, or no identity file.
    FormatError
        A line of the identity file cannot be used.
    """
    root, notes = need_folder(directory), Notes()
    labels = find_file(root, _IDENTITY)
    if labels is None:
        raise facts.missing(
            root,
            "no identity file, so nobody knows who is on a picture (mirrors often lack it)",
            "identity_CelebA.txt, also under Anno/",
        )
    folder = _image_folder(root)
    if folder is None:
        raise facts.missing(root, "no images", f"{', '.join(name + '/' for name in _IMAGES)} with 000001.jpg in it")
    prefix = relative(folder, root)
    if "img_celeba" in prefix:
        notes.add("not_aligned", prefix)
    images = {stem(name): prefix + name for name in open_folder(folder, notes, prefix).images}
    people, listed = _people(labels, images, notes)
    notes.extend("file_not_listed", sorted(images[name] for name in images.keys() - listed.keys()))
    _check_partition(root, listed, notes)
    listing = folder_listing(root, people, notes, id_of=stem)
    return Listing(**{**vars(listing), "counts": {"images": len(images), "identities": len(set(listed.values()))}})


def _image_folder(root: Path) -> Path | None:
    """Return the folder with the images: of the names we know in that order, else `root` itself."""
    with_images = find_folders(root, lambda _path, inside: bool(inside.images))
    for name in _IMAGES:
        for folder in with_images:
            if name in (part.casefold() for part in folder.relative_to(root.parent).parts):
                return folder
    return root if root in with_images else None


def _people(labels: Path, images: dict[str, str], notes: Notes) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return files by identity, and identities by id of the image as listed."""
    listed: dict[str, str] = {}
    unclear: set[str] = set()
    for line, file, identity in read_pairs(labels):
        if not identity.isdigit():
            if line == 1:  # a header
                continue
            raise FormatError(f"{labels}, line {line}: {identity!r} is not the number of an identity")
        name = stem(file)
        if name not in listed:
            listed[name] = identity
        elif listed[name] == identity:
            notes.add("listed_twice", f"{file}, line {line}")
        else:
            unclear.add(name)
            notes.add("two_identities_one_file", f"{file}: {listed[name]} and {identity}, line {line}")
    if not listed:
        raise FormatError(f"{labels} lists no images: expected lines such as '000001.jpg 2880'")
    people: dict[str, list[str]] = {}
    for name, identity in sorted(listed.items()):
        if name not in images:
            notes.add("listed_file_missing", name)
        elif name not in unclear:
            people.setdefault(identity, []).append(images[name])
    return people, listed


def _check_partition(root: Path, listed: dict[str, str], notes: Notes) -> None:
    path = find_file(root, _PARTITION)
    if path is None:
        return
    parts: dict[str, set[str]] = {}
    for line, file, part in read_pairs(path):
        if line == 1 and not part.isdigit():
            continue
        identity = listed.get(stem(file))
        if identity is not None:
            parts.setdefault(identity, set()).add(part)
    shared = sorted(identity for identity, found in parts.items() if len(found) > 1)
    notes.extend("partition_shares_people", shared)
