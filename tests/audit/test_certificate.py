"""Certificates: what is in them, digests that do not depend on layout, the same bytes again, and the pair of files."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta, timezone

import jsonschema
import numpy as np
import pytest
from certificate_cases import ISSUED, PLAN, issued, issued_text, projector_file, table, with_duplicate
from hypothesis import given, settings
from hypothesis import strategies as st

import faceblind as fb
from faceblind._errors import OutputError
from faceblind._files import sha256_file
from faceblind.audit.certificate import Certificate, certificate_schema, certify
from faceblind.audit.certificate.canonical import canonical, digest, parse
from faceblind.audit.certificate.certificate import digests_of, section_digests
from faceblind.audit.result import audit_schema
from faceblind.audit.run import run_audit
from faceblind.audit.verdict import worst_of


def test_it_follows_its_schema_and_embeds_the_whole_audit_record():
    data = issued()
    jsonschema.validate(data, certificate_schema())
    jsonschema.validate(data["audit"], audit_schema())
    run = run_audit(table(), plan=PLAN, projector=fb.Projector.load(projector_file()))
    assert data["audit"] == json.loads(run.result.to_json())


def test_it_says_what_was_certified_how_and_until_when():
    data = issued()
    projector = fb.Projector.load(projector_file())
    subject = data["subject"]
    assert subject["projector"]["file_sha256"] == sha256_file(projector_file())
    assert subject["projector"]["digest"] == projector.digest
    assert subject["projector"]["fit"]["fit_identities"] == 12
    assert subject["encoder"]["weights_sha256"] == "ab" * 32
    assert fb.AuditPlan.from_dict(data["plan"]) == PLAN
    assert data["validity"]["issued"] == "2026-01-01T12:00:00Z"
    assert data["validity"]["expires"] == "2027-01-01T12:00:00Z"
    assert {f["role"] for f in data["figures"]} == {"raw", "erased", "control"}
    assert data["conclusion"]["headline"] == data["audit"]["verdict"]["headline"]
    assert data["environment"]["libraries"]["numpy"] == np.__version__


def test_headline_figures_are_those_that_decide_the_verdict():
    run = run_audit(table(), plan=PLAN, projector=fb.Projector.load(projector_file()))
    figures = issued()["figures"]
    assert len(figures) == 3 * 2
    for figure in figures:
        worst = worst_of(run.result.summary, figure["release"], figure["far_target"])
        assert {key: value for key, value in figure.items() if key != "role"} == asdict(worst)


def test_residual_is_what_apply_leaves_in_the_removed_directions():
    people, projector = table(), fb.Projector.load(projector_file())
    test = people.take(fb.IdentitySplit.draw(people, seed=0).rows("test")).vectors
    left = np.abs(projector.apply(test).vectors.astype(np.float64) @ projector.basis)
    found = issued()["residual"]["test_images"]
    assert found["float32"]["largest"] == pytest.approx(left.max(), abs=1e-9)
    assert found["float32"]["largest"] < 1e-6 < found["float16"]["largest"] < 1e-3


def test_no_name_is_in_the_split_and_no_path_anywhere():
    text = issued_text()
    assert "p0001" not in json.dumps(issued()["split"])
    assert str(projector_file().parent) not in text
    assert "safetensors" not in json.dumps(issued()["subject"])


def test_the_same_input_gives_the_same_bytes():
    again = certify(table(), projector_file(), plan=PLAN, issued=ISSUED, note="for tests")
    assert again.to_json() == issued_text()
    assert again.to_html() == Certificate.from_dict(issued()).to_html()


def test_the_time_of_issue_is_written_in_utc_and_counts_days():
    there = datetime(2026, 1, 1, 1, 30, 59, 999999, tzinfo=timezone(timedelta(hours=2)))
    made = certify(table(), projector_file(), plan=PLAN, issued=there, valid_days=1)
    assert made.data["validity"]["issued"] == "2025-12-31T23:30:59Z"
    assert made.data["validity"]["expires"] == "2026-01-01T23:30:59Z"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"valid_days": 0}, fb.UsageError, "1 to 3650 days, got 0"),
        ({"valid_days": 3651}, fb.UsageError, "got 3651"),
        ({"issued": datetime(2026, 1, 1)}, fb.UsageError, "time zone"),
        ({"projector": "nowhere.safetensors"}, fb.ProjectorError, "no projector file at nowhere"),
    ],
)
def test_bad_input_is_refused_before_the_audit(change, error, message):
    settings = {"projector": projector_file(), "plan": PLAN, "issued": ISSUED} | change
    with pytest.raises(error, match=message):
        certify(table(), **settings)


def test_a_projector_for_another_encoder_is_refused():
    people = table()
    own = fb.ISP(5).fit(people.vectors, people.identity).projector_
    foreign = fb.Projector.of(
        own.basis, method="isp", choice=own.choice, encoder=table(weights_sha256="cd" * 32).encoder
    )
    with pytest.raises(fb.EncoderError, match="made for encoder"):
        certify(people, foreign, plan=PLAN)


def test_data_that_allow_no_conclusion_give_evidence_that_says_so():
    made = certify(with_duplicate(), projector_file(), plan=PLAN, issued=ISSUED)
    assert not made.conclusion["reached"]
    assert "duplicate_across_identities" in made.conclusion["because_of"]
    assert made.conclusion["headline"].startswith("No conclusion")
    finding = next(f for f in made.data["findings"] if f["severity"] == "error")
    assert finding["effect"] == "no conclusion is drawn from the figures"
    page = made.to_html()
    assert page.index("No conclusion") < page.index('class="seal"') < page.index('class="cards"')
    assert made.data["figures"]


def test_a_projector_in_memory_has_no_file_hash():
    made = certify(table(), fb.Projector.load(projector_file()), plan=PLAN, issued=ISSUED)
    assert made.data["subject"]["projector"]["file_sha256"] is None
    jsonschema.validate(made.to_dict(), certificate_schema())


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=40)
@given(value=json_values, indent=st.sampled_from([None, 0, 1, 4]), data=st.data())
def test_digests_do_not_depend_on_order_of_keys_or_white_space(value, indent, data):
    def shuffled(item):
        if isinstance(item, dict):
            keys = data.draw(st.permutations(list(item)))
            return {key: shuffled(item[key]) for key in keys}
        return [shuffled(inner) for inner in item] if isinstance(item, list) else item

    text = json.dumps({"a": shuffled(value)}, indent=indent, ensure_ascii=data.draw(st.booleans()))
    assert digest(parse(text)) == digest({"a": value})


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_survive_a_round_trip_exactly(number):
    read = parse(json.dumps({"x": number}))["x"]
    assert read == number
    assert parse(canonical({"x": number}).decode())["x"] == number


def test_tools_that_rewrite_numbers_do_not_break_digests():
    assert digest({"x": 1.0, "y": 1e-05, "z": -0.0}) == digest(parse('{"z": 0, "y": 0.00001, "x": 1}'))
    assert digest({"x": 1.0}) != digest({"x": True})
    assert digest({"x": 1.0}) != digest({"x": 1.0000000000000002})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 2}', "'a' occurs twice"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"a": 1e999}', "too large"),
        ('{"a": ' + "9" * 5000 + "}", "too large"),
        ("[" * 100_000, "not readable JSON"),
        ("[1]", "not a JSON object"),
        ('{"a": ', "not readable JSON"),
        ("{}", "its format is None"),
        ('{"format": "faceblind.certificate/2"}', "faceblind.certificate/2"),
    ],
)
def test_files_that_are_no_certificate_are_refused(tmp_path, text, message):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(fb.FormatError, match=message):
        Certificate.load(tmp_path / "c.json")


def test_binary_and_missing_files_are_refused(tmp_path):
    (tmp_path / "c.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(fb.FormatError, match="not UTF-8"):
        Certificate.load(tmp_path / "c.json")
    with pytest.raises(fb.FormatError, match="no certificate at"):
        Certificate.load(tmp_path / "none.json")


def test_every_section_and_every_part_of_the_audit_has_a_digest():
    data = issued()
    names = set(section_digests(data))
    assert names == {n for n in data if n not in {"digests", "signature", "audit"}} | {
        f"audit/{n}" for n in data["audit"]
    }
    assert data["digests"] == digests_of(data)
    assert data["digests"]["sections"]["note"] == digest("for tests")


def test_saving_writes_both_files_and_loading_gives_it_back(tmp_path):
    made = Certificate.from_dict(issued())
    record, page = made.save(tmp_path / "deep" / "certificate.json")
    assert sorted(p.name for p in record.parent.iterdir()) == ["certificate.html", "certificate.json"]
    assert Certificate.load(record).to_dict() == made.to_dict()
    assert page.read_text(encoding="utf-8") == made.to_html()


def test_the_name_must_end_in_json(tmp_path):
    with pytest.raises(fb.UsageError, match=r"ending in \.json"):
        Certificate.from_dict(issued()).save(tmp_path / "certificate.html")


@pytest.mark.parametrize("earlier", [True, False])
def test_no_half_pair_when_the_record_cannot_be_put_in_its_place(tmp_path, monkeypatch, earlier):
    made = Certificate.from_dict(issued())
    if earlier:
        (tmp_path / "c.json").write_text("old record")
        (tmp_path / "c.html").write_text("old page")
    from pathlib import Path

    replace = Path.replace

    def refuse(self, target):
        if str(target).endswith("c.json"):
            raise OSError(28, "No space left on device", str(self))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OutputError, match="No space left"):
        made.save(tmp_path / "c.json")
    left = {p.name: p.read_text() for p in tmp_path.iterdir()}
    assert left == ({"c.json": "old record", "c.html": "old page"} if earlier else {})


def test_copies_cannot_change_a_certificate():
    made = Certificate.from_dict(issued())
    made.to_dict()["note"] = "changed"
    assert made.data["note"] == "for tests"
    assert made.digest == issued()["digests"]["overall"]
    assert ISSUED.tzinfo is UTC
