"""Row ranges of a table are slices of the whole, whatever the format and wherever files and row groups break."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from table_samples import unit_vectors, write_parquet

from faceblind._errors import DataError, FormatError, UsageError
from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.tables import open_table, write_table

ROWS = 53
X = unit_vectors(ROWS, 4)
KEYS = [f"key {i}" for i in range(ROWS)]
WHO = [f"person {i // 3}" for i in range(ROWS)]


def parquet(folder):
    return write_parquet(folder / "t.parquet", X, sample=KEYS, identity=WHO, n=range(ROWS), row_group_size=7)


def one_row_group(folder):
    return write_parquet(folder / "g.parquet", X, sample=KEYS, identity=WHO, n=range(ROWS))


def shards(folder):
    edges = [0, 1, 20, 20, 41, ROWS]
    for number, (start, stop) in enumerate(itertools.pairwise(edges)):
        write_parquet(
            folder / "s" / f"{number}.parquet",
            X[start:stop],
            sample=pa.array(KEYS[start:stop], pa.string()),
            identity=pa.array(WHO[start:stop], pa.string()),
            n=pa.array(range(start, stop), pa.int64()),
            row_group_size=6,
        )
    return folder / "s"


def npz(folder):
    write_table(folder / "t.npz", EmbeddingSet.of(X, WHO, sample=KEYS))
    return folder / "t.npz"


def packed_npz(folder):
    np.savez_compressed(folder / "c.npz", embedding=X, sample=KEYS, identity=WHO)
    return folder / "c.npz"


def fortran_npz(folder):
    np.savez(folder / "f.npz", embedding=np.asfortranarray(X), sample=KEYS, identity=WHO)
    return folder / "f.npz"


def npy(folder):
    write_table(folder / "t.npy", EmbeddingSet.of(X, WHO, sample=KEYS))
    return folder / "t.npy"


def shuffled_npy(folder):
    order = np.random.default_rng(0).permutation(ROWS)
    np.save(folder / "m.npy", X)
    columns = {"sample": [KEYS[i] for i in order], "identity": [WHO[i] for i in order], "row": order}
    pa.parquet.write_table(pa.table(columns), folder / "m.parquet", row_group_size=5)
    return folder / "m.npy"


def clip_retrieval(folder):
    from faceblind.data.meta import TableMeta
    from faceblind.data.tables import open_writer

    with open_writer(folder / "clip", meta=TableMeta(), dim=4, shard_rows=19) as writer:
        writer.write(X, WHO, KEYS)
    return folder / "clip"


MAKERS = [
    parquet, one_row_group, shards, npz, packed_npz, fortran_npz, npy, shuffled_npy, clip_retrieval,
]  # fmt: skip


@pytest.fixture(scope="module", params=MAKERS, ids=lambda made: made.__name__)
def table(request, tmp_path_factory):
    return open_table(request.param(tmp_path_factory.mktemp(request.param.__name__)))


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edges=st.tuples(st.integers(0, ROWS), st.integers(0, ROWS)).map(sorted), size=st.integers(1, 60))
def test_a_range_is_a_slice(table, edges, size):
    start, stop = edges
    batches = list(table.batches(size, start=start, stop=stop))
    assert all(0 < len(batch) <= size for batch in batches)
    starts = np.cumsum([start, *(len(batch) for batch in batches)])
    assert [batch.start for batch in batches] == starts[:-1].tolist()
    assert starts[-1] == stop
    if not batches:
        return
    np.testing.assert_array_equal(np.concatenate([batch.vectors for batch in batches]), X[start:stop])
    assert np.concatenate([batch.sample for batch in batches]).tolist() == KEYS[start:stop]
    assert np.concatenate([batch.identity for batch in batches]).tolist() == WHO[start:stop]
    if table.carried_schema is not None and "n" in table.carried_schema.names:
        numbers = [n for batch in batches for n in batch.carried.column("n").to_pylist()]
        assert numbers == list(range(start, stop))


def test_without_a_stop_it_goes_to_the_end(table):
    assert sum(len(batch) for batch in table.batches(8, start=50)) == 3
    assert sum(len(batch) for batch in table.batches(8)) == ROWS


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (4, 3), (0, ROWS + 1), (ROWS + 1, None)])
def test_rows_that_are_not_there(table, start, stop):
    with pytest.raises(UsageError, match=rf"but the table has rows 0 to {ROWS}"):
        list(table.batches(8, start=start, stop=stop))
    with pytest.raises(UsageError, match="were asked for"):
        table.pieces(start, stop)


def test_pieces_cover_the_range_once(table):
    whole = table.pieces()
    vectors = [piece for piece in whole if piece.path.suffix != ".parquet" or table.path.suffix != ".npy"]
    assert all(piece.path.is_file() and piece.start < piece.stop for piece in whole)
    per_file = {}
    for cut in (0, 20, 33):
        for piece in (*table.pieces(0, cut), *table.pieces(cut)):
            per_file.setdefault((cut, piece.path), []).append((piece.start, piece.stop))
    for parts in per_file.values():
        assert [a[1] for a in parts[:-1]] == [b[0] for b in parts[1:]]
    assert {path for _, path in per_file} == {piece.path for piece in vectors} | {piece.path for piece in whole}


def test_pieces_of_shards_name_rows_of_the_file(tmp_path):
    pieces = open_table(shards(tmp_path)).pieces(18, 42)
    assert [(p.path.name, p.start, p.stop) for p in pieces] == [
        ("1.parquet", 17, 19),
        ("3.parquet", 0, 21),
        ("4.parquet", 0, 1),
    ]


def test_pieces_of_vectors_with_metadata_name_both(tmp_path):
    names = [(p.path.name, p.start, p.stop) for p in open_table(npy(tmp_path)).pieces(3, 9)]
    assert names == [("t.npy", 3, 9), ("t.parquet", 3, 9)]


def test_row_groups_before_the_range_are_not_decoded(tmp_path):
    path = parquet(tmp_path)
    footer = pa.parquet.ParquetFile(path).metadata
    group = footer.row_group(0)
    begin = min(group.column(i).data_page_offset for i in range(group.num_columns))
    data = bytearray(path.read_bytes())
    end = begin + sum(group.column(i).total_compressed_size for i in range(group.num_columns)) // 2
    data[begin:end] = b"\xff" * (end - begin)
    path.write_bytes(data)
    table = open_table(path)
    with pytest.raises((FormatError, DataError)):
        list(table.batches())
    assert sum(len(batch) for batch in table.batches(5, start=7)) == ROWS - 7


def test_bad_rows_in_a_range_are_named_by_their_number_in_the_whole_table(tmp_path):
    who = [*WHO[:40], None, *WHO[41:]]
    path = write_parquet(tmp_path / "t.parquet", X, identity=who, row_group_size=7)
    with pytest.raises(DataError, match="identity is missing in row 40"):
        list(open_table(path).batches(4, start=38))


def test_keys_that_are_row_numbers_count_from_the_beginning(tmp_path):
    path = write_parquet(tmp_path / "t.parquet", X, row_group_size=7)
    batches = open_table(path, identity=None).batches(4, start=9, stop=13)
    assert [key for batch in batches for key in batch.sample.tolist()] == ["9", "10", "11", "12"]


def test_a_file_that_lost_rows_since_it_was_opened(tmp_path):
    table = open_table(parquet(tmp_path))
    write_parquet(tmp_path / "t.parquet", X[:30], sample=KEYS[:30], identity=WHO[:30], n=range(30))
    with pytest.raises(FormatError, match="fewer rows than it had"):
        list(table.batches())
