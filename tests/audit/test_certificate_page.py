"""The page of a certificate: what its first screen says, hostile names stay text, and nothing is loaded or run."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest
from certificate_cases import ISSUED, PLAN, issued, leaves, projector_file, table, with_duplicate
from report_cases import Page

import faceblind as fb
from faceblind.audit.certificate import certify
from faceblind.audit.certificate.page import render_certificate
from faceblind.data.meta import TableMeta

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`{{7*7}}{%x%}&amp;<!--"


class Parsed(Page):
    """The page with its text on one line."""

    def __init__(self, page):
        super().__init__(page)
        self.text = " ".join(self.text.split())


@cache
def clean():
    return Parsed(render_certificate(issued()))


def test_the_first_screen_says_what_the_verdict_the_figures_and_until_when():
    data, page = issued(), clean()
    first = page.text[: page.text.index("The worst attacker on every release")]
    assert "Projector isp, rank 5" in first
    assert data["conclusion"]["headline"] in first
    for word in ("As given", "After the projector", "Random control", "2026-01-01", "2027-01-01", "not signed"):
        assert word in first
    assert data["subject"]["projector"]["digest"][:16] in first
    raw = next(f for f in data["figures"] if f["role"] == "raw" and f["far_target"] == 0.1)
    assert f"{100 * raw['tar']:.3g}" in first


def test_every_part_of_the_evidence_is_on_the_page():
    data, page = issued(), clean()
    for item in (*data["non_claims"], *data["validity"]["invalidated_by"], *data["audit"]["limits"]):
        assert item in page.text
    for section, value in data["digests"]["sections"].items():
        assert section in page.text
        assert value in page.text
    for attacker in PLAN.attackers:
        assert attacker in page.text
    assert data["subject"]["projector"]["file_sha256"] in page.text
    assert "faceblind verify certificate.json --projector PROJECTOR --table TABLE" in page.text
    assert "for tests" in page.text


def test_the_certificate_is_inside_its_page():
    assert json.loads(clean().record) == issued()


def test_nothing_is_loaded_or_run():
    page = clean()
    for tag, name, value in page.attributes:
        assert not name.startswith("on"), (tag, name)
        if name in {"src", "href", "action", "data", "poster", "srcset", "xlink:href", "formaction"}:
            assert value.startswith("#"), (tag, name, value)
    assert not {"link", "iframe", "object", "embed", "base", "form", "img"} & set(page.tags)
    assert page.tags.count("script") == 1
    assert ("script", "type", "application/json") in page.attributes
    assert not re.search(r"url\(|@import", render_certificate(issued()))


def test_links_inside_the_page_have_a_target():
    page = clean()
    names = {value for _, name, value in page.attributes if name == "id"}
    assert {v.removeprefix("#") for _, name, v in page.attributes if name == "href"} <= names


def test_hostile_text_stays_text():
    data = issued()
    keep = {"grade", "severity", "level", "role", "calibration", "trained_on", "schema", "format"}
    for path in leaves(data):
        place = data
        for step in path[:-1]:
            place = place[step]
        if isinstance(place[path[-1]], str) and path[-1] not in keep and "digests" not in path and path[-1] != "issued":
            place[path[-1]] = HOSTILE
    data["plan"][HOSTILE] = {HOSTILE: HOSTILE}
    data["audit"]["gate"] = {"failed": True, "expression": HOSTILE, "message": HOSTILE}
    gated = issued()
    gated["audit"]["gate"] = {"failed": True, "expression": "x", "message": "y"}
    harmless = Parsed(render_certificate(gated))
    data["signature"] = {"algorithm": HOSTILE, "public_key": HOSTILE, "fingerprint": HOSTILE, "value": HOSTILE}
    page = Parsed(render_certificate(data))
    assert json.loads(page.record) == data
    assert set(page.tags) <= set(harmless.tags)
    assert {(t, n) for t, n, _ in page.attributes} <= {(t, n) for t, n, _ in harmless.attributes} | {("bdi", "title")}
    assert page.tags.count("script") == 1
    assert "alert(1)" in page.text
    assert "49" not in re.findall(r"`(\d+)", page.text)


def test_unwritable_characters_are_replaced():
    data = issued()
    data["note"] = "bad\udcff\x00\x1b"
    page = render_certificate(data)
    page.encode("utf-8")
    assert "\x00" not in page
    assert "bad\N{REPLACEMENT CHARACTER}" in page
    assert json.loads(Parsed(page).record) == data


@cache
def variants():
    people = table()
    rendered = fb.EmbeddingSet.of(
        people.vectors, people.identity, sample=people.sample, meta=TableMeta(encoder=people.encoder, synthetic=True)
    )
    return {
        "plain": issued(),
        "no conclusion": certify(with_duplicate(), projector_file(), plan=PLAN, issued=ISSUED).to_dict(),
        "synthetic": certify(rendered, projector_file(), plan=PLAN, issued=ISSUED).to_dict(),
    }


@pytest.mark.parametrize("name", ["plain", "no conclusion", "synthetic"])
def test_words_that_are_never_said(name):
    data = variants()[name]
    for text in (Parsed(render_certificate(data)).text, json.dumps(data)):
        assert not re.search(r"anonym|gdpr|complian|certified private|guaranteed private", text, flags=re.IGNORECASE)


def test_no_conclusion_and_synthetic_people_are_said_at_the_top():
    page = Parsed(render_certificate(variants()["no conclusion"])).text
    assert page.index("No conclusion") < page.index("Issued")
    assert "duplicate across identities" in page[: page.index("Issued")]
    assert "Handle this file with care" in page
    assert "Synthetic people." in Parsed(render_certificate(variants()["synthetic"])).text[:400]


def test_a_record_without_optional_parts_is_drawn():
    data = issued()
    data["audit"] |= {"power": None, "utility": [], "hygiene": [], "gate": None}
    data["subject"]["encoder"] = None
    data["findings"], data["figures"], data["note"] = [], [], ""
    assert "No leak was planted" in Parsed(render_certificate(data)).text


def test_the_layout_holds_on_a_phone_and_on_a_desk(tmp_path):
    browser = pytest.importorskip("test_report_browser")
    if browser.CHROMIUM is None:
        pytest.skip("needs chromium on PATH")
    page = render_certificate(issued()).replace('id="certificate"', 'id="audit-record"')
    for width in (browser.PHONE, browser.DESKTOP):
        found = browser.measure(page, width, tmp_path)
        assert "error" not in found, found
        assert found["scroll"] <= width, found["wide"]
        assert not found["wide"]
        assert not found["clipped"]
        assert not found["collide"]
        assert found["fetched"] == []
