"""DISC2021: queries, of which some are edited copies of references, and a million references.

Files are told by their names, whatever folders they came in (``refs_50k_0/``, ``references/``, ``dev_queries_50k_0/``): R and six digits, T
and six digits, Q and five or more. Queries below Q50000 are those of development, the others those of the final phase, and a
ground truth belongs to the phase whose queries it names. Pairs may have a header or not; a query without a reference
is a copy of nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from faceblind._errors import FormatError
from faceblind.data.datasets.draw import RULE, Progress, order
from faceblind.data.datasets.facts import Facts
from faceblind.data.datasets.listing import find_folders, need_folder, open_folder, relative, stem
from faceblind.data.datasets.looking import look_file
from faceblind.data.datasets.notes import Notes
from faceblind.data.datasets.output import Prepared, Record, label_table
from faceblind.data.datasets.request import Request
from faceblind.data.lists import read_pairs

_ID = re.compile(r"([QRT])(\d{5,6})")
_FINAL = 50_000
_KINDS = {"Q": "query", "R": "reference", "T": "training"}
PAIRS = "pairs.csv"
RULE_TEXT = (
    "all queries of the phase; references that are copied, and of the others as many as asked for in the order of SHA-256 of "
    "seed and id; training images likewise"
)


def prepare_disc(directory: Path, facts: Facts, request: Request, progress: Progress) -> Prepared:
    """Check DISC2021, and list queries, references and the pairs that are copies.

    Raises
    ------
    DataError
        No references, no queries of the phase, or no ground truth for them.
    FormatError
        The ground truth cannot be read.
    """
    root, notes = need_folder(directory), Notes()
    files = _files(root, notes)
    final = request.queries == "final"
    queries = {name: file for name, file in files["Q"].items() if (int(name[1:]) >= _FINAL) == final}
    for what, there, looked_for in (
        ("references", files["R"], "R000000.jpg in any folder"),
        (f"{request.queries} queries", queries, "Q50000.jpg and on" if final else "Q00000.jpg to Q49999.jpg"),
    ):
        if not there:
            raise facts.missing(root, f"no {what}", looked_for)
    found = {"reference images": len(files["R"]), "training images": len(files["T"]), "query images": len(queries)}
    notes.compare(facts, found)
    pairs = _pairs(root, facts, request, queries, files["R"], notes)
    copied = {reference for _, reference in pairs}
    chosen = {
        "Q": sorted(queries),
        "R": _chosen(sorted(files["R"]), copied, request, facts),
        "T": _chosen(sorted(files["T"]), set(), request, facts),
    }
    records = _records(root, files, chosen, request, notes, progress)
    sound = {record.id for record in records}
    pairs = [(query, reference) for query, reference in pairs if query in sound and reference in sound]
    tables = {
        f"{name}.csv": label_table(record for record in records if record.split == kind)
        for name, kind in (("queries", "query"), ("references", "reference"), ("training", "training"))
        if kind != "training" or files["T"]
    }
    embed = tuple(tables)
    rows = [(query, reference, files["Q"][query], files["R"][reference]) for query, reference in pairs]
    tables[PAIRS] = (("query_id", "reference_id", "query", "reference"), rows)
    drawn = {kind: {"images": sum(record.split == kind for record in records)} for kind in _KINDS.values()}
    return Prepared(
        facts=facts,
        root=root,
        records=records,
        tables=tables,
        embed=embed,
        findings=notes.findings(),
        counts={"found": found, "drawn": {**drawn, "copies": {"pairs": len(pairs)}}},
        settings=request.settings(facts),
        rule={"name": RULE, "text": RULE_TEXT},
    )


def _files(root: Path, notes: Notes) -> dict[str, dict[str, str]]:
    """Return the files by kind and id."""
    files: dict[str, dict[str, str]] = {kind: {} for kind in _KINDS}
    for folder in find_folders(root, lambda _path, inside: bool(inside.images)):
        prefix = relative(folder, root)
        for name in open_folder(folder, notes, prefix).images:
            match = _ID.fullmatch(stem(name))
            if match is None:
                notes.add("unusual_name", prefix + name)
            elif stem(name) in files[match[1]]:
                notes.add("listed_twice", prefix + name)
            else:
                files[match[1]][stem(name)] = prefix + name
    return files


def _pairs(
    root: Path, facts: Facts, request: Request, queries: dict[str, str], references: dict[str, str], notes: Notes
) -> list[tuple[str, str]]:
    final = request.queries == "final"
    named: dict[str, list[str]] = {}
    for path in _truths(root, final=final):
        for line, query, reference in read_pairs(path):
            if _is_header(query, line):
                continue
            if not _ID.fullmatch(query) or (reference and not _ID.fullmatch(reference)):
                raise FormatError(
                    f"{path}, line {line}: {query!r}, {reference!r} are not ids such as Q00000 and R000000"
                )
            named.setdefault(query, [])
            if reference and reference not in named[query]:
                named[query].append(reference)
    if not named:
        raise facts.missing(
            root,
            f"no ground truth for the {request.queries} queries",
            "a CSV file of query and reference ids, such as dev_queries_groundtruth.csv",
        )
    pairs = []
    for query, found in sorted(named.items()):
        for reference in found:
            unknown = [name for name, there in ((query, queries), (reference, references)) if name not in there]
            if unknown:
                notes.add("unknown_image_id", f"{query}, {reference}: no {' and no '.join(unknown)}")
            else:
                pairs.append((query, reference))
        if not found and query not in queries:
            notes.add("unknown_image_id", f"{query}: no {query}")
    notes.extend("query_not_in_ground_truth", sorted(queries.keys() - named.keys()))
    return pairs


def _truths(root: Path, *, final: bool) -> list[Path]:
    """Return the CSV files whose first pair is of this phase."""
    found = []
    for path in sorted([*root.glob("*.csv"), *root.glob("*/*.csv")]):
        if path.name.startswith("."):
            continue
        try:
            rows = [row for row in _beginning(path) if not _is_header(row[1], row[0])]
        except FormatError:
            if "truth" in path.name.casefold():
                raise
            continue  # attributions and other tables
        match = _ID.fullmatch(rows[0][1]) if rows else None
        if match is not None and match[1] == "Q" and (int(match[2]) >= _FINAL) == final:
            found.append(path)
    return found


def _beginning(path: Path) -> Sequence[tuple[int, str, str]]:
    rows = []
    for row in read_pairs(path):
        rows.append(row)
        if len(rows) == 2:
            break
    return rows


def _is_header(query: str, line: int) -> bool:
    return line == 1 and query.casefold() in ("query_id", "query_image_id", "query")


def _chosen(names: list[str], needed: set[str], request: Request, facts: Facts) -> list[str]:
    """Return the ids that are needed, and of the others as many as asked for."""
    images = request.images_of(facts)
    if images is None:
        return names
    others = [name for name in names if name not in needed]
    drawn = {others[place] for place in order(request.seed, others)[:images]} | needed
    return [name for name in names if name in drawn]


def _records(
    root: Path,
    files: dict[str, dict[str, str]],
    chosen: dict[str, list[str]],
    request: Request,
    notes: Notes,
    progress: Progress,
) -> list[Record]:
    records: list[Record] = []
    total = sum(map(len, chosen.values()))
    todo = [(kind, name) for kind in _KINDS for name in chosen[kind]]
    for done, (kind, name) in enumerate(todo):
        if done % 100 == 0:
            progress("checking images", done, total)
        file = files[kind][name]
        if file in request.leave_out:
            notes.add("left_out", file)
            continue
        found = look_file(root / file)
        if found.problem is not None:
            notes.add("damaged_image", f"{file} {found.problem}")
        else:
            records.append(Record(name, name, file, _KINDS[kind], found.size, found.sha256.hex()))
    unopened = sum(map(len, files.values())) - total
    if unopened:
        notes.add("not_checked", count=unopened)
    return sorted(records, key=lambda record: record.file)
