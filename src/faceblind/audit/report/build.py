"""Make the extras of a report from tables: maps before and after, and nearest neighbours of random queries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.audit.report.extras import Map, Neighbour, NeighbourRow, Picture, ReportExtras
from faceblind.audit.report.layout import lay_out
from faceblind.audit.report.thumbs import thumbnail
from faceblind.data.embeddings import EmbeddingSet, unit_rows

_QUERIES = 6
_NEAREST = 5


def build_extras(
    raw: EmbeddingSet,
    erased: EmbeddingSet | None,
    *,
    images: Path | None = None,
    seed: int = 0,
    max_points: int = 1500,
) -> ReportExtras:
    """Lay out maps and look up nearest neighbours, before and after erasing.

    Parameters
    ----------
    raw
        Vectors as the encoder gave them, with identities; at best the test part of the audit.
    erased
        The same images after the eraser (any row order, any length of vector), or None.
    images
        Folder in which a sample's key names its photograph; without it no thumbnails are made. A file that is
        missing or cannot be read gets a placeholder.
    seed
        Chooses people for the map, queries and the start of t-SNE.
    max_points
        Most images on a map; people are kept or left out whole.

    Returns
    -------
    ReportExtras
        Same input and seed, same extras.

    Raises
    ------
    DataError
        No identities, other samples in `erased` than in `raw`, or `max_points` below 3.
    MissingExtraError
        `images` is given and Pillow is not installed.
    """
    identity = raw.require_identity()
    if max_points < 3:
        raise DataError(f"max_points is {max_points}: a map needs at least 3 points")
    after = None if erased is None else _in_order_of(raw, erased)
    generator = np.random.default_rng(seed)
    rows = _whole_people(identity, max_points, generator)
    queries = _queries(identity, generator)
    before_all = raw.unit()
    after_all = None if after is None else unit_rows(after.vectors)
    maps = [_map("raw", before_all[rows], identity[rows], seed)]
    if after_all is not None:
        maps.append(_map("erased", after_all[rows], identity[rows], seed))
    pictures = _Pictures(raw, images)
    neighbours = tuple(
        NeighbourRow(
            query=pictures.of(query),
            before=_nearest(before_all, query, identity, pictures),
            after=None if after_all is None else _nearest(after_all, query, identity, pictures),
        )
        for query in queries
    )
    people = np.unique(identity).size
    shown = np.unique(identity[rows]).size
    return ReportExtras(
        maps=tuple(maps),
        neighbours=neighbours,
        map_rule=(
            f"{shown:,} of {people:,} people, drawn at random (seed {seed}) and kept whole: {rows.size:,} of {len(raw):,} images."
            if rows.size < len(raw)
            else f"All {len(raw):,} images of {people:,} people."
        ),
        query_rule=(
            f"Queries are {len(queries)} images drawn at random (seed {seed}), one each of {len(queries)} people with at least two "
            f"images; they were not chosen for their result. Neighbours come from all {len(raw):,} images, by cosine."
        ),
    )


class _Pictures:
    """Makes each thumbnail once."""

    def __init__(self, table: EmbeddingSet, folder: Path | None) -> None:
        self._table = table
        self._folder = folder
        self._made: dict[int, Picture] = {}

    def of(self, row: int) -> Picture:
        if row not in self._made:
            sample = str(self._table.sample[row])
            self._made[row] = Picture(
                sample=sample,
                identity=str(self._table.require_identity()[row]),
                jpeg=None if self._folder is None else thumbnail(self._folder, sample),
            )
        return self._made[row]


def _in_order_of(raw: EmbeddingSet, erased: EmbeddingSet) -> EmbeddingSet:
    if raw.sample.shape == erased.sample.shape and bool((raw.sample == erased.sample).all()):
        return erased
    place = {str(key): row for row, key in enumerate(erased.sample)}
    missing = [str(key) for key in raw.sample if str(key) not in place]
    if missing or len(place) != len(raw):
        raise DataError(
            f"raw has {len(raw)} images and erased {len(erased)}; "
            + (f"{missing[0]!r} is missing from erased" if missing else "erased holds images that raw lacks")
            + ": pass the same images in both"
        )
    return erased.take([place[str(key)] for key in raw.sample])


def _whole_people(identity: NDArray[np.str_], most: int, generator: np.random.Generator) -> NDArray[np.intp]:
    """Return row numbers of people drawn in random order for as long as all their images fit."""
    names, member = np.unique(identity, return_inverse=True)
    sizes = np.bincount(member)
    kept: list[int] = []
    total = 0
    order = generator.permutation(names.size)
    for person in order:
        if total + sizes[person] <= most:
            kept.append(int(person))
            total += int(sizes[person])
    if not kept:  # everyone has more images than fit: show part of one person rather than nothing
        return np.flatnonzero(member == order[0])[:most].astype(np.intp)
    return np.flatnonzero(np.isin(member, kept)).astype(np.intp)


def _queries(identity: NDArray[np.str_], generator: np.random.Generator) -> list[int]:
    _, member = np.unique(identity, return_inverse=True)
    eligible = np.flatnonzero(np.bincount(member) >= 2)
    drawn = generator.permutation(eligible)[:_QUERIES]
    return [int(generator.choice(np.flatnonzero(member == person))) for person in drawn]


def _map(release: str, unit: NDArray[np.float32], identity: NDArray[np.str_], seed: int) -> Map:
    method, xy = lay_out(unit, seed=seed)
    return Map(release=release, method=method, xy=xy, identity=identity)


def _nearest(
    unit: NDArray[np.float32], query: int, identity: NDArray[np.str_], pictures: _Pictures
) -> tuple[Neighbour, ...]:
    cosine = np.asarray(unit @ unit[query], dtype=np.float64)
    cosine[query] = -np.inf
    # A stable sort: equal cosines keep the order of the table.
    nearest = np.argsort(-cosine, kind="stable")[: min(_NEAREST, cosine.size - 1)]
    return tuple(
        Neighbour(
            picture=pictures.of(int(row)),
            cosine=float(np.clip(cosine[row], -1, 1)),
            same_person=bool(identity[row] == identity[query]),
        )
        for row in nearest
    )
