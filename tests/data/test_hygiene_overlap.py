"""Who is in both of two tables."""

from __future__ import annotations

import numpy as np
import pytest
from hygiene_tables import at_cosine, faces, kinds, noise, table

from faceblind._errors import DataError, UsageError
from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.hygiene import identity_overlap
from faceblind.data.meta import TableMeta
from strategies import fingerprint


def two(seed: int = 0, *, shared: int = 0, images: int = 8, **kwargs) -> tuple[EmbeddingSet, EmbeddingSet]:
    """Two tables of 40 people; the first `shared` people of the first are also in the second, under other names."""
    vectors, identity = faces(seed, people=80, images=images, **kwargs)
    number = np.repeat(np.arange(80), images)
    half = np.tile(np.arange(images) % 2 == 0, 80)
    first = (number < 40) & (half | (number >= shared))
    second = (number >= 40) | (~half & (number < shared))
    names = np.array([f"q{n:03d}" for n in number])
    return table(vectors[first], identity[first]), table(vectors[second], names[second])


@pytest.mark.parametrize("seed", range(10))
def test_tables_without_a_common_person_have_no_findings(seed):
    assert identity_overlap(*two(seed)) == ()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("within", [0.6, 0.45])
def test_people_under_other_names_are_found(seed, within):
    found = kinds(identity_overlap(*two(seed, shared=4, within=within)))
    assert set(found) == {"same_person_in_both_tables"}
    finding = found["same_person_in_both_tables"]
    assert (finding.severity, finding.count) == ("warning", 4)
    assert {text.split(":")[0] for text in finding.examples} == {f"p{n:03d} and q{n:03d}" for n in range(4)}


def test_a_difference_between_collections_is_no_likeness():
    first, second = two(0)
    moved = second.vectors + 2 * np.eye(96, dtype=np.float32)[0]
    assert identity_overlap(first, table(moved, second.identity)) == ()


def test_names_count_whatever_their_case_and_spacing():
    first, second = two(0)
    names = np.where(second.identity == "q050", "P-003", second.identity)
    names = np.where(names == "q051", "p 004", names)
    found = kinds(identity_overlap(first, table(second.vectors, names)))["identity_in_both_tables"]
    assert (found.severity, found.count, found.examples) == ("warning", 2, ("p003 and P-003", "p004 and p 004"))
    assert "(0 of them also look like one person)" in found.message


def test_a_shared_name_that_also_looks_alike_is_said_once():
    first, second = two(0, shared=3)
    names = np.array([name.replace("q00", "p00") for name in second.identity])
    found = kinds(identity_overlap(first, table(second.vectors, names)))
    assert set(found) == {"identity_in_both_tables"}
    assert "(3 of them also look like one person)" in found["identity_in_both_tables"].message


def test_photographs_in_both_are_found_and_only_across():
    first, second = two(0)
    vectors = second.vectors.copy()
    vectors[5] = first.vectors[7] * np.float32(2)
    vectors[20] = at_cosine(first.vectors[100], 0.99, np.random.default_rng(0))
    vectors[31] = vectors[30]  # within the second table: not this check's business
    found = kinds(identity_overlap(first, table(vectors, second.identity)))
    exact, near = found["photograph_in_both_tables"], found["near_duplicate_in_both_tables"]
    assert (exact.severity, exact.count) == ("error", 1)
    assert exact.examples == ("s7 (p000) = s5 (q040), cosine 1.0000",)
    assert exact.examples[0] in exact.message
    assert (near.severity, near.count) == ("warning", 1)
    assert near.examples == ("s100 (p012) = s20 (q042), cosine 0.9900",)


def test_weak_vectors_say_that_they_cannot_tell():
    first, second = two(0, shared=4, within=0.05)
    (found,) = identity_overlap(first, second)
    assert (found.kind, found.severity) == ("overlap_hard_to_check", "note")


def test_vectors_that_cannot_be_compared_leave_names():
    first, second = two(0)
    names = np.where(second.identity == "q050", "p003", second.identity)
    short = table(second.vectors[:, :50], names)
    found = kinds(identity_overlap(first, short))
    assert set(found) == {"identity_in_both_tables", "tables_not_comparable"}
    assert "96 and 50 dimensions" in found["tables_not_comparable"].message
    ours = EmbeddingSet.of(first.vectors, first.identity, meta=TableMeta(encoder=fingerprint()))
    theirs = EmbeddingSet.of(first.vectors, first.identity, meta=TableMeta(encoder=fingerprint(pooling="mean")))
    found = kinds(identity_overlap(ours, theirs))
    assert set(found) == {"identity_in_both_tables", "tables_not_comparable"}
    assert "the encoders differ (pooling" in found["tables_not_comparable"].message
    erased = EmbeddingSet.of(first.vectors, first.identity, meta=TableMeta(projector="abc"))
    assert "a projector was applied" in kinds(identity_overlap(first, erased))["tables_not_comparable"].message
    same = EmbeddingSet.of(first.vectors, first.identity, meta=TableMeta(encoder=fingerprint()))
    assert "photograph_in_both_tables" in kinds(identity_overlap(ours, same))


def test_identities_and_a_cosine_are_needed():
    some = table(*noise())
    with pytest.raises(DataError, match="this needs an identity"):
        identity_overlap(some, EmbeddingSet.of(some.vectors))
    with pytest.raises(UsageError, match="it is a cosine"):
        identity_overlap(some, some, near=2)


@pytest.mark.parametrize(("people", "images"), [(1, 1), (1, 4), (2, 2), (12, 1), (3, 5)])
def test_tiny_tables_and_single_images_are_compared_without_ado(people, images):
    first, second = two(0)
    tiny = table(*faces(9, people=people, images=images))
    for pair in ((first, tiny), (tiny, second), (tiny, table(*faces(10, people=people, images=images)))):
        found = kinds(identity_overlap(*pair))
        assert set(found) <= {"overlap_hard_to_check", "identity_in_both_tables"}
        assert "overlap_hard_to_check" in found
