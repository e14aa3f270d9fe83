"""The parts of a certificate on their own: the code of a split, the schema check, and the comparison with tolerances."""

from __future__ import annotations

import json

import jsonschema
import numpy as np
import pytest
from certificate_cases import another, edited, issued, leaves, table
from hypothesis import given, settings
from hypothesis import strategies as st

import faceblind as fb
from faceblind.audit.certificate import certificate_schema
from faceblind.audit.certificate.compare import compare
from faceblind.audit.certificate.environment import computes_alike, differences_of, environment
from faceblind.audit.certificate.residual import probe_vectors
from faceblind.audit.certificate.splitcode import decode, describe_split, encode
from faceblind.audit.certificate.structure import KNOWN, problems
from faceblind.audit.result import audit_schema

NAMES = ("fit", "attack", "validation", "test", "")


@given(st.lists(st.sampled_from(NAMES), max_size=60))
def test_split_code_round_trip(parts):
    part = np.array(parts, dtype="<U10")
    assert decode(encode(part), part.size).tolist() == parts


def test_split_code_is_compact_for_grouped_rows():
    part = np.repeat(np.array(["fit", "test", ""], dtype="<U10"), [1000, 1, 2])
    assert encode(part) == "1000ft2-"


@pytest.mark.parametrize(
    ("text", "rows", "message"),
    [
        ("3f", 4, "for 3 rows, the table has 4"),
        ("99999999999f", 4, "99,999,999,999 rows"),
        ("3x", 3, "not a code"),
        ("03f", 3, "not a code"),
        ("3", 3, "not a code"),
        ("f f", 2, "not a code"),
    ],
)
def test_split_codes_that_cannot_be_are_refused(text, rows, message):
    with pytest.raises(fb.FormatError, match=message):
        decode(text, rows)


def test_identities_in_two_parts_are_counted_for_each_pair():
    people = table()
    split = fb.IdentitySplit.draw(people, seed=0)
    part = split.part.copy()
    row = split.rows("test")[0]
    part[row] = "fit"
    found = describe_split(fb.IdentitySplit(part, "by hand"), people.identity)
    assert found["shared_identities"]["fit and test"] == 1
    assert sum(found["shared_identities"].values()) == 1
    assert not found["disjoint"]
    assert describe_split(split, people.identity)["disjoint"]


