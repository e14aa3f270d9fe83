from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from faceblind._errors import DataError
from faceblind.data.embeddings import MIN_NORM, EmbeddingSet, as_text, bad_rows, unit_rows
from faceblind.data.meta import Fingerprint, TableMeta

X = np.array([[3.0, 4.0], [1.0, 0.0], [0.0, 2.0]])


class Tensor:
    """Stands for a torch tensor."""

    def __init__(self, values, fails=False):
        self.values = values
        self.fails = fails

    def detach(self):
        return self

    def cpu(self):
        return self

    def __array__(self, dtype=None, copy=None):
        if self.fails:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return np.asarray(self.values, dtype)


@pytest.mark.parametrize("given_as", [np.array, np.ndarray.tolist, np.asfortranarray, Tensor, np.float16, np.int8])
def test_of_takes_any_real_table(given_as):
    made = EmbeddingSet.of(given_as(X), ["ann", "bob", "ann"], sample=["x", "y", "z"])
    assert made.vectors.dtype == np.float32
    assert made.vectors.flags.c_contiguous
    assert made.vectors.tolist() == X.tolist()
    assert made.identity.tolist() == ["ann", "bob", "ann"]
    assert made.sample.tolist() == ["x", "y", "z"]
    assert (len(made), made.dim) == (3, 2)


def test_defaults():
    made = EmbeddingSet.of(X)
    assert made.identity is None
    assert made.sample.tolist() == ["0", "1", "2"]
    assert made.meta == TableMeta()
    assert made.encoder is None
    with pytest.raises(DataError, match="or name the identity column"):
        made.require_identity()


def test_it_is_a_copy_and_read_only():
    source = X.astype(np.float32)
    made = EmbeddingSet.of(source, ["a", "b", "c"])
    source[0] = 9
    assert made.vectors[0].tolist() == [3, 4]
    for array in (made.vectors, made.identity, made.sample, made.take([0]).vectors):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[0]


def test_without_copy_the_array_is_taken_over():
    source = X.astype(np.float32)
    made = EmbeddingSet.of(source, copy=False)
    assert np.shares_memory(made.vectors, source)
    assert not source.flags.writeable
    assert EmbeddingSet.of(X, copy=False).vectors.dtype == np.float32


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1.0], [1.0, 2.0]], "ragged"),
        (np.array([[1.0], [1.0, 2.0]], dtype=object), "dtype object"),
        (np.array([["a"]]), "real numbers, got dtype <U1"),
        (np.array([[1j]]), "complex128"),
        (np.array([[True]]), "bool"),
        (np.ones(3), r"two dimensions .* shape \(3,\)"),
        (np.ones((2, 2, 2)), "two dimensions"),
        (np.ones((0, 3)), "empty: shape"),
        (np.ones((3, 0)), "empty: shape"),
        (np.ma.masked_equal(X, 4.0), "masked"),
        (Tensor(X, fails=True), "BFloat16; convert them to float32"),
        ([[1.0, 0.0], [np.nan, 1.0]], r"1 of 2 rows cannot be used; the vector of row 1 holds NaN or infinity"),
        ([[1.0, 0.0], [np.inf, 1.0]], r"row 1 holds NaN or infinity"),
        ([[1e39, 0.0]], r"row 0 holds NaN or infinity"),
        ([[1.0, 0.0], [0.0, 0.0]], r"row 1 is all zeros"),
        ([[1.0, 0.0], [1e-9, 0.0]], r"row 1 is all zeros"),
    ],
)
def test_bad_vectors(vectors, message):
    with pytest.raises(DataError, match=message):
        EmbeddingSet.of(vectors)


def test_bad_rows_are_named_by_key_and_number_and_cut_short():
    vectors = np.ones((9, 2))
    vectors[2:] = 0
    with pytest.raises(DataError, match=r"7 of 9 rows .* row 2 \(c\), row 3 \(d\), .*row 6 \(g\) \.\.\. is all zeros"):
        EmbeddingSet.of(vectors, sample=list("abcdefghi"))


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ([1, 2, 1], ["1", "2", "1"]),
        (np.array([1, 2, 1], np.uint8), ["1", "2", "1"]),
        (np.array([b"a", "ü".encode(), b"a"]), ["a", "ü", "a"]),
        ([b"a", "b", 3], ["a", "b", "3"]),
        (("a", "b", "c"), ["a", "b", "c"]),
        (np.array(["a", "b", "c"], dtype=np.dtypes.StringDType()), ["a", "b", "c"]),
        (pa.chunked_array([["a"], ["b", "c"]]), ["a", "b", "c"]),
    ],
)
def test_labels_of_any_type_become_text(labels, text):
    assert EmbeddingSet.of(X, labels).identity.tolist() == text


class NAType:
    """Stands for pandas.NA, which cannot be compared."""

    def __ne__(self, other):
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = None


