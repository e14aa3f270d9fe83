"""`reproduce`: from a folder of tables to measured layouts; finished cells are kept, so that a run can go on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from faceblind._files import write_text
from faceblind.audit.papers.layout import Cell, Facts, Layout, check_cross, fit_counts, lay_out, rows_of
from faceblind.audit.papers.maps import NULLS, MapKey, Released, directions_of, projector_of, shared_rank
from faceblind.audit.papers.people import Bench, Group, load_bench
from faceblind.audit.papers.protocol import LAYOUT, Protocol
from faceblind.audit.papers.readings import Job, Reading, measure
from faceblind.audit.papers.sources import Source, find_sources, other_of
from faceblind.audit.parallel import each
from faceblind.audit.provenance import library_versions
from faceblind.erase import Projector
from faceblind.erase.directions import Directions

Key = tuple[str, str]
Progress = Callable[[str, int, int], None]
CACHE = "cells.json"


@dataclass(frozen=True, eq=False)
class Reproduced:
    """One table, measured."""

    layout: Layout
    readings: Mapping[Job, Reading]
    protocol: Protocol
    notes: tuple[str, ...]
    provenance: Mapping[str, Any]
    synthetic: bool = False

    def roles(self, cell: Cell) -> dict[str, Reading]:
        """Return the readings behind a cell, by role."""
        return {role: self.readings[job] for role, job in cell.jobs.items()}

    def worst(self, cell: Cell) -> tuple[Job, Reading] | None:
        """Return the attacker that reads most from a cell's release; nulls are other releases and do not count."""
        own = [(job, self.readings[job]) for role, job in cell.jobs.items() if role not in NULLS]
        return max(own, key=lambda pair: (pair[1].shown, pair[1].high), default=None)


def reproduce(
    folder: str | Path,
    tables: Sequence[str],
    *,
    protocol: Protocol | None = None,
    controls: Collection[str] = (),
    dataset: str | None = None,
    cache: Path | None = None,
    progress: Progress = lambda _what, _done, _of: None,
) -> tuple[Reproduced, ...]:
    """Measure the paper's tables on other embeddings.

    Parameters
    ----------
    folder : path
        Embedding tables; see `faceblind.audit.papers.sources`.
    tables : of ``"1", "4", "5", "6", "8", "9"``
    controls : encoder names that are face recognisers, shown raw only
    dataset : str, optional
        Data set of the rows; by default all (Tables 1, 5), LFW or the first (4), the first (6, 8), the second (9).
    cache : path, optional
        JSON file that finished cells are kept in, and read from when tables and settings are the same.

    Raises
    ------
    DataError
        Tables that are missing, such as a second data set of an encoder for ISP-X.
    SplitError
        Too few people.
    """
    protocol = protocol or Protocol()
    sources = find_sources(folder, controls=controls)
    rows = {table: rows_of(table, sources, dataset) for table in tables}
    crossed = protocol.cross and "1" in rows
    if crossed:
        check_cross(rows["1"], sources)
    work = _Work(protocol, sources, cross=crossed, progress=progress)
    work.load([source for found in rows.values() for source in found])
    layouts = [lay_out(table, found, work.facts(table, found), protocol) for table, found in rows.items()]
    readings = work.measure([job for layout in layouts for cell in layout.cells for job in cell.jobs.values()], cache)
    return tuple(
        Reproduced(
            layout,
            readings,
            protocol,
            work.notes(layout),
            work.provenance(layout),
            synthetic=any(work.benches[_key(s)].synthetic for s in layout.rows),
        )
        for layout in layouts
    )


