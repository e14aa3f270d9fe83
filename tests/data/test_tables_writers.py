from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from table_samples import some_set, tree, unit_vectors

from faceblind._errors import DataError, FormatError, MissingExtraError, UsageError
from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.meta import TableMeta
from faceblind.data.tables import open_table, open_writer, read_table, write_table

X = unit_vectors(5, 3)
NONE = TableMeta()


# --- rows that cannot be written


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X[:, :2],), r"write real vectors of shape \(rows, 3\), got float32 of shape \(5, 2\)"),
        ((X[0],), r"got float32 of shape \(3,\)"),
        ((X.astype(str),), "got <U"),
        ((np.array([[1, 2, np.nan]]),), "the vector of row 5 holds NaN or infinity"),
        ((np.array([[1, 2, 3], [1, 2, 1e39]]),), r"row 6 has the value 1e\+39, which does not fit float32"),
        ((X, ["a"] * 4, list("abcde")), "identity must have one entry per vector"),
        ((X, ["a", None, "b", "c", "d"], list("abcde")), "identity is missing"),
        ((X, ["a", "", "b", "c", "d"], list("abcde")), "identity is empty in row 6"),
        ((X, list("abcde"), list("ab")), "sample must have one entry per vector"),
        ((X,), "must be given for all rows or for none"),
        ((X, None, list("abcde")), "must be given for all rows or for none"),
        ((X, list("abcde"), list("abcde"), pa.table({"a": range(5)})), "carried columns must be announced"),
    ],
)
def test_rows_that_do_not_fit(tmp_path, arguments, message):
    with open_writer(tmp_path / "t.parquet", meta=NONE, dim=3) as writer:
        writer.write(X, list("abcde"), [f"first {i}" for i in range(5)])
        with pytest.raises(DataError, match=message):
            writer.write(*arguments)
        assert writer.rows == 5
    assert len(read_table(tmp_path / "t.parquet")) == 5


@pytest.mark.parametrize("suffix", [".parquet", ".npy", ""])
def test_text_that_is_no_unicode(tmp_path, suffix):
    with open_writer(tmp_path / f"t{suffix}", meta=NONE, dim=3) as writer:
        writer.write(X, sample=list("abcde"))
        with pytest.raises(DataError, match=r"sample 'caf\\udce9\.jpg' is not valid Unicode \(a file name in another"):
            writer.write(X[:1], sample=["caf\udce9.jpg"])
        writer.write(X[:1], sample=["f"])
    assert read_table(tmp_path / f"t{suffix}", identity=None).sample.tolist() == list("abcdef")


def test_values_that_do_not_fit_float16(tmp_path):
    with (
        pytest.raises(DataError, match=r"row 1 has the value 7e\+04, which does not fit float16; scale .* float32"),
        open_writer(tmp_path / "t.npz", meta=NONE, dim=2, dtype="float16") as writer,
    ):
        writer.write([[1.0, 2.0], [-70000.0, 1.0]])


def test_rows_of_zeros_are_written_as_they_are(tmp_path):
    with open_writer(tmp_path / "t.npy", meta=NONE, dim=2) as writer:
        writer.write(np.array([[0, 0], [1, 0]]))
    assert np.load(tmp_path / "t.npy").tolist() == [[0, 0], [1, 0]]


def test_the_caller_may_use_an_array_again(tmp_path):
    buffer = np.ones((2, 3), np.float32)
    with open_writer(tmp_path / "t.parquet", meta=NONE, dim=3) as writer:
        for value in (1, 2):
            buffer[:] = value
            writer.write(buffer)
    assert read_table(tmp_path / "t.parquet", identity=None).vectors[:, 0].tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("carried", "message"),
    [
        (None, "carried columns must be announced with carried_schema=... and given for all rows"),
        (pa.table({"b": range(5)}), r"carried columns \['b'\] with 5 rows do not match the announced \['a'\] with 5"),
        (pa.table({"a": range(4)}), r"with 4 rows do not match"),
        (pa.table({"a": ["x"] * 5}), "a carried column is not of the announced type"),
    ],
)
def test_carried_columns_that_do_not_fit(tmp_path, carried, message):
    schema = pa.schema({"a": pa.int64()})
    with (
        pytest.raises(DataError, match=message),
        open_writer(tmp_path / "t.parquet", meta=NONE, dim=3, carried_schema=schema) as writer,
    ):
        writer.write(X, carried=carried)


