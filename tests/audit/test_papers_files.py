"""CSV that reads back, LaTeX that is balanced and escaped, HTML that is well-formed and offline."""

from __future__ import annotations

import html.parser
import json
import re
from dataclasses import replace

import pytest
from papers_cases import everything

from faceblind.audit.papers import from_csv, records, save_tables, to_csv
from faceblind.audit.papers.html import to_html
from faceblind.audit.papers.latex import escape, to_latex

VOID = {"meta", "br", "link", "img", "hr", "input"}
HOSTILE = r'a_b&c%$#{}~^\<script>alert("x")</script>'


def hostile():
    made = everything()[0]
    rows = tuple(replace(s, encoder=HOSTILE, dataset=HOSTILE) for s in made.layout.rows)
    return replace(made, layout=replace(made.layout, rows=rows), notes=(HOSTILE, "two\nlines \\end{table*}"))


@pytest.mark.parametrize("made", everything(), ids=lambda made: made.layout.table)
def test_csv_reads_back(made):
    rows = records(made)
    assert from_csv(to_csv(rows)) == rows
    assert len(rows) == len(made.layout.rows) * len(made.layout.columns)


def without_escapes(text):
    return re.sub(r"\\[\\{}$&#%_]", "", text)


@pytest.mark.parametrize(
    "made", [*everything(), hostile()], ids=lambda made: made.layout.rows[0].encoder[:3] + made.layout.table
)
def test_latex_is_balanced(made):
    lines = to_latex(made).splitlines()
    body = [line for line in lines if not line.startswith("%")]
    text = "\n".join(body)
    assert len(re.findall(r"\\begin\{tabular\}", text)) == len(re.findall(r"\\end\{tabular\}", text)) == 1
    environments = re.findall(r"\\(begin|end)\{([a-z*]+)\}", text)
    stack = []
    for what, name in environments:
        if what == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert stack == []
    bare = without_escapes(text)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert "%" not in bare
    assert text.index(r"\toprule") < text.index(r"\midrule") < text.index(r"\bottomrule")
    width = len(made.layout.columns) + 2
    inside = text[text.index(r"\toprule") : text.index(r"\bottomrule")]
    rows = [line for line in inside.splitlines() if line.rstrip().endswith(r"\\")]
    for row in rows:
        spans = [int(n) - 1 for n in re.findall(r"\\multicolumn\{(\d+)\}", row)]
        assert row.replace(r"\&", "").count("&") + 1 + sum(spans) == width
    lines_per_row = 7 if made.protocol.as_printed else 5
    heads = len(made.layout.rows) * lines_per_row
    assert len(rows) >= heads


def test_latex_comments_stay_comments():
    for line in to_latex(hostile()).splitlines():
        assert not line.startswith(r"\end{table*}") or line == r"\end{table*}"
    assert to_latex(hostile()).count(r"\end{table*}") == 1


def test_latex_escapes_what_it_must():
    assert escape("a_b & 50 %") == r"a\_b \& 50 \%"
    assert escape("\\{~^") == r"\textbackslash{}\{\textasciitilde{}\textasciicircum{}"
    assert escape("line\nbreak\x00") == "line break "


def test_latex_shows_the_figures_of_the_record():
    made = everything()[0]
    text = to_latex(made)
    row = records(made)[1]
    assert f"{100 * row['low']:.2f}--" in text
    assert "as printed" in text


class Checker(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.stack, self.scripts, self.text, self.rows = [], [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.stack.append(tag)
        if tag == "script":
            self.scripts.append(dict(attrs))
        assert not any(name.startswith("on") for name, _ in attrs)
        for name, value in attrs:
            assert name not in {"src", "href"} or str(value).startswith("#")

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if self.stack and self.stack[-1] == "script":
            self.scripts[-1]["text"] = self.scripts[-1].get("text", "") + data
        elif not self.stack or self.stack[-1] != "style":
            self.text.append(data)


@pytest.mark.parametrize(
    "made", [*everything(), hostile()], ids=lambda made: made.layout.rows[0].encoder[:3] + made.layout.table
)
def test_html_is_well_formed_and_offline(made):
    page = to_html(made)
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.stack == []
    assert [s["type"] for s in checker.scripts] == ["application/json"]
    held = json.loads(checker.scripts[0]["text"])
    assert held["cells"] == records(made)
    assert "http" not in re.sub(r"http-equiv", "", page)
    assert "Content-Security-Policy" in page
    assert page == to_html(made)


def test_html_says_what_belongs_to_the_table():
    one, four, five, _ = (" ".join(to_html(made).split()) for made in everything())
    assert "worst" in one
    assert "nulls" in one
    assert "DINOv2" in one  # the paper's own figures
    assert "rank_sweep_rises" in five
    assert "impostor pairs are all pairs of 52 images" in four
    assert "true FAR" in one


def test_rows_stay_in_the_order_of_the_layout():
    made = everything()[0]
    width = len(made.layout.columns)
    rows = tuple(replace(s, dataset=name) for s, name in zip(made.layout.rows, ("zebra", "ant"), strict=True))
    swapped = replace(made, layout=replace(made.layout, rows=rows))
    for text, first, second in (
        (to_html(swapped), "<b>zebra</b>", "<b>ant</b>"),
        (to_latex(swapped), r"\emph{zebra}", r"\emph{ant}"),
    ):
        assert 0 < text.index(first) < text.index(second)
    assert [r["dataset"] for r in records(swapped)] == ["zebra"] * width + ["ant"] * width


def test_synthetic_people_are_called_so():
    made = everything()[0]
    assert "No real person" not in to_html(made)
    assert "No real person" in to_html(replace(made, synthetic=True))
    assert "Synthetic people." in to_latex(replace(made, synthetic=True))


def test_files_of_all_tables(tmp_path):
    written = save_tables(everything(), tmp_path)
    assert sorted(p.name for p in written) == sorted(p.name for p in tmp_path.iterdir())
    assert {p.name for p in written} == {f"table{t}.{s}" for t in "1456" for s in ("csv", "tex", "html")}
