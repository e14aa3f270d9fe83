from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from table_samples import META, collect, kinds, read_all, save_npy, unit_vectors, write_parquet

from faceblind._errors import DataError, FormatError
from faceblind.data.meta import TableMeta
from faceblind.data.tables import open_table

X = unit_vectors(5, 3)
NAMES = ["a", "b", "c", "d", "e"]


# --- a file alone


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4", ">f2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_vectors_alone(tmp_path, dtype, order):
    vectors = np.array(X, dtype=dtype, order=order)
    table = open_table(save_npy(tmp_path / "X.npy", vectors), identity=None)
    assert (table.rows, table.dim, table.dtype) == (5, 3, np.dtype(dtype).newbyteorder("="))
    found, identity, sample, carried = collect(table, 2)
    np.testing.assert_array_equal(found, vectors)
    assert (identity, sample.tolist(), carried) == (None, list("01234"), None)
    expected = (["float16_input"] if dtype.endswith("2") else []) + (["fortran_order"] if order == "F" else [])
    assert kinds(table.findings) == [*expected, "keys_are_row_numbers"]
    assert table.meta == TableMeta()


def test_vectors_alone_have_no_identities(tmp_path):
    path = save_npy(tmp_path / "X.npy", X)
    with pytest.raises(DataError, match=r"X\.npy has no metadata, so no identities; pass metadata=.*identity=None"):
        open_table(path)
    with pytest.raises(DataError, match=r"X\.npy: no sample column 'key'; columns: none"):
        open_table(path, identity=None, sample="key")


def test_provenance_beside_vectors_alone(tmp_path):
    path = save_npy(tmp_path / "X.npy", X)
    (tmp_path / "X.npy.json").write_text(META.to_json())
    assert open_table(path, identity=None).meta == META
    (tmp_path / "X.npy.json").write_text("{}")
    with pytest.raises(FormatError, match=r"X\.npy\.json: table metadata 'faceblind' is damaged"):
        open_table(path, identity=None)


def test_vectors_are_not_read_by_opening_and_are_views_of_the_file(tmp_path):
    path = save_npy(tmp_path / "X.npy", X)
    batch = next(open_table(path, identity=None).batches(2))
    base = batch.vectors
    while isinstance(base.base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)
    assert not batch.vectors.flags.writeable


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(3, np.float32), r"the array must have two dimensions \(images, features\), got shape \(3,\)"),
        (np.ones((2, 2, 2), np.float32), "the array must have two dimensions"),
        (np.ones((3, 2), np.int8), "the array holds int8; vectors must be float16, float32 or float64"),
        (np.ones((3, 2), np.complex64), "the array holds complex64"),
        (np.array([["a", "b"]]), "the array holds <U1"),
        (np.ones((3, 0), np.float32), "the vectors have length 0"),
        (np.ones((0, 3), np.float32), "the table has no rows"),
        (np.zeros(2, [("x", "f4")]), "the array must have two dimensions"),
    ],
)
def test_arrays_that_are_not_vectors(tmp_path, array, message):
    with pytest.raises(DataError, match=rf"X\.npy: {message}"):
        open_table(save_npy(tmp_path / "X.npy", array), identity=None)


def test_pickled_objects_are_refused(tmp_path):
    np.save(tmp_path / "X.npy", np.array([[{"a": 1}]], dtype=object), allow_pickle=True)
    with pytest.raises(FormatError, match=r"X\.npy: it holds pickled Python objects, which are never loaded"):
        open_table(tmp_path / "X.npy", identity=None)
    (tmp_path / "Y.npy").write_bytes(pickle.dumps(X))
    with pytest.raises(FormatError, match=r"Y\.npy: it is not a NumPy array file or is truncated"):
        open_table(tmp_path / "Y.npy", identity=None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"", "it is not a NumPy array file or is truncated"),
        (lambda data: b"hello, I am text", "it is not a NumPy array file"),
        (lambda data: data[:20], "it is not a NumPy array file or is truncated"),
        (lambda data: data[:-1], r"is truncated: its header announces 60 bytes for shape \(5, 3\), the file holds 59"),
        (lambda data: data[:128], "is truncated"),
        (lambda data: data + b"x", "has bytes after its array: .* the file holds 61"),
        (lambda data: b"\x93NUMPY\x09\x00" + data[8:], "it is not a NumPy array file"),
    ],
)
def test_damaged_files(tmp_path, change, message):
    path = save_npy(tmp_path / "X.npy", X)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(FormatError, match=rf"X\.npy:? {message}"):
        open_table(path, identity=None)


# --- a file with metadata beside it


@pytest.mark.parametrize("explicit", [False, True])
def test_metadata_beside(tmp_path, explicit):
    path = save_npy(tmp_path / "X.npy", X)
    beside = tmp_path / ("other/M.parquet" if explicit else "X.parquet")
    write_parquet(beside, identity=[1, 1, 2, 2, 3], sample=NAMES, url=list("vwxyz"), meta=META)
    table = open_table(path, metadata=beside if explicit else None)
    vectors, identity, sample, carried = collect(table, 2)
    np.testing.assert_array_equal(vectors, X)
    assert identity.tolist() == ["1", "1", "2", "2", "3"]
    assert sample.tolist() == NAMES
    assert carried.to_pydict() == {"url": list("vwxyz")}
    assert (table.meta, table.findings) == (META, ())


