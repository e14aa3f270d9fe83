from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from table_samples import FINGERPRINT, META, collect, fixed_size, kinds, read_all, unit_vectors, write_parquet

from faceblind._errors import DataError, FormatError, UsageError
from faceblind.data.meta import TableMeta
from faceblind.data.tables import open_table, read_table

NAMES = ["a", "b", "c", "d", "e"]
X = unit_vectors(5, 3)


def test_what_opening_tells(tmp_path):
    path = write_parquet(tmp_path / "t.parquet", X, sample=NAMES, identity=list("xxyyz"), meta=META)
    table = open_table(str(path))
    assert (table.path, table.rows, table.dim, table.dtype) == (path, 5, 3, np.float32)
    assert table.meta == META
    assert table.findings == ()
    assert table.carried_schema is None
    vectors, identity, sample, _ = collect(table, 2)
    np.testing.assert_array_equal(vectors, X)
    assert identity.tolist() == list("xxyyz")
    assert sample.tolist() == NAMES


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("form", ["fixed", "list", "large"])
@pytest.mark.parametrize("row_group_size", [2, 100])
def test_columns_of_vectors(tmp_path, dtype, form, row_group_size):
    vectors = X.astype(dtype)
    column = fixed_size(vectors)
    if form != "fixed":
        kind = pa.list_ if form == "list" else pa.large_list
        column = column.cast(kind(column.type.value_type))
    path = write_parquet(tmp_path / "t.parquet", column, sample=NAMES, row_group_size=row_group_size)
    table = open_table(path, identity=None)
    assert (table.dim, table.dtype) == (3, np.dtype(dtype))
    np.testing.assert_array_equal(collect(table, 3)[0], vectors)
    assert kinds(table.findings) == (["float16_input"] if dtype == "float16" else [])


def test_names_of_columns(tmp_path):
    path = write_parquet(tmp_path / "t.parquet", vec=fixed_size(X), who=[3, 3, 4, 4, 5], key=[10, 11, 12, 13, 14])
    vectors, identity, sample, carried = read_all(path, identity="who", sample="key", embedding="vec")
    np.testing.assert_array_equal(vectors, X)
    assert identity.tolist() == ["3", "3", "4", "4", "5"]
    assert sample.tolist() == ["10", "11", "12", "13", "14"]
    assert carried is None
    # One column may be both.
    assert read_all(path, identity="key", sample="key", embedding="vec")[1].tolist() == sample.tolist()


def test_other_columns_are_carried(tmp_path):
    path = write_parquet(
        tmp_path / "t.parquet",
        X,
        sample=NAMES,
        identity=list("xxyyz"),
        url=pa.array(["u1", None, "u3", "u4", "u5"]),
        tags=pa.array([["t"], [], ["t", "s"], None, []]),
        kind=pa.array(list("ababa")).dictionary_encode(),
        row_group_size=2,
    )
    carried = read_all(path)[3]
    assert carried.column_names == ["url", "tags", "kind"]
    assert carried["url"].to_pylist() == ["u1", None, "u3", "u4", "u5"]
    assert carried["tags"].to_pylist() == [["t"], [], ["t", "s"], None, []]
    assert carried["kind"].to_pylist() == list("ababa")
    # Without identities their column travels with the others.
    assert read_all(path, identity=None)[3].column_names == ["identity", "url", "tags", "kind"]


def test_row_numbers_stand_in_for_keys_and_it_is_said(tmp_path):
    path = write_parquet(tmp_path / "t.parquet", X, file=NAMES)
    table = open_table(path, identity=None)
    assert kinds(table.findings) == ["keys_are_row_numbers"]
    assert "columns: 'file', 'embedding'" in table.findings[0].message
    assert collect(table, 2)[2].tolist() == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"no identity column 'identity' \(did you mean 'identities'\?\); columns: 'identities', 'file', "),
        ({"identity": "nobody"}, r"no identity column 'nobody'; columns: .*or pass identity=None"),
        ({"identity": None, "sample": "files"}, r"no sample column 'files' \(did you mean 'file'\?\)"),
        ({"identity": None, "embedding": "vectors"}, r"no embedding column 'vectors'.*name it with embedding="),
        ({"identity": None, "embedding": "file"}, r"the embedding column 'file' holds string"),
    ],
)
def test_missing_columns_are_told_with_what_is_there(tmp_path, options, message):
    path = write_parquet(tmp_path / "t.parquet", X, identities=list("xxyyz"), file=NAMES)
    with pytest.raises(DataError, match=rf"t\.parquet: {message}"):
        open_table(path, **options)


