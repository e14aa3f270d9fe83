"""A rebuilt index holds what `Projector.apply` gives, under the ids it had, and the raw one is left alone."""

from __future__ import annotations

import json

import numpy as np
import pytest
from export_cases import projector_of

from faceblind._errors import DataError, EncoderError, FormatError, ProjectorError, UsageError
from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.meta import TableMeta
from faceblind.data.tables import open_table, open_writer, write_table
from faceblind.deploy.export import rebuild_index, save_faiss
from faceblind.deploy.export.faiss_sidecar import read_meta
from strategies import fingerprint

faiss = pytest.importorskip("faiss")

ROWS, DIM = 400, 12
RAW = np.random.default_rng(0).standard_normal((ROWS, DIM)).astype(np.float32)
IDS = np.random.default_rng(1).permutation(10 * ROWS)[:ROWS].astype(np.int64) + 2**40


@pytest.fixture
def projector():
    return projector_of(DIM, 4, "oblique", encoder=fingerprint())


@pytest.fixture
def table(tmp_path):
    people = EmbeddingSet.of(RAW, sample=IDS, meta=TableMeta(encoder=fingerprint()))
    write_table(tmp_path / "raw.npz", people)
    return open_table(tmp_path / "raw.npz", identity=None)


def index_of(factory: str, *, with_ids: bool):
    index = faiss.index_factory(DIM, factory, faiss.METRIC_INNER_PRODUCT)
    index.train(RAW)
    if with_ids:
        index.add_with_ids(RAW, IDS)
    else:
        index.add(RAW)
    return index


def stored(path) -> dict[int, np.ndarray]:
    """Vectors by id, found by searching for each among all."""
    index = faiss.read_index(str(path))
    ivf = faiss.try_extract_index_ivf(index)
    if ivf is not None:
        ivf.nprobe = ivf.nlist
        ivf.set_direct_map_type(faiss.DirectMap.Hashtable)
    inner = faiss.downcast_index(index.index)
    ids = IDS if isinstance(inner, faiss.IndexIDMap | faiss.IndexIVF) else np.arange(ROWS)
    return {int(each): inner.reconstruct(int(each)) for each in ids}


@pytest.mark.parametrize(
    ("factory", "with_ids"),
    [("Flat", False), ("IDMap,Flat", True), ("IDMap2,Flat", True), ("IVF4,Flat", True), ("HNSW8", False)],
)
@pytest.mark.parametrize("into", ["Flat", "IVF4,Flat"])
@pytest.mark.parametrize("as_file", [False, True])
def test_every_vector_is_what_apply_gives_under_its_id(tmp_path, projector, factory, with_ids, into, as_file):
    index = index_of(factory, with_ids=with_ids)
    if as_file:
        faiss.write_index(index, str(tmp_path / "raw.faiss"))
        before = (tmp_path / "raw.faiss").read_bytes()
    source = tmp_path / "raw.faiss" if as_file else index
    meta = TableMeta(encoder=fingerprint())
    report = rebuild_index(projector, source, tmp_path / "clean.faiss", factory=into, compact=True, meta=meta)
    assert (report.rows, report.emptied, report.cautions, report.stored_difference) == (ROWS, 0, (), 0.0)
    assert report.trained_on == (ROWS if "IVF" in into else 0)
    clean = projector.apply(RAW, compact=True).vectors
    if not with_ids and into == "IVF4,Flat":
        index = faiss.read_index(str(tmp_path / "clean.faiss"))
        faiss.extract_index_ivf(index).nprobe = 4
        assert (index.search(RAW, 1)[1][:, 0] == np.arange(ROWS)).all()
    else:
        found = stored(tmp_path / "clean.faiss")
        order = IDS if with_ids else np.arange(ROWS)
        np.testing.assert_allclose([found[int(each)] for each in order], clean, atol=1e-6)
    if as_file:
        assert (tmp_path / "raw.faiss").read_bytes() == before


