"""The page: what it holds, in which order, and what it never does."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from report_cases import Page, degenerate, golden_cases, make_extras
from report_records import RATES, make_record

from faceblind._errors import FormatError
from faceblind.audit.report import render_html
from faceblind.audit.report.figures import erased_of, key_figures, worst
from faceblind.audit.report.table import tables
from faceblind.audit.result import audit_schema

GOLDEN = Path(__file__).parent.parent / "golden" / "report"
RECORDS = {"full": make_record(), "synthetic": make_record(synthetic=True, level="leaks"), **degenerate()}


def section(page: str, key: str) -> str:
    found = re.search(rf'<section id="{key}" class="part">(.*?)</section>', page, flags=re.DOTALL)
    assert found, key
    return found[1].replace("\N{NO-BREAK SPACE}", " ")


@pytest.fixture(scope="module")
def full() -> str:
    return render_html(make_record(), make_extras())


@pytest.mark.parametrize("name", RECORDS)
def test_every_record_is_valid_and_renders(name: str) -> None:
    record = RECORDS[name]
    jsonschema.validate(record, audit_schema())
    page = render_html(record)
    parsed = Page(page)
    assert json.loads(parsed.record) == record
    assert len(set(parsed.ids)) == len(parsed.ids)
    assert not re.search(r"\bnan\b|\binf\b|Undefined|None", parsed.text.replace("None recorded", ""))
    assert not re.search(r'="[^"]*\bnan\b', page)


@pytest.mark.parametrize("name", ["full", "bare", "many"])
def test_same_input_same_bytes(name: str) -> None:
    record = RECORDS[name]
    before = copy.deepcopy(record)
    extras = make_extras()
    assert render_html(record, extras) == render_html(copy.deepcopy(record), make_extras())
    assert record == before


@pytest.mark.parametrize("name", sorted(golden_cases()))
def test_golden(name: str) -> None:
    record, extras = golden_cases()[name]
    page = render_html(record, extras)
    if page != (GOLDEN / name).read_text(encoding="utf-8"):
        pytest.fail(f"{name} changed: look at it, then run tests/golden/make_report.py")


def test_sections_in_order(full: str) -> None:
    found = re.findall(r'<section id="(\w+)" class="part">', full)
    assert found == [
        *("figures", "sides", "comparison", "det", "rank", "maps", "neighbours"),
        *("hygiene", "power", "utility", "limits", "reading", "provenance"),
    ]
    assert full.index('id="verdict"') < full.index('class="gate') < full.index('id="figures"')
    bare = re.findall(r'<section id="(\w+)" class="part">', render_html(make_record()))
    assert bare == [key for key in found if key not in {"maps", "neighbours"}]
    numbers = re.findall(r'<span class="no">(\d+)</span>', render_html(make_record()))
    assert [int(n) for n in numbers] == list(range(1, 12))


@pytest.mark.parametrize("level", ["leaks", "reduced", "low", "inconclusive"])
def test_verdict_is_said_in_words(level: str) -> None:
    page = render_html(make_record(level=level))
    assert f'class="verdict v-{level}"' in page
    assert f'<span class="word">{level.capitalize()}</span>' in page


def test_gate_and_synthetic_banner() -> None:
    record = make_record(synthetic=True)
    page = render_html(record)
    assert "Synthetic people." in page
    assert page.index("Synthetic people.") < page.index('id="verdict"')
    assert "✕ Gate failed" in page
    record["gate"]["failed"] = False
    assert "✓ Gate not triggered" in render_html(record)
    record["gate"] = None
    assert "Gate " not in render_html(record)
    assert "Synthetic people." not in render_html(make_record())


def test_findings_stand_before_any_figure() -> None:
    page = render_html(degenerate()["dirty"])
    alarm = page.index("duplicate across identities")
    assert alarm < page.index('id="figures"')
    assert 'class="alarms grave"' in page
    assert "Read this before the figures." not in render_html(degenerate()["bare"])
    listed = section(page, "hygiene")
    assert listed.index("duplicate across") < listed.index("outlier label") < listed.index("few images")
    assert "and 3 more in the JSON" in listed


def test_key_figures_are_those_of_the_worst_attacker(full: str) -> None:
    record = make_record()
    shown = section(full, "figures")
    for far in RATES:
        for release in ("raw", "isp"):
            top = max(
                (
                    s
                    for s in record["summary"]
                    if (s["release"], s["far_target"], s["calibration"]) == (release, far, "test")
                ),
                key=lambda s: (s["tar"], s["tar_high"]),
            )
            assert worst(record["summary"], release=release, far=far) == top
    assert "At 1 false accept in 10,000" in shown
    assert "(FAR 1e-4)" in shown
    assert "1,264,000 different-person pairs" in shown
    assert "× guessing" in shown
    assert "95 % interval" in shown


def test_counts_come_from_the_rows_of_the_same_point() -> None:
    record = make_record()
    top = worst(record["summary"], release="raw", far=1e-4)
    rows = [
        r
        for r in record["rows"]
        if all(r[k] == top[k] for k in ("release", "attacker", "trained_on", "k", "calibration", "far_target"))
    ]
    mean = round(sum(r["true_accepts"] for r in rows) / len(rows))
    found = next(k for k in key_figures(record) if k.far == 1e-4)
    assert f"{mean:,} of 15,200 same-person pairs accepted" in found.raw.counts
    assert "mean of 3 seeds" in found.raw.counts


@pytest.mark.parametrize(
    ("raw", "after", "control", "said"),
    [
        ((0.1, 0.2), (0.01, 0.05), (0.08, 0.2), "lies wholly below the raw one."),
        ((0.1, 0.2), (0.01, 0.05), (0.04, 0.2), "does not show it to be better than: Random control."),
        ((0.1, 0.2), (0.05, 0.11), (0.3, 0.4), "does not show that the eraser helped"),
        ((0.1, 0.2), (0.3, 0.4), (0.3, 0.4), "reads more than before"),
    ],
)
def test_what_the_intervals_say(
    raw: tuple[float, float], after: tuple[float, float], control: tuple[float, float], said: str
) -> None:
    record = make_record(rates=(1e-2,), releases=("raw", "isp", "random"))
    for entry in record["summary"]:
        low, high = {"raw": raw, "isp": after, "random": control}[entry["release"]]
        entry |= {"tar_low": low, "tar": (low + high) / 2, "tar_high": high}
    (found,) = key_figures(record)
    assert said in found.reading


def test_unsupported_points_print_only_their_bound() -> None:
    record = make_record(nonmated=200, rates=(1e-3,))
    for entry in (*record["summary"], *record["rows"]):
        entry |= {"tar": 0.0777, "tar_low": 0.0311, "tar_high": 0.123}
    page = render_html(record)
    for key in ("figures", "comparison"):
        shown = section(page, key)
        assert "≤ 12.3 %" in shown
        assert "7.8 %" not in shown
        assert "3.1 %" not in shown
        assert "unsupported" in shown
    assert "too few comparisons" in section(page, "figures")


def test_table_sets_both_kinds_of_training_side_by_side() -> None:
    (found,) = tables(make_record(rates=(1e-2,), releases=("raw", "isp")))
    assert [g.release for g in found.groups] == ["raw", "isp"]
    cosine, *ridge = found.groups[1].lines
    assert [c.span for c in cosine.cells] == [2, 2]
    assert [len(line.cells) for line in ridge] == [4, 4, 4]
    record = make_record(rates=(1e-2,))
    for line, k in zip(ridge, (1, 4, 16), strict=True):
        for cell, (calibration, source) in zip(
            line.cells, [(c, t) for c in ("validation", "test") for t in ("attack", "fit")], strict=True
        ):
            entry = next(
                s
                for s in record["summary"]
                if (s["release"], s["k"], s["calibration"], s["trained_on"]) == ("isp", k, calibration, source)
            )
            assert cell.value == render_value(entry)
    for group in found.groups:
        assert sum(c.is_worst for line in group.lines for c in line.cells if c) == 1


def render_value(entry: dict[str, Any]) -> str:
    from faceblind.audit.report.text import percent

    return percent(entry["tar"])


def test_missing_cells_are_dashes() -> None:
    record = make_record(rates=(1e-2,), releases=("raw",))
    record["summary"] = [
        s for s in record["summary"] if s["calibration"] == "validation" or s["trained_on"] == "attack"
    ]
    (found,) = tables(record)
    cosine, *ridge = found.groups[0].lines
    assert [c.value for c in cosine.cells][1:] == ["–"]
    assert all(line.cells[3] is None and line.cells[2] is not None for line in ridge)
    assert '<td class="empty">–</td>' in render_html(record)


def test_an_eraser_with_another_name_is_found() -> None:
    record = make_record(releases=("raw", "isp", "pca"))
    for part in ("summary", "rows", "curves", "utility"):
        for entry in record[part]:
            entry["release"] = "sal" if entry["release"] == "isp" else entry["release"]
    record["provenance"]["projector"]["method"] = "sal"
    assert erased_of(record) == "sal"
    assert all(found.erased and found.erased.name == "After SAL" for found in key_figures(record))


def test_rows_are_counted_and_not_printed() -> None:
    record = make_record()
    record["rows"] = record["rows"] * 6
    page = render_html(record)
    assert f"{len(record['rows']):,} rows" in section(page, "comparison")
    assert Page(page).tags.count("tr") < 300


def test_power_says_what_would_have_been_caught() -> None:
    record = make_record()
    assert "catches an identity code that carries 5.0 %" in section(render_html(record), "power")
    record["power"]["smallest_caught"] = None
    assert "No planted leak was caught" in section(render_html(record), "power")
    record["power"] = None
    assert "No leak was planted in this audit." in section(render_html(record), "power")


def test_personal_data_is_announced(full: str) -> None:
    assert "Handle this file with care." in full
    assert "treat it as personal data" in full
    assert "rendered people, here" in render_html(make_record(synthetic=True), make_extras())
    assert "Handle this file with care." not in render_html(degenerate()["bare"])


def test_provenance_names_what_one_needs_to_recompute(full: str) -> None:
    shown = section(full, "provenance")
    source = make_record()["provenance"]
    for value in (
        source["table"]["vectors_sha256"],
        source["encoder"]["weights_sha256"],
        "--projector isp-144.safetensors",
        source["split_rule"],
        "12,800",
        "0.0001, 0.001, 0.01, 0.1, 1, 10, 100",
        "and 132 more in the record",
        "percentile",
        "scipy",
    ):
        assert value in shown, value
    assert "The table does not say which encoder made it." in section(render_html(degenerate()["bare"]), "provenance")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "other/2"}, "layout 'faceblind.audit/1', got 'other/2'"),
        ({"rows": [{"tar": float("nan")}]}, "cannot be written as JSON"),
    ],
)
def test_what_is_not_a_record_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=re.escape(message)):
        render_html(make_record(rates=(1e-2,)) | change)


def test_missing_parts_are_named() -> None:
    record = make_record(rates=(1e-2,))
    del record["limits"], record["power"]
    with pytest.raises(FormatError, match="lacks power, limits"):
        render_html(record)
    record = make_record(rates=(1e-2,))
    del record["summary"][0]["tar_high"]
    with pytest.raises(FormatError, match="lacks 'tar_high'"):
        render_html(record)