def test_column_that_is_there_twice(tmp_path):
    table = pa.Table.from_arrays([fixed_size(X), pa.array(NAMES), pa.array(NAMES)], names=["embedding", "x", "x"])
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(DataError, match="column 'x' is there 2 times"):
        open_table(tmp_path / "t.parquet", identity=None)


def test_bad_rows_are_named_by_their_number_in_the_whole_table(tmp_path):
    folder = tmp_path / "shards"
    write_parquet(folder / "0.parquet", X, identity=list("xxyyz"), row_group_size=2)
    write_parquet(folder / "1.parquet", X, identity=["x", "x", None, "y", "z"], row_group_size=2)
    with pytest.raises(DataError, match=r"1\.parquet: identity is missing in row 7"):
        read_table(folder)


def test_missing_vector_is_named(tmp_path):
    column = pa.array([[1.0, 0.0], None, [0.0, 1.0]], pa.list_(pa.float32(), 2))
    path = write_parquet(tmp_path / "t.parquet", column, row_group_size=1)
    # Not every version of pyarrow reads such a file far enough to number the row.
    with pytest.raises(DataError, match=r"t\.parquet: the vector of (row 1|a row) is missing"):
        read_table(path, identity=None)


def test_ragged_vector_is_named(tmp_path):
    column = pa.array([[1.0, 0.0], [0.0, 1.0], [1.0]], pa.list_(pa.float32()))
    path = write_parquet(tmp_path / "t.parquet", column, row_group_size=1)
    assert open_table(path, identity=None).dim == 2
    with pytest.raises(DataError, match="the vector of row 2 has 1 values where 2 are expected"):
        read_table(path, identity=None)


def test_first_vector_of_length_zero(tmp_path):
    path = write_parquet(tmp_path / "t.parquet", pa.array([[], [1.0]], pa.list_(pa.float32())))
    with pytest.raises(DataError, match="row 0 has length 0"):
        open_table(path, identity=None)


def test_table_without_rows(tmp_path):
    path = write_parquet(tmp_path / "t.parquet", X[:0], sample=pa.array([], pa.string()))
    with pytest.raises(DataError, match=r"t\.parquet: the table has no rows"):
        open_table(path, identity=None)


@pytest.mark.parametrize("content", [b"", b"key,vector\na,1\n", b"PAR1", b"PAR1" + bytes(100) + b"PAR1"])
def test_files_that_are_not_parquet(tmp_path, content):
    path = tmp_path / "t.parquet"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"t\.parquet is not a readable Parquet file \(truncated, damaged or"):
        open_table(path)


