"""The paper's tables as layouts: which rows and columns, and which measurements stand behind each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from faceblind._errors import DataError
from faceblind.audit.papers.maps import Kind, MapKey
from faceblind.audit.papers.protocol import Protocol
from faceblind.audit.papers.readings import Job, Metric
from faceblind.audit.papers.sources import Source, datasets_of, other_of
from faceblind.audit.report.text import rate

RELEASES: dict[str, str] = {"raw": "RAW", "isp-w": "ISP-W", "isp-x": "ISP-X"}
_TITLES = {
    "1": "Ridge probe, open set: TAR at FAR {far}",
    "4": "Ridge probe, open set: partial AUC over FAR 0 to {pauc}",
    "5": "Rank sweep: TAR at FAR {far} of the ridge probe under ISP-W",
    "6": "Identity-count sweep: TAR at FAR {far} of the ridge probe as the eraser is fitted on more people",
    "8": "MLP probe on the first data set: TAR at FAR {far}",
    "9": "MLP probe on the second data set: TAR at FAR {far}",
}


@dataclass(frozen=True)
class Column:
    """One column: its heading in two levels, and the release it stands for."""

    group: str
    name: str
    kind: Kind
    k: int
    rank: int | None = None
    """Dimensions removed; None is the rank of the encoder."""
    people: int | None = None
    """People the eraser is fitted on; None are the train people."""

    @property
    def label(self) -> str:
        """Both levels in one line."""
        return f"{self.group} {self.name}".strip()


@dataclass(frozen=True)
class Cell:
    """A place in a table with the jobs behind it, by role; or the reason why it is empty.

    Roles: ``own`` (the paper's probe), ``cosine``, ``wccn``, ``fresh`` and ``wccn-fresh`` (who learned from people the
    eraser never saw), ``random`` and ``pca`` (the paper's probe on a null release).
    """

    row: int
    column: int
    jobs: Mapping[str, Job]
    reason: str = ""


@dataclass(frozen=True)
class Layout:
    """One of the paper's tables for given data."""

    table: str
    title: str
    metric: Metric
    probe: str
    rows: tuple[Source, ...]
    columns: tuple[Column, ...]
    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()

    def cell(self, row: int, column: int) -> Cell:
        """Return the cell at a place."""
        return self.cells[row * len(self.columns) + column]


@dataclass(frozen=True)
class Facts:
    """What a layout must know of the tables: ranks and how many people erasers can be fitted on."""

    rank: Mapping[tuple[str, str], int]
    """Rank of a data set and encoder (shared by data sets that are compared)."""
    most: Mapping[tuple[str, str], int]
    """Largest rank the train people support."""
    train: Mapping[tuple[str, str], int]
    available: Mapping[tuple[str, str], int]
    """Train and spare people."""
    other: Mapping[tuple[str, str], int]
    """Train people of the data set that ISP-X is fitted on."""


def rows_of(table: str, sources: Sequence[Source], dataset: str | None = None) -> tuple[Source, ...]:
    """Return the tables that are rows: all of them in Tables 1 and 5, one data set in the others.

    Raises
    ------
    DataError
        The data set is not there, or Table 9 finds no second one.
    """
    names = datasets_of(sources)
    if dataset is not None:
        if dataset not in names:
            raise DataError(f"no table of data set {dataset}; there are {', '.join(names)}")
        chosen: tuple[str, ...] = (dataset,)
    elif table in ("1", "5"):
        chosen = names
    elif table == "4":
        chosen = tuple(name for name in names if name.lower().startswith("lfw"))[:1] or names[:1]
    elif table == "9":
        if len(names) < 2:
            raise DataError(f"Table 9 is about the second data set, but all tables are of {names[0]}; add another")
        chosen = names[1:2]
    else:
        chosen = names[:1]
    rows = [s for name in chosen for s in sources if s.dataset == name]
    if table in ("5", "6"):  # a sweep of erasers says nothing of what is shown raw only
        rows = [s for s in rows if not s.control]
    if not rows:
        raise DataError(f"Table {table} has no row: all tables of {', '.join(chosen)} are controls")
    return tuple(sorted(rows, key=lambda s: (chosen.index(s.dataset), s.control)))  # controls last, as in the paper


def lay_out(table: str, rows: Sequence[Source], facts: Facts, protocol: Protocol) -> Layout:
    """Make the layout of a table."""
    metric: Metric = "pauc" if table == "4" else "tar"
    probe = "mlp" if table in ("8", "9") else "ridge"
    columns, notes = _columns(table, rows, facts, protocol)
    made = Layout(
        table,
        _TITLES[table].format(far=rate(protocol.far), pauc=rate(protocol.pauc_far)),
        metric,
        probe,
        tuple(rows),
        columns,
        (),
        notes,
    )
    cells = tuple(
        _cell(r, c, source, column, made, facts, protocol)
        for r, source in enumerate(rows)
        for c, column in enumerate(columns)
    )
    return replace(made, cells=cells)


def check_cross(rows: Sequence[Source], sources: Sequence[Source]) -> None:
    """Raise `DataError` when a row of Table 1 has no second data set to fit ISP-X on."""
    for source in rows:
        if not source.control:
            other_of(source, sources)


def _columns(
    table: str, rows: Sequence[Source], facts: Facts, protocol: Protocol
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    most_k = max(protocol.ks)
    if table == "1":
        kinds: tuple[Kind, ...] = ("raw", "isp-w", "isp-x") if protocol.cross else ("raw", "isp-w")
        return tuple(Column(f"k={k}", RELEASES[kind], kind, k) for k in protocol.ks for kind in kinds), ()
    if table == "5":
        sweep = tuple(Column("", f"r={r}", "isp-w" if r else "raw", most_k, rank=r) for r in protocol.ranks)
        return sweep, ()
    if table == "6":
        counts, note = fit_counts(rows, facts.available, protocol)
        return tuple(Column("", f"m={m}", "isp-w", most_k, people=m) for m in counts), note
    before, after = ("Pre-ISP", "Post-ISP") if table in ("8", "9") else ("RAW", "ISP-W")
    pairs: tuple[tuple[str, Kind], ...] = ((before, "raw"), (after, "isp-w"))
    return tuple(Column(name, f"k={k}", kind, k) for name, kind in pairs for k in protocol.ks), ()


def fit_counts(
    rows: Sequence[Source], available: Mapping[tuple[str, str], int], protocol: Protocol
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the numbers of people to fit on: the paper's as far as they go, or quarters of what there is."""
    most = max(available[s.dataset, s.encoder] for s in rows)
    fitting = tuple(m for m in protocol.fit_people if m <= most)
    if len(fitting) == len(protocol.fit_people) or len(fitting) >= 2:
        note = () if len(fitting) == len(protocol.fit_people) else (f"{most} people are there to fit on, no more",)
        return fitting, note
    counts = tuple(sorted({max(2, most * share // 4) for share in (1, 2, 3, 4)}))
    return counts, (
        f"{most} people are there to fit on: quarters of them stand for m={', '.join(map(str, protocol.fit_people))}",
    )


def _cell(r: int, c: int, source: Source, column: Column, layout: Layout, facts: Facts, protocol: Protocol) -> Cell:
    key = (source.dataset, source.encoder)
    if source.control and column.kind != "raw":
        return Cell(r, c, {}, "control: raw only")
    people = column.people or facts.train[key]
    rank = 0 if column.kind == "raw" else column.rank or facts.rank[key]
    if people > facts.available[key]:
        return Cell(r, c, {}, f"{facts.available[key]} people to fit on")
    if column.kind != "raw" and column.people is None and rank > facts.most[key]:
        return Cell(r, c, {}, f"{people} people support rank {facts.most[key]}")
    fitted = facts.other[key] if column.kind == "isp-x" else people
    here = MapKey("raw") if column.kind == "raw" else MapKey(column.kind, rank, fitted)
    own = Job(source.dataset, source.encoder, here, layout.probe, "train", column.k, layout.metric, protocol.as_printed)
    bare = replace(own, printed=False)
    jobs = {"own": own, "cosine": replace(bare, attacker="cosine", pool="none", k=None)}
    if source.control:
        return Cell(r, c, jobs)
    jobs["wccn"] = replace(bare, attacker="wccn", k=None)
    jobs["fresh"] = replace(bare, attacker="ridge", pool="fresh")
    jobs["wccn-fresh"] = replace(bare, attacker="wccn", pool="fresh", k=None)
    if column.kind != "raw":
        jobs["random"] = replace(bare, map=MapKey("random", rank))
        jobs["pca"] = replace(bare, map=MapKey("pca", rank))
    return Cell(r, c, jobs)
