"""Qdrant in local mode: the same client calls as with a server, which is not at hand here."""

from __future__ import annotations

import gc
import random
import socket
import uuid
import warnings
from contextlib import closing

import numpy as np
import pytest
from stores_help import DIM, KILLED, meta, projector_of, run_and_die, vectors_of

import faceblind as fb
from faceblind.deploy.index_meta import index_meta
from faceblind.deploy.stores import QdrantStore, StoreGoneError, rewrite
from faceblind.deploy.stores.qdrant_place import connect_qdrant, shown

PROJECTOR = projector_of()
TARGET = f"items_clean_{PROJECTOR.digest[:8]}"
IDS = [i if i % 2 else str(uuid.UUID(int=((i * 7919) % 1009 + 1) << 100)) for i in range(1, 200)]


@pytest.fixture
def qdrant():
    return pytest.importorskip("qdrant_client")


def params(qdrant, distance="COSINE", **more):
    return qdrant.models.VectorParams(size=DIM, distance=qdrant.models.Distance[distance], **more)


def fill(qdrant, client, n=40, *, name="items", distance="COSINE", scale=1.0):
    vectors = vectors_of(n) * np.float32(scale)
    client.create_collection(name, vectors_config=params(qdrant, distance))
    points = [
        qdrant.models.PointStruct(id=i, vector=v.tolist(), payload={"note": f"of {i}"})
        for i, v in zip(IDS, vectors, strict=False)
    ]
    client.upsert(name, points)
    return vectors


@pytest.fixture
def client(qdrant):
    made = qdrant.QdrantClient(":memory:")
    yield made
    made.close()


def run(client, **options):
    opening = {name: options.pop(name) for name in ("collection", "column", "target", "take_over") if name in options}
    store = QdrantStore(client, PROJECTOR, **{"collection": "items"} | opening)
    return rewrite(store, PROJECTOR, **{"batch_rows": 16} | options)


def contents(client, name):
    points, _ = client.scroll(name, limit=1000, with_vectors=True, with_payload=True)
    return {point.id: (point.vector, point.payload) for point in points}


@pytest.mark.parametrize("distance", ["COSINE", "DOT", "EUCLID"])
@pytest.mark.parametrize("batch_rows", [1, 16, 1000])
def test_the_new_collection_has_the_points_of_the_old_one_with_clean_vectors(qdrant, client, distance, batch_rows):
    vectors = fill(qdrant, client, distance=distance, scale=3)
    before = contents(client, "items")
    report = run(client, batch_rows=batch_rows)
    assert contents(client, "items") == before
    clean = contents(client, TARGET)
    expected = PROJECTOR.apply(vectors).vectors
    assert clean.keys() == before.keys()
    np.testing.assert_allclose([clean[i][0] for i in IDS[:40]], expected, atol=1e-6)
    assert all(clean[i][1] == {"note": f"of {i}"} for i in clean)
    assert client.get_collection(TARGET).config.params.vectors.distance.name == distance
    assert (report.rows, report.written, report.verified) == (40, 40, True)
    assert run(client).written == 0


@pytest.mark.parametrize("distance", ["COSINE", "DOT"])
def test_search_in_the_new_collection_is_brute_force_on_the_projection(qdrant, client, distance):
    vectors = fill(qdrant, client, distance=distance)
    run(client)
    clean = PROJECTOR.apply(vectors).vectors
    for query in PROJECTOR.apply(vectors_of(5, seed=3)).vectors:
        found = [point.id for point in client.query_points(TARGET, query.tolist(), limit=10).points]
        assert found == [IDS[i] for i in np.argsort(-clean @ query)[:10]]


