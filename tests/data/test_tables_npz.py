from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from table_samples import META, collect, kinds, unit_vectors

from faceblind._errors import DataError, FormatError, UsageError
from faceblind.data.meta import TableMeta
from faceblind.data.tables import open_table, read_table

X = unit_vectors(5, 3)
NAMES = ["a", "b", "c", "d", "e"]


def members(path, **arrays: bytes):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in arrays.items():
            archive.writestr(f"{name}.npy", data)
    return path


def npy_bytes(array, **options) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4", "<f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_archives_of_numpy(tmp_path, save, dtype, order):
    vectors = np.array(X, dtype, order=order)
    path = tmp_path / "t.npz"
    save(path, embedding=vectors, identity=np.array([1, 1, 2, 2, 3]), sample=np.array(NAMES))
    table = open_table(path)
    assert (table.path, table.rows, table.dim, table.meta) == (path, 5, 3, TableMeta())
    found, identity, sample, _ = collect(table, 2)
    np.testing.assert_array_equal(found, vectors)
    assert identity.tolist() == ["1", "1", "2", "2", "3"]
    assert sample.tolist() == NAMES
    assert kinds(table.findings) == (["float16_input"] if dtype == "<f2" else [])


@pytest.mark.parametrize("name", ["vectors", "embeddings", "X"])
def test_usual_names_of_vectors(tmp_path, name):
    np.savez(tmp_path / "t.npz", **{name: X, "names": np.array(NAMES)})
    table = open_table(tmp_path / "t.npz", identity="names")
    np.testing.assert_array_equal(collect(table)[0], X)
    with pytest.raises(DataError, match=r"no embedding column 'vector'"):
        open_table(tmp_path / "t.npz", identity=None, embedding="vector")


def test_two_usual_names(tmp_path):
    np.savez(tmp_path / "t.npz", vectors=X, X=X)
    with pytest.raises(DataError, match="arrays vectors, X could all be the vectors; name one with embedding="):
        open_table(tmp_path / "t.npz", identity=None)
    assert open_table(tmp_path / "t.npz", identity=None, embedding="X").rows == 5


def test_names_by_option_and_what_is_left_behind(tmp_path):
    np.savez(tmp_path / "t.npz", e=X, who=np.array(NAMES), key=np.arange(5), extra=np.ones(2), more=np.ones(1))
    table = open_table(tmp_path / "t.npz", embedding="e", identity="who", sample="key")
    assert collect(table)[2].tolist() == list("01234")
    assert [(f.kind, f.severity, f.examples) for f in table.findings] == [
        ("arrays_not_carried", "note", ("extra", "more"))
    ]
    table = open_table(tmp_path / "t.npz", embedding="e", identity=None)
    assert kinds(table.findings) == ["arrays_not_carried", "keys_are_row_numbers"]
    assert table.findings[0].examples == ("extra", "key", "more", "who")
    assert table.carried_schema is None


def test_metadata(tmp_path):
    np.savez(tmp_path / "t.npz", embedding=X, faceblind_meta=np.array(META.to_json()))
    assert open_table(tmp_path / "t.npz", identity=None).meta == META
    np.savez(tmp_path / "t.npz", embedding=X, faceblind_meta=np.array("{"))
    with pytest.raises(FormatError, match=r"t\.npz: table metadata 'faceblind' is damaged"):
        open_table(tmp_path / "t.npz", identity=None)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"embedding": X}, "no identity column 'identity'; columns: 'embedding'; .*identity=None"),
        ({"embedding": X, "identities": NAMES}, r"did you mean 'identities'"),
        ({"identity": NAMES}, "no embedding column 'embedding'; columns: 'identity'"),
        ({"embedding": X[0], "identity": NAMES}, r"array 'embedding' must have two dimensions"),
        ({"embedding": X.astype(int), "identity": NAMES}, r"array 'embedding' holds int64; vectors must be"),
        ({"embedding": X[:0], "identity": NAMES[:0]}, "the table has no rows"),
        ({"embedding": X, "identity": NAMES[:4]}, r"array 'identity' has shape \(4,\), but there are 5 vectors"),
        ({"embedding": X, "identity": NAMES, "sample": [NAMES]}, r"array 'sample' has shape \(1, 5\)"),
        ({"embedding": X, "identity": np.ones(5)}, "the identity array holds float64; save it as text or integers"),
        ({"embedding": X, "identity": ["a", "", "b", "c", "d"]}, "identity is empty in row 1"),
        (
            {"embedding": X, "identity": [b"a", b"\xff", b"b", b"c", b"d"]},
            "identity array holds bytes that are not UTF-8",
        ),
    ],
)
def test_bad_arrays(tmp_path, arrays, message):
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(DataError, match=rf"t\.npz: .*{message}"):
        read_table(tmp_path / "t.npz")


@pytest.mark.parametrize("name", ["embedding", "identity", "sample"])
def test_pickled_arrays_are_refused(tmp_path, name):
    arrays = {"embedding": X, "identity": NAMES, "sample": NAMES}
    arrays[name] = np.array(arrays[name], dtype=object)
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(FormatError, match=rf"t\.npz: array '{name}' holds pickled Python objects"):
        read_table(tmp_path / "t.npz")


def test_text_in_bytes(tmp_path):
    np.savez(tmp_path / "t.npz", embedding=X, identity=np.array(["ü".encode(), b"a", b"b", b"c", b"d"]))
    assert read_table(tmp_path / "t.npz").identity.tolist() == ["ü", "a", "b", "c", "d"]


@pytest.mark.parametrize("content", [b"", b"plain text", b"PK\x03\x04" + bytes(50)])
def test_files_that_are_not_archives(tmp_path, content):
    (tmp_path / "t.npz").write_bytes(content)
    with pytest.raises(FormatError, match=r"t\.npz is not a readable \.npz archive .*write it with numpy\.savez"):
        open_table(tmp_path / "t.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_truncated_and_altered_archives(tmp_path, save):
    path = tmp_path / "t.npz"
    save(path, embedding=unit_vectors(100, 8))
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    with pytest.raises(FormatError, match=r"t\.npz is not a readable \.npz archive"):
        open_table(path, identity=None)
    altered = bytearray(whole)
    altered[len(whole) // 2] ^= 0xFF
    path.write_bytes(altered)
    with pytest.raises(FormatError, match=r"t\.npz"):
        read_table(path, identity=None)


def test_arrays_that_lie_about_their_size(tmp_path):
    data = npy_bytes(X)
    path = members(tmp_path / "t.npz", embedding=data[:-4])
    with pytest.raises(FormatError, match=r"t\.npz: an array holds fewer or more bytes than its header announces"):
        open_table(path, identity=None)
    path = members(tmp_path / "t.npz", embedding=data + b"more")
    with pytest.raises(FormatError, match="fewer or more bytes"):
        open_table(path, identity=None)
    path = members(tmp_path / "t.npz", embedding=b"not an array")
    with pytest.raises(FormatError, match=r"array 'embedding' is not a NumPy array file or is truncated"):
        open_table(path, identity=None)
    path = members(tmp_path / "t.npz", embedding=data, sample=npy_bytes(np.array(NAMES))[:-4])
    with pytest.raises(FormatError, match="fewer or more bytes"):
        open_table(path, identity=None)


def test_batches_of_no_rows(tmp_path):
    np.savez(tmp_path / "t.npz", embedding=X)
    with pytest.raises(UsageError, match="at least one row"):
        next(open_table(tmp_path / "t.npz", identity=None).batches(0))
