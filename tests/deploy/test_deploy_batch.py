"""Arrow batches through a projector: the numbers of a table apply, other columns untouched, bad rows named."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import faceblind as fb
from faceblind.data.meta import METADATA_KEY, TableMeta
from faceblind.data.tables import open_table, read_table, write_table
from faceblind.deploy import apply_table
from faceblind.deploy.batch import batch_eraser, erase_batch, erased_schema
from strategies import fingerprint, planted

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

DIM = 32


@pytest.fixture(scope="module")
def made():
    return planted(1, people=20, images=5)


@pytest.fixture(scope="module")
def projector(made):
    return fb.ISP(4).fit(made.vectors, made.identity).projector_


def lists(vectors, kind="fixed"):
    flat = pa.array(np.ascontiguousarray(vectors).reshape(-1))
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
    ends = np.arange(0, flat.__len__() + 1, vectors.shape[1])
    if kind == "list":
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), flat)
    return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), flat)


def batch_of(made, dtype=np.float32, kind="fixed"):
    url = pa.array([f"https://example.org/{i}" for i in range(len(made.vectors))])
    return pa.record_batch({"url": url, "embedding": lists(made.vectors.astype(dtype), kind), "who": made.identity})


def matrix(batch, name="embedding"):
    column = batch.column(batch.schema.get_field_index(name))
    return np.array(column.to_pylist(), np.float32)


@pytest.mark.parametrize("kind", ["fixed", "list", "large"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("compact", [False, True])
def test_vectors_are_replaced_and_all_else_stays(made, projector, kind, dtype, compact):
    batch = batch_of(made, dtype, kind)
    erased = erase_batch(batch, projector, compact=compact)
    assert isinstance(erased, pa.RecordBatch)
    erased.validate(full=True)
    width = 28 if compact else DIM
    value = pa.float16() if dtype == np.float16 else pa.float32()
    assert erased.schema.field("embedding").type == pa.list_(value, width)
    assert erased.schema == erased_schema(batch.schema, projector, compact=compact)
    expected = projector.apply(made.vectors.astype(dtype), compact=compact).vectors
    np.testing.assert_array_equal(matrix(erased), expected.astype(value.to_pandas_dtype()).astype(np.float32))
    for name in ("url", "who"):
        assert erased.column(name).equals(batch.column(name))
    assert matrix(batch).tobytes() == made.vectors.astype(dtype).astype(np.float32).tobytes()


def test_tables_of_several_chunks_and_slices(made, projector):
    batch = batch_of(made)
    table = pa.Table.from_batches([batch.slice(0, 7), batch.slice(7, 40)])
    erased = erase_batch(table, projector)
    assert isinstance(erased, pa.Table)
    np.testing.assert_array_equal(matrix(erased), projector.apply(made.vectors[:47]).vectors)
    empty = erase_batch(batch.slice(0, 0), projector)
    assert (empty.num_rows, empty.schema) == (0, erased.schema)


def test_numbers_are_those_of_apply_table(tmp_path, made, projector):
    write_table(tmp_path / "in.parquet", fb.EmbeddingSet.of(made.vectors, made.identity), dtype="float16")
    apply_table(projector, open_table(tmp_path / "in.parquet"), tmp_path / "out.parquet")
    erased = erase_batch(pq.read_table(tmp_path / "in.parquet"), projector)
    np.testing.assert_array_equal(matrix(erased), read_table(tmp_path / "out.parquet").vectors)
    pq.write_table(erased, tmp_path / "batch.parquet")
    assert open_table(tmp_path / "batch.parquet").meta == open_table(tmp_path / "out.parquet").meta


def test_metadata_names_the_projector_and_keeps_a_batch_from_going_through_twice(made, projector):
    meta = TableMeta(encoder=fingerprint(dim=DIM), synthetic=True)
    batch = batch_of(made).replace_schema_metadata({METADATA_KEY: meta.to_json(), "owner": "me"})
    schema = erase_batch(batch, projector).schema
    assert schema.metadata[b"owner"] == b"me"
    said = TableMeta.from_json(schema.metadata[METADATA_KEY.encode()].decode())
    assert said == TableMeta(encoder=meta.encoder, synthetic=True, projector=projector.digest)
    with pytest.raises(fb.ProjectorError, match=f"already put through the projector {projector.digest[:12]}"):
        erase_batch(batch.replace_schema_metadata(schema.metadata), projector)
    erase_batch(batch.replace_schema_metadata(schema.metadata), projector, force=True)


def test_another_encoder_is_refused(made):
    bound = fb.ISP(4).fit_moments(
        fb.IdentityMoments().partial_fit(made.vectors, made.identity), encoder=fingerprint(dim=DIM)
    )
    meta = TableMeta(encoder=fingerprint(dim=DIM, weights_sha256="cd" * 32))
    batch = batch_of(made).replace_schema_metadata({METADATA_KEY: meta.to_json()})
    with pytest.raises(fb.EncoderError, match="weights_sha256"):
        erase_batch(batch, bound.projector_)


def nan_at(made, row):
    vectors = made.vectors.copy()
    vectors[row, 2] = np.nan
    return pa.record_batch({"embedding": lists(vectors)})


def missing_at(made, row):
    rows = [None if i == row else list(map(float, v)) for i, v in enumerate(made.vectors)]
    return pa.record_batch({"embedding": pa.array(rows, pa.list_(pa.float32(), DIM))})


def short_at(made, row):
    rows = [list(map(float, v))[: 5 if i == row else None] for i, v in enumerate(made.vectors)]
    return pa.record_batch({"embedding": pa.array(rows, pa.list_(pa.float32()))})


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (nan_at, "row 1009 holds NaN or infinity"),
        (missing_at, "the vector of row 1009 is missing"),
        (short_at, "the vector of row 1009 has 5 values where 32 are expected"),
    ],
)
def test_bad_rows_are_named(made, projector, broken, message):
    with pytest.raises(fb.DataError, match=message):
        erase_batch(broken(made, 9), projector, first_row=1000)


def test_what_does_not_fit_float16_is_named(made, projector):
    vectors = made.vectors.copy()
    vectors[9] *= 1e6
    batch = pa.record_batch({"embedding": lists(vectors)})
    with pytest.raises(fb.DataError, match=r"row 9 has the value .*does not fit float16; renormalise"):
        erase_batch(batch, projector, renormalise=False, dtype="float16")
    assert np.isfinite(matrix(erase_batch(batch, projector, dtype="float16"))).all()


@pytest.mark.parametrize(
    ("change", "options", "kind", "message"),
    [
        ({"vector": 1}, {}, fb.DataError, "no embedding column 'embedding'"),
        ({"embedding": [1.0, 2.0]}, {}, fb.DataError, "it must be a list of float16"),
        ({"embedding": "short"}, {}, fb.ProjectorError, "for vectors of 32 features, 'embedding' has 5"),
        ({}, {"dtype": "float64"}, fb.UsageError, "stored as float16 or float32, got 'float64'"),
    ],
)
def test_columns_that_do_not_fit(made, projector, change, options, kind, message):
    batch = batch_of(made)
    if "vector" in change:
        batch = batch.rename_columns(["url", "vector", "who"])
    elif change.get("embedding") == "short":
        batch = pa.record_batch({"embedding": lists(made.vectors[:, :5])})
    elif change:
        batch = pa.record_batch(change)
    with pytest.raises(kind, match=message):
        erase_batch(batch, projector, **options)


def test_an_eraser_travels_by_pickle_and_reads_its_file_once_in_a_process(tmp_path, made, projector, monkeypatch):
    projector.save(tmp_path / "p.safetensors")
    monkeypatch.chdir(tmp_path)
    eraser = batch_eraser("p.safetensors", compact=True)
    monkeypatch.chdir("/")
    sent = pickle.dumps(eraser)
    assert len(sent) < 1_000
    loads = []
    plain = fb.Projector.load
    monkeypatch.setattr(fb.Projector, "load", lambda path: loads.append(path) or plain(path))
    expected = erase_batch(batch_of(made), projector, compact=True)
    for _ in range(3):
        there = pickle.loads(sent)
        assert there(batch_of(made)).equals(expected)
    assert len(loads) == 1
    assert (there.dim, there.schema(batch_of(made).schema)) == (28, expected.schema)


def test_a_projector_itself_travels_as_well(made, projector):
    there = pickle.loads(pickle.dumps(batch_eraser(projector)))
    assert there(batch_of(made)).equals(erase_batch(batch_of(made), projector))


def test_another_file_in_a_workers_place_is_refused(tmp_path, made, projector):
    projector.save(tmp_path / "p.safetensors")
    eraser = batch_eraser(tmp_path / "p.safetensors")
    fb.ISP(3).fit(made.vectors, made.identity).projector_.save(tmp_path / "p.safetensors")
    with pytest.raises(fb.ProjectorError, match=rf"holds the projector .* here, but {projector.digest[:12]} was meant"):
        eraser(batch_of(made))
    with pytest.raises(fb.ProjectorError, match="nowhere"):
        batch_eraser(tmp_path / "nowhere.safetensors")


def test_partitions_for_spark_hold_plain_lists_and_count_rows_over_all_batches(made, projector):
    eraser = batch_eraser(projector)
    batch = batch_of(made)
    parts = list(eraser.for_spark([batch.slice(0, 40), batch.slice(40)]))
    assert parts[0].schema.field("embedding").type == pa.list_(pa.float32())
    assert parts[0].schema.names == batch.schema.names
    np.testing.assert_allclose(np.concatenate([matrix(p) for p in parts]), matrix(eraser(batch)), atol=1e-6)
    with pytest.raises(fb.DataError, match="row 109 holds NaN"):
        list(eraser.for_spark([batch.select(["embedding"]), nan_at(made, 9)]))


@pytest.mark.parametrize("chunked", [False, True])
def test_a_column_alone(made, projector, chunked):
    column = lists(made.vectors)
    given = pa.chunked_array([column[:30], column[30:]]) if chunked else column
    erased = batch_eraser(projector).column(given)
    assert isinstance(erased, pa.FixedSizeListArray)
    np.testing.assert_array_equal(np.array(erased.to_pylist(), np.float32), projector.apply(made.vectors).vectors)
