"""The files of a reproduction: CSV (the record), LaTeX and HTML of each table, each written whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from faceblind._files import write_text
from faceblind.audit.papers.html import to_html
from faceblind.audit.papers.latex import to_latex
from faceblind.audit.papers.records import records, to_csv
from faceblind.audit.papers.run import Reproduced


def save_tables(made: Sequence[Reproduced], folder: str | Path) -> list[Path]:
    """Write ``tableN.csv``, ``tableN.tex`` and ``tableN.html`` for each table, and return their paths."""
    folder = Path(folder)
    written = []
    for table in made:
        stem = f"table{table.layout.table}"
        for suffix, text in ((".csv", to_csv(records(table))), (".tex", to_latex(table)), (".html", to_html(table))):
            write_text(folder / f"{stem}{suffix}", text)
            written.append(folder / f"{stem}{suffix}")
    return written