# --- options


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("t.csv", {}, FormatError, r"t\.csv: unknown format \.csv; what is written: \.parquet, \.npz, \.npy, or a"),
        ("t.parquet", {"dtype": "float64"}, UsageError, "stored as float16 or float32, got float64"),
        ("t.parquet", {"dtype": "half"}, UsageError, "got half"),
        ("t.parquet", {"sample": "embedding"}, UsageError, "two columns would be named embedding"),
        ("t.parquet", {"sample": "identity"}, UsageError, "two columns would be named identity"),
        ("t.npz", {"sample": "faceblind_meta"}, UsageError, "two columns would be named faceblind_meta"),
        ("t.parquet", {"carried_schema": pa.schema({"sample": pa.string()})}, UsageError, "be named sample"),
        ("t.npz", {"carried_schema": pa.schema({"a": pa.string()})}, UsageError, r"holds no other columns \(a\)"),
        ("t.npy", {"carried_schema": pa.schema({"row": pa.int8()})}, UsageError, "an integer column 'row' beside"),
        ("t", {"carried_schema": pa.schema({"embedding_row": pa.int64()})}, UsageError, "'embedding_row' beside"),
        ("t", {"shard_rows": 0}, UsageError, "a shard needs at least one row, got shard_rows=0"),
    ],
)
def test_options_that_do_not_fit(tmp_path, name, options, error, message):
    with (
        pytest.raises(error, match=message),
        open_writer(tmp_path / name, **{"meta": NONE, "dim": 3, **options}) as writer,
    ):
        writer.write(X)
    assert list(tmp_path.iterdir()) == []


def test_identities_do_not_clash_with_a_carried_column(tmp_path):
    schema = pa.schema({"identity": pa.string()})
    with (
        pytest.raises(UsageError, match="column 'identity' is carried and cannot also hold the identities"),
        open_writer(tmp_path / "t.parquet", meta=NONE, dim=3, carried_schema=schema) as writer,
    ):
        writer.write(X, list("abcde"), carried=pa.table({"identity": list("abcde")}))


def test_precision_as_a_dtype(tmp_path):
    with open_writer(tmp_path / "t.npy", meta=NONE, dim=3, dtype=np.dtype("float16")) as writer:
        writer.write(X)
    assert open_table(tmp_path / "t.npy", identity=None).dtype == np.float16


# --- without pyarrow


def test_importing_needs_no_pyarrow():
    code = "import sys, faceblind.data.tables; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, env={**os.environ}).returncode == 0


def test_npz_and_npy_alone_need_no_pyarrow(tmp_path, monkeypatch):
    write_table(tmp_path / "t.parquet", some_set())
    write_table(tmp_path / "folder", some_set())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    made = some_set()
    write_table(tmp_path / "t.npz", made)
    assert read_table(tmp_path / "t.npz").identity.tolist() == made.identity.tolist()
    write_table(tmp_path / "alone.npy", EmbeddingSet.of(X))
    with open_writer(tmp_path / "copy.npy", meta=NONE, dim=3) as writer:
        for batch in open_table(tmp_path / "alone.npy", identity=None).batches(2):
            writer.write(batch.vectors, batch.identity, batch.sample, batch.carried)
    assert not (tmp_path / "copy.parquet").exists()
    np.testing.assert_array_equal(read_table(tmp_path / "alone.npy", identity=None).vectors, X)
    wanted = r"reading Parquet tables needs pyarrow; install it with: pip install 'faceblind\[parquet\]'"
    for name in ("t.parquet", "folder"):
        with pytest.raises(MissingExtraError, match=wanted):
            open_table(tmp_path / name)
    before = tree(tmp_path)
    for name in ("u.parquet", "u.npy", "u"):
        with pytest.raises(MissingExtraError, match=r"writing .* needs pyarrow"):
            write_table(tmp_path / name, made)
    assert tree(tmp_path) == before