def test_small_row_groups_of_metadata_keep_step_with_the_vectors(tmp_path):
    vectors = unit_vectors(23, 2)
    path = save_npy(tmp_path / "X.npy", vectors)
    write_parquet(tmp_path / "X.parquet", sample=[str(100 + i) for i in range(23)], row_group_size=5)
    found, _, sample, _ = read_all(path, identity=None, size=7)
    np.testing.assert_array_equal(found, vectors)
    assert sample.tolist() == [str(100 + i) for i in range(23)]


def test_metadata_without_what_is_asked(tmp_path):
    path = save_npy(tmp_path / "X.npy", X)
    write_parquet(tmp_path / "X.parquet", identities=list("xxyyz"))
    with pytest.raises(DataError, match=r"X\.parquet: no identity column 'identity' \(did you mean 'identities'\?\)"):
        open_table(path)
    table = open_table(path, identity=None)
    assert kinds(table.findings) == ["keys_are_row_numbers"]
    _, identity, sample, carried = collect(table)
    assert (identity, sample.tolist()) == (None, list("01234"))
    assert carried.to_pydict() == {"identities": list("xxyyz")}


def test_row_counts_must_agree(tmp_path):
    path = save_npy(tmp_path / "X.npy", X)
    write_parquet(tmp_path / "X.parquet", sample=NAMES[:4])
    with pytest.raises(FormatError, match=r"X\.npy holds 5 vectors but .*X\.parquet has 4 rows; they do not belong"):
        open_table(path, identity=None)


def test_metadata_that_is_a_folder_or_not_there(tmp_path):
    path = save_npy(tmp_path / "X.npy", X)
    with pytest.raises(DataError, match=r"metadata=.* is a folder"):
        open_table(path, metadata=tmp_path)
    with pytest.raises(DataError, match=r"M\.parquet does not exist"):
        open_table(path, metadata=tmp_path / "M.parquet")


# --- rows matched by number


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(
    order=st.integers(1, 9).flatmap(lambda n: st.permutations(range(n))),
    column=st.sampled_from(["row", "embedding_row"]),
    kind=st.sampled_from([pa.int64(), pa.uint8(), pa.int16()]),
    size=st.integers(1, 4),
)
def test_metadata_in_another_order_is_matched_by_row_number(tmp_path, order, column, kind, size):
    n = len(order)
    vectors = unit_vectors(n, 2)
    path = save_npy(tmp_path / "X.npy", vectors)
    # Metadata row i describes vector order[i].
    write_parquet(
        tmp_path / "X.parquet",
        sample=[f"vector {row}" for row in order],
        identity=[row // 2 for row in order],
        **{column: pa.array(order, kind)},
    )
    table = open_table(path)
    found, identity, sample, carried = collect(table, size)
    np.testing.assert_array_equal(found, vectors)
    assert sample.tolist() == [f"vector {row}" for row in range(n)]
    assert identity.tolist() == [str(row // 2) for row in range(n)]
    assert carried is None  # the numbers are used up
    assert kinds(table.findings) == ([] if list(order) == list(range(n)) else ["mixed_row_order"])


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([0, 1, 2, 3, 3], r"0 to 4 in any order\), but 3 is there twice"),
        ([1, 2, 3, 4, 5], "but they run from 1 to 5"),
        ([0, 1, 2, 3, 9], "but they run from 0 to 9"),
        ([0, 1, None, 3, 4], "but some are missing"),
        ([-1, 0, 1, 2, 3], "but they run from -1 to 3"),
    ],
)
def test_row_numbers_that_are_no_permutation(tmp_path, numbers, message):
    path = save_npy(tmp_path / "X.npy", X)
    write_parquet(tmp_path / "X.parquet", sample=NAMES, row=pa.array(numbers, pa.int64()))
    with pytest.raises(DataError, match=rf"X\.parquet: column 'row' should give each of the 5 vectors .*{message}"):
        open_table(path, identity=None)


def test_two_columns_of_row_numbers(tmp_path):
    path = save_npy(tmp_path / "X.npy", X)
    write_parquet(tmp_path / "X.parquet", row=list(range(5)), embedding_row=list(range(5)))
    with pytest.raises(DataError, match="both 'embedding_row' and 'row' number the vectors"):
        open_table(path, identity=None)


def test_a_column_named_row_that_is_text_is_no_row_number(tmp_path):
    path = save_npy(tmp_path / "X.npy", X)
    write_parquet(tmp_path / "X.parquet", sample=NAMES, row=list("edcba"))
    _, _, sample, carried = read_all(path, identity=None)
    assert sample.tolist() == NAMES
    assert carried["row"].to_pylist() == list("edcba")
