"""Aligning a folder of photographs: one PNG chip for each, in the same folders, and a table of boxes and points.

Every chip says in its own file what it was cut from and how, so a run that was stopped goes on where it was, and a
photograph that changed since, or another detector, is noticed.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError, ImageError, OutputError, UsageError
from faceblind._files import atomic_path, sha256_file, writable_folder, write_csv, write_text
from faceblind.data.findings import Finding
from faceblind.encoders.ahead import worked_ahead
from faceblind.encoders.folder import SYNTHETIC_MARK, Photo, list_photos
from faceblind.encoders.images import decoding_steps, load_image
from faceblind.encoders.shards import Skip, write_skip_list
from faceblind.faces.aligner import Aligned, Aligner

_RECORD = "faceblind chip"  # key of the text in a chip's file
_FORMAT = 1
_AHEAD = 4  # photographs in flight for each worker
_SHOWN = 3
_POINTS = ("eye_left", "eye_right", "nose", "mouth_left", "mouth_right")
COLUMNS = (
    *("path", "identity", "source", "faces", "score", "left", "top", "right", "bottom"),
    *(f"{point}_{axis}" for point in _POINTS for axis in "xy"),
)
"""Of the table of faces. Left and right are those of the picture; pixels of the source, from the centre of the first."""

Progress = Callable[[int, int], None]
"""Called as ``progress(done, total)``, in photographs."""


@dataclass(frozen=True, kw_only=True)
class AlignResult:
    """What `align_folder` did."""

    output: Path
    chips: int
    """Chips in the folder now."""
    kept: int
    """How many of them an earlier run had made."""
    skipped: tuple[Skip, ...]
    notes: tuple[Finding, ...]
    """What was left out of the listing, and what lies in the output that is not of this run."""
    faces_path: Path
    """CSV file with the columns `COLUMNS`; its first two make it a list of labels for the chips."""
    skip_list_path: Path | None
    """CSV file with the columns sample and reason; None when nothing was skipped."""


def align_folder(
    folder: str | Path,
    output: str | Path,
    aligner: Aligner,
    *,
    labels_csv: str | Path | None = None,
    workers: int = 2,
    progress: Progress | None = None,
) -> AlignResult:
    """Cut the aligned chip out of every photograph of a folder.

    ``person/photo.jpg`` becomes ``OUTPUT/person/photo.png`` (``photo.jpg.png`` where two photographs of a folder share a
    name up to the extension). Photographs that cannot be read or show no usable face are skipped and listed in
    ``OUTPUT.skipped.csv``; boxes, points and scores are in ``OUTPUT.faces.csv``. Chips are written one by one, each whole
    or not at all. Those that are there, were cut in the same way from the same photograph and are undamaged are kept.

    Parameters
    ----------
    folder, labels_csv
        See `list_photos`.
    output
        Folder to write, made if missing.
    aligner
        How to find and cut the face.
    workers
        Threads that work on photographs.
    progress
        Called from this thread after each photograph.

    Raises
    ------
    DataError
        The folder or the CSV cannot be used, two photographs would give one chip, or every photograph was skipped.
    OutputError
        The output cannot be written, or a file that is not such a chip is in the way of one.
    UsageError
        The output lies inside the folder or around it, or `workers` is less than 1.
    """
    if workers < 1:
        raise UsageError(f"workers must be at least 1, got {workers}")
    output = Path(output)
    listing = list_photos(folder, labels_csv=labels_csv)
    here, there = listing.root.resolve(), output.resolve()
    if here == there or here in there.parents or there in here.parents:
        raise UsageError(f"{output} must lie beside {listing.root}, not in it or around it: chips are no photographs")
    names = chip_names([photo.sample for photo in listing])
    writable_folder(output)
    if listing.synthetic:
        write_text(output / SYNTHETIC_MARK, json.dumps({"synthetic": True}))
    work = _Work(output, aligner, _digest(aligner))
    rows: list[_Row] = []
    skipped: list[Skip] = []
    if progress is not None:
        progress(0, len(listing))
    pairs = zip(listing.photos, names, strict=True)
    with worked_ahead(work.do, pairs, workers=workers, window=_AHEAD * workers, name="faceblind-align") as results:
        for done, result in enumerate(results, start=1):
            if isinstance(result, _Row):
                rows.append(result)
            else:
                skipped.append(result)
            if progress is not None:
                progress(done, len(listing))
    skip_list = write_skip_list(output, skipped)
    if not rows:
        first = "; ".join(f"{skip.sample}: {skip.reason}" for skip in skipped[:_SHOWN])
        raise DataError(
            f"none of the {len(listing)} photographs under {listing.root} gave a chip ({first}); see {skip_list}"
        )
    faces = output.with_name(f"{output.name}.faces.csv")
    write_csv(faces, COLUMNS, [row.cells for row in rows])
    return AlignResult(
        output=output,
        chips=len(rows),
        kept=sum(row.kept for row in rows),
        skipped=tuple(skipped),
        notes=(*listing.notes, *_strangers(output, {row.path for row in rows})),
        faces_path=faces,
        skip_list_path=skip_list,
    )


def chip_names(samples: Sequence[str]) -> list[str]:
    """Return the chip's path for every sample key: the extension becomes ``.png``, or is kept before it where needed.

    Raises `DataError` when two would still be one file (on systems that ignore case, too).
    """
    short = [PurePosixPath(sample).with_suffix(".png").as_posix() for sample in samples]
    uses = Counter(name.casefold() for name in short)
    names = [
        name if uses[name.casefold()] == 1 else f"{sample}.png" for sample, name in zip(samples, short, strict=True)
    ]
    of: dict[str, str] = {}
    for sample, name in zip(samples, names, strict=True):
        other = of.setdefault(name.casefold(), sample)
        if other != sample:
            raise DataError(f"{other} and {sample} would both give the chip {name}: rename one of them")
    return names


@dataclass(frozen=True)
class _Row:
    path: str
    cells: tuple[Any, ...]
    kept: bool


@dataclass(frozen=True)
class _Work:
    output: Path
    aligner: Aligner
    how: str
    """Digest of everything that decides a chip's pixels, apart from the photograph."""

    def do(self, pair: tuple[Photo, str]) -> _Row | Skip:
        """Align one photograph, unless the chip of that name is there."""
        photo, name = pair
        target = self.output / name
        record = _record(target)
        try:
            source = _sha256(photo.path)
            if record is not None and (record["source"], record["how"]) == (source, self.how):
                return self._row(photo, name, record, kept=True)
            made = self.aligner(load_image(photo.path))
        except ImageError as error:
            if record is not None:
                target.unlink()  # of another state of the photograph, or cut in another way
            return Skip(photo.sample, str(error).removeprefix(f"{photo.path}: "))
        record = _record_of(made, source, self.how)
        _write_chip(target, made.chip, record)
        return self._row(photo, name, record, kept=False)

    @staticmethod
    def _row(photo: Photo, name: str, record: dict[str, Any], *, kept: bool) -> _Row:
        numbers = (record["faces"], record["score"], *record["box"], *record["points"])
        return _Row(name, (name, photo.identity, photo.sample, *numbers), kept)


