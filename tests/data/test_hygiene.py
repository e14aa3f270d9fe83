from __future__ import annotations

import numpy as np
import pytest

from faceblind._errors import DataError
from faceblind.data import hygiene
from faceblind.data.embeddings import EmbeddingSet, unit_rows
from faceblind.data.findings import Finding
from faceblind.data.hygiene import check_hygiene
from faceblind.data.split import IdentitySplit
from strategies import unit_gauss


def table(vectors: np.ndarray, identity: np.ndarray) -> EmbeddingSet:
    return EmbeddingSet.of(vectors, identity, sample=[f"s{i}" for i in range(len(identity))])


def clean(people: int = 12, images: int = 4, dim: int = 24, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return unit_gauss(np.random.default_rng(seed), people * images, dim), np.repeat(
        [f"p{i:02d}" for i in range(people)], images
    )


def kinds(findings: tuple[Finding, ...]) -> dict[str, Finding]:
    assert len({f.kind for f in findings}) == len(findings)
    return {f.kind: f for f in findings}


def at_cosine(vector: np.ndarray, cosine: float, rng: np.random.Generator) -> np.ndarray:
    other = rng.standard_normal(vector.size)
    other -= (other @ vector) * vector
    return cosine * vector + np.sqrt(1 - cosine**2) * other / np.linalg.norm(other)


def test_clean_data_have_no_findings():
    embeddings = table(*clean())
    assert check_hygiene(embeddings) == ()
    assert check_hygiene(embeddings, split=IdentitySplit.draw(embeddings)) == ()


@pytest.mark.parametrize("dim", [2, 24, 768, 4096])
@pytest.mark.parametrize("change", ["same", "longer", "float16", "noise"])
def test_one_photograph_under_two_names_is_an_error_even_after_rounding(dim, change):
    vectors, identity = (
        clean(dim=dim, people=3) if dim > 2 else (np.eye(2, dtype=np.float32)[[0, 0, 1, 1]], np.array(list("aabb")))
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
    found = kinds(check_hygiene(table(vectors, identity)))["duplicate_across_identities"]
    assert (found.severity, found.count) == ("error", 1)
    assert found.examples == (f"s1 ({identity[1]}) = s{copy} ({identity[copy]}), cosine 1.0000",)
    assert "near_duplicate_across_identities" not in kinds(check_hygiene(table(vectors, identity)))


def test_the_same_photograph_twice_under_one_name_is_no_finding():
    vectors, identity = clean()
    vectors[1] = vectors[0]
    vectors[2] = at_cosine(vectors[3], 0.995, np.random.default_rng(0))
    assert check_hygiene(table(vectors, identity)) == ()


def test_near_duplicates_are_a_warning_and_the_nearest_are_shown_first():
    vectors, identity = clean(people=10)
    rng = np.random.default_rng(2)
    for i, cosine in enumerate([0.97, 0.981, 0.99, 0.985, 0.999, 0.995, 0.9999]):
        vectors[4 * i + 1] = at_cosine(vectors[39 - i], cosine, rng)
    found = kinds(check_hygiene(table(vectors, identity)))
    near = found.pop("near_duplicate_across_identities")
    assert found == {}
    assert (near.severity, near.count) == ("warning", 6)
    assert [text[-6:] for text in near.examples] == ["0.9999", "0.9990", "0.9950", "0.9900", "0.9850"]
    assert near.examples[0] == "s25 (p06) = s33 (p08), cosine 0.9999"
    assert kinds(check_hygiene(table(vectors, identity), near=0.96))["near_duplicate_across_identities"].count == 7
    assert kinds(check_hygiene(table(vectors, identity), near=0.9995))["near_duplicate_across_identities"].count == 1


def test_exact_duplicates_are_found_even_when_only_nearer_ones_are_asked_for():
    vectors, identity = clean()
    vectors[40] = vectors[0]
    assert set(kinds(check_hygiene(table(vectors, identity), near=1.0))) == {"duplicate_across_identities"}


def test_every_pair_of_a_photograph_under_three_names_counts():
    vectors, identity = clean()
    vectors[[1, 2, 9, 30]] = vectors[0]
    found = kinds(check_hygiene(table(vectors, identity)))["duplicate_across_identities"]
    assert found.count == 3 + 3 + 1  # three rows of p00 with each of two others, and those with each other
    assert len(found.examples) == 5


def test_many_alike_images_of_one_person_do_not_hide_a_duplicate(monkeypatch):
    """Frames of a video are all near each other: they must not use up the pairs that are kept."""
    vectors, identity = clean(people=6, images=30)
    rng = np.random.default_rng(0)
    vectors[:60] = unit_rows(vectors[0] + 1e-2 * unit_gauss(rng, 60, 24))  # p00, and p01 beside it
    vectors[179] = vectors[100]
    monkeypatch.setattr(hygiene, "pairs_above", lambda *a, **k: pairs_above(*a, **k, limit=20))
    found = kinds(check_hygiene(table(vectors, identity)))
    assert found["duplicate_across_identities"].count == 1
    assert found["duplicate_across_identities"].examples == ("s100 (p03) = s179 (p05), cosine 1.0000",)
    assert found["near_duplicate_across_identities"].count == 30 * 30


pairs_above = hygiene.pairs_above


def test_single_images_are_a_warning():
    vectors, identity = clean()
    identity = identity.astype(object)
    identity[[5, 20]] = ["lone-b", "lone-a"]
    (found,) = check_hygiene(table(vectors, identity))
    assert (found.kind, found.severity, found.count) == ("single_image_identities", "warning", 2)
    assert found.examples == ("lone-a", "lone-b")
    assert found.message.startswith("2 of 14 identities have a single image")


def test_an_identity_in_two_splits_is_an_error_and_errors_come_first():
    vectors, identity = clean()
    identity = identity.astype(object)
    identity[5] = "lone"
    vectors[30] = at_cosine(vectors[0], 0.99, np.random.default_rng(0))
    embeddings = table(vectors, identity)
    split = IdentitySplit.draw(embeddings)
    part = split.part.copy()
    moved = split.rows("fit")[0]
    part[moved] = "test"
    findings = check_hygiene(embeddings, split=IdentitySplit(part, "by hand"))
    assert [f.severity for f in findings] == ["error", "warning", "warning"]
    assert findings[0].kind == "identity_shared_between_splits"
    assert findings[0].examples == (f"{identity[moved]}: fit and test",)
    assert set(kinds(findings)) == {
        "identity_shared_between_splits",
        "near_duplicate_across_identities",
        "single_image_identities",
    }


def test_in_a_large_table_exact_duplicates_are_found_everywhere_and_near_ones_among_the_people_tested(monkeypatch):
    vectors, identity = clean(people=30, images=4)
    embeddings = table(vectors, identity)
    split = IdentitySplit.draw(embeddings)
    fit, attack, test = (split.rows(part) for part in ("fit", "attack", "test"))
    rng = np.random.default_rng(0)
    vectors = vectors.copy()
    vectors[attack[0]] = vectors[fit[0]]  # exact, outside validation and test: found by hashing
    vectors[fit[5]] = at_cosine(vectors[fit[-1]], 0.995, rng)  # near, outside: not looked for
    vectors[test[0]] = at_cosine(vectors[test[-1]], 0.995, rng)  # near, inside
    vectors[test[1]] = vectors[test[-2]] * np.float32(3)  # exact but for its length, inside
    embeddings = table(vectors, identity)
    small = kinds(check_hygiene(embeddings, split=split))
    assert small["duplicate_across_identities"].count == 2
    assert small["near_duplicate_across_identities"].count == 2
    monkeypatch.setattr(hygiene, "ALL_PAIRS_UP_TO", 60)
    large = kinds(check_hygiene(embeddings, split=split))
    assert large["duplicate_across_identities"].count == 2
    shown = " ".join(large["duplicate_across_identities"].examples)
    for row in (attack[0], fit[0], test[1], test[-2]):
        assert f"s{row} ({identity[row]})" in shown
    assert large["near_duplicate_across_identities"].count == 1
    assert f"s{test[0]} (" in large["near_duplicate_across_identities"].examples[0]


def test_in_a_large_table_copies_under_one_name_are_no_finding_and_those_under_others_are(monkeypatch):
    monkeypatch.setattr(hygiene, "ALL_PAIRS_UP_TO", 10)
    vectors, identity = clean()
    vectors[1] = vectors[0]
    (partly,) = check_hygiene(table(vectors, identity))
    assert (partly.kind, partly.severity, partly.count) == (
        "near_duplicates_partly_checked",
        "note",
        len(identity) - 10,
    )
    vectors[[2, 40]] = vectors[0]
    found = kinds(check_hygiene(table(vectors, identity)))["duplicate_across_identities"]
    assert found.count == 1
    assert found.examples == ("s0 (p00) = s40 (p10), cosine 1.0000",)


def test_identities_are_needed():
    with pytest.raises(DataError, match="this needs an identity"):
        check_hygiene(EmbeddingSet.of(np.eye(3)))
