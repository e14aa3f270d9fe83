"""Rewriting any store: interruptions at every point, changes underneath, refusals; on a store in memory."""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stores_help import DIM, RANK, MemoryStore, meta, projector_of, vectors_of

import faceblind as fb
from faceblind.data.meta import TableMeta
from faceblind.deploy.stores import Rows, Store, StoreGoneError, rewrite
from faceblind.deploy.stores.lock import file_lock
from faceblind.deploy.stores.meta import meta_in_text
from faceblind.deploy.stores.record import WRITTEN, Record, add_checksums, checksum_of
from strategies import fingerprint

PROJECTOR = projector_of()
VECTORS = vectors_of(40)


def store_of(n: int = 40, **source: object) -> MemoryStore:
    return MemoryStore({7 * i + 3: VECTORS[i] for i in range(n)}, **{"meta": meta()} | source)


def rows_of(held: dict) -> np.ndarray:
    return np.array([held[key] for key in sorted(held)])


def test_a_store_in_memory_is_a_store():
    store: Store = store_of()
    assert store.describe().rows == 40


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("batch_rows", [1, 7, 40, 1000])
def test_the_target_holds_what_the_projector_gives(batch_rows, compact):
    store = store_of()
    seen = []
    report = rewrite(
        store,
        PROJECTOR,
        batch_rows=batch_rows,
        compact=compact,
        progress=lambda done, total: seen.append((done, total)),
    )
    applied = PROJECTOR.apply(VECTORS, compact=compact)
    np.testing.assert_allclose(rows_of(store.clean), applied.vectors, atol=1e-6)
    assert (report.rows, report.written, report.resumed, report.verified) == (40, 40, False, True)
    assert report.dim == (DIM - RANK if compact else DIM)
    assert report.energy_kept == pytest.approx(applied.energy_kept.mean())
    assert report.cautions == ()
    assert not report.behind.any
    assert seen[-1] == (40, 40)


def test_the_record_says_what_was_done():
    store = store_of()
    report = rewrite(store, PROJECTOR, dtype="float16")
    record = Record.from_json(store.text)
    assert record.meta == TableMeta(encoder=fingerprint(dim=DIM), projector=PROJECTOR.digest)
    assert (record.dtype, record.rows, record.source, record.status) == ("float16", 40, "memory", "complete")
    assert record.checksum == report.checksum == checksum_of(sorted(store.clean), rows_of(store.clean))
    assert meta_in_text(store.text, "here") == record.meta
    assert Record.from_json(record.to_json()) == record


@given(point=st.integers(1, 60), after=st.booleans(), second=st.integers(1, 60), batch_rows=st.sampled_from([3, 8, 50]))
@settings(max_examples=60)
def test_wherever_the_store_goes_away_a_rerun_ends_with_the_same(point, after, second, batch_rows):
    calm = store_of()
    rewrite(calm, PROJECTOR, batch_rows=batch_rows)
    store = store_of()
    for fail_at in ((point, after), (second, not after)):
        store.fail_at, store.operations = fail_at, 0
        with contextlib.suppress(StoreGoneError):  # or the run ended before it came to that operation
            rewrite(store, PROJECTOR, batch_rows=batch_rows)
    store.fail_at = None
    report = rewrite(store, PROJECTOR, batch_rows=batch_rows)
    assert rows_of(store.clean).tobytes() == rows_of(calm.clean).tobytes()
    assert store.text == calm.text
    assert report.rows == 40


@given(data=st.data(), point=st.integers(1, 80))
@settings(max_examples=60)
def test_changes_in_the_source_are_picked_up_even_if_that_run_dies(data, point):
    store = store_of()
    rewrite(store, PROJECTOR, batch_rows=9)
    for key in data.draw(st.lists(st.integers(0, 300), max_size=6)):
        store.raw[key] = data.draw(st.sampled_from([None, *VECTORS[:5]]))
    for key in data.draw(st.lists(st.sampled_from(sorted(store.raw)), max_size=4)):
        store.raw.pop(key, None)
    store.fail_at, store.operations = (point, False), 0
    try:
        rewrite(store, PROJECTOR, batch_rows=6)
    except StoreGoneError:
        store.fail_at = None
        rewrite(store, PROJECTOR, batch_rows=11)
    full = {key: vector for key, vector in store.raw.items() if vector is not None}
    assert sorted(store.clean) == sorted(full)
    np.testing.assert_allclose(rows_of(store.clean), PROJECTOR.apply(rows_of(full)).vectors, atol=1e-6)
    record = Record.from_json(store.text)
    assert record.checksum == checksum_of(sorted(store.clean), rows_of(store.clean))
    assert (record.status, record.empty) == ("complete", len(store.raw) - len(full))