def test_named_vectors_others_are_copied_and_said(qdrant, client):
    models = qdrant.models
    client.create_collection(
        "items",
        vectors_config={
            "face": params(qdrant, "DOT"),
            "text": models.VectorParams(size=2, distance=models.Distance.DOT),
        },
        sparse_vectors_config={"words": models.SparseVectorParams()},
    )
    vectors, words = vectors_of(20), models.SparseVector(indices=[1, 5], values=[0.5, 2.0])
    points = []
    for i, vector in enumerate(vectors):
        face = {} if i == 7 else {"face": vector.tolist()}
        points.append(models.PointStruct(id=IDS[i], vector={"text": [i, 1.0], "words": words} | face, payload={}))
    client.upsert("items", points)
    with pytest.raises(fb.DataError, match="has the vectors face, text: say which with --column"):
        run(client)
    with pytest.raises(fb.DataError, match="no vector 'faces'; it has face, text"):
        run(client, column="faces")
    report = run(client, column="face", compact=True)
    assert "the vectors text, words are copied as they are" in report.cautions[0]
    assert (report.rows, report.empty) == (19, 1)
    clean = contents(client, TARGET)
    assert IDS[7] not in clean
    np.testing.assert_allclose(clean[IDS[3]][0]["face"], PROJECTOR.apply(vectors, compact=True).vectors[3], atol=1e-6)
    assert clean[IDS[3]][0]["text"] == [3.0, 1.0]
    assert clean[IDS[3]][0]["words"] == words


def test_provenance_is_metadata_and_a_clean_collection_is_refused(qdrant, client):
    fill(qdrant, client)
    import json

    client.update_collection("items", metadata={"faceblind": json.loads(meta().to_json()), "owner": "us"})
    assert run(client).cautions == ()
    assert index_meta(client, table=TARGET) == meta(projector=PROJECTOR.digest)
    assert index_meta(client, table="items") == meta()
    with pytest.raises(fb.ProjectorError, match="already put through this projector"):
        run(client, collection=TARGET, target="again")
    with pytest.raises(fb.DataError, match="no collection 'photos'"):
        index_meta(client, table="photos")


def test_new_changed_and_deleted_points_and_rows_with_nothing_left(qdrant, client):
    vectors = fill(qdrant, client)
    run(client)
    models = qdrant.models
    lost = PROJECTOR.basis[:, 0].tolist()
    changed = {IDS[50]: vectors[3], IDS[51]: vectors[4], IDS[5]: vectors[6], IDS[8]: lost}
    client.upsert(
        "items", [models.PointStruct(id=i, vector=list(map(float, v)), payload={}) for i, v in changed.items()]
    )
    client.delete("items", models.PointIdsList(points=[IDS[20]]))
    report = run(client)
    assert (report.written, report.rows, report.emptied, report.emptied_examples) == (3, 40, 1, ("9",))
    clean = contents(client, TARGET)
    assert clean.keys() == {*IDS[:40], IDS[50], IDS[51]} - {IDS[8], IDS[20]}
    np.testing.assert_allclose(clean[IDS[5]][0], clean[IDS[6]][0], atol=1e-6)


@pytest.mark.parametrize("distance", ["COSINE", "DOT"])
def test_a_point_altered_before_verification_is_found_and_mended(qdrant, client, distance):
    fill(qdrant, client, distance=distance)
    run(client, verify=False)
    right = contents(client, TARGET)
    other = right[IDS[0]][0]
    client.upsert(TARGET, [qdrant.models.PointStruct(id=IDS[9], vector=other, payload={})])
    with pytest.raises(fb.DataError, match=rf"does not hold what was written to it \(row {IDS[9]}\)"):
        run(client)
    assert run(client).written == 1
    np.testing.assert_allclose(contents(client, TARGET)[IDS[9]][0], right[IDS[9]][0], atol=1e-6)
    client.delete(TARGET, qdrant.models.PointIdsList(points=[IDS[1]]))
    assert run(client).written == 1


def test_killed_at_random_points_and_run_again_it_ends_with_the_same(qdrant, tmp_path):
    for name in ("calm", "torn"):
        (tmp_path / name).mkdir()
        made = qdrant.QdrantClient(path=str(tmp_path / name))
        fill(qdrant, made, distance="DOT")
        made.close()

    def finish(name):
        with QdrantStore.open(str(tmp_path / name), PROJECTOR, collection="items") as store:
            return rewrite(store, PROJECTOR, batch_rows=8), contents(store._client, TARGET)

    calm, expected = finish("calm")
    with closing(connect_qdrant(str(tmp_path / "torn"))) as before_client:
        before = contents(before_client, "items")
    chance = random.Random(5)
    settings = {"place": str(tmp_path / "torn"), "collection": "items", "batch_rows": 8}
    for seed in range(3):
        assert run_and_die("QdrantStore", settings, chance.randrange(1, 9), seed) == KILLED
    report, clean = finish("torn")
    assert clean == expected
    assert report.checksum == calm.checksum
    with closing(connect_qdrant(str(tmp_path / "torn"))) as after:
        assert contents(after, "items") == before


