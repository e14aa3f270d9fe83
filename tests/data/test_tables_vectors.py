from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_samples import fixed_size

from faceblind._errors import DataError
from faceblind.data.tables.columns import text_of_arrow
from faceblind.data.tables.vectors import matrix_of_arrow, to_stored, vector_type

PATH = Path("t.parquet")
DTYPES = ["float16", "float32", "float64"]


def as_column(vectors: np.ndarray, form: str) -> pa.Array:
    if form == "fixed":
        return fixed_size(vectors)
    edges = np.arange(len(vectors) + 1) * vectors.shape[1]
    flat = pa.array(vectors.reshape(-1))
    if form == "large":
        return pa.LargeListArray.from_arrays(pa.array(edges, pa.int64()), flat)
    return pa.ListArray.from_arrays(pa.array(edges, pa.int32()), flat)


@given(
    rows=st.integers(1, 12),
    dim=st.integers(1, 5),
    dtype=st.sampled_from(DTYPES),
    form=st.sampled_from(["fixed", "list", "large"]),
    cuts=st.tuples(st.integers(0, 12), st.integers(0, 12)),
    inner=st.integers(0, 12),
)
def test_slices_of_slices_view_the_right_rows(rows, dim, dtype, form, cuts, inner):
    vectors = np.arange(rows * dim).reshape(rows, dim).astype(dtype)
    column = as_column(vectors, form)
    low, high = sorted(min(cut, rows) for cut in cuts)
    part, expected = column.slice(low, high - low), vectors[low:high]
    part, expected = part.slice(inner), expected[inner:]
    matrix = matrix_of_arrow(part, dim, PATH, 0)
    assert matrix.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(matrix, expected)
    chunked = pa.chunked_array([column.slice(0, low), column.slice(low)])
    np.testing.assert_array_equal(matrix_of_arrow(chunked, None, PATH, 0), vectors)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", ["fixed", "list", "large"])
def test_no_copy_is_made(dtype, form):
    vectors = np.arange(12).reshape(4, 3).astype(dtype)
    column = as_column(vectors, form)
    values = np.frombuffer(column.values.buffers()[1], dtype)
    matrix = matrix_of_arrow(column.slice(1, 2), 3, PATH, 0)
    assert np.shares_memory(matrix, values)
    assert not matrix.flags.writeable


def test_values_with_an_offset_of_their_own():
    values = pa.array(np.arange(20, dtype=np.float16)).slice(2, 12)
    column = pa.FixedSizeListArray.from_arrays(values, 3).slice(1)
    np.testing.assert_array_equal(matrix_of_arrow(column, 3, PATH, 0), np.arange(5, 14).reshape(3, 3))


@pytest.mark.parametrize("kind", [pa.list_(pa.float16(), 2), pa.list_(pa.float32(), 2), pa.list_(pa.float64())])
def test_missing_vector_is_named_even_in_a_slice(kind):
    cast = np.float16 if kind.value_type == pa.float16() else float
    rows = [[cast(1), cast(2)], [cast(3), cast(4)], None, [cast(5), cast(6)]]
    column = pa.array(rows, type=kind)
    with pytest.raises(DataError, match=r"t\.parquet: the vector of row 102 is missing"):
        matrix_of_arrow(column, 2, PATH, 100)
    with pytest.raises(DataError, match="row 101 is missing"):
        matrix_of_arrow(column.slice(1), 2, PATH, 100)
    # What is outside the slice does not matter, and the slot of the missing vector is skipped.
    np.testing.assert_array_equal(matrix_of_arrow(column.slice(0, 2), 2, PATH, 0), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(matrix_of_arrow(column.slice(3), 2, PATH, 0), [[5, 6]])
    with pytest.raises(DataError, match="row 7 is missing"):
        matrix_of_arrow(pa.chunked_array([column.slice(0, 2), column.slice(2)]), 2, PATH, 5)


@pytest.mark.parametrize("kind", [pa.list_(pa.float32(), 2), pa.list_(pa.float32())])
def test_missing_value_is_named(kind):
    column = pa.array([[1.0, 2.0], [3.0, None]], type=kind)
    with pytest.raises(DataError, match="row 11 has a missing value"):
        matrix_of_arrow(column, 2, PATH, 10)
    np.testing.assert_array_equal(matrix_of_arrow(column.slice(0, 1), 2, PATH, 0), [[1, 2]])


def test_ragged_rows_are_named():
    column = pa.array([[1.0, 2.0], [3.0, 4.0], [5.0]], type=pa.list_(pa.float32()))
    with pytest.raises(DataError, match=r"row 12 has 1 values where 2 are expected; all vectors need the same"):
        matrix_of_arrow(column, None, PATH, 10)
    with pytest.raises(DataError, match="row 0 has 1 values where 2"):
        matrix_of_arrow(column.slice(2), 2, PATH, 0)


def test_nan_is_a_value_and_not_missing():
    column = fixed_size(np.array([[1.0, np.nan]], np.float32))
    assert np.isnan(matrix_of_arrow(column, 2, PATH, 0)[0, 1])


def test_tensor_extension_type():
    kind = pa.fixed_shape_tensor(pa.float32(), [3])
    column = pa.ExtensionArray.from_storage(kind, fixed_size(np.ones((2, 3), np.float32)))
    assert vector_type(kind, "e", PATH) == (3, np.float32)
    assert matrix_of_arrow(column, 3, PATH, 0).shape == (2, 3)
    rows = fixed_size(np.arange(12, dtype=np.float32).reshape(4, 3))
    column = pa.ExtensionArray.from_storage(kind, rows).slice(1, 2)
    assert matrix_of_arrow(column, 3, PATH, 0).tolist() == [[3, 4, 5], [6, 7, 8]]


def test_empty_columns():
    empty = pa.array([], pa.list_(pa.float32(), 3))
    assert matrix_of_arrow(empty, 3, PATH, 0).shape == (0, 3)
    assert matrix_of_arrow(pa.chunked_array([], pa.list_(pa.float32(), 3)), None, PATH, 0).shape == (0, 3)
    assert matrix_of_arrow(pa.array([], pa.list_(pa.float32())), None, PATH, 0).shape == (0, 0)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.list_(pa.float16(), 4), (4, np.float16)),
        (pa.list_(pa.float32()), (None, np.float32)),
        (pa.large_list(pa.float64()), (None, np.float64)),
    ],
)
def test_vector_types(kind, expected):
    assert vector_type(kind, "embedding", PATH) == expected


