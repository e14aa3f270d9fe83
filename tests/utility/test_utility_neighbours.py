from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faceblind._errors import DataError
from faceblind.utility import nearest, neighbour_overlap
from strategies import exact_rows, orthonormal, unit_gauss


def brute(vectors: np.ndarray, k: int) -> np.ndarray:
    """Sort all other rows by score, then by row."""
    wide = vectors.astype(float)
    scores = wide @ wide.T
    n = len(wide)
    return np.array([sorted((j for j in range(n) if j != i), key=lambda j: (-scores[i, j], j))[:k] for i in range(n)])


@settings(max_examples=150)
@given(st.integers(2, 25), st.integers(0, 2**16), st.sampled_from([1, 2, 60]), st.data())
def test_nearest_equals_brute_force_ties_included(n, seed, peak, data):
    rng = np.random.default_rng(seed)
    vectors = exact_rows(rng, n, 4, peak=peak)
    vectors[rng.integers(0, n, 3)] = vectors[0]
    k = data.draw(st.integers(1, n - 1))
    found = nearest(vectors, k)
    np.testing.assert_array_equal(found, brute(vectors, k))
    assert found.dtype == np.int64


def test_more_rows_than_a_block():
    vectors = exact_rows(np.random.default_rng(0), 1100, 6, peak=40)
    found = nearest(vectors, 3)
    np.testing.assert_array_equal(found, brute(vectors, 3))
    assert (found != np.arange(1100)[:, None]).all()


def test_when_all_rows_are_alike_the_lower_rows_win():
    np.testing.assert_array_equal(
        nearest(np.full((5, 4), 0.5, np.float32), 2), [[1, 2], [0, 2], [0, 1], [0, 1], [0, 1]]
    )


@settings(max_examples=60)
@given(st.integers(2, 20), st.integers(0, 2**16), st.integers(1, 12))
def test_overlap_equals_counting_common_neighbours(n, seed, k):
    rng = np.random.default_rng(seed)
    before, after = exact_rows(rng, n, 4, peak=2), exact_rows(rng, n, 3, peak=2)
    overlap, used = neighbour_overlap(before, after, k=k)
    assert used == min(k, n - 1)
    a, b = brute(before, used), brute(after, used)
    assert overlap == pytest.approx(np.mean([len(set(x) & set(y)) / used for x, y in zip(a, b, strict=True)]))
    assert neighbour_overlap(before, before, k=k) == (1.0, used)


def test_a_rotation_keeps_all_neighbours_and_noise_keeps_about_chance():
    rng = np.random.default_rng(1)
    vectors = unit_gauss(rng, 400, 16)
    turned = (vectors.astype(float) @ orthonormal(rng, 16, 16)).astype(np.float32)
    assert neighbour_overlap(vectors, turned, k=10)[0] > 0.999
    overlap, used = neighbour_overlap(vectors, unit_gauss(rng, 400, 16))
    assert used == 10
    assert overlap == pytest.approx(10 / 399, abs=0.01)


def test_in_a_tiny_set_fewer_neighbours_are_used():
    vectors = np.eye(3, dtype=np.float32)
    assert neighbour_overlap(vectors, vectors) == (1.0, 2)
    assert neighbour_overlap(vectors[:2], vectors[:2]) == (1.0, 1)


@pytest.mark.parametrize(("n", "k", "least"), [(1, 1, 2), (3, 3, 4), (3, 9, 10)])
def test_too_few_images_for_the_neighbours_asked_for_are_refused(n, k, least):
    with pytest.raises(DataError, match=f"{k} neighbours need at least {least} images, got {n}"):
        nearest(np.eye(4, dtype=np.float32)[:n], k)


def test_one_image_has_no_neighbours_and_two_tables_must_show_the_same():
    with pytest.raises(DataError, match="neighbours need at least"):
        neighbour_overlap(np.eye(4, dtype=np.float32)[:1], np.eye(4, dtype=np.float32)[:1])
    with pytest.raises(DataError, match="the same images, got 3 and 4 rows"):
        neighbour_overlap(np.eye(4, dtype=np.float32)[:3], np.eye(4, dtype=np.float32))
    with pytest.raises(DataError, match="0 neighbours"):
        nearest(np.eye(4, dtype=np.float32), 0)
