"""Near pairs: all pairs against brute force, bucketing against all pairs, and its recall."""

from __future__ import annotations

import numpy as np
import pytest
from hygiene_tables import at_cosine
from hypothesis import given, settings
from hypothesis import strategies as st

from faceblind.data.embeddings import unit_rows
from faceblind.data.hygiene import near
from faceblind.data.hygiene.near import near_pairs
from strategies import unit_gauss


def clusters(seed: int, n: int, dim: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    vectors = unit_gauss(rng, max(n // 3, 1), dim)[rng.integers(0, max(n // 3, 1), n)]
    vectors = unit_rows(vectors + spread * rng.standard_normal((n, dim)))
    return vectors, rng.integers(0, 5, n)


def brute(vectors: np.ndarray, labels: np.ndarray, threshold: float) -> set[tuple[int, int]]:
    scores = vectors @ vectors.T
    mask = np.triu((scores >= threshold) & (labels[:, None] != labels[None]), 1)
    return {(int(i), int(j)) for i, j in np.argwhere(mask)}


@settings(deadline=None)
@given(st.integers(0, 9999), st.integers(1, 60), st.sampled_from([2, 8]), st.sampled_from([0.01, 0.1]))
def test_all_pairs_equal_brute_force(seed, n, dim, spread):
    vectors, labels = clusters(seed, n, dim, spread)
    found = near_pairs(vectors, 0.95, labels=labels)
    assert set(map(tuple, found.pairs.tolist())) == brute(vectors, labels, 0.95)
    assert found.count == len(found.pairs)
    assert (found.recall, found.cut) == (1.0, False)
    assert np.all(np.diff(found.scores) <= 0)
    np.testing.assert_allclose(
        found.scores, np.einsum("ij,ij->i", *(vectors[found.pairs[:, k]] for k in (0, 1))), atol=1e-6
    )


@pytest.mark.parametrize("seed", range(5))
def test_bucketing_finds_what_all_pairs_find(seed):
    vectors, labels = clusters(seed, 4000, 64, 0.008)
    exact = near_pairs(vectors, 0.98, labels=labels)
    bucketed = near_pairs(vectors, 0.98, labels=labels, exact_rows=0, seed=seed)
    assert bucketed.recall == 0.999
    assert set(map(tuple, bucketed.pairs.tolist())) <= set(map(tuple, exact.pairs.tolist()))
    assert exact.count > 3000
    assert bucketed.count >= 0.999 * exact.count
    assert bucketed.count == len(bucketed.pairs)


@pytest.mark.parametrize(("common", "decay"), [(0.0, 0.0), (0.1, 0.5), (0.3, 0.5)])
def test_recall_at_the_threshold_is_as_stated(common, decay):
    """The hardest pairs, at the threshold itself, in round, elongated and one-sided clouds of vectors."""
    rng = np.random.default_rng(7)
    n, dim, planted = 6000, 64, 2000
    cloud = unit_rows(rng.standard_normal((n, dim)) * np.arange(1, dim + 1.0) ** -decay)
    vectors = unit_rows(np.sqrt(1 - common) * cloud + np.sqrt(common) * unit_gauss(rng, 1, dim))
    pairs = rng.permutation(n)[: 2 * planted].reshape(2, planted)
    for a, b in pairs.T:
        vectors[b] = at_cosine(vectors[a], 0.98001, rng)
    labels = np.arange(n)
    signs, rounds = near._plan(vectors, 0.98, 0.999, 0)
    agree = 1 - np.arccos(0.98) / np.pi
    assert 1 - (1 - agree**signs) ** rounds >= 0.999
    found = near_pairs(vectors, 0.98, labels=labels, exact_rows=0)
    hits = set(map(tuple, found.pairs.tolist()))
    recall = np.mean([(min(a, b), max(a, b)) in hits for a, b in pairs.T.tolist()])
    assert recall >= 0.9975  # 0.999 less twice its error over 2,000 pairs


def test_recall_follows_what_is_asked_for():
    """A mutation of the number of bucketings shows: with a recall of 0.7 asked for, about 0.7 comes back."""
    rng = np.random.default_rng(3)
    vectors = unit_gauss(rng, 6000, 64)
    pairs = rng.permutation(6000)[:4000].reshape(2, 2000)
    for a, b in pairs.T:
        vectors[b] = at_cosine(vectors[a], 0.98001, rng)
    found = near_pairs(vectors, 0.98, labels=np.arange(6000), exact_rows=0, recall=0.7)
    assert found.recall == 0.7
    assert 0.67 <= found.count / 2000 <= 0.93  # a whole number of bucketings gives somewhat more


def test_identical_vectors_always_share_a_bucket():
    rng = np.random.default_rng(0)
    vectors = unit_gauss(rng, 3000, 48)
    vectors[2000:] = vectors[:1000] * 1  # the same bits
    found = near_pairs(vectors, 1 - 1e-6, labels=np.arange(3000), exact_rows=0, recall=0.5)
    assert found.count == 1000


def test_bucketing_is_sub_quadratic_and_low_thresholds_fall_back_to_all_pairs():
    vectors = unit_gauss(np.random.default_rng(0), 20_000, 64)
    signs, rounds = near._plan(vectors, 0.98, 0.999, 0)
    assert rounds * (signs + 4 * 20_000 / 2**signs) < 20_000 / 2 / 5
    assert near._plan(vectors[:3000], 0.3, 0.999, 0) is None
    small = near_pairs(vectors[:300], 0.2, labels=np.arange(300), exact_rows=0)
    assert small.recall == 1.0
    assert small.count == len(brute(vectors[:300], np.arange(300), 0.2))


@pytest.mark.parametrize("exact_rows", [0, 10_000])
def test_beyond_the_limit_the_nearest_are_kept(exact_rows):
    vectors, labels = clusters(1, 900, 32, 0.01)
    whole = near_pairs(vectors, 0.98, labels=labels)
    some = near_pairs(vectors, 0.98, labels=labels, limit=7, exact_rows=exact_rows)
    assert some.cut
    assert whole.count > 100
    np.testing.assert_array_equal(some.pairs, whole.pairs[:7])
    if exact_rows:
        assert some.count == whole.count


def test_a_crowd_is_compared_in_part_and_says_so(monkeypatch):
    monkeypatch.setattr(near, "_WINDOW", 64)
    monkeypatch.setattr(near, "_BLOCK", 16)
    monkeypatch.setattr(near, "_plan", lambda *_: (4, 3))
    rng = np.random.default_rng(0)
    vectors = unit_rows(unit_gauss(rng, 1, 16) + 1e-4 * rng.standard_normal((400, 16)))
    found = near_pairs(vectors, 0.98, labels=np.arange(400), exact_rows=0)
    assert found.cut
    assert 0 < found.count < 400 * 399 // 2


def test_progress_counts_up_to_the_end():
    vectors = unit_gauss(np.random.default_rng(0), 5000, 8)
    seen = []
    near_pairs(vectors, 0.98, labels=np.arange(5000), progress=lambda *step: seen.append(step))
    assert [done for _, done, _ in seen] == list(range(6))
    assert {total for _, _, total in seen} == {6}
