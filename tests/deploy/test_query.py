"""The query side: what belongs together, what is refused, and telling raw vectors from clean ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stores_help import DIM, RANK, meta, projector_of, vectors_of

import faceblind as fb
from faceblind.data.meta import METADATA_KEY, TableMeta
from faceblind.deploy import apply_table
from faceblind.deploy.query import QueryProjector, check_query, index_meta, looks_raw, residual
from faceblind.erase import Projector
from faceblind.erase.rank import RankChoice
from strategies import fingerprint, orthonormal

PROJECTOR = projector_of()
CLEAN = meta(projector=PROJECTOR.digest)
VECTORS = vectors_of(30)


def embeddings(vectors, known):
    return fb.EmbeddingSet.of(vectors, meta=known)


@pytest.mark.parametrize(
    ("index", "query", "error", "said"),
    [
        (CLEAN, meta(), fb.ProjectorError, r"the query is raw and the index is clean \(projector "),
        (meta(), CLEAN, fb.ProjectorError, "the index is raw and the query is clean"),
        (CLEAN, meta(projector="ab" * 32), fb.ProjectorError, "the query through abababababab: use the projector of"),
        (
            CLEAN,
            TableMeta(encoder=fingerprint(dim=DIM, pooling="mean"), projector=PROJECTOR.digest),
            fb.EncoderError,
            "pooling: mean != cls.*embed the query with the encoder of the index",
        ),
    ],
)
def test_what_does_not_belong_together_is_refused(index, query, error, said):
    with pytest.raises(error, match=said):
        check_query(index, query)


def test_what_belongs_together_passes_and_what_is_unknown_is_said():
    assert check_query(CLEAN, CLEAN) == ()
    assert check_query(meta(), meta()) == ()
    assert "the query does not say" in check_query(meta(), TableMeta())[0]
    assert "the index does not say" in check_query(TableMeta(), meta())[0]


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("renormalise", [False, True])
def test_queries_are_what_the_projector_gives(compact, renormalise):
    prepare = QueryProjector(PROJECTOR, CLEAN, compact=compact, renormalise=renormalise)
    expected = PROJECTOR.apply(VECTORS, compact=compact, renormalise=renormalise).vectors
    assert prepare.cautions == ()
    np.testing.assert_array_equal(prepare(VECTORS), expected)
    np.testing.assert_array_equal(prepare(embeddings(VECTORS, meta())), expected)
    one = prepare(VECTORS[4].tolist())
    assert one.shape == expected[4].shape
    assert one.dtype == np.float32
    np.testing.assert_allclose(one, expected[4], atol=1e-6)
    already = prepare(embeddings(expected, CLEAN))
    np.testing.assert_allclose(already, expected, atol=1e-6)


def test_cosines_of_queries_are_those_of_the_index():
    clean = PROJECTOR.apply(VECTORS).vectors
    np.testing.assert_allclose(clean @ QueryProjector(PROJECTOR, CLEAN)(VECTORS[3]), clean @ clean[3], atol=1e-6)


def test_queries_of_another_kind_are_refused():
    prepare = QueryProjector(PROJECTOR, CLEAN)
    with pytest.raises(fb.ProjectorError, match="the query through abababababab"):
        prepare(embeddings(VECTORS, meta(projector="ab" * 32)))
    with pytest.raises(fb.EncoderError, match="pooling"):
        prepare(embeddings(VECTORS, TableMeta(encoder=fingerprint(dim=DIM, pooling="mean"))))
    short = PROJECTOR.apply(VECTORS, compact=True).vectors
    with pytest.raises(fb.ProjectorError, match="clean with 20 columns, the index holds 24: one is compact"):
        prepare(embeddings(short, CLEAN))
    with pytest.raises(fb.DataError, match="vectors of 24 features"):
        prepare(short)
    with pytest.raises(fb.DataError, match="vectors of 24 features"):
        prepare(VECTORS[None])
    with pytest.raises(fb.DataError, match="holds NaN"):
        prepare(np.full(DIM, np.nan))


def test_an_index_of_another_kind_is_refused_at_once():
    with pytest.raises(fb.ProjectorError, match="the index is raw and the projected query is clean"):
        QueryProjector(PROJECTOR, meta())
    with pytest.raises(fb.ProjectorError, match="the index went through projector abababababab"):
        QueryProjector(PROJECTOR, meta(projector="ab" * 32))
    with pytest.raises(fb.EncoderError, match="pooling"):
        QueryProjector(PROJECTOR, TableMeta(encoder=fingerprint(dim=DIM, pooling="mean"), projector=PROJECTOR.digest))
    assert "nothing is known of the index" in QueryProjector(PROJECTOR).cautions[0]
    assert "the index does not say" in QueryProjector(PROJECTOR, TableMeta(projector=PROJECTOR.digest)).cautions[0]


def test_residual_is_the_share_in_the_removed_directions():
    basis = orthonormal(np.random.default_rng(2), DIM, RANK)
    projector = Projector.of(basis, method="random", choice=RankChoice(rule="given"))
    inside, outside = basis[:, 0], projector.complement[:, 0]
    vectors = np.stack([inside, outside, 3 * inside + 4 * outside, np.zeros(DIM)])
    np.testing.assert_allclose(residual(projector, vectors), [1, 0, 9 / 25, 0], atol=1e-12)
    assert residual(projector, vectors[2]).shape == ()
    for bad in (np.zeros((2, DIM - RANK)), np.zeros((1, 2, DIM)), np.zeros(3)):
        with pytest.raises(fb.DataError, match="vectors of 24 features, got shape"):
            residual(projector, bad)


@given(rank=st.integers(1, DIM - 1), oblique=st.booleans(), seed=st.integers(0, 99), half=st.booleans())
def test_raw_and_clean_are_told_apart_without_metadata(rank, oblique, seed, half):
    rng = np.random.default_rng(seed)
    basis = orthonormal(rng, DIM, rank)
    lift = basis + 0.5 * rng.standard_normal((DIM, rank)) if oblique else None
    if lift is not None:
        lift += basis @ (np.eye(rank) - basis.T @ lift)
    projector = Projector.of(basis, method="random", choice=RankChoice(rule="given"), lift=lift)
    raw = rng.standard_normal((50, DIM))
    stored = np.float16 if half else np.float32
    assert looks_raw(projector, raw.astype(stored))
    clean = projector.apply(raw).vectors.astype(stored)
    assert not looks_raw(projector, clean)
    assert not looks_raw(projector, clean[0])
    assert not looks_raw(projector, projector.apply(raw, compact=True).vectors)
    assert residual(projector, clean).max() < 1e-6


def test_an_affine_map_cannot_be_told_by_its_vectors():
    basis = orthonormal(np.random.default_rng(2), DIM, RANK)
    projector = Projector.of(basis, method="x", choice=RankChoice(rule="given"), mean=np.full(DIM, 0.1))
    with pytest.raises(fb.ProjectorError, match="go by the metadata"):
        looks_raw(projector, VECTORS)


@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
def test_the_metadata_of_a_table_is_found(tmp_path, suffix):
    pytest.importorskip("pyarrow")
    raw, clean = tmp_path / f"raw{suffix}", tmp_path / f"clean{suffix}"
    fb.write_table(raw, fb.EmbeddingSet.of(VECTORS, np.arange(30) // 5, meta=meta()))
    apply_table(PROJECTOR, fb.open_table(raw), clean)
    assert index_meta(raw) == meta()
    assert index_meta(str(clean)) == CLEAN
    assert check_query(index_meta(clean), CLEAN) == ()


def test_the_metadata_of_a_faiss_index_is_in_its_sidecar(tmp_path):
    pytest.importorskip("faiss")
    from faceblind.deploy.export.faiss_sidecar import sidecar_path

    index = tmp_path / "photos.faiss"
    with pytest.raises(fb.DataError, match="there is no index"):
        index_meta(index)
    index.write_bytes(b"12345")
    assert index_meta(index) == TableMeta()
    import json

    record = {"format": "faceblind.faiss/1", "bytes": 5, METADATA_KEY: json.loads(CLEAN.to_json())}
    sidecar_path(index).write_text(json.dumps(record))
    assert index_meta(index) == index_meta(sidecar_path(index)) == CLEAN
    sidecar_path(index).write_text("{}")
    with pytest.raises(fb.FormatError, match="not the record of an index"):
        index_meta(index)


def test_the_metadata_of_an_onnx_file_is_found(tmp_path):
    onnx = pytest.importorskip("onnx")
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    model = onnx.helper.make_model(onnx.helper.make_graph([], "g", [value], [value]))
    path = tmp_path / "encoder.onnx"
    onnx.save(model, str(path))
    assert index_meta(path) == TableMeta()
    onnx.helper.set_model_props(model, {METADATA_KEY: CLEAN.to_json()})
    onnx.save(model, str(path))
    assert index_meta(path) == CLEAN
    path.write_bytes(b"no network")
    with pytest.raises(fb.FormatError, match="not a readable ONNX file"):
        index_meta(path)
    with pytest.raises(fb.DataError, match="there is no file"):
        index_meta(tmp_path / "none.onnx")


def test_what_cannot_be_read_is_said():
    with pytest.raises(fb.DataError, match="from a int"):
        index_meta(3)
    with pytest.raises(fb.DataError, match="which table or collection"):
        index_meta("postgresql://host/db")
