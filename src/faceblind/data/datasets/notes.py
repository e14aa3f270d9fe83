"""Everything that can be wrong with a data set, in one table, and a collector of what was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from faceblind.data.datasets.facts import Facts
from faceblind.data.findings import Finding, Severity, worst_first

_SHOWN = 5
_NEAR = 0.01

KINDS: Mapping[str, tuple[Severity, str]] = {
    "same_picture_two_identities": (
        "error",
        "files are identical to a file of another identity; one such pair hides every leak at a low false accept rate: "
        "find out whose they are; none of them is drawn",
    ),
    "two_identities_one_file": (
        "error",
        "files are listed under two identities; correct the list; none of them is drawn",
    ),
    "listed_file_missing": (
        "error",
        "files are listed but not there: the download is incomplete, or the list is of another version",
    ),
    "unknown_image_id": ("error", "images that the ground truth names are not there: their pairs are left out"),
    "label_mismatch": ("error", "records carry another label than the range that they lie in; none of them is drawn"),
    "identity_in_two_splits": ("error", "identities are in more than one split: give each identity one split"),
    "damaged_image": (
        "warning",
        "files are empty, cut off or not images; they are not drawn: download them again",
    ),
    "file_not_listed": ("warning", "images are there but not listed, so that nobody knows who is on them; not drawn"),
    "listed_twice": ("warning", "files are listed twice under one identity"),
    "same_picture_one_identity": ("warning", "files are identical to another file of the same identity; one is drawn"),
    "same_picture_train_validation": (
        "warning",
        "validation images are identical to a train image, which makes classification look easier than it is",
    ),
    "count_differs": (
        "warning",
        "counts differ from the published ones: an incomplete download, a subset or another version",
    ),
    "identity_counts_differ": ("warning", "identities have another number of images than the data set's own list says"),
    "identity_missing": ("warning", "identities of the data set's own list have no folder"),
    "one_name_two_identities": ("warning", "names stand for more than one identity of the data set's own list"),
    "identity_in_two_folders": ("warning", "identities have a folder in more than one place; their images are joined"),
    "unusual_name": ("warning", "files are not named as this data set names them; they are drawn all the same"),
    "unusable_name": (
        "warning",
        "file names are not UTF-8, begin or end with a space, or hold a line break, and cannot be keys; not drawn",
    ),
    "stray_image": ("warning", "images lie outside of any identity's folder; not drawn"),
    "uneven_classes": ("warning", "classes do not have 50 validation images"),
    "class_missing": ("warning", "classes are in validation but not in train"),
    "not_aligned": ("warning", "photographs are the ones in the wild, not the aligned crops that the paper uses"),
    "query_not_in_ground_truth": ("warning", "queries are not in the ground truth; they count as copies of nothing"),
    "split_lacks_part": ("warning", "parts are missing from the column split; half of the people of fit became attack"),
    "fewer_people": ("warning", "people have enough images, which is fewer than were to be drawn"),
    "not_indexed": ("warning", "bytes follow the last record that the .idx file lists; it may be of another version"),
    "no_index": ("note", "RecordIO file has no .idx file; its records were counted from the beginning"),
    "partition_shares_people": (
        "note",
        "identities are in more than one part of the data set's own partition; it is not used",
    ),
    "too_few_images": ("note", "identities have too few sound images and are not drawn"),
    "left_out": ("note", "images were left out as asked"),
    "empty_folder": ("note", "folders hold no images"),
    "hidden_file": ("note", "hidden files or folders were passed over"),
    "other_file": ("note", "files are not images by their name and were passed over"),
    "not_checked": ("note", "images were not opened: only those that are drawn are checked, unless all are asked for"),
    "no_labels": ("note", "validation images have no labels and are left out"),
}
"""Kind of finding: how bad, and what it says after the count."""


@dataclass
class _Seen:
    count: int = 0
    examples: list[str] = field(default_factory=list)


class Notes:
    """Collects what was noticed; keeps counts and a few examples of each kind, whatever the size of the data set."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def add(self, kind: str, example: str = "", *, count: int = 1) -> None:
        """Note one thing of a kind in `KINDS`."""
        seen = self._seen.setdefault(kind, _Seen())
        seen.count += count
        if example and len(seen.examples) < _SHOWN:
            seen.examples.append(example)

    def extend(self, kind: str, examples: Iterable[str]) -> None:
        """Note several."""
        for example in examples:
            self.add(kind, example)

    def compare(self, facts: Facts, found: Mapping[str, int]) -> None:
        """Note counts that differ from the published ones."""
        for name, number in {**facts.counts, **facts.about}.items():
            there = found.get(name, 0)
            slack = _NEAR * number if name in facts.about else 0
            if abs(there - number) > slack:
                near = "about " if name in facts.about else ""
                self.add("count_differs", f"{name}: {there:,} here, {near}{number:,} published")

    def findings(self) -> tuple[Finding, ...]:
        """Return the findings, worst first."""
        found = [
            Finding(
                kind=kind,
                severity=severity,
                count=self._seen[kind].count,
                examples=tuple(self._seen[kind].examples),
                message=f"{self._seen[kind].count:,} {message}",
            )
            for kind, (severity, message) in KINDS.items()
            if kind in self._seen
        ]
        return tuple(worst_first(found))
