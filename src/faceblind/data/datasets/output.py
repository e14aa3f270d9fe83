"""What a prepared data set is, and writing it: tables of labels, the split, and the manifest last."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from faceblind._errors import UsageError
from faceblind._files import atomic_path, sha256_file, writable_folder, write_csv
from faceblind.data.datasets.facts import Facts
from faceblind.data.findings import Finding

SCHEMA = "faceblind.dataset/1"
MANIFEST = "manifest.json"
LABELS, SPLIT = "labels.csv", "split.csv"


class Record(NamedTuple):
    """One image of a prepared data set.

    Attributes
    ----------
    id : the data set's own id of the image
    file : path relative to the root, which is the key of the sample in tables of embeddings
    split : its part, or what the data set calls it
    size : bytes
    sha256 : hex digest
    """

    id: str
    identity: str
    file: str
    split: str
    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """A data set, checked and drawn.

    Attributes
    ----------
    root : Path
        What `faceblind embed` is pointed at.
    tables : name of a CSV file to its header and rows
    embed : names of the tables in `tables` that `faceblind embed --labels` takes
    counts : what was found, and what was drawn
    """

    facts: Facts
    root: Path
    records: Sequence[Record]
    tables: Mapping[str, tuple[Sequence[str], Sequence[Sequence[str]]]]
    embed: tuple[str, ...]
    findings: tuple[Finding, ...]
    counts: Mapping[str, Any]
    settings: Mapping[str, Any]
    rule: Mapping[str, str]
    output: Path | None = field(default=None)

    @property
    def errors(self) -> list[Finding]:
        """Findings of severity error."""
        return [finding for finding in self.findings if finding.severity == "error"]


def need_output(output: str | Path, root: Path) -> Path:
    """Make the output folder, outside of the data set.

    Raises
    ------
    UsageError
        It lies in the data set's directory, where the next run would find our files among the owner's.
    OutputError
        It cannot be written.
    """
    output = Path(output)
    inner, outer = output.resolve(), root.resolve()
    if inner == outer or outer in inner.parents:
        raise UsageError(f"{output} lies in the data set's own directory {root}; name a folder outside of it")
    return writable_folder(output)


def label_table(records: Iterable[Record]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return header and rows that `faceblind embed --labels` reads."""
    return ("path", "identity"), [(record.file, record.identity) for record in records]


def split_table(records: Iterable[Record]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return header and rows that `faceblind audit --split` reads."""
    rows = [(record.file, record.identity, record.split) for record in records]
    return ("sample", "identity", "split"), rows


def write(prepared: Prepared, output: Path) -> None:
    """Write tables and manifest into a folder; each file is whole or not there, and the manifest comes last.

    Raises
    ------
    OutputError
        Something cannot be written.
    """
    (output / MANIFEST).unlink(missing_ok=True)  # it would vouch for files that are about to change
    for name, (header, rows) in prepared.tables.items():
        write_csv(output / name, header, rows)
    head = {
        "schema": SCHEMA,
        "dataset": prepared.facts.name,
        "rule": dict(prepared.rule),
        "settings": dict(prepared.settings),
        "counts": dict(prepared.counts),
        "published": {**prepared.facts.counts, **{f"about {k}": v for k, v in prepared.facts.about.items()}},
        "findings": [finding.to_dict() for finding in prepared.findings],
        "files": {name: sha256_file(output / name) for name in prepared.tables},
    }
    with atomic_path(output / MANIFEST) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(json.dumps(head, indent=1, ensure_ascii=False)[:-2] + ',\n "images": [')
        lead = "\n  "
        for record in prepared.records:
            stream.write(lead + json.dumps(record._asdict(), ensure_ascii=False))
            lead = ",\n  "
        stream.write("\n ]\n}\n")
