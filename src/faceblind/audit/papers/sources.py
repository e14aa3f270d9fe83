"""The folder of embedding tables: which file is which data set through which encoder.

By convention a file is named ``DATASET-ENCODER.parquet`` (or ``.npz``, ``.npy``); the data set is the text up to the
first dash. A file ``tables.csv`` in the folder says it instead, with columns path, dataset, encoder and, optionally,
control (yes or no). A control is a face recogniser such as ArcFace: shown raw, as what a strong attacker reads.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from faceblind._errors import DataError, FormatError

MANIFEST = "tables.csv"
_SUFFIXES = (".parquet", ".npz", ".npy")
_YES, _NO = {"yes", "true", "1"}, {"", "no", "false", "0"}


@dataclass(frozen=True)
class Source:
    """One table: a data set through an encoder."""

    path: Path
    dataset: str
    encoder: str
    control: bool = False

    @property
    def name(self) -> str:
        """Data set and encoder, for messages."""
        return f"{self.dataset} through {self.encoder}"


def find_sources(folder: str | Path, *, controls: Collection[str] = ()) -> tuple[Source, ...]:
    """List the tables of a folder, in the order of ``tables.csv``, or by data set and encoder.

    Parameters
    ----------
    folder : path
    controls : encoder names
        Face recognisers among the encoders, in addition to those that ``tables.csv`` marks.

    Raises
    ------
    DataError
        No folder, no table in it, two tables of one data set and encoder, or a control that is not there.
    FormatError
        ``tables.csv`` lacks a column, or a line of it cannot be used (named).
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; name the folder that holds the embedding tables")
    manifest = folder / MANIFEST
    found = _listed(manifest) if manifest.is_file() else _named(folder)
    seen: dict[tuple[str, str], Path] = {}
    for source in found:
        before = seen.setdefault((source.dataset, source.encoder), source.path)
        if before != source.path:
            raise DataError(f"{before} and {source.path} are both {source.name}: keep one of them")
    missing = sorted(set(controls) - {source.encoder for source in found})
    if missing:
        known = ", ".join(dict.fromkeys(source.encoder for source in found))
        raise DataError(f"no table is of the control encoder {', '.join(missing)}; the encoders are {known}")
    return tuple(Source(s.path, s.dataset, s.encoder, control=s.control or s.encoder in controls) for s in found)


def datasets_of(sources: Sequence[Source]) -> tuple[str, ...]:
    """Return the data sets in order."""
    return tuple(dict.fromkeys(source.dataset for source in sources))


def other_of(source: Source, sources: Sequence[Source]) -> Source:
    """Return the table whose eraser is tried on `source` in ISP-X: the next data set of the same encoder.

    Raises
    ------
    DataError
        There is no second data set of the encoder.
    """
    same = [s for s in sources if s.encoder == source.encoder and not s.control]
    if len(same) < 2:
        raise DataError(
            f"ISP-X of {source.name} needs a second data set of encoder {source.encoder}: add a table named "
            f"OTHER-{source.encoder}.parquet, or leave ISP-X out (--no-cross)"
        )
    return same[(same.index(source) + 1) % len(same)]


def _named(folder: Path) -> list[Source]:
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES and path.is_file())
    # the Parquet file beside a .npy describes it and is no table of its own
    described = {path.with_suffix(".parquet") for path in files if path.suffix.lower() == ".npy"}
    files = [path for path in files if path not in described]
    parts = [(path, *path.stem.partition("-")) for path in files]
    found = [Source(path, dataset, encoder) for path, dataset, _, encoder in parts if dataset and encoder]
    if not found:
        near = f"; {files[0].name} has no dash in its name" if files else ""
        raise DataError(
            f"no embedding table in {folder}: name them DATASET-ENCODER.parquet (.npz, .npy), or list them in "
            f"{MANIFEST} with columns path,dataset,encoder,control{near}"
        )
    return found


def _listed(manifest: Path) -> list[Source]:
    try:
        with manifest.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream)
            missing = [name for name in ("path", "dataset", "encoder") if name not in (reader.fieldnames or ())]
            if missing:
                raise FormatError(f"{manifest} lacks the columns {', '.join(missing)}")
            found = [_line(manifest, number, row) for number, row in enumerate(reader, start=2)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"{manifest} is not a CSV file: {error}") from error
    if not found:
        raise FormatError(f"{manifest} lists no table")
    return found


def _line(manifest: Path, number: int, row: dict[str, str | None]) -> Source:
    path, dataset, encoder = ((row.get(name) or "").strip() for name in ("path", "dataset", "encoder"))
    if not (path and dataset and encoder):
        raise FormatError(f"{manifest} line {number}: path, dataset and encoder must all be filled in")
    control = (row.get("control") or "").strip().lower()
    if control not in _YES | _NO:
        raise FormatError(f"{manifest} line {number}: control is yes or no, got {control!r}")
    place = manifest.parent / path
    if not place.exists():
        raise DataError(f"{manifest} line {number}: {place} does not exist")
    return Source(place, dataset, encoder, control=control in _YES)
