"""The numbers the paper printed, as data (`printed.json`): facts to compare layouts with and to check by arithmetic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from faceblind._errors import FormatError


@dataclass(frozen=True, kw_only=True)
class PairCounts:
    """What the paper says of the test pairs of a data set; `images` are per person, by the name of the set."""

    dataset: str
    people: int
    images: int
    mated: int
    impostors: int
    min_far: float


@dataclass(frozen=True, kw_only=True)
class PrintedCell:
    """One printed value, in percent, with what identifies the measurement. `rank` is 0 and `people` None when raw."""

    table: str
    dataset: str
    encoder: str
    probe: str
    metric: str
    far: float
    k: int
    release: str
    rank: int | None
    people: int | None
    value: float

    @property
    def raw(self) -> bool:
        """Whether nothing was erased."""
        return self.release == "RAW"


@dataclass(frozen=True, kw_only=True)
class PrintedTable:
    """A table as printed; None are cells the paper leaves empty."""

    name: str
    caption: str
    dataset: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[float | None, ...]]


@dataclass(frozen=True, kw_only=True)
class Printed:
    """All that was printed and can be checked."""

    far: float
    people: int
    """Train people, on whom erasers are fitted where a table does not say otherwise."""
    pair_counts: tuple[PairCounts, ...]
    ranks: Mapping[str, int]
    rank_limit: Mapping[str, Any] | None
    near_chance: Mapping[str, Any] | None
    cells: tuple[PrintedCell, ...]
    tables: tuple[PrintedTable, ...]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Printed:
        """Read the layout of ``printed.json``.

        Raises
        ------
        FormatError
            A part is missing, or a row has another number of values than its table has columns.
        """
        try:
            counts = tuple(
                PairCounts(**{key: c[key] for key in ("dataset", "people", "images", "mated", "impostors", "min_far")})
                for c in data["pair_counts"]
            )
            ranks = {name: int(rank) for name, rank in data["ranks"].items()}
            cells = [c for name, table in data["tables"].items() for c in _cells(name.split()[0], name, table, ranks)]
            return cls(
                far=float(data["far"]),
                people=int(data["people"]),
                pair_counts=counts,
                ranks=ranks,
                rank_limit=data.get("rank_limit"),
                near_chance=data.get("near_chance"),
                cells=tuple(cells),
                tables=tuple(_table(name, table) for name, table in data["tables"].items()),
            )
        except KeyError as error:
            raise FormatError(f"printed values lack {error}") from error


@cache
def printed_paper() -> Printed:
    """Return what arXiv 2604.05296 printed."""
    text = files("faceblind.audit.papers").joinpath("printed.json").read_text(encoding="utf-8")
    return Printed.from_dict(json.loads(text))


def _cells(number: str, name: str, table: Mapping[str, Any], ranks: Mapping[str, int]) -> list[PrintedCell]:
    found = []
    for encoder, values in table["rows"].items():
        if len(values) != len(table["columns"]):
            raise FormatError(f"table {name}: {encoder} has {len(values)} values for {len(table['columns'])} columns")
        for column, value in zip(table["columns"], values, strict=True):
            if value is None:
                continue
            raw = column["release"] == "RAW"
            found.append(
                PrintedCell(
                    table=number,
                    dataset=table["dataset"],
                    encoder=encoder,
                    probe=table["probe"],
                    metric=table["metric"],
                    far=float(table["far"]),
                    k=int(column["k"]),
                    release=column["release"],
                    rank=0 if raw else column.get("rank", ranks.get(encoder)),
                    people=None if raw else column.get("people", table["people"]),
                    value=float(value),
                )
            )
    return found


def _table(name: str, table: Mapping[str, Any]) -> PrintedTable:
    return PrintedTable(
        name=name,
        caption=table["caption"],
        dataset=table["dataset"],
        columns=tuple(_heading(column) for column in table["columns"]),
        rows={encoder: tuple(values) for encoder, values in table["rows"].items()},
    )


def _heading(column: Mapping[str, Any]) -> str:
    if "people" in column:
        return f"m={column['people']}"
    if "rank" in column:
        return f"r={column['rank']}"
    return f"{column['release']} k={column['k']}"