@pytest.mark.parametrize("ids", ["rows", "sample"])
@pytest.mark.parametrize("factory", ["Flat", "IVF4,Flat", "IDMap,Flat"])
def test_a_table(tmp_path, projector, table, ids, factory):
    seen = []
    report = rebuild_index(
        projector, table, tmp_path / "c.faiss", factory=factory, ids=ids, progress=lambda *of: seen.append(of)
    )
    assert seen == [(ROWS, ROWS)]
    index = faiss.read_index(str(tmp_path / "c.faiss"))
    if "IVF" in factory:
        faiss.extract_index_ivf(index).nprobe = 4
    scores, found = index.search(RAW, 1)  # raw queries pass the projector inside
    np.testing.assert_array_equal(found[:, 0], IDS if ids == "sample" else np.arange(ROWS))
    np.testing.assert_allclose(scores, 1, atol=1e-5)
    assert report.dim == DIM
    said = json.loads((tmp_path / "c.faiss.json").read_text())
    assert (said["count"], said["factory"], said["source"]) == (ROWS, factory, "raw.npz")
    assert read_meta(tmp_path / "c.faiss") == TableMeta(encoder=fingerprint(), projector=projector.digest)


def test_a_table_in_many_batches(tmp_path, projector, table, monkeypatch):
    real = type(table).batches
    monkeypatch.setattr(type(table), "batches", lambda self, size=37: real(self, size))
    rebuild_index(projector, table, tmp_path / "c.faiss", factory="IVF4,Flat", train_rows=200)
    index = faiss.read_index(str(tmp_path / "c.faiss"))
    faiss.extract_index_ivf(index).nprobe = 4
    assert (index.search(RAW, 1)[1][:, 0] == np.arange(ROWS)).all()


def test_rows_with_nothing_left_are_stored_as_zeros(tmp_path):
    projector = projector_of(DIM, 4)
    rows = RAW.copy()
    rows[7] = projector.basis[:, 1]
    index = faiss.IndexFlatIP(DIM)
    index.add(rows)
    report = rebuild_index(projector, index, tmp_path / "c.faiss")
    assert report.emptied == 1
    index = faiss.read_index(str(tmp_path / "c.faiss"))
    assert not faiss.downcast_index(index.index).reconstruct(7).any()


@pytest.mark.parametrize("factory", ["SQ8", "IVF4,SQ8", "IVF4,PQ4x4np", "PQ4x4np"])
def test_approximations_are_named(tmp_path, projector, factory):
    report = rebuild_index(projector, index_of(factory, with_ids="IVF" in factory), tmp_path / "c.faiss")
    assert any("keeps approximations" in said for said in report.cautions)
    assert report.stored_difference == 0


def test_a_lossy_factory_says_how_lossy(tmp_path, projector, table):
    report = rebuild_index(projector, table, tmp_path / "c.faiss", factory="IVF4,SQ8")
    assert 0 < report.stored_difference < 0.02
    own = rebuild_index(projector, table, tmp_path / "d.faiss", factory="PCA6,Flat")
    assert own.stored_difference is None
    assert faiss.read_index(str(tmp_path / "d.faiss")).search(RAW, 1)[0].shape == (ROWS, 1)


def test_what_is_clean_already_is_refused(tmp_path, projector, table):
    rebuild_index(projector, table, tmp_path / "c.faiss")
    with pytest.raises(ProjectorError, match=f"already put through projector {projector.digest[:12]}, its record says"):
        rebuild_index(projector, tmp_path / "c.faiss", tmp_path / "d.faiss")
    clean = faiss.IndexFlatIP(DIM)
    clean.add(projector.apply(RAW).vectors)
    with pytest.raises(ProjectorError, match="nothing in the removed directions"):
        rebuild_index(projector, clean, tmp_path / "d.faiss")
    assert not (tmp_path / "d.faiss").exists()
    rebuild_index(projector, clean, tmp_path / "d.faiss", force=True)
    with open_writer(tmp_path / "clean.npz", meta=TableMeta(projector="ab" * 32), dim=DIM, identity=None) as writer:
        writer.write(RAW, None, np.arange(ROWS).astype(np.str_))
    with pytest.raises(ProjectorError, match="already put through another projector"):
        rebuild_index(projector, open_table(tmp_path / "clean.npz", identity=None), tmp_path / "d.faiss")


