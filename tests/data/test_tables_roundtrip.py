from __future__ import annotations

import tempfile
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from table_samples import META, SUFFIXES, kinds, read_all, some_set, tree, unit_vectors

from faceblind._files import sha256_file
from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.meta import TableMeta
from faceblind.data.tables import open_table, open_writer, read_table, read_with_findings, write_table

# numpy drops NUL at the end of text; Arrow takes no lone surrogates.
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)


@st.composite
def sets(draw):
    n, d = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    finite = st.floats(-1000, 1000, width=16).filter(lambda value: value == 0 or abs(value) > 1e-3)
    vectors = draw(hnp.arrays(np.float16, (n, d), elements=finite))
    vectors[:, 0] = np.where(vectors.any(axis=1), vectors[:, 0], 1)
    identity = draw(st.none() | st.lists(texts.filter(bool), min_size=n, max_size=n))
    sample = draw(st.none() | st.lists(texts, min_size=n, max_size=n, unique=True))
    meta = draw(st.sampled_from([META, TableMeta(), TableMeta(synthetic=True)]))
    return EmbeddingSet.of(vectors, identity, sample=sample, meta=meta)


@contextmanager
def scratch():
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@settings(max_examples=40, deadline=None)
@given(made=sets(), suffix=st.sampled_from(SUFFIXES), dtype=st.sampled_from(["float16", "float32"]))
def test_what_is_written_is_read(made, suffix, dtype):
    with scratch() as folder:
        path = folder / f"table{suffix}"
        write_table(path, made, dtype=dtype)
        identity = None if made.identity is None else "identity"
        table = open_table(path, identity=identity)
        assert (table.rows, table.dim, table.dtype) == (len(made), made.dim, np.dtype(dtype))
        found, findings = read_with_findings(path, identity=identity)
    np.testing.assert_array_equal(found.vectors, made.vectors)
    np.testing.assert_array_equal(found.sample, made.sample)
    if made.identity is None:
        assert found.identity is None
    else:
        np.testing.assert_array_equal(found.identity, made.identity)
    assert found.meta == made.meta
    assert ("float16_input" in kinds(findings)) == (dtype == "float16")


@settings(max_examples=25, deadline=None)
@given(
    made=sets(),
    suffix=st.sampled_from(SUFFIXES),
    cuts=st.lists(st.integers(0, 12), max_size=3),
    size=st.integers(1, 5),
)
def test_bytes_and_batches_do_not_depend_on_how_rows_arrive(made, suffix, cuts, size):
    def write(path, edges):
        with open_writer(path, meta=made.meta, dim=made.dim, shard_rows=4) as writer:
            for low, high in pairwise(edges):
                rows = slice(low, high)
                identity = None if made.identity is None else made.identity[rows]
                writer.write(made.vectors[rows], identity, made.sample[rows])
            assert writer.rows == len(made)
        return {name: sha256_file(folder / name) for name in tree(folder)}

    with scratch() as folder:
        path = folder / f"table{suffix}"
        whole = write(path, [0, len(made)])
        parts = write(path, [0, *sorted(min(cut, len(made)) for cut in cuts), len(made)])
        assert whole == parts
        identity = None if made.identity is None else "identity"
        vectors, _, sample, _ = read_all(path, identity=identity, size=size)
    np.testing.assert_array_equal(vectors, made.vectors)
    np.testing.assert_array_equal(sample, made.sample)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_names_of_columns(tmp_path, suffix):
    made = some_set()
    names = {"identity": "who", "sample": "key", "embedding": "vec"}
    write_table(tmp_path / f"t{suffix}", made, **names)
    found = read_table(tmp_path / f"t{suffix}", **names)
    np.testing.assert_array_equal(found.identity, made.identity)
    np.testing.assert_array_equal(found.sample, made.sample)


@pytest.mark.parametrize("suffix", [".parquet", ".npy", ""])
def test_carried_columns(tmp_path, suffix):
    n = 11
    others = pa.table(
        {
            "url": pa.array([None if i % 4 == 3 else f"u{i}" for i in range(n)]),
            "kind": pa.array([f"k{i % 3}" for i in range(n)]).dictionary_encode(),
            "size": pa.array(range(n), pa.int16()),
            "tags": pa.array([["t"] * (i % 3) for i in range(n)]),
        }
    )
    vectors = unit_vectors(n, 3)
    schema = others.schema.with_metadata({"pandas": "stale"})
    path = tmp_path / f"t{suffix}"
    with open_writer(path, meta=META, dim=3, carried_schema=schema, shard_rows=4) as writer:
        for start in range(0, n, 3):
            part = others.slice(start, 3).select(["size", "tags", "url", "kind"])  # in any order
            carried = part.combine_chunks().to_batches()[0] if start else part
            writer.write(vectors[start : start + 3], carried=carried)
    _, _, sample, carried = read_all(path, identity=None, size=4)
    assert carried.select(others.column_names).to_pydict() == others.to_pydict()
    assert carried.schema.equals(others.schema)
    assert sample.tolist() == [str(i) for i in range(n)]