class _Work:
    """Tables, erasers and finished cells of one run."""

    def __init__(self, protocol: Protocol, sources: Sequence[Source], *, cross: bool, progress: Progress) -> None:
        self.protocol, self.sources, self.cross, self.progress = protocol, sources, cross, progress
        self.benches: dict[Key, Bench] = {}
        self.directions: dict[tuple[Key, int], Directions] = {}
        self.rank_notes: dict[str, str] = {}

    def load(self, rows: Sequence[Source]) -> None:
        needed = list(rows)
        if self.cross:
            needed += [other_of(source, self.sources) for source in rows if not source.control]
        needed = list(dict.fromkeys(needed))
        for done, source in enumerate(needed):
            self.progress(f"reading {source.path.name}", done, len(needed))
            self.benches[_key(source)] = load_bench(source, self.protocol)

    def facts(self, table: str, rows: Sequence[Source]) -> Facts:
        """Find the erasers of a table, and one rank for all that are compared in it."""
        train = {key: bench.groups["train"].people for key, bench in self.benches.items()}
        available = {key: len(bench.order) for key, bench in self.benches.items()}
        own = [_key(source) for source in rows if not source.control]
        others = {key: _key(self._other(key)) if table == "1" else key for key in own}
        fits = [(key, train[key]) for key in dict.fromkeys((*own, *others.values()))]
        if table == "6":
            counts = fit_counts(rows, available, self.protocol)[0]
            fits += [(key, m) for key in own for m in counts if m <= available[key]]
        self._find(fits)
        rank: dict[Key, int] = {}
        for encoder in dict.fromkeys(encoder for _, encoder in own):
            compared = [self.directions[fit] for fit in fits if fit[0][1] == encoder]
            shared, note = shared_rank(self.protocol.rank, compared)
            rank |= {key: shared for key in own if key[1] == encoder}
            if note and table != "5":
                self.rank_notes[f"{table}/{encoder}"] = f"{encoder}: {note}"
        most = {key: self.directions[key, train[key]].most for key in own}
        return Facts(rank, most, train, available, {key: train[other] for key, other in others.items()})

    def measure(self, wanted: Sequence[Job], cache: Path | None) -> dict[Job, Reading]:
        jobs = list(dict.fromkeys(wanted))
        kept = _read_cache(cache)
        names = {job: self._name(job) for job in jobs}
        found = {job: reading for job in jobs if (reading := _kept_reading(kept.get(names[job]))) is not None}
        lock = Lock()

        def one(job: Job, releases: Mapping[MapKey, Released]) -> None:
            reading = measure(job, releases[job.map], self._pool(job, releases[job.map]), self.protocol)
            with lock:
                found[job], kept[names[job]] = reading, reading.to_dict()
                if cache is not None:
                    write_text(cache, json.dumps({"layout": LAYOUT, "cells": kept}, sort_keys=True, indent=1))
                self.progress(f"{job.dataset} {job.encoder}: {job.map.kind}, {job.label}", len(found), len(jobs))

        for key, bench in self.benches.items():
            todo = [job for job in jobs if (job.dataset, job.encoder) == key and job not in found]
            maps = dict.fromkeys(job.map for job in todo)
            releases = {place: Released(bench, self._projector(place, bench)) for place in maps}
            each(partial(one, releases=releases), todo)
        return {job: found[job] for job in jobs}

    def notes(self, layout: Layout) -> tuple[str, ...]:
        mine = [f"{s.name}: {note}" for s in layout.rows for note in self.benches[_key(s)].notes]
        ranks = [note for place, note in self.rank_notes.items() if place.startswith(f"{layout.table}/")]
        return (*layout.notes, *ranks, *mine, *self._pools(layout))

    def provenance(self, layout: Layout) -> dict[str, Any]:
        tables = [
            {
                "dataset": bench.source.dataset,
                "encoder": bench.source.encoder,
                "control": bench.source.control,
                "file": bench.source.path.name,
                "digest": bench.digest,
                "people": {name: group.people for name, group in bench.groups.items()},
                "images": {name: int(group.identity.size) for name, group in bench.groups.items()},
            }
            for bench in self.benches.values()
        ]
        return {
            "table": layout.table,
            "protocol": self.protocol.to_dict(),
            "tables": tables,
            "libraries": library_versions(),
        }

    def _find(self, fits: Sequence[tuple[Key, int]]) -> None:
        todo = [fit for fit in dict.fromkeys(fits) if fit not in self.directions]
        found = each(lambda fit: directions_of(self.benches[fit[0]], fit[1]), todo)
        self.directions |= dict(zip(todo, found, strict=True))

    def _other(self, key: Key) -> Source:
        source = self.benches[key].source
        return other_of(source, self.sources) if self.cross else source

    def _projector(self, place: MapKey, bench: Bench) -> Projector | None:
        if place.kind == "raw":
            return None
        source = bench.source if place.kind != "isp-x" else self._other(_key(bench.source))
        directions = self.directions.get((_key(source), place.people))
        return projector_of(place, bench, directions, self.protocol.seed)

    def _pool(self, job: Job, released: Released) -> tuple[str, Group]:
        if job.pool != "fresh":
            return "train", released.group("train")
        bench = self.benches[job.dataset, job.encoder]
        name, names = bench.fresh(job.map.people if job.map.kind == "isp-w" else 0)
        group = released.group(name)
        return name, group if names is None else group.only(names)

    def _pools(self, layout: Layout) -> list[str]:
        said = []
        for source in layout.rows:
            bench = self.benches[_key(source)]
            if not source.control and bench.fresh(0)[0] == "validation":
                said.append(
                    f"{source.name}: no people are left over, so attackers on people unseen by the eraser learn from the "
                    f"{bench.groups['validation'].people} validation people, tuned by two-fold cross-validation; with more "
                    "people they would read more"
                )
        return said

    def _name(self, job: Job) -> str:
        """Return the key of a finished cell: everything that its number depends on."""
        digests = [self.benches[job.dataset, job.encoder].digest]
        if job.map.kind == "isp-x":
            digests.append(self.benches[_key(self._other((job.dataset, job.encoder)))].digest)
        decides = {
            "job": asdict(job),
            "protocol": self.protocol.decides(),
            "tables": digests,
            "libraries": library_versions(),
        }
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def _key(source: Source) -> Key:
    return source.dataset, source.encoder


def _kept_reading(held: Any) -> Reading | None:
    """Rebuild a finished cell; one that does not hold what a reading holds counts as missing."""
    if not isinstance(held, dict):
        return None
    try:
        return Reading.from_dict(held)
    except (KeyError, TypeError):
        return None


def _read_cache(cache: Path | None) -> dict[str, Any]:
    """Read finished cells; a file that cannot be read, or is of another layout, counts as empty."""
    if cache is None or not cache.is_file():
        return {}
    try:
        held = json.loads(cache.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        return {}
    if not isinstance(held, dict) or held.get("layout") != LAYOUT or not isinstance(held.get("cells"), dict):
        return {}
    return dict(held["cells"])
