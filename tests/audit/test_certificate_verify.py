"""Verification: what is right passes; a changed byte, another encoder, other data or another split is caught and named."""

from __future__ import annotations

import copy
from datetime import UTC, datetime

import numpy as np
import pytest
from certificate_cases import ISSUED, NOW, PLAN, issued, projector_file, resealed, table, with_duplicate

import faceblind as fb
from faceblind.audit.certificate import Certificate, certify, verify
from faceblind.audit.certificate.splitcode import decode, encode
from faceblind.data.meta import TableMeta


def failed(result):
    return {check.name for check in result.failed}


def status(result, name):
    (found,) = [check for check in result.checks if check.name == name]
    return found.status


@pytest.fixture(scope="module")
def whole():
    return verify(issued(), projector=projector_file(), embeddings=table(), now=NOW)


def test_everything_passes_and_says_what_was_done(whole):
    assert whole.ok
    assert not whole.differences
    assert {c.name for c in whole.checks if c.status == "not checked"} == {"signature", "statements"}
    assert {"recomputed: audit", "recomputed: figures", "split as drawn", "projector file"} <= {
        c.name for c in whole.checks
    }
    (audit,) = [c for c in whole.checks if c.name == "recomputed: audit"]
    assert audit.detail == "every value is the same"


def test_without_data_the_rest_is_said_not_to_be_checked():
    result = verify(issued(), now=NOW)
    assert result.ok
    assert status(result, "recomputed: audit") == "not checked"
    assert status(result, "statements") == "not checked"
    assert "the projector and the table" in result.checks[-2].detail


def test_a_file_and_a_certificate_are_verified_alike(tmp_path):
    made = Certificate.from_dict(issued())
    path, _ = made.save(tmp_path / "c.json")
    assert verify(path, now=NOW).to_dict() == verify(made, now=NOW).to_dict() == verify(issued(), now=NOW).to_dict()


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (ISSUED, "passed"),
        (datetime(2027, 1, 1, 11, 59, 59, tzinfo=UTC), "passed"),
        (datetime(2027, 1, 1, 12, tzinfo=UTC), "warning"),
        (datetime(2025, 12, 31, tzinfo=UTC), "warning"),
    ],
)
def test_expiry_is_a_warning(now, expected):
    result = verify(issued(), now=now)
    assert status(result, "validity") == expected
    assert result.ok