@pytest.mark.parametrize("source", [".parquet", ".npy", ""])
@pytest.mark.parametrize("target", [".parquet", ".npy", ""])
def test_rewriting_keeps_everything(tmp_path, source, target):
    made = some_set(9)
    schema = pa.schema({"url": pa.string()})
    with open_writer(tmp_path / f"a{source}", meta=META, dim=3, carried_schema=schema, shard_rows=4) as writer:
        writer.write(made.vectors, made.identity, made.sample, pa.table({"url": made.sample.tolist()}))
    # identity=None: the column of identities travels with the others and keeps its name.
    table = open_table(tmp_path / f"a{source}", identity=None)
    with open_writer(
        tmp_path / f"b{target}", meta=table.meta, dim=table.dim, carried_schema=table.carried_schema, shard_rows=5
    ) as writer:
        for batch in table.batches(2):
            writer.write(batch.vectors, batch.identity, batch.sample, batch.carried)
    found = read_table(tmp_path / f"b{target}")
    np.testing.assert_array_equal(found.vectors, made.vectors)
    np.testing.assert_array_equal(found.identity, made.identity)
    np.testing.assert_array_equal(found.sample, made.sample)
    assert found.meta == META
    assert read_all(tmp_path / f"b{target}")[3]["url"].to_pylist() == made.sample.tolist()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_may_be_rewritten_onto_itself(tmp_path, suffix):
    made = some_set(9)
    path = tmp_path / f"t{suffix}"
    write_table(path, made)
    table = open_table(path)
    with open_writer(path, meta=table.meta, dim=table.dim) as writer:
        for batch in table.batches(2):
            writer.write(-batch.vectors, batch.identity, batch.sample)
    np.testing.assert_array_equal(read_table(path).vectors, -made.vectors)


@pytest.mark.parametrize(
    ("suffix", "files"),
    [
        (".parquet", ["t.parquet"]),
        (".npz", ["t.npz"]),
        (".npy", ["t.npy", "t.parquet"]),
        (
            "",
            [
                f"t/{name}_{i}{ext}"
                for name, ext in (("img_emb/img_emb", ".npy"), ("metadata/metadata", ".parquet"))
                for i in (0, 1, 2)
            ],
        ),
    ],
)
def test_files_that_are_made(tmp_path, suffix, files):
    made = some_set(9)
    with open_writer(tmp_path / f"t{suffix}", meta=META, dim=3, shard_rows=4) as writer:
        writer.write(made.vectors, made.identity, made.sample)
    assert tree(tmp_path) == files


def test_other_tools_can_read_what_is_written(tmp_path):
    made = some_set(9)
    for suffix in (".parquet", ".npz", ".npy"):
        write_table(tmp_path / f"{suffix[1:]}{suffix}", made, dtype="float16")
    schema = pa.parquet.read_schema(tmp_path / "parquet.parquet")
    kind = pa.list_(pa.field("element", pa.float16(), nullable=False), 3)
    assert schema.field("embedding") == pa.field("embedding", kind, nullable=False)
    assert schema.names == ["sample", "identity", "embedding"]
    assert TableMeta.from_json(schema.metadata[b"faceblind"].decode()) == META
    half = made.vectors.astype(np.float16)
    np.testing.assert_array_equal(np.load(tmp_path / "npy.npy"), half)
    assert pa.parquet.read_table(tmp_path / "npy.parquet")["identity"].to_pylist() == made.identity.tolist()
    with np.load(tmp_path / "npz.npz") as archive:
        assert archive.files == ["embedding", "identity", "sample", "faceblind_meta"]
        np.testing.assert_array_equal(archive["embedding"], half)
        np.testing.assert_array_equal(archive["sample"], made.sample)


def test_npy_is_what_numpy_would_write(tmp_path):
    vectors = unit_vectors(1000, 3)
    write_table(tmp_path / "a.npy", EmbeddingSet.of(vectors))
    np.save(tmp_path / "b.npy", vectors)
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()
    assert tree(tmp_path) == ["a.npy", "a.npy.json", "b.npy"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_bytes_of_many_rows_in_pieces_of_any_size_and_width_of_text(tmp_path, suffix):
    n, dim = 20_000, 64  # several pages to a row group
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((n, dim)).astype(np.float32)
    sample = rng.permutation(n).astype(np.str_)
    identity = np.sort(rng.integers(0, n // 3, n)).astype("<U40")

    def write(path, size, width):
        with open_writer(path, meta=META, dim=dim, shard_rows=18_000) as writer:
            for start in range(0, n, size):
                rows = slice(start, start + size)
                writer.write(vectors[rows], identity[rows].astype(width), sample[rows])
        return {name: sha256_file(tmp_path / name) for name in tree(tmp_path)}

    path = tmp_path / f"t{suffix}"
    assert write(path, n, "<U40") == write(path, 777, "<U21")