def test_truncated_and_damaged_files(tmp_path):
    path = write_parquet(tmp_path / "t.parquet", unit_vectors(500, 16), sample=[str(i) for i in range(500)])
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    with pytest.raises(FormatError, match=r"t\.parquet is not a readable Parquet file"):
        open_table(path, identity=None)
    # The footer is whole, the pages are not.
    path.write_bytes(b"PAR1" + b"\xff" * (len(whole) // 2) + whole[len(whole) // 2 + 4 :])
    with pytest.raises(FormatError, match=r"t\.parquet is not a readable Parquet file"):
        read_table(path, identity=None)


def test_damaged_metadata_is_told_with_the_file(tmp_path):
    table = pa.table({"embedding": fixed_size(X)}).replace_schema_metadata({"faceblind": "{"})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(FormatError, match=r"t\.parquet: table metadata 'faceblind' is damaged"):
        open_table(tmp_path / "t.parquet", identity=None)


def test_shards_are_read_in_the_order_of_their_numbers(tmp_path):
    order = ["part-2.parquet", "part-9.parquet", "part-10.parquet", "part-11-b.parquet"]
    for number, name in enumerate(order):
        write_parquet(tmp_path / "s" / name, X + number, sample=[f"{number}{name}" for name in NAMES])
    for name in ("_SUCCESS", "_common.parquet", ".hidden.parquet", "notes.txt"):
        (tmp_path / "s" / name).write_text("not a table")
    write_parquet(tmp_path / "s" / "part-100.parquet", X[:0], sample=pa.array([], pa.string()))
    table = open_table(tmp_path / "s", identity=None)
    assert (table.rows, table.dim) == (20, 3)
    vectors, _, sample, _ = collect(table, 4)
    np.testing.assert_array_equal(vectors, np.concatenate([X + number for number in range(4)]))
    assert [key[0] for key in sample[::5]] == list("0123")


def test_carried_columns_of_shards_get_a_common_type(tmp_path):
    write_parquet(tmp_path / "s" / "0.parquet", X, note=pa.nulls(5), size=pa.array(range(5), pa.int32()))
    write_parquet(tmp_path / "s" / "1.parquet", X, size=pa.array(range(5), pa.int64()), note=NAMES)
    carried = read_all(tmp_path / "s", identity=None)[3]
    assert carried.schema == pa.schema({"note": pa.string(), "size": pa.int64()})
    assert carried["note"].to_pylist() == [None] * 5 + NAMES


def test_carried_columns_that_do_not_go_together(tmp_path):
    write_parquet(tmp_path / "s" / "0.parquet", X, note=[[1]] * 5)
    write_parquet(tmp_path / "s" / "1.parquet", X, note=NAMES)
    with pytest.raises(DataError, match="a column has types that do not go together in different shards"):
        open_table(tmp_path / "s", identity=None)


@pytest.mark.parametrize(
    ("other", "columns", "message"),
    [
        (X[:, :2], {}, r"1\.parquet holds float32 vectors of length 2, .*0\.parquet holds float32 of length 3"),
        (X.astype("float16"), {}, r"1\.parquet holds float16 vectors of length 3, .*0\.parquet holds float32"),
        (X, {"extra": NAMES}, r"1\.parquet and .*0\.parquet have different columns \(extra\)"),
        (X, {"meta": replace(META, projector=None)}, r"differ in provenance \(projector: abc != None\)"),
        (X, {"meta": replace(META, synthetic=False)}, r"differ in provenance \(synthetic: True != False\)"),
        (X, {"meta": replace(META, encoder=None)}, r"differ in provenance \(only one names its encoder\)"),
        (
            X,
            {"meta": replace(META, encoder=replace(FINGERPRINT, precision="int8"))},
            r"differ in provenance \(precision: float32 != int8\)",
        ),
    ],
)
def test_shards_that_do_not_go_together(tmp_path, other, columns, message):
    write_parquet(tmp_path / "s" / "0.parquet", X, meta=META)
    write_parquet(tmp_path / "s" / "1.parquet", other, **{"meta": META, **columns})
    with pytest.raises(DataError, match=message):
        open_table(tmp_path / "s", identity=None)


def test_shards_embedded_with_other_library_versions_go_together(tmp_path):
    write_parquet(tmp_path / "s" / "0.parquet", X, meta=META)
    later = replace(META, encoder=replace(FINGERPRINT, libraries={"onnxruntime": "1.21"}))
    write_parquet(tmp_path / "s" / "1.parquet", X, meta=later)
    assert open_table(tmp_path / "s", identity=None).meta == META


def test_no_metadata_is_empty_metadata(tmp_path):
    assert open_table(write_parquet(tmp_path / "t.parquet", X), identity=None).meta == TableMeta()


def test_options_that_do_not_go_with_parquet(tmp_path):
    path = write_parquet(tmp_path / "s" / "t.parquet", X)
    for place in (path, path.parent):
        with pytest.raises(UsageError, match=r"metadata= goes with a \.npy file or a clip-retrieval folder"):
            open_table(place, metadata=path)
    with pytest.raises(UsageError, match="at least one row, got size=0"):
        next(open_table(path, identity=None).batches(0))