def test_a_folder_scales_cosine_vectors_anew_whenever_it_is_opened_which_is_no_damage(qdrant, tmp_path):
    made = qdrant.QdrantClient(path=str(tmp_path))
    fill(qdrant, made)
    made.close()
    for written in (40, 0, 0):
        with QdrantStore.open(str(tmp_path), PROJECTOR, collection="items") as store:
            report = rewrite(store, PROJECTOR)
        assert (report.written, report.verified) == (written, True)
    assert index_meta(tmp_path, table=TARGET).projector == PROJECTOR.digest


def test_a_second_run_is_refused_by_folder_or_by_the_lock_in_the_target(qdrant, client, tmp_path):
    made = qdrant.QdrantClient(path=str(tmp_path))
    fill(qdrant, made)
    assert "already accessed by another" in _refusal(str(tmp_path))
    made.close()
    fill(qdrant, client)
    run(client)
    there = {"host": "elsewhere.invalid", "pid": 12, "token": "x"}
    client.update_collection(TARGET, metadata={"faceblind_lock": there})
    with pytest.raises(StoreGoneError, match=r"process 12 on elsewhere.invalid.*--take-over"):
        run(client)
    assert run(client, take_over=True).verified
    client.update_collection(
        TARGET, metadata={"faceblind_lock": there | {"host": socket.gethostname(), "pid": 999999999}}
    )
    assert run(client).verified
    assert client.get_collection(TARGET).config.metadata["faceblind_lock"] == {}


def _refusal(place):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the client leaves its lock file open when it is refused
        try:
            QdrantStore.open(place, PROJECTOR, collection="items")
        except StoreGoneError as error:
            return str(error)
        finally:
            gc.collect()
    return ""


def test_a_server_that_does_not_answer_is_one_line(qdrant):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"http://user:s3cret@127.0.0.1:{free.getsockname()[1]}"
    with (
        QdrantStore.open(place, PROJECTOR, collection="items") as store,
        pytest.raises(StoreGoneError, match=r"Qdrant at http://127.0.0.1:\d+ failed \(reading about items\)") as caught,
    ):
        rewrite(store, PROJECTOR)
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert shown("/a/folder") == "Qdrant in /a/folder"


def test_a_store_that_goes_away_in_between_is_one_line_and_the_next_run_goes_on(qdrant, client, monkeypatch):
    fill(qdrant, client, distance="DOT")
    upsert, calls = client.upsert, []

    def fail(*args, **kwargs):
        calls.append(1)
        if len(calls) == 3:
            raise qdrant.http.exceptions.ResponseHandlingException(ConnectionError("reset\nby peer"))
        return upsert(*args, **kwargs)

    monkeypatch.setattr(client, "upsert", fail)
    with pytest.raises(StoreGoneError, match="reset by peer; 32 clean rows are stored and nothing is lost"):
        run(client)
    assert run(client).written == 8


def test_collections_that_are_not_there_or_not_ours(qdrant, client, tmp_path):
    fill(qdrant, client)
    fill(qdrant, client, name="theirs")
    with pytest.raises(fb.DataError, match="no collection 'photos'; its collections: items, theirs"):
        run(client, collection="photos")
    with pytest.raises(fb.OutputError, match="theirs is there and was not made by faceblind"):
        run(client, target="theirs")
    with pytest.raises(fb.UsageError, match="the raw collection itself"):
        run(client, target="items")
    with pytest.raises(fb.UsageError, match="scales vectors to unit length by itself"):
        run(client, renormalise=False)
    with pytest.raises(fb.DataError, match="has no name: leave out --column face"):
        run(client, column="face")
    with pytest.raises(fb.DataError, match="neither a URL nor the folder of a local Qdrant"):
        QdrantStore.open(str(tmp_path), PROJECTOR, collection="items")
    many = qdrant.models.MultiVectorConfig(comparator=qdrant.models.MultiVectorComparator.MAX_SIM)
    client.create_collection("tokens", vectors_config=params(qdrant, multivector_config=many))
    with pytest.raises(fb.DataError, match="is a matrix"):
        run(client, collection="tokens")
