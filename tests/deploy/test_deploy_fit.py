"""Fits in shards: the same bits in this process and in others, the same numbers as in one piece, rows named rightly."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import faceblind as fb
from faceblind._local_engine import LocalEngine
from faceblind.data.meta import TableMeta
from faceblind.data.tables import EmbeddingTable, open_table, write_table
from faceblind.deploy import fit, fit_table
from faceblind.deploy.fit import MomentsJob, _Rows
from faceblind.erase.methods import MOMENT_METHODS
from strategies import fingerprint, planted

FORMATS = [".parquet", ".npz", ".npy", ""]
SHARD = 23


@pytest.fixture
def people() -> fb.EmbeddingSet:
    made = planted(1, people=20, images=5)
    return fb.EmbeddingSet.of(made.vectors, made.identity, meta=TableMeta(encoder=fingerprint(dim=32)))


def written(people: fb.EmbeddingSet, path: Path) -> EmbeddingTable:
    if path.suffix != ".npz":
        pytest.importorskip("pyarrow")
    write_table(path, people)
    return open_table(path)


class Backwards:
    """An engine that does tasks in this process, the last one first, each on what pickle makes of job and task."""

    def map(self, job, tasks):
        job = pickle.loads(pickle.dumps(job))
        job.open()
        for task in reversed(tasks):
            yield pickle.loads(pickle.dumps(job.run(pickle.loads(pickle.dumps(task)))))


@pytest.mark.parametrize("method", MOMENT_METHODS)
def test_shards_are_cut_by_rows_and_not_by_the_engine(tmp_path, people, monkeypatch, method):
    table = written(people, tmp_path / "in.npz")
    whole = fit_table(table, method=method, rank=5)
    monkeypatch.setattr(fit, "_SHARD_ROWS", SHARD)
    here = fit_table(table, method=method, rank=5)
    there = fit_table(table, method=method, rank=5, engine=Backwards())
    assert here.projector.digest == there.projector.digest
    assert here.projector.basis.tobytes() == there.projector.basis.tobytes()
    assert here.note == there.note == whole.note
    np.testing.assert_allclose(
        np.abs(here.projector.basis.T @ whole.projector.basis), np.abs(whole.projector.basis.T @ whole.projector.basis),
        atol=1e-5,
    )  # fmt: skip
    assert here.projector.fit_digest == whole.projector.fit_digest


@pytest.mark.parametrize("suffix", FORMATS)
def test_tables_of_all_formats_travel(tmp_path, people, monkeypatch, suffix):
    monkeypatch.setattr(fit, "_SHARD_ROWS", SHARD)
    table = written(people, tmp_path / f"in{suffix}")
    assert fit_table(table, rank=3, engine=Backwards()).projector.digest == fit_table(table, rank=3).projector.digest


def test_processes_give_the_same_bits(tmp_path, people, monkeypatch):
    monkeypatch.setattr(fit, "_SHARD_ROWS", SHARD)
    table = written(people, tmp_path / "in.npz")
    calls: list[tuple[int, int]] = []
    there = fit_table(
        table, method="leace", rank=5, engine=LocalEngine(2), progress=lambda done, of: calls.append((done, of))
    )
    assert there.projector.digest == fit_table(table, method="leace", rank=5).projector.digest
    assert calls[-1] == (100, 100)
    assert len(calls) == 5


@pytest.mark.parametrize("engine", [None, Backwards()])
def test_chosen_samples_over_shards(tmp_path, people, monkeypatch, engine):
    part = people.take(np.isin(people.identity, np.unique(people.identity)[:8]))
    alone = fit_table(written(part, tmp_path / "part.npz"), rank=3)
    monkeypatch.setattr(fit, "_SHARD_ROWS", SHARD)
    chosen = fit_table(written(people, tmp_path / "in.npz"), rank=3, samples=part.sample.tolist(), engine=engine)
    assert chosen.projector.fit_digest == alone.projector.fit_digest
    assert chosen.projector.fit_identities == 8


@pytest.mark.parametrize("engine", [None, Backwards()])
@pytest.mark.parametrize(("bad", "what"), [(np.nan, "NaN or infinity"), (0.0, "only zeros")])
def test_a_bad_row_is_named_by_its_number_in_the_table(tmp_path, people, monkeypatch, engine, bad, what):
    monkeypatch.setattr(fit, "_SHARD_ROWS", SHARD)
    table = written(people, tmp_path / "in.npz")
    with np.load(tmp_path / "in.npz") as held:
        arrays = dict(held)
    arrays["embedding"][61] = bad
    np.savez(tmp_path / "in.npz", **arrays)
    table = open_table(tmp_path / "in.npz")
    keys = people.sample[1:].tolist()  # the number is not that among the chosen rows either
    for samples in (None, keys):
        with pytest.raises(fb.DataError, match=rf"in\.npz: row 61 holds {what}: re-embed"):
            fit_table(table, rank=3, engine=engine, samples=samples)


def test_what_travels_back_holds_the_identities_of_its_shard_and_no_room_to_grow(tmp_path, people):
    order = np.argsort(people.identity, kind="stable")
    table = written(people.take(order), tmp_path / "in.npz")
    part = MomentsJob(table, "isp", None).run(_Rows(1, 10, 20))
    assert part.moments.identities_.tolist() == ["p0002", "p0003"]
    assert len(pickle.dumps(part)) < 2 * 32 * 8 + 2_000


def test_methods_that_need_vectors_and_tables_without_identities_are_refused(tmp_path, people):
    table = written(people, tmp_path / "in.npz")
    with pytest.raises(fb.UsageError, match="'rlace' cannot be fitted from sums"):
        fit_table(table, method="rlace", engine=Backwards())
    with pytest.raises(fb.DataError, match="has no identities: name the identity column"):
        fit_table(open_table(tmp_path / "in.npz", identity=None), engine=Backwards())