@pytest.mark.parametrize(
    "labels",
    [
        ["ann", None, "bob"],
        ["ann", float("nan"), "bob"],
        np.array(["ann", np.nan, "bob"], dtype=object),
        np.array([1.0, np.nan, 2.0]),
        [1.0, float("nan"), 2.0],
        ["ann", NAType(), "bob"],
        np.array(["ann", None, "bob"], dtype=np.dtypes.StringDType(na_object=None)),
        pa.array(["ann", None, "bob"]),
        pa.array([1, None, 2]),
    ],
)
def test_missing_labels_are_named(labels):
    with pytest.raises(DataError, match=r"identity is missing in (1 rows, first in )?row 1"):
        EmbeddingSet.of(X, labels)


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (["a", "b"], r"one entry per vector: 3 vectors, sample has shape \(2,\)"),
        (["a", "b", "a"], "must be unique; 1 are repeated, among them 'a'"),
        ([1, "1", 2], "among them '1'"),
        (np.array([b"a", b"\xff", b"c"]), "is not UTF-8"),
    ],
)
def test_bad_keys(sample, message):
    with pytest.raises(DataError, match=message):
        EmbeddingSet.of(X, sample=sample)


def test_as_text_counts():
    with pytest.raises(DataError, match="one entry per vector: 2 vectors"):
        as_text(["a"], 2, "identity")


def test_take():
    made = EmbeddingSet.of(X, list("aba"), sample=list("xyz"), meta=TableMeta(synthetic=True))
    for rows in ([2, 0], np.array([2, 0]), [-1, 0]):
        part = made.take(rows)
        assert part.sample.tolist() == ["z", "x"]
        assert part.identity.tolist() == ["a", "a"]
        assert part.vectors.tolist() == [[0, 2], [3, 4]]
        assert part.meta.synthetic
    assert made.take([True, False, True]).sample.tolist() == ["x", "z"]
    assert EmbeddingSet.of(X).take([1]).identity is None


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no rows are selected"),
        ([False, False, False], "no rows are selected"),
        ([True], "the mask has 1 entries, the table has 3 rows"),
        ([3], "row 3 is not in the table, which has 3 rows"),
        ([-4], "row -4 is not in the table"),
        ([0, 0], "selected twice"),
        ([0, -3], "selected twice"),
        ([0.5], "indices or booleans, got float64"),
        ([[0]], "1-d array"),
    ],
)
def test_bad_selections(rows, message):
    with pytest.raises(DataError, match=message):
        EmbeddingSet.of(X).take(rows)


def test_repr_says_what_it_is():
    fingerprint = Fingerprint(encoder="sscd", weights_sha256="", dim=2, pooling="", preprocessing="", precision="")
    made = EmbeddingSet.of(X, list("aba"), meta=TableMeta(encoder=fingerprint))
    assert repr(made) == "EmbeddingSet(3 rows, d=2, 2 identities, sscd)"
    assert repr(EmbeddingSet.of(X)) == "EmbeddingSet(3 rows, d=2, no identities, unknown encoder)"


floats = hnp.arrays(
    st.sampled_from([np.float16, np.float32, np.float64]),
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=5),
    elements={"allow_nan": True, "allow_infinity": True},
)


@given(floats)
def test_bad_rows_against_the_definition(vectors):
    bad = bad_rows(vectors)
    finite = np.isfinite(vectors).all(axis=1)
    assert bad.non_finite.tolist() == np.flatnonzero(~finite).tolist()
    longest = np.abs(np.where(np.isfinite(vectors), vectors, 0)).max(axis=1).astype(np.float64)
    must = finite & (longest < MIN_NORM / np.sqrt(vectors.shape[1]))
    may = finite & (longest <= MIN_NORM)
    assert set(np.flatnonzero(must)) <= set(bad.zero) <= set(np.flatnonzero(may))
    assert bad.any == bool(bad.non_finite.size or bad.zero.size)


def test_large_float64_rows_are_finite():
    assert not bad_rows(np.array([[1e200, 1e200]])).any


@given(hnp.arrays(np.float32, (4, 3), elements=st.floats(-1e6, 1e6, width=32)))
def test_unit_rows_have_length_one_or_zero(vectors):
    unit = unit_rows(vectors)
    norm = np.linalg.norm(vectors.astype(np.float64), axis=1)
    expected = np.where(norm > MIN_NORM, 1.0, 0.0)
    assert unit.dtype == np.float32
    clear = np.abs(norm / MIN_NORM - 1) > 1e-3
    np.testing.assert_allclose(np.linalg.norm(unit.astype(np.float64), axis=1)[clear], expected[clear], atol=1e-6)


def test_unit_of_a_set():
    np.testing.assert_allclose(EmbeddingSet.of(X).unit(), [[0.6, 0.8], [1, 0], [0, 1]], rtol=1e-6)