def keywords(schema):
    if isinstance(schema, dict):
        yield from (key for key in schema if not isinstance(schema[key], dict) or key not in {"properties", "$defs"})
        for key, inner in schema.items():
            if key in {"properties", "$defs"}:
                for below in inner.values():
                    yield from keywords(below)
            elif isinstance(inner, dict | list) and key not in {"enum", "const", "required"}:
                yield from keywords(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from keywords(inner)


@pytest.mark.parametrize("schema", [certificate_schema(), audit_schema()], ids=["certificate", "audit"])
def test_the_schemas_use_only_what_the_check_knows_and_are_valid(schema):
    jsonschema.Draft202012Validator.check_schema(schema)
    assert set(keywords(schema)) <= KNOWN | {"properties", "$defs"}


LEAVES = list(leaves(issued()))


VALIDATORS = {
    name: jsonschema.Draft202012Validator(schema)
    for name, schema in (("certificate", certificate_schema()), ("audit", audit_schema()))
}


@settings(max_examples=60)
@given(path=st.sampled_from(LEAVES), kind=st.sampled_from(["same type", "text", "none", "removed", "list", "negative"]))
def test_the_check_agrees_with_a_full_validator_on_edited_certificates(path, kind):
    data = edited(issued(), path)
    place = data
    for step in path[:-1]:
        place = place[step]
    if kind == "removed":
        del place[path[-1]]
    elif kind != "same type":
        place[path[-1]] = {"text": "x", "none": None, "list": [1], "negative": -1.5}[kind]
    validator, value = VALIDATORS["certificate"], {**data, "audit": {"schema": data["audit"].get("schema")}}
    if path[0] == "audit":
        validator, value = VALIDATORS["audit"], data["audit"]
    assert bool(problems(value, validator.schema)) is not validator.is_valid(value)


def test_problems_name_the_place():
    data = issued()
    data["split"]["counts"]["fit"]["samples"] = "many"
    del data["residual"]["measure"]
    data["validity"]["issued"] = "yesterday"
    found = problems(data, certificate_schema())
    assert "split/counts/fit/samples: is string, not integer" in found
    assert "residual: lacks 'measure'" in found
    assert any(line.startswith("validity/issued: is 'yesterday'") for line in found)


def test_a_document_is_the_same_as_itself_and_one_edit_is_one_difference():
    data = issued()
    assert compare(data, json.loads(json.dumps(data))) == []
    for path in LEAVES[::97]:
        (found,) = compare(data, edited(data, path))
        assert not found.tolerated
        assert str(path[0]) in found.path


def test_differences_are_named_by_what_they_are_about():
    row = {"release": "isp", "attacker": "ridge", "k": 4, "far_target": 0.01, "tar": 0.5}
    (found,) = compare({"rows": [row]}, {"rows": [{**row, "tar": 0.25}]}, "audit")
    assert found.path == "audit/rows[0: release isp, attacker ridge, k 4, far_target 0.01]/tar"
    assert "recorded 0.5, found 0.25" in str(found)


ROW = {
    "release": "isp",
    "rank": 5,
    "far_target": 1e-4,
    "far_achieved": 1e-4,
    "false_accepts": 80,
    "true_accepts": 200,
    "mated": 7000,
    "nonmated": 800_000,
    "tar": 0.03,
    "tar_high": 0.04,
    "lift": 300.0,
    "threshold": 0.4,
    "note": "3.0 % at FAR 0.0001 (300 times chance)",
    "grade": "supported",
    "ties": 1,
    "chosen": [{"epoch": 60}],
    "examples": ["a = b, cosine 1.0000"],
}


@pytest.mark.parametrize(
    ("change", "tolerated"),
    [
        ({"true_accepts": 235}, True),
        ({"true_accepts": 236}, False),
        ({"false_accepts": 84, "far_achieved": 84 / 800_000}, True),
        ({"false_accepts": 85, "far_achieved": 1.06e-4}, False),
        ({"ties": 4}, True),
        ({"ties": 5}, False),
        ({"chosen": [{"epoch": 3}]}, True),
        ({"examples": ["b = a, cosine 1.0000"]}, True),
        ({"tar": 0.034}, True),
        ({"tar": 0.036}, False),
        ({"tar_high": 0.049}, True),
        ({"tar_high": 0.051}, False),
        ({"lift": 340.0}, True),
        ({"lift": 400.0}, False),
        ({"threshold": 0.4 + 1e-6}, True),
        ({"note": "3.1 % at FAR 0.0001 (310 times chance)"}, True),
        ({"note": "3.0 % at FAR 0.0001 (30 times chance)"}, False),
        ({"note": "3.0 % at FAR 0.0001 (300 times better than chance)"}, False),
        ({"mated": 7001}, False),
        ({"rank": 6}, False),
        ({"far_target": 1.0001e-4}, False),
        ({"grade": "indicative"}, False),
    ],
)
def test_tolerances_for_other_libraries_and_none_for_the_same(change, tolerated):
    found = compare({**ROW, **change}, ROW, "row", exact=False)
    assert len(found) == len(change)
    assert all(d.tolerated is tolerated for d in found)
    assert all(not d.tolerated for d in compare({**ROW, **change}, ROW, "row"))


def test_few_pairs_widen_the_tolerance_to_three_of_them():
    small = {"tar": 0.5, "mated": 100, "true_accepts": 50}
    assert compare({**small, "true_accepts": 53}, small, exact=False)[0].tolerated
    assert not compare({**small, "true_accepts": 54}, small, exact=False)[0].tolerated
    assert compare({**small, "tar": 0.53}, small, exact=False)[0].tolerated
    assert not compare({**small, "tar": 0.54}, small, exact=False)[0].tolerated


def test_true_is_not_one_and_missing_is_not_none():
    assert compare({"a": True}, {"a": 1})
    assert compare({"a": None}, {}) != []
    assert compare([1, 2], [1])[0].path.endswith("(length)")


def test_what_other_packages_bring_along_is_not_recorded():
    before = environment()
    pytest.importorskip("faiss")  # its wheel has a BLAS of its own
    assert environment() == before


def test_environments_without_paths_and_alike_only_when_the_same():
    here = environment(command="faceblind certify")
    assert "/" not in json.dumps({k: v for k, v in here.items() if k != "command"})
    assert computes_alike(here, environment())
    more = {
        **here,
        "linear_algebra": [*here["linear_algebra"], {"library": "mkl", "version": "1", "architecture": "x"}],
    }
    assert computes_alike(here, more)  # another library that is loaded here does not compute for numpy
    assert not computes_alike(more, here)
    old = {**here, "libraries": {**here["libraries"], "numpy": "1.0"}}
    assert not computes_alike(old, here)
    assert "numpy 1.0 there" in differences_of(old, here)
    assert "mkl 1 for x there" in differences_of(more, here)


def test_probe_vectors_are_fixed_and_span_the_space():
    vectors = probe_vectors(32)
    assert vectors.shape == (256, 32)
    assert np.linalg.matrix_rank(vectors) == 32
    assert another(0.0) != 0.0
