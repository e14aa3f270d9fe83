"""Hostile names stay text, nothing is loaded or run, and some words are never said."""

from __future__ import annotations

import json
import re

import pytest
from report_cases import Page, degenerate, make_extras
from report_records import make_record

from faceblind.audit.report import render_html

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`{{7*7}}{%x%}&amp;<!--"
RECORDS = {"synthetic": make_record(synthetic=True, level="leaks"), "low": make_record(level="low"), **degenerate()}


@pytest.fixture(scope="module")
def full() -> str:
    return render_html(make_record(), make_extras())


def test_hostile_text_stays_text() -> None:
    record = make_record(rates=(1e-2,), releases=("raw", "isp"))
    for entry in (*record["summary"], *record["rows"], *record["curves"], *record["rank_curve"]):
        entry["attacker"] = HOSTILE
    record["hygiene"][0] |= {"kind": HOSTILE, "examples": [HOSTILE], "message": HOSTILE}
    record["verdict"] |= {"headline": HOSTILE, "sentences": [HOSTILE]}
    record["gate"] |= {"expression": HOSTILE, "message": HOSTILE, "attacker": HOSTILE, "release": HOSTILE}
    record["limits"] = [HOSTILE]
    record["utility"][0]["release"] = HOSTILE
    record["power"]["points"][0]["attacker"] = HOSTILE
    source = record["provenance"]
    source["table"]["name"] = HOSTILE
    source["encoder"] |= {"encoder": HOSTILE, "preprocessing": HOSTILE}
    source["attackers"][0][HOSTILE] = {HOSTILE: HOSTILE}
    source[HOSTILE] = HOSTILE
    parsed = Page(render_html(record, make_extras(hostile=HOSTILE)))
    clean = Page(render_html(make_record(rates=(1e-2,), releases=("raw", "isp")), make_extras()))
    assert json.loads(parsed.record) == record
    assert set(parsed.tags) <= set(clean.tags)
    assert {(tag, name) for tag, name, _ in parsed.attributes} <= {(tag, name) for tag, name, _ in clean.attributes} | {
        ("bdi", "title")
    }
    assert parsed.tags.count("script") == 1
    assert parsed.tags.count("img") == clean.tags.count("img")
    assert "alert(1)" in parsed.text
    assert "49" not in re.findall(r"`(\d+)", parsed.text)


def test_unwritable_characters_are_replaced() -> None:
    record = make_record(rates=(1e-2,))
    record["hygiene"][0]["examples"] = ["bad\udcff\x00\x1b.jpg"]
    page = render_html(record)
    page.encode("utf-8")
    assert "\x00" not in page
    assert "bad\N{REPLACEMENT CHARACTER}" in page
    assert json.loads(Page(page).record) == record


def test_nothing_is_loaded_or_run(full: str) -> None:
    parsed = Page(full)
    loads = {"src", "href", "action", "data", "poster", "srcset", "xlink:href", "formaction"}
    for tag, name, value in parsed.attributes:
        assert not name.startswith("on"), (tag, name)
        if name in loads:
            assert value is not None
            assert value.startswith(("#", "data:image/jpeg;base64,")), (tag, name, value[:60])
    assert not {"link", "iframe", "object", "embed", "base", "form"} & set(parsed.tags)
    assert not re.search(r"""(?:src|href)\s*=\s*["']?\s*(?:https?:)?//|url\(\s*["']?(?:https?:)?//|@import""", full)
    assert parsed.tags.count("script") == 1
    assert ("script", "type", "application/json") in parsed.attributes
    assert "default-src 'none'" in full


def test_words_that_are_never_said() -> None:
    for name in ("synthetic", "low", "bare", "unsupported", "dirty"):
        words = Page(render_html(RECORDS[name], make_extras())).text.replace("safetensors", "")
        assert not re.search(r"anonym|gdpr|complian|\bsafe", words, flags=re.IGNORECASE)
