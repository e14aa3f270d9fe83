"""LanceDB: tables on disk, runs that die, search against brute force."""

from __future__ import annotations

import random

import numpy as np
import pytest
from stores_help import DIM, KILLED, meta, projector_of, run_and_die, vectors_of

import faceblind as fb
from faceblind.data.meta import METADATA_KEY
from faceblind.deploy.index_meta import index_meta
from faceblind.deploy.stores import LanceStore, StoreGoneError, rewrite

PROJECTOR = projector_of()
TARGET = f"items_clean_{PROJECTOR.digest[:8]}"


@pytest.fixture
def lance():
    pytest.importorskip("pyarrow")
    return pytest.importorskip("lancedb")


def vector_array(vectors):
    import pyarrow as pa

    flat = pa.array(np.ascontiguousarray(vectors).ravel())
    return pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])


def fill(lance, folder, n=60, *, name="items", dtype=np.float32, keys=None, vectors=None, metadata=None):
    """A table in shuffled order of keys, in two fragments."""
    import pyarrow as pa

    vectors = vectors_of(n).astype(dtype) if vectors is None else vectors
    order = np.random.default_rng(3).permutation(n)
    keys = np.arange(n) * 3 if keys is None else keys
    table = pa.table(
        {
            "id": pa.array([keys[i] for i in order]),
            "vector": vector_array(vectors[order]) if isinstance(vectors, np.ndarray) else pa.array([vectors[i] for i in order]),
            "note": [f"note {i}" for i in order],
        }
    )  # fmt: skip
    made = lance.connect(folder).create_table(name, schema=table.schema.with_metadata(metadata))
    made.add(table.slice(0, n // 2))
    made.add(table.slice(n // 2))
    return keys, vectors


def run(folder, **options):
    opening = {name: options.pop(name) for name in ("table", "key", "target", "column") if name in options}
    with LanceStore.open(folder, PROJECTOR, **{"table": "items"} | opening) as store:
        return rewrite(store, PROJECTOR, **{"batch_rows": 16} | options)


def contents(lance, folder, name):
    table = lance.connect(folder).open_table(name).search().limit(None).to_arrow()
    found = zip(table["id"].to_pylist(), table["vector"].to_pylist(), table["note"].to_pylist(), strict=True)
    return {key: (None if vector is None else np.array(vector, dtype=np.float64), note) for key, vector, note in found}


def files(folder, name="items"):
    return {path.relative_to(folder): path.read_bytes() for path in sorted((folder / f"{name}.lance").rglob("*")) if path.is_file()}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("text", [False, True])
def test_the_new_table_has_the_rows_of_the_old_one_with_clean_vectors(lance, tmp_path, dtype, text):
    keys = [f"it's {'aB'[i % 2]}é{i}" for i in range(60)] if text else None
    keys, vectors = fill(lance, tmp_path, dtype=dtype, keys=keys)
    before = files(tmp_path)
    report = run(tmp_path)
    assert files(tmp_path) == before
    clean = contents(lance, tmp_path, TARGET)
    assert report.dtype == ("float16" if dtype == np.float16 else "float32")
    expected = PROJECTOR.apply(vectors).vectors.astype(report.dtype)
    for key, wanted, i in zip(keys, expected, range(60), strict=True):
        np.testing.assert_allclose(clean[key][0], wanted, atol=1e-3 if dtype == np.float16 else 1e-6)
        assert clean[key][1] == f"note {i}"
    assert (report.rows, report.written, report.verified) == (60, 60, True)
    assert run(tmp_path).written == 0


def test_search_on_the_new_table_is_brute_force_on_the_projection(lance, tmp_path):
    keys, vectors = fill(lance, tmp_path)
    run(tmp_path)
    clean = PROJECTOR.apply(vectors).vectors
    table = lance.connect(tmp_path).open_table(TARGET)
    for query in PROJECTOR.apply(vectors_of(5, seed=3)).vectors:
        found = table.search(query).distance_type("cosine").limit(10).to_arrow()["id"].to_pylist()
        assert found == [keys[i] for i in np.argsort(-clean @ query)[:10]]


def test_provenance_travels_and_a_clean_table_is_refused(lance, tmp_path):
    fill(lance, tmp_path, metadata={METADATA_KEY: meta(synthetic=True).to_json(), "embedding_functions": "[]"})
    assert run(tmp_path).cautions == ()
    known = meta(synthetic=True, projector=PROJECTOR.digest)
    assert index_meta(tmp_path, table=TARGET) == known
    table = lance.connect(tmp_path).open_table(TARGET)
    assert index_meta(table) == known
    assert index_meta(lance.connect(tmp_path), table=TARGET) == known
    assert table.schema.metadata.keys() == {METADATA_KEY.encode()}  # not the encoder that embeds queries raw
    with pytest.raises(fb.ProjectorError, match="already put through this projector"):
        run(tmp_path, table=TARGET, target="again")
    assert index_meta(tmp_path, table="items") == meta(synthetic=True)


def test_compact_half_precision_and_undo(lance, tmp_path):
    _, vectors = fill(lance, tmp_path)
    report = run(tmp_path, compact=True, dtype="float16")
    field = lance.connect(tmp_path).open_table(TARGET).schema.field("vector").type
    assert str(field) == f"fixed_size_list<item: halffloat>[{PROJECTOR.compact_dim}]"
    expected = PROJECTOR.apply(vectors, compact=True).vectors.astype(np.float16)
    np.testing.assert_allclose(contents(lance, tmp_path, TARGET)[6][0], expected[2], atol=1e-3)
    with pytest.raises(fb.UsageError, match="begun with other settings"):
        run(tmp_path)
    exec(report.undo[0], {"lancedb": lance})
    assert run(tmp_path).dim == DIM


def test_rows_that_are_new_changed_deleted_or_without_vector(lance, tmp_path):
    import pyarrow as pa

    keys, vectors = fill(lance, tmp_path)
    run(tmp_path)
    raw = lance.connect(tmp_path).open_table("items")
    raw.add(pa.table({"id": [-5, 999, 1000], "vector": pa.array([vectors[0].tolist(), vectors[1].tolist(), None], pa.list_(pa.float32(), DIM)), "note": ["a", "b", "c"]}))  # fmt: skip
    raw.update(where="id = 9", values={"vector": vectors[0].tolist()})
    raw.delete("id = 12")
    report = run(tmp_path, batch_rows=7)
    assert (report.written, report.rows, report.empty, report.verified) == (3, 61, 1, True)
    clean = contents(lance, tmp_path, TARGET)
    assert sorted(clean) == sorted({-5, 999, *keys} - {12})
    np.testing.assert_allclose(clean[9][0], clean[0][0], atol=1e-6)


def test_a_row_altered_before_verification_is_found_and_mended(lance, tmp_path):
    fill(lance, tmp_path)
    run(tmp_path, verify=False)
    right = contents(lance, tmp_path, TARGET)
    lance.connect(tmp_path).open_table(TARGET).update(where="id = 33", values={"vector": right[0][0].tolist()})
    with pytest.raises(fb.DataError, match=r"does not hold what was written to it \(row 33\)"):
        run(tmp_path)
    assert run(tmp_path).written == 1
    np.testing.assert_array_equal(contents(lance, tmp_path, TARGET)[33][0], right[33][0])


def test_killed_at_random_points_and_run_again_it_ends_with_the_same(lance, tmp_path):
    fill(lance, tmp_path / "calm", 120)
    fill(lance, tmp_path / "torn", 120)
    before = files(tmp_path / "torn")
    calm = run(tmp_path / "calm")
    chance = random.Random(11)
    settings = {"place": str(tmp_path / "torn"), "table": "items", "batch_rows": 16}
    for seed in range(3):
        assert run_and_die("LanceStore", settings, chance.randrange(1, 10), seed) == KILLED
    report = run(tmp_path / "torn")
    assert files(tmp_path / "torn") == before
    ours, theirs = contents(lance, tmp_path / "torn", TARGET), contents(lance, tmp_path / "calm", TARGET)
    assert ours.keys() == theirs.keys()
    assert all((ours[key][0] == theirs[key][0]).all() and ours[key][1] == theirs[key][1] for key in ours)
    assert lance.connect(tmp_path / "torn").open_table(TARGET).count_rows() == 120
    assert report.checksum == calm.checksum
    assert not list((tmp_path / "torn").glob("*lock"))


def test_an_append_that_was_not_recorded_is_not_there_twice(lance, tmp_path, monkeypatch):
    fill(lance, tmp_path)
    kept = LanceStore._keep

    def fail(self, record):
        if '"rows": 32' in record:
            raise RuntimeError("disk is gone\nand more")
        kept(self, record)

    monkeypatch.setattr(LanceStore, "_keep", fail)
    with pytest.raises(StoreGoneError, match="disk is gone; 16 clean rows are stored and nothing is lost") as caught:
        run(tmp_path)
    assert "\n" not in str(caught.value)
    assert lance.connect(tmp_path).open_table(TARGET).count_rows() == 32
    monkeypatch.undo()
    report = run(tmp_path)
    assert (report.rows, report.written) == (60, 44)
    assert lance.connect(tmp_path).open_table(TARGET).count_rows() == 60


def test_a_second_run_on_one_target_is_refused(lance, tmp_path):
    fill(lance, tmp_path)
    refused = []

    def second(_done, _total):
        if not refused:
            with pytest.raises(StoreGoneError, match=f"another run is writing {TARGET}"):
                run(tmp_path)
            refused.append(True)

    assert run(tmp_path, progress=second).rows == 60
    assert refused


def test_other_vectors_are_copied_and_said(lance, tmp_path):
    import pyarrow as pa

    fill(lance, tmp_path)
    table = lance.connect(tmp_path).open_table("items").search().limit(None).to_arrow()
    table = table.append_column("text_vector", pa.array([[1.0, 2.0]] * 60, pa.list_(pa.float32(), 2)))
    lance.connect(tmp_path).create_table("both", table)
    assert (
        "the columns text_vector also hold vectors and are copied as they are"
        in run(tmp_path, table="both").cautions[0]
    )
    assert "text_vector" in lance.connect(tmp_path).open_table(f"both_clean_{PROJECTOR.digest[:8]}").schema.names


def test_rows_and_keys_that_cannot_be_used_are_named(lance, tmp_path):
    lists = [vector.tolist() for vector in vectors_of(20)]
    fill(lance, tmp_path, 20, name="short", vectors=[*lists[:19], [1.0, 2.0]])
    with pytest.raises(fb.DataError, match=f"the vector of row 57 has 2 values where {DIM} are expected"):
        run(tmp_path, table="short")
    fill(lance, tmp_path, 20, name="holes", vectors=[[None, *lists[0][1:]], *lists[1:]])
    with pytest.raises(fb.DataError, match="the vector of row 0 has a missing value"):
        run(tmp_path, table="holes")
    fill(lance, tmp_path, 20, name="twice", keys=[*range(19), 4])
    with pytest.raises(fb.DataError, match="the key 'id' is not unique; repeated are 4"):
        run(tmp_path, table="twice")
    fill(lance, tmp_path, 20, name="missing", keys=[*range(19), None])
    with pytest.raises(fb.DataError, match="1 rows have no 'id'"):
        run(tmp_path, table="missing")
    fill(lance, tmp_path, 20, name="floats", keys=[i / 2 for i in range(20)])
    with pytest.raises(fb.DataError, match="the key 'id' is double; it must be a column of integers or text"):
        run(tmp_path, table="floats")


def test_names_that_are_not_there_or_not_ours(lance, tmp_path):
    fill(lance, tmp_path)
    with pytest.raises(fb.DataError, match="not a folder"):
        run(tmp_path / "nowhere")
    with pytest.raises(fb.DataError, match="no table 'photos'; its tables: items"):
        run(tmp_path, table="photos")
    with pytest.raises(fb.DataError, match="no column 'embedding'; it has id, vector, note"):
        run(tmp_path, column="embedding")
    with pytest.raises(fb.DataError, match="no column 'nr' to name rows by"):
        run(tmp_path, key="nr")
    with pytest.raises(fb.DataError, match="'note' holds string; it must be a list"):
        run(tmp_path, column="note")
    with pytest.raises(fb.UsageError, match="the raw table itself"):
        run(tmp_path, target="items")
    fill(lance, tmp_path, name="theirs")
    with pytest.raises(fb.OutputError, match="theirs is there and was not made by faceblind"):
        run(tmp_path, target="theirs")