@pytest.mark.parametrize(
    "kind",
    [
        pa.float32(),
        pa.string(),
        pa.list_(pa.string()),
        pa.list_(pa.int8(), 3),
        pa.list_(pa.list_(pa.float32())),
        pa.binary(12),
    ],
)
def test_other_types_are_refused(kind):
    with pytest.raises(DataError, match=r"t\.parquet: the embedding column 'v' holds .*must be a list of float16"):
        vector_type(kind, "v", PATH)


def test_vectors_of_length_zero():
    with pytest.raises(DataError, match="length 0"):
        vector_type(pa.list_(pa.float32(), 0), "v", PATH)


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array(["ann", "böb"]), ["ann", "böb"]),
        (pa.array(["ann", "bob"], pa.large_string()), ["ann", "bob"]),
        (pa.array(["ann", "bob"], pa.string_view()), ["ann", "bob"]),
        (pa.array([7, -3]), ["7", "-3"]),
        (pa.array([2**64 - 1, 0], pa.uint64()), ["18446744073709551615", "0"]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (pa.array([5, 6, 5]).dictionary_encode().slice(1), ["6", "5"]),
        (pa.array([], pa.string()), []),
    ],
)
def test_labels_become_text(column, text):
    made = text_of_arrow(column, "identity", PATH, 0)
    assert made.dtype.kind == "U"
    assert made.tolist() == text


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None]),
        pa.array([1, None]),
        pa.array(["a", None]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None])),
    ],
)
def test_missing_labels_are_named(column):
    with pytest.raises(DataError, match=r"t\.parquet: identity is missing in row 41"):
        text_of_arrow(column, "identity", PATH, 40)


def test_empty_identity_is_missing_but_an_empty_key_is_a_key():
    column = pa.array(["a", ""])
    with pytest.raises(DataError, match="identity is empty in row 41"):
        text_of_arrow(column, "identity", PATH, 40)
    assert text_of_arrow(column, "sample", PATH, 40).tolist() == ["a", ""]


@pytest.mark.parametrize("column", [pa.array([1.0]), pa.array([True]), pa.array([b"a"]), pa.array([["a"]])])
def test_labels_of_other_types_are_refused(column):
    with pytest.raises(DataError, match=r"the sample column holds .*; cast it to text or integers"):
        text_of_arrow(column, "sample", PATH, 0)


def test_a_column_of_nothing_is_missing():
    with pytest.raises(DataError, match="identity is missing in row 3"):
        text_of_arrow(pa.nulls(2), "identity", PATH, 3)


def test_rounding_to_float16_is_that_of_numpy_bit_for_bit():
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    halves = halves[np.isfinite(halves)]
    with np.errstate(over="ignore"):
        ties = (halves[:-1] + halves[1:]) / 2
    bits = np.random.default_rng(0).integers(0, 1 << 32, 100_000, dtype=np.uint32).view(np.float32)
    values = np.concatenate([halves, ties, np.nextafter(ties, np.float32(9)), np.nextafter(ties, np.float32(-9)), bits])
    values = values[: values.size // 4 * 4].reshape(-1, 4)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = values.astype(np.float16)
    stored = to_stored(values, np.dtype(np.float16))
    assert stored.dtype == np.float16
    assert stored.flags.c_contiguous
    np.testing.assert_array_equal(np.isnan(stored), np.isnan(expected))
    real = ~np.isnan(expected)
    np.testing.assert_array_equal(stored[real].view(np.uint16), expected[real].view(np.uint16))


@pytest.mark.parametrize("shape", [(0, 4), (3, 4)])
def test_other_precisions_are_left_to_numpy(shape):
    wide = np.ones(shape, np.float64)
    assert to_stored(wide, np.dtype(np.float16)).dtype == np.float16
    same = np.ones(shape, np.float32)
    assert to_stored(same, np.dtype(np.float32)) is same
