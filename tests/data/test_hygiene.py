"""`check_hygiene` as a whole, duplicates, single images and splits."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hygiene_tables import CANNOT_TELL, at_cosine, faces, kinds, names, noise, table

from faceblind._errors import DataError, UsageError
from faceblind.data.embeddings import EmbeddingSet, unit_rows
from faceblind.data.findings import SEVERITIES
from faceblind.data.hygiene import EXACT, NEAR, check_hygiene, duplicates, near, save_findings
from faceblind.data.split import IdentitySplit
from strategies import unit_gauss


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("images", "within"), [(6, 0.6), (2, 0.75), (20, 0.4)])
def test_clean_people_have_no_findings(seed, images, within):
    embeddings = table(*faces(seed, images=images, within=within))
    split = IdentitySplit.draw(embeddings, seed=seed)
    assert check_hygiene(embeddings, split=split) == ()
    shuffled = embeddings.take(np.random.default_rng(seed).permutation(len(embeddings)))
    assert check_hygiene(shuffled) == ()


@pytest.mark.parametrize("seed", range(20))
def test_vectors_without_identity_only_say_that_labels_cannot_be_checked(seed):
    found = check_hygiene(table(*noise(people=40, images=5, dim=48, seed=seed)))
    assert [(f.kind, f.severity) for f in found] == [("labels_hard_to_check", "note")]


def test_small_tables_say_that_labels_were_not_checked():
    (found,) = check_hygiene(table(*noise()))
    assert (found.kind, found.severity) == ("labels_not_checked", "note")
    assert "here are 12 and 48" in found.message


@pytest.mark.parametrize("dim", [2, 24, 768, 4096])
@pytest.mark.parametrize("change", ["same", "longer", "float16", "noise"])
def test_one_photograph_under_two_names_is_an_error_even_after_rounding(dim, change):
    vectors, identity = (
        noise(dim=dim, people=3) if dim > 2 else (np.eye(2, dtype=np.float32)[[0, 0, 1, 1]], np.array(list("aabb")))
    )
    source, copy = 1, len(vectors) - 1
    rng = np.random.default_rng(1)
    vectors[source] = unit_rows(rng.standard_normal((1, dim)))[0]
    vectors[copy] = {
        "same": vectors[source],
        "longer": vectors[source] * np.float32(1234.5),
        "float16": vectors[source].astype(np.float16),
        "noise": vectors[source] * (1 + 2e-7 * rng.standard_normal(dim)),
    }[change]
    if dim == 2 and change == "float16":
        return  # two numbers of half precision may be off by more than 1e-6
    found = kinds(check_hygiene(table(vectors, identity)))
    duplicate = found["duplicate_across_identities"]
    pair = f"s1 ({identity[1]}) = s{copy} ({identity[copy]}), cosine 1.0000"
    assert (duplicate.severity, duplicate.count, duplicate.examples) == ("error", 1, (pair,))
    assert pair in duplicate.message  # the verdict quotes the message and must name the pair
    assert "near_duplicate_across_identities" not in found


def test_names_with_braces_do_not_upset_the_message():
    vectors, identity = noise()
    vectors[40] = vectors[0]
    identity = np.where(identity == "p000", "{0} {", identity)
    found = kinds(check_hygiene(table(vectors, identity)))["duplicate_across_identities"]
    assert "s0 ({0} {) = s40 (p010)" in found.message


def test_near_duplicates_are_a_warning_and_the_nearest_are_shown_first():
    vectors, identity = noise(people=10)
    rng = np.random.default_rng(2)
    for i, cosine in enumerate([0.97, 0.981, 0.99, 0.985, 0.999, 0.995, 0.9999]):
        vectors[4 * i + 1] = at_cosine(vectors[39 - i], cosine, rng)
    found = kinds(check_hygiene(table(vectors, identity)), without=CANNOT_TELL)
    pairs = found.pop("near_duplicate_across_identities")
    assert found == {}
    assert (pairs.severity, pairs.count) == ("warning", 6)
    assert [text[-6:] for text in pairs.examples] == ["0.9999", "0.9990", "0.9950", "0.9900", "0.9850"]
    assert pairs.examples[0] == "s25 (p006) = s33 (p008), cosine 0.9999"
    assert kinds(check_hygiene(table(vectors, identity), near=0.96))["near_duplicate_across_identities"].count == 7
    assert kinds(check_hygiene(table(vectors, identity), near=0.9995))["near_duplicate_across_identities"].count == 1


def test_exact_duplicates_are_found_even_when_only_nearer_ones_are_asked_for():
    vectors, identity = noise()
    vectors[40] = vectors[0]
    found = kinds(check_hygiene(table(vectors, identity), near=1.0), without=CANNOT_TELL)
    assert set(found) == {"duplicate_across_identities"}


def test_every_pair_of_a_photograph_under_three_names_counts():
    vectors, identity = noise()
    vectors[[1, 2, 9, 30]] = vectors[0]
    found = kinds(check_hygiene(table(vectors, identity)))
    assert (
        found["duplicate_across_identities"].count == 3 + 3 + 1
    )  # three rows of p000 with each of two others, and those
    assert len(found["duplicate_across_identities"].examples) == 5
    assert found["duplicates_within_identities"].count == 3


def test_many_alike_images_of_one_person_do_not_hide_a_duplicate(monkeypatch):
    """Frames of a video are all near each other: they must not use up the pairs that are kept."""
    vectors, identity = noise(people=6, images=30)
    rng = np.random.default_rng(0)
    vectors[:60] = unit_rows(vectors[0] + 1e-2 * unit_gauss(rng, 60, 24))  # p000, and p001 beside it
    vectors[179] = vectors[100]
    monkeypatch.setattr(duplicates, "near_pairs", lambda *a, **k: near.near_pairs(*a, **k, limit=20))
    found = kinds(check_hygiene(table(vectors, identity)))
    assert found["duplicate_across_identities"].count == 1
    assert found["duplicate_across_identities"].examples == ("s100 (p003) = s179 (p005), cosine 1.0000",)
    assert found["near_duplicate_across_identities"].count == 30 * 30


@pytest.mark.parametrize(
    ("images", "copies", "severity", "share"), [(4, 1, "warning", "0.28"), (40, 1, "note", "0.0021")]
)
def test_one_photograph_twice_under_one_name_is_noted_and_warned_of_when_it_matters(images, copies, severity, share):
    vectors, identity = faces(people=60, images=images)
    vectors[1] = at_cosine(vectors[0], 0.99, np.random.default_rng(0))
    (found,) = check_hygiene(table(vectors, identity))
    assert (found.kind, found.severity, found.count) == ("duplicates_within_identities", severity, copies)
    assert found.message.startswith(f"{share} % of the mated pairs have cosine 0.98 or more: ")
    assert found.examples == ("s0 (p000) = s1 (p000), cosine 0.9900",)
    vectors[1] = vectors[0]
    (found,) = check_hygiene(table(vectors, identity))
    assert "1 of them the same vector" in found.message


def test_pairs_within_equal_brute_force():
    rng = np.random.default_rng(0)
    vectors = unit_rows(unit_gauss(rng, 12, 8)[rng.integers(0, 12, 90)] + 0.05 * rng.standard_normal((90, 8)))
    identity = rng.choice(list("abcd"), 90)
    scores = vectors @ vectors.T
    expected = np.argwhere(np.triu((scores >= 0.98) & (identity[:, None] == identity[None]), 1))
    found = kinds(check_hygiene(table(vectors, identity)))["duplicates_within_identities"]
    assert found.count == len(expected)
    best = max(((scores[i, j], -i, -j) for i, j in expected))
    assert found.examples[0].startswith(f"s{-best[1]} (")


def test_single_images_are_a_warning():
    vectors, identity = noise()
    identity = identity.astype(object)
    identity[[5, 20]] = ["lone-b", "lone-a"]
    found = kinds(check_hygiene(table(vectors, identity)), without=CANNOT_TELL)
    (single,) = found.values()
    assert (single.kind, single.severity, single.count) == ("single_image_identities", "warning", 2)
    assert single.examples == ("lone-a", "lone-b")
    assert single.message.startswith("2 of 14 identities have a single image")


def test_what_splits_share_is_found_and_errors_come_first():
    vectors, identity = noise()
    identity = identity.astype(object)
    identity[5] = "lone"
    embeddings = table(vectors, identity)
    split = IdentitySplit.draw(embeddings)
    fit, test = split.rows("fit"), split.rows("test")
    vectors = vectors.copy()
    vectors[fit[1]] = at_cosine(vectors[test[1]], 0.99, np.random.default_rng(0))
    embeddings = table(vectors, identity)
    part = split.part.copy()
    part[fit[0]] = "test"
    findings = check_hygiene(embeddings, split=IdentitySplit(part, "by hand"))
    assert [f.severity for f in findings] == sorted((f.severity for f in findings), key=SEVERITIES.index)
    found = kinds(findings, without=CANNOT_TELL)
    assert found["identity_shared_between_splits"].examples == (f"{identity[fit[0]]}: fit and test",)
    shared = found["photograph_in_two_splits"]
    assert (shared.severity, shared.count) == ("warning", 1)
    a, b = sorted((fit[1], test[1]))
    assert shared.examples == (f"s{a} ({identity[a]}) in {part[a]} = s{b} ({identity[b]}) in {part[b]}, cosine 0.9900",)
    assert set(found) == {
        "identity_shared_between_splits",
        "photograph_in_two_splits",
        "near_duplicate_across_identities",
        "single_image_identities",
    }


def test_the_same_vector_in_two_splits_is_an_error_and_within_one_split_is_none():
    vectors, identity = noise()
    embeddings = table(vectors, identity)
    split = IdentitySplit.draw(embeddings)
    fit, test = split.rows("fit"), split.rows("test")
    moved = vectors.copy()
    moved[fit[0]] = vectors[test[0]]
    assert kinds(check_hygiene(table(moved, identity), split=split))["photograph_in_two_splits"].severity == "error"
    moved = vectors.copy()
    moved[fit[0]] = vectors[fit[-1]]
    found = kinds(check_hygiene(table(moved, identity), split=split))
    assert "duplicate_across_identities" in found
    assert "photograph_in_two_splits" not in found


def test_in_a_large_table_duplicates_are_found_everywhere(monkeypatch):
    """Bucketing instead of all pairs: the same findings, and the chance of missing one is stated."""
    vectors, identity = faces(people=200, images=4)
    rng = np.random.default_rng(0)
    vectors[3] = vectors[700]
    vectors[9] = at_cosine(vectors[600], 0.995, rng)
    vectors[21] = vectors[500] * np.float32(3)
    vectors[41] = vectors[40]
    small = kinds(check_hygiene(table(vectors, identity)))
    monkeypatch.setattr(duplicates, "near_pairs", lambda *a, **k: near.near_pairs(*a, **k, exact_rows=100))
    monkeypatch.setattr(near, "_plan", lambda *_: (6, 12))
    large = kinds(check_hygiene(table(vectors, identity)))
    assert set(small) == set(large)
    for kind in ("duplicate_across_identities", "near_duplicate_across_identities", "duplicates_within_identities"):
        assert (small[kind].count, small[kind].examples) == (large[kind].count, large[kind].examples)
    assert small["duplicate_across_identities"].count == 2
    assert "is found with a chance of 0.999 or more" in large["near_duplicate_across_identities"].message


def test_progress_is_told():
    seen = []
    check_hygiene(table(*noise()), progress=lambda *step: seen.append(step))
    assert seen == [("near duplicates", 0, 1)]


def test_the_same_table_gives_the_same_findings():
    vectors, identity = noise(people=40, images=5)
    vectors[5] = vectors[100]
    assert check_hygiene(table(vectors, identity)) == check_hygiene(table(vectors, identity))


def test_identities_and_a_cosine_are_needed():
    with pytest.raises(DataError, match="this needs an identity"):
        check_hygiene(EmbeddingSet.of(np.eye(3)))
    for wrong in (0, -0.5, 1.2, float("nan")):
        with pytest.raises(UsageError, match=r"it is a cosine, above 0 and up to 1"):
            check_hygiene(table(*noise()), near=wrong)


def test_findings_are_saved_as_json(tmp_path):
    vectors, identity = noise()
    vectors[40] = vectors[0]
    findings = check_hygiene(table(vectors, identity))
    save_findings(tmp_path / "f.json", findings, tables=["a", "b"])
    record = json.loads((tmp_path / "f.json").read_text())
    assert record == {
        "schema": "faceblind.hygiene/1",
        "tables": ["a", "b"],
        "findings": [f.to_dict() for f in findings],
    }


def test_thresholds_are_as_documented():
    assert (EXACT, NEAR) == (1 - 1e-6, 0.98)
    assert names(2, 2).tolist() == ["p000", "p000", "p001", "p001"]
