from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faceblind.measure import pairs_above
from faceblind.measure.blocks import score_blocks
from strategies import exact_rows


def brute(vectors: np.ndarray, threshold: float, labels: np.ndarray | None = None) -> dict[tuple[int, int], float]:
    wide = vectors.astype(np.float64)
    return {
        (i, j): float(wide[i] @ wide[j])
        for i in range(len(wide))
        for j in range(i + 1, len(wide))
        if wide[i] @ wide[j] >= threshold and (labels is None or labels[i] != labels[j])
    }


@settings(max_examples=100)
@given(
    st.integers(1, 25),
    st.integers(0, 2**16),
    st.sampled_from([-0.5, 0.0, 0.125, 0.5]),
    st.booleans(),
    st.integers(1, 30),
)
def test_pairs_above_equals_brute_force(n, seed, threshold, labelled, block):
    rng = np.random.default_rng(seed)
    vectors = exact_rows(rng, n, 4, peak=2)
    vectors[rng.integers(0, n)] = vectors[0]
    labels = rng.integers(0, 3, n) if labelled else None
    pairs, scores, count = pairs_above(vectors, threshold, labels=labels, block=block)
    expected = brute(vectors, threshold, labels)
    assert pairs.shape == (count, 2)
    assert (pairs.dtype, scores.dtype) == (np.int64, np.float32)
    found = {(int(i), int(j)): float(s) for (i, j), s in zip(pairs, scores, strict=True)}
    assert found == expected
    assert count == len(expected) == len(scores)


@pytest.mark.parametrize("limit", [0, 1, 5, 44, 45, 46])
def test_the_limit_bounds_what_is_kept_and_not_what_is_counted(limit):
    vectors = np.full((10, 4), 0.5, np.float32)
    for block in (1, 3, 10, 2048):
        pairs, scores, count = pairs_above(vectors, 0.9, limit=limit, block=block)
        assert count == 45
        assert len(pairs) == len(scores) == min(limit, 45)
        assert len({tuple(p) for p in pairs.tolist()}) == len(pairs)
        assert (pairs[:, 0] < pairs[:, 1]).all()
    first = [(i, j) for i in range(10) for j in range(i + 1, 10)]
    assert [tuple(p) for p in pairs.tolist()] == first[:limit]  # in one block: in row order


def test_nothing_found_is_empty_and_has_the_right_shape():
    pairs, scores, count = pairs_above(np.eye(3, dtype=np.float32), 0.5)
    assert (pairs.shape, scores.shape, count) == ((0, 2), (0,), 0)


@pytest.mark.parametrize(("n", "block"), [(7, 3), (6, 3), (1, 4), (5, 1), (5, 5)])
def test_blocks_tile_the_upper_triangle_once(n, block):
    vectors = exact_rows(np.random.default_rng(0), n, 3)
    seen = np.zeros((n, n), int)
    for part in score_blocks(vectors, block=block):
        seen[part.i0 : part.i1, part.j0 : part.j1] += 1
        assert part.diagonal is (part.i0 == part.j0)
        np.testing.assert_array_equal(part.scores, vectors[part.i0 : part.i1] @ vectors[part.j0 : part.j1].T)
    assert (seen[np.triu_indices(n)] == 1).all()
