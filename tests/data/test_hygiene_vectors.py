"""What failed encoders leave behind."""

from __future__ import annotations

import numpy as np
import pytest
from hygiene_tables import CANNOT_TELL, faces, kinds, noise, table

from faceblind.data.embeddings import unit_rows
from faceblind.data.hygiene import check_hygiene
from faceblind.data.hygiene.vectors import identical_groups, mean_cosine
from strategies import unit_gauss


def test_constant_vectors_are_an_error():
    vectors, identity = noise()
    vectors[7] = 0.25
    vectors[30] = -3
    found = kinds(check_hygiene(table(vectors, identity)))["constant_vectors"]
    assert (found.severity, found.count, found.examples) == ("error", 2, ("s7", "s30"))


def test_one_vector_for_many_images_is_an_error_and_does_not_flood():
    vectors, identity = faces()
    rows = np.arange(3, 300, 6)
    vectors[rows] = vectors[3]
    found = kinds(check_hygiene(table(vectors, identity)))
    crowd = found["one_vector_for_many_images"]
    assert (crowd.severity, crowd.count) == ("error", rows.size)
    assert crowd.examples == (f"s3, s9 and {rows.size - 2} more of {rows.size} identities",)
    assert found["duplicate_across_identities"].count == 8 * 7 // 2  # a few stand for all


def test_nine_equal_images_or_two_people_are_no_crowd():
    vectors, identity = faces(images=12)
    nine, two = vectors.copy(), vectors.copy()
    nine[: 9 * 12 : 12] = nine[0]
    two[6:18] = two[6]
    for changed in (nine, two):
        assert "one_vector_for_many_images" not in kinds(check_hygiene(table(changed, identity)))


def test_collapsed_vectors_are_one_error_and_nothing_else():
    rng = np.random.default_rng(0)
    vectors = unit_rows(unit_gauss(rng, 1, 32) + 0.01 * rng.standard_normal((400, 32)))
    (found,) = check_hygiene(table(vectors, np.repeat(np.arange(50), 8)))
    assert (found.kind, found.severity, found.count) == ("vectors_all_alike", "error", 400)


def test_mixed_lengths_are_a_warning_and_rare_long_ones_a_note():
    vectors, identity = faces()
    mixed = vectors.copy()
    mixed[:100] *= 7
    (found,) = check_hygiene(table(mixed, identity))
    assert (found.kind, found.severity, found.count) == ("lengths_mixed", "warning", 100)
    assert found.message.startswith("72 % of the vectors have length 1")
    assert found.examples[0] == "s0: length 7"
    odd = vectors * np.random.default_rng(0).uniform(2, 4, (360, 1)).astype(np.float32)
    assert check_hygiene(table(odd, identity)) == ()
    odd[11] *= 100
    (found,) = check_hygiene(table(odd, identity))
    assert (found.kind, found.severity, found.count) == ("lengths_far_apart", "note", 1)
    assert found.examples[0].startswith("s11: length ")


@pytest.mark.parametrize("dim", [1, 2])
def test_vectors_of_one_or_two_numbers_are_not_called_constant(dim):
    vectors = np.ones((4, dim), np.float32)
    found = kinds(check_hygiene(table(vectors, np.array(list("abab")))), without=CANNOT_TELL)
    assert "constant_vectors" not in found


def test_groups_and_mean_cosine_equal_brute_force():
    rng = np.random.default_rng(0)
    vectors = rng.integers(-1, 2, (60, 3)).astype(np.float32)
    vectors[5] = [-0.0, 0, 1]
    vectors[6] = [0, 0.0, 1]
    groups = identical_groups(vectors)
    np.testing.assert_array_equal(groups[:, None] == groups[None], (vectors[:, None] == vectors[None]).all(axis=2))
    unit = unit_gauss(rng, 40, 5)
    assert mean_cosine(unit) == pytest.approx(np.mean((unit @ unit.T)[np.triu_indices(40, 1)]), abs=1e-6)
    assert mean_cosine(unit[:1]) == 0