def test_any_changed_byte_of_the_projector_is_caught(tmp_path):
    whole = projector_file().read_bytes()
    for position in range(0, len(whole), len(whole) // 23):
        changed = bytearray(whole)
        changed[position] ^= 1
        path = tmp_path / "isp.safetensors"
        path.write_bytes(bytes(changed))
        result = verify(issued(), projector=path, embeddings=table(), now=NOW)
        assert "projector file" in failed(result)
        assert "projector digest" in failed(result)
        assert status(result, "recomputed: audit") == "not checked"


def test_another_projector_in_a_file_of_its_own_is_caught(tmp_path):
    people = table()
    fit = people.take(fb.IdentitySplit.draw(people, seed=0).rows("fit"))
    fb.ISP(4).fit(fit.vectors, fit.identity).projector_.save(tmp_path / "other.safetensors")
    assert failed(verify(issued(), projector=tmp_path / "other.safetensors", now=NOW)) == {
        "projector file",
        "projector digest",
    }


def test_a_missing_projector_is_an_error_and_not_a_verdict():
    with pytest.raises(fb.ProjectorError, match="no projector file at nowhere"):
        verify(issued(), projector="nowhere", now=NOW)


@pytest.mark.parametrize("field", ["weights_sha256", "preprocessing", "precision", "pooling"])
def test_another_encoder_is_caught_and_the_field_named(field):
    other = table(**{field: "cd" * 32})
    result = verify(issued(), embeddings=other, now=NOW)
    assert failed(result) == {"encoder"}
    assert field in result.failed[0].detail


def test_a_table_that_does_not_say_its_encoder_is_not_the_one_certified():
    people = table()
    silent = fb.EmbeddingSet.of(people.vectors, people.identity, sample=people.sample, meta=TableMeta())
    assert failed(verify(issued(), embeddings=silent, now=NOW)) == {"encoder"}


def other_tables():
    people = table()
    vectors = people.vectors.copy()
    vectors[17, 3] = np.nextafter(vectors[17, 3], np.float32(9))
    names = people.identity.copy()
    names[0], names[1] = names[1], names[0]
    keys = people.sample.copy()
    keys[0] = "other"
    order = np.roll(np.arange(len(people)), 1)
    yield "one bit", fb.EmbeddingSet.of(vectors, people.identity, sample=people.sample, meta=people.meta)
    yield "labels", fb.EmbeddingSet.of(people.vectors, names, sample=people.sample, meta=people.meta)
    yield "keys", fb.EmbeddingSet.of(people.vectors, people.identity, sample=keys, meta=people.meta)
    yield "order", people.take(order)
    yield "fewer", people.take(np.arange(150))


@pytest.mark.parametrize(("what", "other"), list(other_tables()), ids=lambda x: x if isinstance(x, str) else "")
def test_other_data_are_caught(what, other):
    result = verify(issued(), projector=projector_file(), embeddings=other, now=NOW)
    assert "table" in failed(result), what
    assert status(result, "recomputed: audit") == "not checked"
    assert any(d.path == "subject/table/vectors_sha256" for d in result.differences)


def test_a_swapped_split_is_caught_although_its_digests_fit():
    data = issued()
    parts = decode(data["split"]["parts"]["runs"], 200)
    identity = table().identity
    swapped = parts.copy()
    test = identity[parts == "test"][0]
    fit = identity[parts == "fit"][0]
    swapped[identity == test], swapped[identity == fit] = "fit", "test"
    data["split"]["parts"]["runs"] = encode(swapped)
    result = verify(resealed(data), projector=projector_file(), embeddings=table(), now=NOW)
    assert {"split as drawn", "recomputed: audit"} <= failed(result)
    assert "the first is row" in next(c.detail for c in result.failed if c.name == "split as drawn")
    # Without the promise of a seed, the figures give it away.
    data["split"]["rule"] = data["audit"]["provenance"]["split_rule"] = "read from split.csv"
    result = verify(resealed(data), projector=projector_file(), embeddings=table(), now=NOW)
    assert "recomputed: audit" in failed(result)


def test_a_split_that_leaks_people_into_the_test_cannot_be_called_disjoint():
    data = issued()
    parts = decode(data["split"]["parts"]["runs"], 200)
    row = int(np.flatnonzero(parts == "test")[0])
    parts[row] = "fit"
    data["split"]["parts"]["runs"] = encode(parts)
    result = verify(resealed(data), embeddings=table(), now=NOW)
    assert {"split", "consistency: split"} <= failed(result)


def test_the_split_you_expect_is_compared(tmp_path):
    people = table()
    own = fb.IdentitySplit.draw(people, seed=0)
    own.save(tmp_path / "split.csv", people)
    assert status(verify(issued(), embeddings=people, split=tmp_path / "split.csv", now=NOW), "split file") == "passed"
    other = fb.IdentitySplit.draw(people, seed=1)
    assert failed(verify(issued(), embeddings=people, split=other, now=NOW)) == {"split file"}


def test_a_split_read_from_a_file_is_verified_without_the_file():
    people = table()
    drawn = fb.IdentitySplit.draw(people, seed=5)
    fit = people.take(drawn.rows("fit"))
    projector = fb.ISP(5).fit(fit.vectors, fit.identity).projector_
    made = certify(
        people, projector, plan=PLAN, split=fb.IdentitySplit(drawn.part, "read from split.csv"), issued=ISSUED
    )
    result = verify(made, projector=projector, embeddings=people, now=NOW)
    assert result.ok
    assert "split as drawn" not in {c.name for c in result.checks}
    assert status(result, "projector file") == "not checked"


def test_evidence_without_a_conclusion_verifies_with_a_warning():
    people = with_duplicate()
    made = certify(people, projector_file(), plan=PLAN, issued=ISSUED)
    result = verify(made, projector=projector_file(), embeddings=people, now=NOW)
    assert result.ok
    assert status(result, "conclusion") == "warning"


def test_small_differences_pass_only_where_other_libraries_computed():
    data = issued()
    data["residual"]["test_images"]["float32"]["largest"] *= 1.0001
    here = verify(resealed(data), projector=projector_file(), embeddings=table(), now=NOW)
    assert failed(here) == {"recomputed: residual"}
    elsewhere = copy.deepcopy(data)
    elsewhere["environment"]["libraries"]["numpy"] = "1.26.0"
    result = verify(resealed(elsewhere), projector=projector_file(), embeddings=table(), now=NOW)
    assert result.ok
    assert any(d.tolerated for c in result.checks for d in c.differences)
    strict = verify(resealed(elsewhere), projector=projector_file(), embeddings=table(), now=NOW, exact=True)
    assert failed(strict) == {"recomputed: residual"}


def test_a_plan_that_cannot_be_run_is_a_failed_check():
    data = issued()
    data["plan"]["controls"] = ["nonsense"]
    result = verify(resealed(data), projector=projector_file(), embeddings=table(), now=NOW)
    assert "recomputed: audit" in failed(result)
    assert "nonsense" in result.failed[-1].detail


def test_a_gate_is_part_of_the_evidence():
    from dataclasses import replace

    from faceblind.audit.plan import parse_gate

    gated = replace(PLAN, fail_if=parse_gate("TAR@FAR(1e-1) > 1%"))
    made = certify(table(), projector_file(), plan=gated, issued=ISSUED)
    assert made.conclusion["gate_failed"] is True
    assert verify(made, projector=projector_file(), embeddings=table(), now=NOW).ok


def test_an_oblique_map_that_keeps_a_mean_is_certified_like_any_other(tmp_path):
    people = table()
    projector = fb.Projector.load(projector_file())
    rng = np.random.default_rng(0)
    lift = projector.basis + 0.3 * projector.complement @ rng.standard_normal((27, 5))
    oblique = fb.Projector.of(
        projector.basis, method="leace", choice=projector.choice, lift=lift, mean=people.unit().mean(axis=0)
    )
    oblique.save(tmp_path / "leace.safetensors")
    made = certify(people, tmp_path / "leace.safetensors", plan=PLAN, issued=ISSUED)
    assert made.data["residual"]["test_images"]["float32"]["largest"] < 1e-6
    assert {f["release"] for f in made.data["figures"] if f["role"] == "erased"} == {"leace"}
    assert verify(made, projector=tmp_path / "leace.safetensors", embeddings=people, now=NOW).ok
