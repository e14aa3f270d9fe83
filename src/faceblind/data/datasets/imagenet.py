"""ImageNet (ILSVRC2012), for what is left of an embedding's use: classes in train, and validation with its labels.

Validation images lie in class folders, as many scripts leave them, or flat, as their owner gives them. Flat ones get their
labels from ``LOC_val_solution.csv``, or from the development kit: ``ILSVRC2012_validation_ground_truth.txt`` counts classes in
the order of ``meta.mat``, which is not the alphabetical order of their names, so that both files are needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from faceblind._errors import DataError, FormatError
from faceblind.data.datasets.draw import RULE, Progress, order
from faceblind.data.datasets.facts import Facts
from faceblind.data.datasets.listing import (
    find_file,
    find_folders,
    list_people,
    need_folder,
    open_folder,
    relative,
    stem,
)
from faceblind.data.datasets.looking import Look, look_file
from faceblind.data.datasets.notes import Notes
from faceblind.data.datasets.output import Prepared, Record, label_table
from faceblind.data.datasets.request import Request
from faceblind.data.lists import read_csv

_CLASS = re.compile(r"n\d{8}")
_VAL = re.compile(r"ILSVRC2012_val_(\d{8})")
_VAL_EACH = 50
_TRUTH, _META, _SOLUTION = "ILSVRC2012_validation_ground_truth.txt", "meta.mat", "LOC_val_solution.csv"
RULE_TEXT = (
    "all validation images with a label; of each class of train the first sound images in the order of SHA-256 of seed, class "
    "and id"
)


def prepare_imagenet(directory: Path, facts: Facts, request: Request, progress: Progress) -> Prepared:
    """Check ImageNet, and draw images of each class of train.

    Raises
    ------
    DataError
        No train classes, or validation images without any labels.
    FormatError
        A list of labels cannot be used.
    """
    root, notes = need_folder(directory), Notes()
    holders = find_folders(root, lambda _path, inside: any(map(_CLASS.fullmatch, inside.folders)), depth=5)
    train = [path for path in holders if not _is_val(path, root)]
    if not train:
        raise facts.missing(root, "no train classes", "train/n01440764/*.JPEG (n and eight digits)")
    classes = list_people(root, train, notes)
    val = list_people(root, [path for path in holders if _is_val(path, root)], notes) or _flat(root, facts, notes)
    _check_classes(classes, val, notes)
    found = {
        "classes": len(classes),
        "train images": sum(map(len, classes.values())),
        "validation images": sum(map(len, val.values())),
    }
    notes.compare(facts, found)
    total = sum(map(len, val.values())) + sum(min(request.images_of(facts) or len(f), len(f)) for f in classes.values())
    opened = _Opened(root, notes, progress, total)
    records = [*_drawn(classes, "train", request, facts, opened), *_drawn(val, "validation", request, None, opened)]
    notes.extend("left_out", sorted(request.leave_out))
    _check_shared(records, notes)
    unopened = found["train images"] + found["validation images"] - opened.done
    if unopened:
        notes.add("not_checked", count=unopened)
    records.sort(key=lambda record: record.file)
    tables = {
        f"{part}.csv": label_table(record for record in records if record.split == part)
        for part in ("train", "validation")
    }
    drawn = {part: len(tables[f"{part}.csv"][1]) for part in ("train", "validation")}
    return Prepared(
        facts=facts,
        root=root,
        records=records,
        tables=tables,
        embed=tuple(tables),
        findings=notes.findings(),
        counts={"found": found, "drawn": {name: {"images": number} for name, number in drawn.items()}},
        settings=request.settings(facts),
        rule={"name": RULE, "text": RULE_TEXT},
    )


def _is_val(path: Path, root: Path) -> bool:
    return any(part.casefold().startswith("val") for part in path.relative_to(root).parts)


class _Opened:
    def __init__(self, root: Path, notes: Notes, progress: Progress, total: int) -> None:
        self.root, self.notes, self.progress, self.total, self.done = root, notes, progress, total, 0

    def look(self, file: str) -> Look | None:
        """Return what was seen of a sound file."""
        self.done += 1
        if self.done % 100 == 0:
            self.progress("checking images", min(self.done, self.total), self.total)
        found = look_file(self.root / file)
        if found.problem is not None:
            self.notes.add("damaged_image", f"{file} {found.problem}")
            return None
        return found


def _drawn(
    classes: Mapping[str, list[str]], part: str, request: Request, facts: Facts | None, opened: _Opened
) -> Iterator[Record]:
    images = request.images_of(facts) if facts is not None else None
    for name, files in sorted(classes.items()):
        taken = 0
        for place in order(request.seed, [stem(file) for file in files], name):
            file = files[place]
            if file in request.leave_out:
                continue
            enough = taken == images
            if enough and request.check != "all":
                break
            found = opened.look(file)
            if found is not None and not enough:
                taken += 1
                yield Record(stem(file), name, file, part, found.size, found.sha256.hex())


def _check_classes(classes: Mapping[str, list[str]], val: Mapping[str, list[str]], notes: Notes) -> None:
    notes.extend("class_missing", sorted(val.keys() - classes.keys()))
    for name, files in sorted(val.items()):
        if len(files) != _VAL_EACH:
            notes.add("uneven_classes", f"{name}: {len(files)}")
    for name in sorted([*classes.keys(), *val.keys()]):
        if not _CLASS.fullmatch(name):
            notes.add("unusual_name", name + "/")


def _check_shared(records: list[Record], notes: Notes) -> None:
    train = {record.sha256: record.file for record in records if record.split == "train"}
    for record in records:
        if record.split != "train" and record.sha256 in train:
            notes.add("same_picture_train_validation", f"{train[record.sha256]} = {record.file}")


def _flat(root: Path, facts: Facts, notes: Notes) -> dict[str, list[str]]:
    """List flat validation images by class."""
    folders = find_folders(
        root, lambda _path, inside: any(_VAL.fullmatch(stem(name)) for name in inside.images), depth=5
    )
    folders = [path for path in folders if not _CLASS.fullmatch(path.name)]
    if not folders:
        notes.add("count_differs", "no folder of validation images: val/ILSVRC2012_val_00000001.JPEG or val/n01440764/")
        return {}
    labels = _labels(root, facts)
    classes: dict[str, list[str]] = {}
    for folder in folders:
        prefix = relative(folder, root)
        for name in open_folder(folder, notes, prefix).images:
            label = labels.get(stem(name))
            if label is None:
                notes.add("no_labels", prefix + name)
            else:
                classes.setdefault(label, []).append(prefix + name)
    return classes


def _labels(root: Path, facts: Facts) -> dict[str, str]:
    """Return the class of each validation image by its id."""
    solution = find_file(root, (_SOLUTION,), depth=5)
    if solution is not None:
        labels = {}
        for line, row in read_csv(solution, ("ImageId", "PredictionString")):
            name = row["PredictionString"].split(" ")[0]
            if not _CLASS.fullmatch(name):
                raise FormatError(f"{solution}, line {line}: {name!r} is not a class (n and eight digits)")
            labels[row["ImageId"]] = name
        return labels
    truth, meta = find_file(root, (_TRUTH,), depth=5), find_file(root, (_META,), depth=5)
    if truth is None:
        raise facts.missing(
            root, "validation images lie flat and have no labels", f"{_SOLUTION}, or {_TRUTH} and {_META}"
        )
    if meta is None:
        raise facts.missing(
            root, f"{truth.name} counts classes in an order of its own, which only {_META} of the same kit tells", _META
        )
    names = _class_numbers(meta)
    labels = {}
    for number, text in enumerate(truth.read_text(encoding="ascii", errors="replace").split(), start=1):
        if not text.isdigit() or int(text) not in names:
            raise FormatError(f"{truth}, line {number}: {text[:40]!r} is not the number of a class in {meta.name}")
        labels[f"ILSVRC2012_val_{number:08d}"] = names[int(text)]
    return labels


def _class_numbers(meta: Path) -> dict[int, str]:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        synsets: Any = loadmat(meta, squeeze_me=True, variable_names=["synsets"])["synsets"]
        found = {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in synsets if not int(row["num_children"])}
    except (MatReadError, KeyError, ValueError, TypeError, NotImplementedError, OSError) as error:
        raise FormatError(f"{meta} is not the meta.mat of the development kit: {error}") from error
    wrong = [name for name in found.values() if not _CLASS.fullmatch(name)]
    if not found or wrong:
        raise DataError(f"{meta} names no classes" if not found else f"{meta}: {wrong[0]!r} is not a class")
    return found
