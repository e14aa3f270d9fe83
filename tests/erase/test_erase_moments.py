from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faceblind._errors import DataError
from faceblind.erase import IdentityMoments
from strategies import labels_of, planted


def direct(vectors: np.ndarray, identity: np.ndarray) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names, counts and means of unit rows, one identity at a time in float64."""
    wide = vectors.astype(np.float64)
    unit = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    names = sorted({str(name) for name in identity})
    text = identity.astype(str)
    groups = [unit[text == name] for name in names]
    return names, np.array([len(g) for g in groups]), np.array([g.mean(axis=0) for g in groups])


def check(moments: IdentityMoments, vectors: np.ndarray, identity: np.ndarray, rtol: float = 1e-10) -> None:
    names, counts, means = direct(vectors, identity)
    assert moments.identities_.tolist() == names
    np.testing.assert_array_equal(moments.counts(), counts)
    np.testing.assert_allclose(moments.means(), means, rtol=0, atol=rtol)
    assert moments.rows_ == len(vectors)


@settings(max_examples=60)
@given(st.integers(0, 2**16), st.lists(st.integers(1, 5), min_size=1, max_size=8), st.data())
def test_any_batching_and_any_merging_of_shards_equal_one_pass(seed, counts, data):
    rng = np.random.default_rng(seed)
    identity = labels_of(counts, "shuffled", rng)
    vectors = (rng.standard_normal((identity.size, 5)) * 10.0 ** rng.uniform(-3, 3, (identity.size, 1))).astype(
        np.float32
    )
    whole = IdentityMoments().partial_fit(vectors, identity)
    check(whole, vectors, identity)
    cuts = sorted(data.draw(st.lists(st.integers(0, identity.size), max_size=5)))
    batches = np.split(np.arange(identity.size), cuts)  # some are empty
    batched, merged = IdentityMoments(), IdentityMoments()
    for rows in data.draw(st.permutations(batches)):
        batched.partial_fit(vectors[rows], identity[rows])
        merged.merge(IdentityMoments().partial_fit(vectors[rows], identity[rows]))
    check(batched, vectors, identity)
    check(merged, vectors, identity)


def test_more_rows_than_a_block_and_many_identities():
    rng = np.random.default_rng(0)
    identity = rng.integers(0, 300, 17_000)
    vectors = rng.standard_normal((17_000, 3)).astype(np.float32)
    check(IdentityMoments().partial_fit(vectors, identity), vectors, identity)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8])
def test_rows_of_any_kind_and_length_count_as_unit_vectors(dtype):
    rng = np.random.default_rng(1)
    vectors = (20 * rng.standard_normal((30, 6))).astype(dtype)
    identity = np.repeat(["b", "a", "c"], 10)
    check(IdentityMoments().partial_fit(vectors, identity), vectors, identity)
    check(IdentityMoments().partial_fit(vectors.tolist(), identity.tolist()), vectors, identity)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([1, "1", 2, "2", 1, 2], dtype=object),
        np.array([b"1", b"1", b"2", b"2", b"1", b"2"]),
        [1, 1, 2, 2, 1, 2],
    ],
)
def test_labels_are_told_apart_by_their_text(labels):
    """Two labels with one text are one identity: neither may be lost."""
    vectors = np.random.default_rng(0).standard_normal((6, 3))
    check(IdentityMoments().partial_fit(vectors, labels), vectors, np.array(["1", "1", "2", "2", "1", "2"]))


def test_merging_leaves_the_other_as_it_was_and_empty_shards_do_nothing():
    vectors, identity = np.eye(4, dtype=np.float32), np.array(list("aabb"))
    one, other = IdentityMoments().partial_fit(vectors[:2], identity[:2]), IdentityMoments()
    other.partial_fit(vectors[2:], identity[2:])
    before = other.means().copy()
    one.merge(other).merge(IdentityMoments())
    IdentityMoments().merge(other).partial_fit(vectors, identity)
    np.testing.assert_array_equal(other.means(), before)
    assert other.rows_ == 2
    check(one, vectors, identity)


@pytest.mark.parametrize(
    ("bad", "what"), [(np.nan, "NaN or infinity"), (-np.inf, "NaN or infinity"), (0.0, "only zeros")]
)
def test_a_bad_row_is_named_over_all_batches_and_the_refused_batch_leaves_no_trace(bad, what):
    moments = IdentityMoments().partial_fit(np.ones((7, 2)), ["a"] * 7)
    batch = np.ones((9_000, 2))
    batch[8_500] = bad
    with pytest.raises(DataError, match=f"row 8507 holds {what}: re-embed that image or drop the row"):
        moments.partial_fit(batch, ["new"] * 9_000)
    assert moments.identities_.tolist() == ["a"]
    moments.partial_fit(np.ones((2, 2)), ["b", "b"])
    assert moments.rows_ == 9
    assert np.isfinite(moments.means()).all()


@pytest.mark.parametrize(
    ("vectors", "identity", "message"),
    [
        (np.ones((3, 2)), ["a", "b"], r"one identity a row, got \(3, 2\) and \(2,\)"),
        (np.ones(3), ["a", "b", "c"], r"a batch is \(rows, features\).*got \(3,\) and \(3,\)"),
        (np.ones((2, 3)), ["a", "b"], "vectors of this batch have 3 features, earlier ones 2"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(vectors, identity, message):
    moments = IdentityMoments().partial_fit(np.ones((2, 2)), ["a", "b"])
    with pytest.raises(DataError, match=message):
        moments.partial_fit(vectors, identity)


def test_moments_of_other_lengths_do_not_merge_and_no_vectors_have_no_mean():
    moments = IdentityMoments().partial_fit(np.ones((2, 2)), ["a", "b"])
    with pytest.raises(DataError, match="cannot merge moments of 3 and 2 features"):
        moments.merge(IdentityMoments().partial_fit(np.ones((1, 3)), ["a"]))
    for empty in (IdentityMoments(), IdentityMoments().partial_fit(np.zeros((0, 2)), [])):
        with pytest.raises(DataError, match="no vectors were seen"):
            empty.means()


def test_single_images_can_be_dropped_and_the_rest_goes_on_as_if_they_had_never_been():
    made = planted(0, people=6, images=3, dim=5)
    lone = np.array(["z1", "a0", "m5"])
    rng = np.random.default_rng(0)
    order = rng.permutation(21)
    vectors = np.concatenate([made.vectors, rng.standard_normal((3, 5)).astype(np.float32)])[order]
    identity = np.concatenate([made.identity, lone])[order]
    moments = IdentityMoments().partial_fit(vectors, identity)
    assert moments.drop_single_images() == 3
    check(moments, made.vectors, made.identity)
    assert moments.drop_single_images() == 0
    more = rng.standard_normal((4, 5))
    moments.partial_fit(more, ["a0", "a0", "p0001", "q"])
    check(
        moments,
        np.concatenate([made.vectors, more]),
        np.concatenate([made.identity, ["a0", "a0", "p0001", "q"]]),
    )