def test_rows_that_change_during_the_run_are_reported_and_then_written():
    store = store_of()

    def meddle(done: int, _total: int) -> None:
        if done == 40 and 1 not in store.raw:
            store.raw |= {1: VECTORS[1], 3: VECTORS[9]}
            del store.raw[10]

    report = rewrite(store, PROJECTOR, batch_rows=10, progress=meddle)
    assert (report.behind.missing, report.behind.changed, report.behind.extra) == (1, 1, 1)
    assert "1 new, 1 changed, 1 gone, among them 1, 3, 10" in report.cautions[0]
    assert report.verified
    again = rewrite(store, PROJECTOR, batch_rows=10)
    assert again.written == 2
    assert again.cautions == ()


def test_without_verification_a_grown_source_is_noticed_by_its_count():
    store = store_of()
    report = rewrite(store, PROJECTOR, verify=False, progress=lambda *_: store.raw.update({1: VECTORS[0]}))
    assert not report.verified
    assert "40 rows at the start and has 41 now" in report.cautions[0]


@pytest.mark.parametrize(
    "damage",
    [
        lambda clean: clean.update({10: clean[10] + np.float32(0.01)}),
        lambda clean: clean.update({10: np.nextafter(clean[10], np.float32(2))}),  # less than rounding may differ
        lambda clean: clean.pop(10),
        lambda clean: clean.update({11: clean[10]}),
        lambda clean: clean.update({10: clean[17], 17: clean[10]}),
    ],
)
def test_a_row_that_was_altered_before_verification_is_found_and_a_rerun_mends_it(damage):
    store = store_of()
    rewrite(store, PROJECTOR, verify=False)
    right = rows_of(store.clean).copy()
    damage(store.clean)
    with pytest.raises(fb.DataError, match=r"does not hold what was written to it.*run again"):
        rewrite(store, PROJECTOR)
    rewrite(store, PROJECTOR)
    np.testing.assert_allclose(rows_of(store.clean), right, atol=2e-7)
    assert len(store.clean) == 40


def test_a_row_deleted_with_its_clean_vector_is_gone_and_not_damage():
    store = store_of()
    store.shares_rows = True
    rewrite(store, PROJECTOR, verify=False)
    del store.raw[10], store.clean[10]
    report = rewrite(store, PROJECTOR)
    assert report.behind.extra == 1
    assert report.rows == 39
    assert report.verified


def test_rows_without_vectors_or_with_nothing_left_get_none_and_are_counted():
    store = store_of()
    store.raw[10] = None
    store.raw[17] = PROJECTOR.basis[:, 0].astype(np.float32)
    report = rewrite(store, PROJECTOR, batch_rows=5)
    assert (report.rows, report.empty, report.emptied, report.emptied_examples) == (38, 1, 1, ("17",))
    assert not {10, 17} & store.clean.keys()
    assert all(np.linalg.norm(vector) > 0.99 for vector in store.clean.values())
    assert any("1 rows had nothing left and get no vector, among them 17" in said for said in report.cautions)


def test_a_batch_without_any_vector_is_passed():
    store = store_of()
    for key in sorted(store.raw)[5:15]:
        store.raw[key] = None
    assert rewrite(store, PROJECTOR, batch_rows=5).rows == 30


def test_half_precision_is_what_was_rounded():
    store = store_of()
    rewrite(store, PROJECTOR, dtype="float16")
    np.testing.assert_array_equal(rows_of(store.clean), PROJECTOR.apply(VECTORS).vectors.astype(np.float16))


@pytest.mark.parametrize(
    ("vector", "options", "said"),
    [
        (np.full(DIM, np.nan, np.float32), {}, "row 10 holds NaN or infinity"),
        (np.full(DIM, np.inf, np.float32), {}, "row 10 holds NaN or infinity"),
        (1e6 * VECTORS[0], {"dtype": "float16", "renormalise": False}, "row 10 is too large for float16"),
    ],
)
def test_bad_rows_are_named_by_their_key_and_what_came_before_is_kept(vector, options, said):
    store = store_of()
    store.raw[10] = vector
    with pytest.raises(fb.DataError, match=said):
        rewrite(store, PROJECTOR, batch_rows=1, **options)
    assert sorted(store.clean) == [3]
    store.raw[10] = VECTORS[1]
    assert rewrite(store, PROJECTOR, **options).written == 39


def test_repeated_keys_are_named():
    store = store_of()
    store.read = lambda _after, _rows: Rows([1, 2, 1], VECTORS[:3], last=2)
    with pytest.raises(fb.DataError, match="keys must be unique; row 1 comes more than once"):
        rewrite(store, PROJECTOR)


