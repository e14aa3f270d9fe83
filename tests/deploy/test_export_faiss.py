"""The faiss chain equals `Projector.apply` where faiss can express it; where it cannot, it does what the docs say."""

from __future__ import annotations

import json

import numpy as np
import pytest
from export_cases import FORMS, OUTPUTS, Case, assert_same, cases, projector_of
from hypothesis import given, settings

from faceblind._errors import DataError, FormatError, MissingExtraError, OutputError, ProjectorError, UsageError
from faceblind.data.meta import TableMeta
from faceblind.deploy.export import save_faiss, to_faiss_transforms, wrap_index
from faceblind.deploy.export.faiss_sidecar import read_meta
from strategies import fingerprint

faiss = pytest.importorskip("faiss")


def through(chain, rows):
    for transform in chain:
        rows = transform.apply(np.ascontiguousarray(rows, np.float32))
    return rows


@settings(max_examples=100)
@given(cases(magnitude=14, degenerate=False))
def test_the_chain_equals_apply(case):
    assert_same(case, through(to_faiss_transforms(case.projector, **case.output), case.rows))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("rank", [3, 9])
def test_an_index_takes_raw_vectors_and_queries(tmp_path, form, output, rank):
    projector = projector_of(12, rank, form, encoder=fingerprint(), synthetic=True)
    rows = np.random.default_rng(0).standard_normal((200, 12)).astype(np.float32)
    check = save_faiss(projector, tmp_path / "p.faiss", **output)
    assert check.min_cosine > 0.999999
    index = faiss.read_index(str(tmp_path / "p.faiss"))
    index.add(rows)
    clean = projector.apply(rows, **output).vectors
    plain = faiss.IndexFlatIP(clean.shape[1])
    plain.add(clean)
    scores, found = index.search(rows[:20], 5)
    wanted_scores, wanted = plain.search(clean[:20], 5)
    np.testing.assert_allclose(scores, wanted_scores, rtol=1e-4, atol=1e-5)
    assert (found == wanted).mean() > 0.95  # ties may turn
    stored = faiss.downcast_index(index.index).reconstruct_n(0, 200)
    assert_same(Case(projector, rows, **output), stored)


def test_the_sidecar_says_what_is_stored(tmp_path):
    projector = projector_of(12, 3, encoder=fingerprint(), synthetic=True)
    save_faiss(projector, tmp_path / "p.faiss", compact=True, metric="l2")
    assert read_meta(tmp_path / "p.faiss") == TableMeta(
        encoder=fingerprint(), synthetic=True, projector=projector.digest
    )
    said = json.loads((tmp_path / "p.faiss.json").read_text())
    assert (said["count"], said["metric"], said["faiss"]) == (0, "l2", faiss.__version__)
    assert (said["form"]["compact"], said["form"]["output_dim"]) == (True, 9)
    assert faiss.read_index(str(tmp_path / "p.faiss")).metric_type == faiss.METRIC_L2


def test_the_order_of_an_affine_chain():
    kinds = [type(each).__name__ for each in to_faiss_transforms(projector_of(12, 3, "orthogonal affine"))]
    assert kinds == ["NormalizationTransform", "LinearTransform", "NormalizationTransform"]
    kinds = [type(each).__name__ for each in to_faiss_transforms(projector_of(12, 9), renormalise=False)]
    assert kinds == ["LinearTransform", "LinearTransform"]


def test_what_faiss_cannot_express():
    """As documented: zeros stay zeros with a linear map only, and what is left of an erased row is scaled up."""
    zero = np.zeros((1, 12), np.float32)
    linear, affine = projector_of(12, 3), projector_of(12, 3, "orthogonal affine")
    assert not through(to_faiss_transforms(linear), zero).any()
    assert np.linalg.norm(through(to_faiss_transforms(affine), zero)) == pytest.approx(1)
    assert not affine.apply(zero).vectors.any()
    erased = (linear.basis @ np.array([[0.3], [0.2], [0.4]])).T.astype(np.float32)
    assert not linear.apply(erased).vectors.any()
    assert np.linalg.norm(through(to_faiss_transforms(linear), erased)) == pytest.approx(1)
    assert np.abs(through(to_faiss_transforms(linear, renormalise=False), erased)).max() < 1e-6


def test_wrapping_refuses_what_would_stay_raw():
    projector = projector_of(12, 3)
    index = faiss.IndexFlatIP(12)
    index.add(np.ones((5, 12), np.float32))
    with pytest.raises(DataError, match="holds 5 vectors, which would stay as they are"):
        wrap_index(projector, index)
    assert wrap_index(projector, index, holds_clean=True).ntotal == 5
    with pytest.raises(DataError, match="vectors of 12 features, the projector gives 9"):
        wrap_index(projector, index, compact=True)
    with pytest.raises(DataError, match="another metric"):
        wrap_index(projector, faiss.IndexFlat(9, faiss.METRIC_L1), compact=True)


def test_wrapping_keeps_all_its_parts_alive():
    import gc

    index = wrap_index(projector_of(12, 3), faiss.IndexFlatIP(12))
    gc.collect()
    index.add(np.ones((2, 12), np.float32))
    assert index.search(np.ones((1, 12), np.float32), 1)[0][0, 0] == pytest.approx(1, abs=1e-5)


def test_a_wrong_file_never_appears(tmp_path, monkeypatch):
    real = to_faiss_transforms
    monkeypatch.setattr("faceblind.deploy.export.faiss.to_faiss_transforms", lambda *a, **k: real(*a, **k)[:1])
    with pytest.raises(ProjectorError, match=r"faiss chain is off by .* nothing written"):
        save_faiss(projector_of(8, 3), tmp_path / "p.faiss")
    assert not list(tmp_path.iterdir())


def test_bad_input(tmp_path, monkeypatch):
    projector = projector_of(8, 3)
    with pytest.raises(UsageError, match="inner-product, l2, got 'cosine'"):
        save_faiss(projector, tmp_path / "p.faiss", metric="cosine")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write"):
        save_faiss(projector, tmp_path / "file" / "p.faiss")
    monkeypatch.setattr("faceblind.deploy.export.faiss.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"faiss-cpu.*faceblind\[faiss\]"):
        to_faiss_transforms(projector)


def test_a_damaged_sidecar(tmp_path):
    save_faiss(projector_of(8, 3), tmp_path / "p.faiss")
    record = tmp_path / "p.faiss.json"
    said = json.loads(record.read_text())
    for text, message in (
        ("{", "is not the record of an index"),
        (json.dumps(said | {"format": "other/1"}), "has format 'other/1'"),
        (json.dumps(said | {"bytes": 3}), "describes another file"),
        (json.dumps({key: said[key] for key in said if key != "faceblind"}), "is not the record"),
    ):
        record.write_text(text)
        with pytest.raises(FormatError, match=message):
            read_meta(tmp_path / "p.faiss")
