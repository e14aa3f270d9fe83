"""Data sets as their owners give them, checked, drawn by rule, and turned into what `embed` and `audit` take.

>>> from faceblind.data.datasets import Request, prepare
>>> made = prepare("celeba20", "CelebA", "celeba20", Request(seed=0))  # doctest: +SKIP

Writes ``labels.csv`` (path, identity), ``split.csv`` (sample, identity, split) and ``manifest.json`` (every image with its digest,
counts, findings). The same directory and seed give the same bytes. Nothing is downloaded, decoded or unpickled.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from faceblind.data.datasets.celeba import list_celeba
from faceblind.data.datasets.disc import prepare_disc
from faceblind.data.datasets.draw import Progress
from faceblind.data.datasets.facts import FACTS, Facts, facts_of
from faceblind.data.datasets.folders import list_lfw, list_tree, list_vggface2
from faceblind.data.datasets.imagenet import prepare_imagenet
from faceblind.data.datasets.ms1m import list_ms1m
from faceblind.data.datasets.output import Prepared, Record, need_output, write
from faceblind.data.datasets.people import Place, prepare_people
from faceblind.data.datasets.records import FaceRecord, FaceRecords
from faceblind.data.datasets.request import Request, read_leave_out
from faceblind.data.datasets.table import list_csv

__all__ = ["FACTS", "FaceRecord", "FaceRecords", "Facts", "Prepared", "Record", "Request", "prepare", "read_leave_out"]

_LISTERS = {
    "celeba20": list_celeba,
    "vggface2-20": list_vggface2,
    "lfw20": list_lfw,
    "folders": list_tree,
    "csv": list_csv,
}


def prepare(
    name: str,
    directory: str | Path,
    output: str | Path,
    request: Request | None = None,
    *,
    progress: Progress = lambda _what, _done, _of: None,
) -> Prepared:
    """Check a data set and write what was drawn of it into a folder.

    Parameters
    ----------
    name : of `FACTS`
    directory : as downloaded from its owner, unpacked; for ``csv`` also the file itself
    output : folder outside of it; ``ms1m`` in RecordIO unpacks its images there as well
    progress : called as ``progress(what, done, total)``

    Raises
    ------
    UsageError
        No such data set, or an output folder inside of the data set.
    DataError
        Something essential is missing; says what was looked for and where the data set comes from.
    FormatError
        A list or index that is needed is damaged; names the line, or record and byte.
    SplitError
        Too few people with enough images.
    OutputError
        The folder cannot be written.
    """
    facts, request = facts_of(name), request or Request()
    directory = Path(directory)
    if not directory.exists():
        raise facts.missing(directory, "no such folder", facts.point_at)
    out = need_output(output, directory)
    place: Place | None = None
    if name == "imagenet":
        made = prepare_imagenet(directory, facts, request, progress)
    elif name == "disc2021":
        made = prepare_disc(directory, facts, request, progress)
    else:
        if name == "ms1m":
            listing, place = list_ms1m(directory, facts, out, progress)
        else:
            listing = _LISTERS[name](directory, facts)
        with closing(listing):
            made = prepare_people(listing, facts, request, progress=progress, place=place)
    write(made, out)
    return replace(made, output=out)