def test_other_settings_than_begun_with_are_refused():
    store = store_of()
    rewrite(store, PROJECTOR)
    with pytest.raises(fb.UsageError, match=r"memory_clean was begun with other settings \(dim 24, now 20; compact"):
        rewrite(store, PROJECTOR, compact=True)
    with pytest.raises(fb.UsageError, match="dtype 'float32', now 'float16'"):
        rewrite(store, PROJECTOR, dtype="float16")
    with pytest.raises(fb.UsageError, match="projector '"):
        rewrite(store, projector_of(synthetic=True))
    with pytest.raises(fb.UsageError, match="memory_clean exists: resume"):
        rewrite(store, PROJECTOR, resume=False)


def test_a_source_that_is_clean_already_is_refused_unless_forced():
    store = store_of(meta=meta(projector=PROJECTOR.digest))
    with pytest.raises(fb.ProjectorError, match="already put through this projector"):
        rewrite(store, PROJECTOR)
    assert "already put through this projector; forced" in rewrite(store, PROJECTOR, force=True).cautions[0]
    with pytest.raises(fb.ProjectorError, match=r"already put through another projector \(abab"):
        rewrite(store_of(meta=meta(projector="ab" * 32)), PROJECTOR)


def test_another_encoder_is_refused_and_an_unknown_one_is_said():
    other = TableMeta(encoder=fingerprint(dim=DIM, weights_sha256="cd" * 32))
    with pytest.raises(fb.EncoderError, match="weights_sha256"):
        rewrite(store_of(meta=other), PROJECTOR)
    report = rewrite(store_of(meta=TableMeta()), PROJECTOR)
    assert "does not say which encoder" in report.cautions[0]


@pytest.mark.parametrize(
    ("source", "options", "error", "said"),
    [
        ({"dim": 9}, {}, fb.ProjectorError, "24 features, memory has 9"),
        ({"rows": 0}, {}, fb.DataError, "no rows"),
        ({"scales": True}, {"renormalise": False}, fb.UsageError, "scales vectors to unit length by itself"),
        ({}, {"batch_rows": 0}, fb.UsageError, "at least one row"),
    ],
)
def test_what_cannot_be_rewritten_is_refused_before_anything_is_made(source, options, error, said):
    store = store_of(**source)
    with pytest.raises(error, match=said):
        rewrite(store, PROJECTOR, **options)
    assert store.text is None


def test_a_store_that_rounds_anew_is_judged_by_its_rows():
    store = store_of(exact=False)
    rewrite(store, PROJECTOR, verify=False)
    store.clean = {key: np.nextafter(vector, np.float32(2)) for key, vector in store.clean.items()}
    assert rewrite(store, PROJECTOR).verified
    store.text = dataclasses.replace(Record.from_json(store.text), status=WRITTEN).to_json()
    store.clean[10] = store.clean[17]
    with pytest.raises(fb.DataError, match="row 10"):
        rewrite(store, PROJECTOR)


@given(st.permutations(range(12)), st.integers(0, 12))
def test_the_checksum_knows_rows_and_not_their_order(order, cut):
    vectors = VECTORS[:12]
    whole = checksum_of(range(12), vectors)
    a, b = order[:cut], order[cut:]
    assert add_checksums(checksum_of(a, vectors[a]), checksum_of(b, vectors[b])) == whole
    swapped = [1, 0, *range(2, 12)]
    assert checksum_of(swapped, vectors) != whole
    assert checksum_of(range(12), vectors.astype(">f4")) == whole


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "faceblind.rewrite/1"}', '{"format": "other"}'])
def test_a_damaged_record_is_said_in_one_line(text):
    with pytest.raises(fb.FormatError, match="drop the target and run again"):
        Record.from_json(text)


def test_metadata_of_others_is_no_metadata():
    assert meta_in_text(None, "x") == meta_in_text("a comment", "x") == meta_in_text('{"a": 1}', "x") == TableMeta()
    assert meta_in_text("[1]", "x") == TableMeta()
    assert meta_in_text(meta().to_json(), "x") == meta()
    with pytest.raises(fb.FormatError, match=r"comment here: .*damaged"):
        meta_in_text('{"faceblind": {"encoder": 3, "synthetic": false, "projector": null}}', "comment here")


def test_a_lock_is_kept_from_others_and_taken_from_the_dead(tmp_path):
    path = tmp_path / "lock"
    with (
        file_lock(path, "it"),
        pytest.raises(StoreGoneError, match=r"another run is writing it \(process \d+ on"),
        file_lock(path, "it"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []
    import socket

    path.write_text(f'{{"host": "{socket.gethostname()}", "pid": 999999999, "token": "x"}}')
    with file_lock(path, "it"):
        assert path.exists()
    path.write_text('{"host": "elsewhere.invalid", "pid": 1, "token": "x"}')
    with (
        pytest.raises(StoreGoneError, match=r"process 1 on elsewhere.invalid.*if it is dead, delete"),
        file_lock(path, "it"),
    ):
        pass
    with pytest.raises(fb.OutputError, match="cannot write"), file_lock(tmp_path / "no" / "lock", "it"):
        pass
