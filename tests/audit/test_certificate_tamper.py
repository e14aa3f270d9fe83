"""Any edited leaf is caught and its section named: by its digest, or, with digests made to fit, by recomputation."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from certificate_cases import NOW, at, edited, issued, leaves, projector_file, resealed, table
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import faceblind as fb
from faceblind.audit.certificate import check, verify
from faceblind.audit.certificate.recompute import recompute

DATA = issued()
LEAVES = [path for path in leaves(DATA) if path[0] not in {"format", "signature"}]
STATED = [
    ("note",),
    ("environment",),
    ("audit", "provenance", "libraries"),
    ("audit", "provenance", "faceblind"),
]
"""What only the issuer can know: no computation finds it out, only a signature covers it."""
CHECKABLE = [
    path for path in LEAVES if path[0] != "digests" and not any(path[: len(stated)] == stated for stated in STATED)
]


def by_section(paths):
    """Draw a section first, so that the long lists of rows do not crowd out the rest."""
    groups: dict[tuple, list] = {}
    for path in paths:
        groups.setdefault(path[:2] if path[0] == "audit" else path[:1], []).append(path)
    return st.sampled_from(sorted(groups)).flatmap(lambda key: st.sampled_from(groups[key]))


def digest_name(path):
    match path:
        case ("digests", "sections", section):
            return f"section digest: {section}"
        case ("digests", "overall"):
            return "overall digest"
        case ("digests", *_):
            return "structure"
        case ("audit", part, *_):
            return f"section digest: audit/{part}"
    return f"section digest: {path[0]}"


@settings(max_examples=80)
@given(path=by_section(LEAVES))
def test_an_edited_leaf_breaks_the_digest_of_its_section_and_no_other(path):
    result = verify(edited(DATA, path), now=NOW)
    assert not result.ok
    names = {c.name for c in result.failed}
    assert digest_name(path) in names
    assert {n for n in names if n.startswith("section digest")} <= {digest_name(path)}


@pytest.fixture(scope="module")
def again():
    return recompute(DATA, table(), fb.Projector.load(projector_file()))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=by_section(CHECKABLE))
def test_an_edited_leaf_with_fitting_digests_is_caught_by_recomputing_and_its_section_named(again, path):
    with patch.object(
        check, "recompute", lambda *_args, **_options: again
    ):  # what it gives does not depend on the edit
        result = verify(resealed(edited(DATA, path)), projector=projector_file(), embeddings=table(), now=NOW)
    assert not result.ok
    section = str(path[0])
    named = [
        c
        for c in result.failed
        if section in c.name or section in c.detail or any(section in d.path for d in c.differences)
    ]
    assert named or section in {"subject", "validity", "what", "non_claims", "how_to_verify"}, [
        c.name for c in result.failed
    ]
    if section == "what":
        assert {c.name for c in result.failed} == {"consistency: fixed texts"}


@pytest.mark.parametrize(
    "path",
    [
        ("audit", "rows", 0, "true_accepts"),
        ("audit", "summary", 3, "tar_high"),
        ("audit", "curves", 0, "fnmr", 2),
        ("audit", "power", "points", 0, "tar"),
        ("audit", "utility", 1, "energy_kept"),
        ("audit", "verdict", "headline"),
        ("figures", 1, "tar"),
        ("plan", "seed"),
        ("plan", "draws"),
        ("residual", "probe_vectors", "float16", "largest"),
    ],
    ids=lambda path: "/".join(map(str, path)),
)
def test_edits_are_caught_by_a_real_recomputation_and_listed_by_path(path):
    data = resealed(edited(DATA, path))
    result = verify(data, projector=projector_file(), embeddings=table(), now=NOW)
    assert not result.ok
    found = [d for d in result.differences if str(path[-1]) in d.path and str(path[0]) in d.path]
    assert found or path[0] == "plan"
    if found:
        assert at(data, path) in {d.recorded for d in found} | {d.found for d in found}


def test_a_whole_audit_made_up_in_agreement_with_itself_is_caught():
    data = issued()
    for row in data["audit"]["rows"]:
        if row["release"] == "isp":
            row["true_accepts"] = 0
            row["tar"] = row["tar_low"] = 0.0
    for row in data["audit"]["summary"]:
        if row["release"] == "isp":
            row["tar"] = row["tar_low"] = row["lift"] = 0.0
    for figure in data["figures"]:
        if figure["release"] == "isp":
            figure["tar"] = figure["tar_low"] = figure["lift"] = 0.0
    lie = resealed(data)
    assert verify(lie, now=NOW).ok  # nothing in the file alone gives it away: that is why it can be recomputed
    result = verify(lie, projector=projector_file(), embeddings=table(), now=NOW)
    assert {"recomputed: audit", "recomputed: figures"} <= {c.name for c in result.failed}


def test_figures_that_do_not_restate_the_audit_are_caught_without_data():
    data = issued()
    data["figures"][1]["tar"] = 0.0
    data["conclusion"]["reached"] = True
    data["conclusion"]["level"] = "low"
    data["conclusion"]["headline"] = "All is well."
    names = {c.name for c in verify(resealed(data), now=NOW).failed}
    assert {"consistency: figures", "consistency: conclusion"} <= names


def test_counts_that_do_not_give_their_rate_are_caught_without_data():
    data = issued()
    data["audit"]["rows"][0]["true_accepts"] -= 1
    (failure,) = verify(resealed(data), now=NOW).failed
    assert failure.name == "consistency: audit"
    assert failure.differences[0].path == "audit/rows[0]/tar"


@pytest.mark.parametrize("section", sorted(set(DATA) - {"format", "digests", "signature"}))
def test_removed_and_added_sections_are_named(section):
    removed = issued()
    del removed[section]
    names = {c.name for c in verify(removed, now=NOW).failed}
    assert any(name.startswith(f"section digest: {section}") for name in names)
    added = issued()
    added["more"] = {"say": "anything"}
    assert "section digest: more" in {c.name for c in verify(added, now=NOW).failed}


@pytest.mark.parametrize("value", [None, [], "x", {"sections": 3}, {}])
def test_damaged_digests_are_a_failed_check_and_no_crash(value):
    data = issued()
    data["digests"] = value
    assert not verify(data, now=NOW).ok