def test_the_wrong_encoder(tmp_path, table):
    other = projector_of(DIM, 4, encoder=fingerprint(precision="int8"))
    with pytest.raises(EncoderError, match="precision: int8 != float32"):
        rebuild_index(other, table, tmp_path / "c.faiss")
    assert "forced" in rebuild_index(other, table, tmp_path / "c.faiss", force=True).cautions[0]
    assert read_meta(tmp_path / "c.faiss").encoder == fingerprint()


def test_bad_input(tmp_path, projector, table):
    out = tmp_path / "c.faiss"
    with pytest.raises(UsageError, match="factory 'IVF4,Flub' for 12 features failed: faiss says could not parse"):
        rebuild_index(projector, table, out, factory="IVF4,Flub")
    with pytest.raises(DataError, match=r"training 'IVF4000,Flat' on 400 rows failed: faiss says .*\(4000\)"):
        rebuild_index(projector, table, out, factory="IVF4000,Flat")
    with pytest.raises(UsageError, match="ids are 'rows' or 'sample', got 'names'"):
        rebuild_index(projector, table, out, ids="names")
    with pytest.raises(ProjectorError, match=r"vectors of 9 features, .* has 12"):
        rebuild_index(projector_of(9, 2), table, out)
    with pytest.raises(DataError, match="does not exist"):
        rebuild_index(projector, tmp_path / "absent.faiss", out)
    (tmp_path / "text.faiss").write_text("text")
    with pytest.raises(FormatError, match="not a faiss index that this version reads"):
        rebuild_index(projector, tmp_path / "text.faiss", out)
    with pytest.raises(DataError, match="holds no vectors"):
        rebuild_index(projector, faiss.IndexFlatIP(DIM), out)
    with pytest.raises(DataError, match=r"IndexPreTransform .*raw vectors cannot be read"):
        rebuild_index(projector, index_of("L2norm,Flat", with_ids=False), out)
    with pytest.raises(DataError, match="IndexIVFPQFastScan, whose raw vectors cannot be read"):
        rebuild_index(projector, index_of("IVF4,PQ4x4fs", with_ids=True), out)
    broken = RAW.copy()
    broken[11, 2] = np.nan
    index = faiss.IndexFlatIP(DIM)
    index.add(broken)
    with pytest.raises(DataError, match="row 11 holds NaN"):
        rebuild_index(projector, index, out)
    write_table(tmp_path / "named.npz", EmbeddingSet.of(RAW[:3], sample=["1", "2", "ann"]))
    with pytest.raises(DataError, match="key 'ann' is no faiss id"):
        rebuild_index(projector, open_table(tmp_path / "named.npz", identity=None), out, ids="sample")
    assert not out.exists()
    faiss.write_index(index_of("Flat", with_ids=False), str(tmp_path / "raw.faiss"))
    with pytest.raises(UsageError, match="is the source itself"):
        rebuild_index(projector, tmp_path / "raw.faiss", tmp_path / "raw.faiss")


def test_an_earlier_index_stays_when_a_rebuild_fails(tmp_path, projector, table):
    save_faiss(projector, tmp_path / "c.faiss")
    before = {path.name: path.read_bytes() for path in tmp_path.glob("c.faiss*")}
    with pytest.raises(UsageError):
        rebuild_index(projector, table, tmp_path / "c.faiss", factory="Flub")
    assert {path.name: path.read_bytes() for path in tmp_path.glob("c.faiss*")} == before


def test_a_new_index_never_has_the_record_of_an_old_one(tmp_path, projector, table, monkeypatch):
    save_faiss(projector, tmp_path / "c.faiss")

    def crash(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("faceblind.deploy.export.faiss_sidecar.write_text", crash)
    with pytest.raises(KeyboardInterrupt):
        rebuild_index(projector, table, tmp_path / "c.faiss")
    assert faiss.read_index(str(tmp_path / "c.faiss")).ntotal == ROWS
    assert not (tmp_path / "c.faiss.json").exists()
