"""Find the files of a clip-retrieval folder and pair them by number.

The layout is that of https://github.com/rom1504/clip-retrieval: ``img_emb/img_emb_N.npy`` beside
``metadata/metadata_N.parquet``. Numbers may be padded with zeros; 10 comes after 9.
"""

from __future__ import annotations

import re
from pathlib import Path

from faceblind._errors import FormatError
from faceblind.data.findings import Finding
from faceblind.data.tables.inspection import SHOWN
from faceblind.data.tables.npy_layout import Pair

VECTORS = "img_emb"
METADATA = "metadata"


def is_clip_retrieval(folder: Path) -> bool:
    """Whether `folder` has the folder of vectors in it."""
    return (folder / VECTORS).is_dir()


def vectors_file(folder: Path, number: int) -> Path:
    """Return the place of the vectors of a shard."""
    return folder / VECTORS / f"{VECTORS}_{number}.npy"


def metadata_file(folder: Path, number: int) -> Path:
    """Return the place of the metadata of a shard."""
    return folder / METADATA / f"{METADATA}_{number}.parquet"


def find_pairs(folder: Path, metadata: Path | None = None) -> tuple[list[Pair], list[Finding]]:
    """List vectors with their metadata in the order of their numbers, and say which numbers are left out.

    Parameters
    ----------
    metadata : Path, optional
        Folder of the metadata files when it is not ``folder/metadata``.

    Raises
    ------
    FormatError
        A file has no partner, two files have one number, a name does not fit, or there is nothing.
    """
    vectors = _numbered(folder / VECTORS, VECTORS, ".npy")
    if not vectors:
        raise FormatError(f"{folder / VECTORS} has no files {VECTORS}_N.npy in it")
    place = metadata or folder / METADATA
    if metadata is None and not place.exists():
        return [(vectors[number], None) for number in sorted(vectors)], _gaps(folder, vectors)
    described = _numbered(place, METADATA, ".parquet")
    for number in sorted(set(vectors) ^ set(described)):
        if number in vectors:
            raise FormatError(
                f"{vectors[number]} has no partner {place / f'{METADATA}_{number}.parquet'}; restore it or remove both"
            )
        raise FormatError(
            f"{described[number]} has no partner {vectors_file(folder, number)}; restore it or remove both"
        )
    return [(vectors[number], described[number]) for number in sorted(vectors)], _gaps(folder, vectors)


def _numbered(folder: Path, stem: str, suffix: str) -> dict[int, Path]:
    if not folder.is_dir():
        raise FormatError(f"{folder} is not a folder; a clip-retrieval table needs {VECTORS}/ and {METADATA}/")
    found: dict[int, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix != suffix or path.name.startswith("."):
            continue
        match = re.fullmatch(rf"{stem}_(\d+)", path.stem)
        if match is None:
            raise FormatError(f"{path} is not named {stem}_N{suffix}, so its place in the order is unknown; rename it")
        number = int(match[1])
        if number in found:
            raise FormatError(f"{found[number]} and {path} have the same number; remove one")
        found[number] = path
    return found


def _gaps(folder: Path, vectors: dict[int, Path]) -> list[Finding]:
    missing = sorted(set(range(min(vectors), max(vectors))) - set(vectors))
    if not missing:
        return []
    return [
        Finding(
            kind="missing_shards",
            severity="warning",
            count=len(missing),
            examples=tuple(f"{VECTORS}_{number}.npy" for number in missing[:SHOWN]),
            message=f"{folder} has shards {min(vectors)} to {max(vectors)} but {len(missing)} numbers in "
            "between are missing; the table may be incomplete",
        )
    ]
