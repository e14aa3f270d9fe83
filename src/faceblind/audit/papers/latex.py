r"""A reproduced table in LaTeX, with booktabs: the paper's rows and columns, and under each number what belongs to it.

Needs only ``\usepackage{booktabs}``. Percent signs are in the captions; ``*`` marks indicative figures, ``\le`` upper bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from faceblind.audit.papers.records import records
from faceblind.audit.papers.run import Reproduced

_ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    '"': r"\textquotedbl{}", "≤": r"$\le$", "×": r"$\times$", "–": "--", "\N{NO-BREAK SPACE}": "~",
}  # fmt: skip
_EMPTY = "--"


def escape(text: str) -> str:
    """Write any text so that LaTeX prints it; control characters and line ends become spaces."""
    return "".join(_ESCAPES.get(c, " " if ord(c) < 32 or ord(c) == 127 else c) for c in text)


def to_latex(made: Reproduced) -> str:
    """Return a ``table*`` environment."""
    layout = made.layout
    rows, width = records(made), len(layout.columns)
    lines = [
        "% made by faceblind; \\usepackage{booktabs}",
        *(f"% {escape(note)}" for note in made.notes),
        r"\begin{table*}",
        r"\centering\small\setlength{\tabcolsep}{3pt}",
        rf"\caption{{{_caption(made, rows)}}}",
        rf"\begin{{tabular}}{{ll{'r' * width}}}",
        r"\toprule",
        *_heading(made),
        r"\midrule",
    ]
    datasets = list(dict.fromkeys(source.dataset for source in layout.rows))
    before = None
    for r, source in enumerate(layout.rows):
        if source.dataset != before and len(datasets) > 1:
            lines += [r"\midrule"] if before is not None else []
            lines.append(rf"\multicolumn{{{width + 2}}}{{l}}{{\emph{{{escape(source.dataset)}}}}} \\")
        before = source.dataset
        own = rows[r * width : (r + 1) * width]
        for index, (name, cells) in enumerate(_lines(own, printed=made.protocol.as_printed, rule=made.protocol.rule)):
            first = escape(source.encoder) if index == 0 else ""
            lines.append(" & ".join([first, name, *cells]) + r" \\")
        lines.append(r"\addlinespace")
    lines[-1] = r"\bottomrule"
    return "\n".join([*lines, r"\end{tabular}", r"\end{table*}", ""])


def _caption(made: Reproduced, rows: Sequence[dict[str, Any]]) -> str:
    filled = [row for row in rows if row["value"] is not None]
    people = sorted({row["people"] for row in filled})
    pairs = sorted({row["nonmated"] for row in filled})
    said = f"{made.layout.title}, in percent, threshold set on test, all different-person pairs"
    if filled:
        said += f" ({people[0] if len(people) == 1 else f'{people[0]} to {people[-1]}'} test people, "
        said += f"{pairs[0]:,}{'' if len(pairs) == 1 else f' to {pairs[-1]:,}'} pairs)"
    text = escape(
        f"Layout of Table {made.layout.table} of arXiv 2604.05296 on other data. {said}. Below each figure: 95 % interval over "
    )
    text += escape(
        "people; the attacker of ours that reads most from the same release; the paper's probe after removing a random and a "
    )
    text += escape("principal subspace of the same rank.")
    text += r" $^{*}$ 3 to 29 false accepts allowed; $\le$ fewer than 3, upper bound only."
    if made.synthetic:
        text += escape(" Synthetic people.")
    return text


def _heading(made: Reproduced) -> list[str]:
    columns = made.layout.columns
    if not any(column.group for column in columns):
        return [" & ".join(["", "", *(f"${_math(c.name)}$" for c in columns)]) + r" \\"]
    top, rules, place = ["", ""], [], 3
    for group, inside in groupby(columns, key=lambda c: c.group):
        size = len(list(inside))
        top.append(rf"\multicolumn{{{size}}}{{c}}{{{_name(group)}}}")
        rules.append(rf"\cmidrule(lr){{{place}-{place + size - 1}}}")
        place += size
    return [" & ".join(top) + r" \\", "".join(rules), " & ".join(["", "", *(_name(c.name) for c in columns)]) + r" \\"]


def _lines(rows: Sequence[dict[str, Any]], *, printed: bool, rule: str) -> list[tuple[str, list[str]]]:
    lines: list[tuple[str, Callable[[dict[str, Any]], str]]] = [
        ("probe", lambda row: _number(row, "value", "grade")),
        (r"95\,\% interval", lambda row: _span(row, "low", "high")),
        ("worst attacker", lambda row: _number(row, "worst", "worst_grade")),
        ("random / PCA", lambda row: _pair(row, "random", "pca")),
        ("times chance", lambda row: f"{row['lift']:,.0f}" if row["grade"] != "unsupported" else _EMPTY),
    ]
    if printed:
        kind = "value" if rule == "at-most" else "variant"
        lines += [
            ("as printed", lambda row: _plain(row, f"printed_{kind}_first")),
            ("its spread", lambda row: _span(row, f"printed_{kind}_low", f"printed_{kind}_high")),
        ]
    return [(name, [write(row) if row["value"] is not None else _EMPTY for row in rows]) for name, write in lines]


def _number(row: dict[str, Any], name: str, grade: str) -> str:
    if row[grade] == "unsupported":
        high = row["high" if name == "value" else f"{name}_high"]
        return rf"$\le${_percent(high)}"
    return _percent(row[name]) + ("$^{*}$" if row[grade] == "indicative" else "")


def _pair(row: dict[str, Any], first: str, second: str) -> str:
    if row[first] is None or row[second] is None:
        return _EMPTY
    suffix = "_high" if row["grade"] == "unsupported" else ""
    mark = r"$\le$" if suffix else ""
    return f"{mark}{_percent(row[first + suffix])} / {mark}{_percent(row[second + suffix])}"


def _span(row: dict[str, Any], low: str, high: str) -> str:
    return _EMPTY if row[low] is None else f"{_percent(row[low])}--{_percent(row[high])}"


def _plain(row: dict[str, Any], name: str) -> str:
    return _EMPTY if row[name] is None else _percent(row[name])


def _percent(share: float) -> str:
    return f"{100 * share:.2f}" if share < 0.1 else f"{100 * share:.1f}"


def _name(text: str) -> str:
    return f"${_math(text)}$" if "=" in text else escape(text)


def _math(text: str) -> str:
    return text.replace("=", "{=}")
