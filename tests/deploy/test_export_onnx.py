"""The ONNX graph of a projector equals `Projector.apply` in onnxruntime, whatever the rows."""

from __future__ import annotations

import numpy as np
import pytest
from export_cases import FORMS, OUTPUTS, assert_same, cases, projector_of
from hypothesis import given, settings

from faceblind._errors import MissingExtraError, OutputError, ProjectorError, UsageError
from faceblind.data.meta import TableMeta
from faceblind.deploy.export import save_onnx, to_onnx
from strategies import fingerprint

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def session(model):
    data = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])


def run(model, rows):
    return session(model).run(None, {"embedding": rows})[0]


@settings(max_examples=100)
@given(cases())
def test_the_graph_equals_apply(case):
    assert_same(case, run(to_onnx(case.projector, **case.output), case.rows))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_broken_row_is_seen(form, value):
    rows = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    rows[1, 2] = value
    found = run(to_onnx(projector_of(8, 3, form)), rows)
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[[0, 2]]).all()


@pytest.mark.parametrize("output", OUTPUTS)
def test_half_precision_goes_in_and_float32_comes_out(tmp_path, output):
    projector = projector_of(24, 7)
    rows = np.random.default_rng(0).standard_normal((9, 24)).astype(np.float16)
    save_onnx(projector, tmp_path / "p.onnx", input_dtype="float16", **output)
    found = run(str(tmp_path / "p.onnx"), rows)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, projector.apply(rows, **output).vectors, atol=3e-6)


def test_the_file_says_what_it_is(tmp_path):
    projector = projector_of(12, 5, encoder=fingerprint(), synthetic=True)
    check = save_onnx(projector, tmp_path / "p.onnx", compact=True)
    assert check.max_difference < 1e-6
    assert check.min_cosine > 0.999999
    model = onnx.load(tmp_path / "p.onnx")
    assert model.producer_name == "faceblind"
    assert projector.digest in model.doc_string
    (opset,) = model.opset_import
    assert (opset.domain, opset.version) == ("", 17)
    assert model.ir_version <= 10  # onnxruntime 1.20
    ran = session(str(tmp_path / "p.onnx"))
    assert ran.get_inputs()[0].shape == ["batch", 12]
    assert ran.get_outputs()[0].shape == ["batch", 7]
    meta = TableMeta.from_json(ran.get_modelmeta().custom_metadata_map["faceblind"])
    assert meta == TableMeta(encoder=fingerprint(), synthetic=True, projector=projector.digest)
    before = (tmp_path / "p.onnx").read_bytes()
    save_onnx(projector, tmp_path / "p.onnx", compact=True)
    assert (tmp_path / "p.onnx").read_bytes() == before


@pytest.mark.parametrize(
    ("rank", "compact", "numbers"), [(4, False, 2 * 4 * 12), (9, False, 2 * 3 * 12), (4, True, 8 * 12)]
)
def test_the_cheapest_formula_is_taken(rank, compact, numbers):
    model = to_onnx(projector_of(12, rank), compact=compact)
    matrices = [item for item in model.graph.initializer if len(item.dims) == 2]
    assert sum(np.prod(item.dims) for item in matrices) == numbers


def test_a_wrong_file_never_appears(tmp_path, monkeypatch):
    (tmp_path / "p.onnx").write_bytes(b"earlier")
    monkeypatch.setattr("faceblind.deploy.export.steps.gone_ratio", lambda _: 0.9)
    with pytest.raises(ProjectorError, match=r"ONNX graph is off by .* nothing written"):
        save_onnx(projector_of(8, 5), tmp_path / "p.onnx")
    assert (tmp_path / "p.onnx").read_bytes() == b"earlier"
    assert len(list(tmp_path.iterdir())) == 1


def test_bad_input(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="float32, float16, got 'int8'"):
        to_onnx(projector_of(8, 5), input_dtype="int8")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write"):
        save_onnx(projector_of(8, 5), tmp_path / "file" / "p.onnx")
    monkeypatch.setattr("faceblind.deploy.export.onnx.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"needs onnx.*faceblind\[onnx\]"):
        to_onnx(projector_of(8, 5))