def _digest(aligner: Aligner) -> str:
    steps = {"decode": decoding_steps(), "faces": aligner.steps(), "format": _FORMAT}
    return hashlib.sha256(json.dumps(steps, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    try:
        return sha256_file(path)
    except OSError as error:
        raise ImageError(f"cannot be read: {error.strerror}") from error


def _record_of(made: Aligned, source: str, how: str) -> dict[str, Any]:
    return {
        "source": source,
        "how": how,
        "faces": made.faces,
        "score": round(made.face.score, 4),
        "box": [round(edge, 2) for edge in made.face.box],
        "points": [round(float(number), 2) for number in made.face.points.ravel()],
    }


def _write_chip(target: Path, chip: NDArray[np.uint8], record: dict[str, Any]) -> None:
    from PIL import Image, PngImagePlugin

    text = PngImagePlugin.PngInfo()
    text.add_text(_RECORD, json.dumps(record, sort_keys=True))
    with atomic_path(target) as temporary:
        Image.fromarray(chip).save(temporary, format="PNG", pnginfo=text)


def _record(target: Path) -> dict[str, Any] | None:
    """Return what a chip says of itself; None when there is none, or it was cut short.

    Raises `OutputError` when another file is in its place, which is not ours to replace.
    """
    from PIL import Image

    if not target.exists():
        return None
    try:
        with Image.open(target, formats=("PNG",)) as image:
            record = json.loads(image.info[_RECORD])
            image.load()  # checks every chunk, so that damage shows
        return dict(record) if record.keys() >= {"source", "how", "faces", "score", "box", "points"} else None
    except KeyError as error:
        raise OutputError(f"{target} is in the way: it is no chip made by faceblind; choose another folder") from error
    except (OSError, ValueError, SyntaxError, AttributeError):
        return None


def _strangers(output: Path, made: set[str]) -> list[Finding]:
    left = [path.relative_to(output).as_posix() for path in sorted(output.rglob("*.png"))]
    left = [name for name in left if name not in made and not name.rpartition("/")[2].startswith(".")]
    if not left:
        return []
    message = f"{len(left)} pictures in {output} are of no photograph of this run: remove them before you embed it"
    return [
        Finding(kind="other_chips", severity="warning", count=len(left), examples=tuple(left[:_SHOWN]), message=message)
    ]
