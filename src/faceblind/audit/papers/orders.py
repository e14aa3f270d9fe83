"""Checks of printed values against each other: what should agree, and what should not grow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from faceblind.audit.papers.printed import Printed, PrintedCell
from faceblind.audit.report.text import rate

ROUNDING = 0.1 + 1e-9
"""Two values printed with one decimal may differ by this and be the same."""
_NEAR = 10.0  # times chance, up to which "near chance" is let pass
_FALL = 0.9


_SWEEPS: tuple[tuple[str, str, Callable[[PrintedCell], int | None], str], ...] = (
    (
        "rank_sweep_rises",
        "rank",
        lambda cell: cell.rank,
        "steps of that size are what so few impostors give by chance, and the falls beside them may be as well",
    ),
    (
        "people_sweep_rises",
        "fit people",
        lambda cell: cell.people,
        "either chance, or the probe's blindness: with the fewest people the eraser knows all of those the probe learns from",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Slip:
    """One thing that cannot be right, or cannot mean what it says."""

    rule: str
    """Stable snake_case name."""
    tables: tuple[str, ...]
    numbers: Mapping[str, float]
    sentence: str


def disagreements(paper: Printed) -> Iterator[Slip]:
    """Find measurements that are printed with two values in two tables."""
    same: dict[tuple[object, ...], list[PrintedCell]] = defaultdict(list)
    for cell in paper.cells:
        key = (
            cell.dataset,
            cell.encoder,
            cell.probe,
            cell.metric,
            cell.far,
            cell.k,
            cell.raw,
            cell.release,
            cell.rank,
            cell.people,
        )
        same[key].append(cell)
    for cells in same.values():
        low, high = min(cells, key=lambda c: c.value), max(cells, key=lambda c: c.value)
        if high.value - low.value > ROUNDING:
            rank = "" if high.raw else f" r={high.rank}"
            yield Slip(
                rule="tables_disagree",
                tables=(high.table, low.table),
                numbers={f"Table {c.table}": c.value for c in (high, low)},
                sentence=f"{high.release}{rank} k={high.k} of {high.encoder} on {high.dataset} is {high.value:g} % in Table "
                f"{high.table} and {low.value:g} % in Table {low.table}: the same measurement, {_times(high.value, low.value)}.",
            )


def rank_rule(paper: Printed) -> Iterator[Slip]:
    """Hold the rule that chose the ranks against the values printed at those ranks."""
    if paper.rank_limit is None:
        return
    limit, far, words = paper.rank_limit["limit"], paper.rank_limit["far"], paper.rank_limit["words"]
    cells = [c for c in paper.cells if c.metric == paper.rank_limit["metric"] and c.far == far and c.probe == "ridge"]
    for encoder, rank in paper.ranks.items():
        here = [
            c
            for c in cells
            if c.encoder == encoder and c.release == "ISP-W" and c.rank == rank and c.people == paper.people
        ]
        missed = [c for c in here if c.value > limit + ROUNDING]
        if missed:
            values = " / ".join(f"{c.value:g}" for c in missed)
            yield Slip(
                rule="rank_rule_missed",
                tables=_tables(missed),
                numbers={f"Table {c.table} k={c.k}": c.value for c in missed},
                sentence=f"{encoder} at its chosen rank {rank} prints {values} % on test, over the {limit:g} % of the rule ({words}).",
            )
    for name, cells_of in _groups(
        cells, lambda c: f"{c.table} {c.dataset} {c.encoder}" if c.rank is not None else ""
    ).items():
        sweep = sorted({c.rank: c for c in cells_of if c.rank is not None}.items())
        if not name or len(sweep) < 3:
            continue
        first = next((c for _, c in sweep if c.value <= limit), None)
        chosen = paper.ranks.get(cells_of[0].encoder)
        if first is not None and first.rank is not None and chosen is not None and first.rank < chosen:
            yield Slip(
                rule="rank_not_smallest",
                tables=(first.table,),
                numbers={"rank": float(first.rank), "value": first.value, "chosen": float(chosen)},
                sentence=f"{first.encoder} on {first.dataset} prints {first.value:g} % at rank {first.rank} in Table {first.table}, within "
                f"the {limit:g} % of the rule, yet rank {chosen} was chosen (the rule looks at validation, the table at test).",
            )


def near_chance(paper: Printed) -> Iterator[Slip]:
    """Hold "near chance" against chance: with random scores TAR equals FAR."""
    if paper.near_chance is None:
        return
    cells = [c for c in paper.cells if c.table in paper.near_chance["tables"] and not c.raw and c.metric == "TAR"]
    if not cells:
        return
    low, high = min(cells, key=lambda c: c.value), max(cells, key=lambda c: c.value)
    lifts = [c.value / (100 * c.far) for c in (low, high)]
    if lifts[0] > _NEAR:
        yield Slip(
            rule="not_near_chance",
            tables=_tables(cells),
            numbers={
                "chance": 100 * low.far,
                "lowest": low.value,
                "highest": high.value,
                "lift_low": lifts[0],
                "lift_high": lifts[1],
            },
            sentence=f'"{paper.near_chance["words"]}": chance TAR at FAR {rate(low.far)} is {100 * low.far:g} %, and after ISP Table {low.table} '
            f"prints {low.value:g} % ({low.encoder}) to {high.value:g} % ({high.encoder}), {lifts[0]:,.0f} to {lifts[1]:,.0f} times chance.",
        )


def sweeps(paper: Printed) -> Iterator[Slip]:
    """Find values that rise where more is erased, or where the eraser learns from more people."""
    for rule, what, of, why in _SWEEPS:
        tables = _groups(paper.cells, lambda c: c.table)
        for table, inside in tables.items():
            rises = []
            for name, cells in _groups(inside, lambda c: f"{c.encoder} on {c.dataset}").items():
                points = sorted({at: c.value for c in cells if (at := of(c)) is not None}.items())
                if len(points) < 3 or len(points) < len(cells):
                    continue
                rises += [(name, *a, *b) for a, b in pairwise(points) if b[1] - a[1] > ROUNDING]
            if rises:
                listed = "; ".join(f"{n} {x:g} to {y:g} % from {what} {a} to {b}" for n, a, x, b, y in rises)
                yield Slip(
                    rule=rule,
                    tables=(table,),
                    numbers={f"{n} {a} to {b}": y - x for n, a, x, b, y in rises},
                    sentence=f"Table {table} rises where it should fall: {listed}: {why}.",
                )


def erasing_raises(paper: Printed) -> Iterator[Slip]:
    """Find cells that read more after erasing than before."""
    for table, cells in _groups(paper.cells, lambda c: c.table).items():
        raw = {(c.dataset, c.encoder, c.k): c for c in cells if c.raw}
        risen = [
            (before, c)
            for c in cells
            if not c.raw and (before := raw.get((c.dataset, c.encoder, c.k))) and c.value - before.value > ROUNDING
        ]
        if risen:
            listed = "; ".join(f"{b.encoder} on {b.dataset} k={b.k} {b.value:g} to {c.value:g} %" for b, c in risen)
            yield Slip(
                rule="erasing_raises",
                tables=(table,),
                numbers={f"{b.encoder} {b.dataset} k={b.k} r={c.rank}": c.value - b.value for b, c in risen},
                sentence=f"Table {table} reads more after erasing than before: {listed}. The noise is as large as the effect.",
            )


def more_images_read_less(paper: Printed) -> Iterator[Slip]:
    """Find probes that read clearly less when they learn from more images of each person."""
    for table, cells in _groups(paper.cells, lambda c: c.table).items():
        fallen = []
        for encoder, points in _groups((c for c in cells if c.raw), lambda c: f"{c.encoder} on {c.dataset}").items():
            ordered = sorted(points, key=lambda c: c.k)
            fallen += [
                (encoder, a, b)
                for a, b in pairwise(ordered)
                if b.value < _FALL * a.value and a.value - b.value > 1 and a.k < b.k
            ]
        if fallen:
            listed = "; ".join(f"{n} {a.value:g} to {b.value:g} % from k={a.k} to {b.k}" for n, a, b in fallen)
            yield Slip(
                rule="more_images_read_less",
                tables=(table,),
                numbers={f"{n} k={a.k} to {b.k}": b.value - a.value for n, a, b in fallen},
                sentence=f"Table {table}, raw vectors: probes that learn from more images read less: {listed}.",
            )


def weaker_probe(paper: Printed) -> Iterator[Slip]:
    """Find where the more flexible probe reads less: it bounds nothing from above."""
    ridge: dict[tuple[object, ...], PrintedCell] = {}
    for cell in paper.cells:  # of two tables with the same measurement the first counts
        if cell.probe == "ridge":
            ridge.setdefault(_place(cell), cell)
    pairs = [(ridge[_place(c)], c) for c in paper.cells if c.probe == "mlp" and _place(c) in ridge]
    for stage in (True, False):
        here = [(r, m) for r, m in pairs if m.raw is stage and r.table != m.table]
        weaker = [(r, m) for r, m in here if r.value - m.value > ROUNDING]
        if weaker:
            worst = max(weaker, key=lambda pair: pair[0].value - pair[1].value)
            yield Slip(
                rule="mlp_weaker_than_ridge",
                tables=_tables([c for pair in weaker for c in pair]),
                numbers={f"{r.encoder} {r.release} k={r.k}": m.value - r.value for r, m in weaker},
                sentence=f"{'Before' if stage else 'After'} ISP the MLP reads less than ridge in {len(weaker)} of {len(here)} cells "
                f"({worst[0].encoder} k={worst[0].k}: {worst[1].value:g} against {worst[0].value:g} %): it is no upper bound on what a "
                "non-linear attacker reads.",
            )


ORDER_RULES = (disagreements, rank_rule, near_chance, sweeps, erasing_raises, more_images_read_less, weaker_probe)


def _place(cell: PrintedCell) -> tuple[object, ...]:
    return cell.dataset, cell.encoder, cell.metric, cell.far, cell.k, cell.release, cell.rank, cell.people


def _groups(cells: Iterable[PrintedCell], key: Callable[[PrintedCell], str]) -> dict[str, list[PrintedCell]]:
    found: dict[str, list[PrintedCell]] = defaultdict(list)
    for cell in cells:
        found[key(cell)].append(cell)
    return found


def _tables(cells: Iterable[PrintedCell]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(cell.table for cell in cells))


def _times(high: float, low: float) -> str:
    return f"{high / low:.1f} times apart" if low > 0 else "and one of them is zero"
