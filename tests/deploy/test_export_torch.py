"""The torch module equals `Projector.apply`, whatever the rows, the number type and the way it is run."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from export_cases import FORMS, OUTPUTS, Case, assert_same, by_definition, cases, projector_of
from hypothesis import given, settings

from faceblind._errors import DataError, MissingExtraError, ProjectorError
from faceblind.deploy.export import behind, save_torchscript, to_torch
from strategies import fingerprint

torch = pytest.importorskip("torch")
# torch announces that it will not develop scripting further
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


def run(module, rows):
    with torch.inference_mode():
        return module(torch.from_numpy(rows)).numpy()


@settings(max_examples=100)
@given(cases())
def test_the_module_equals_apply(case):
    assert_same(case, run(to_torch(case.projector, **case.output), case.rows))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("rank", [3, 11])
def test_the_file_loads_without_us_and_equals_apply(tmp_path, form, output, rank):
    projector = projector_of(12, rank, form, encoder=fingerprint(), synthetic=True)
    check = save_torchscript(projector, tmp_path / "p.pt", **output)
    assert check.min_cosine > 0.999999
    extra = {"faceblind.json": ""}
    loaded = torch.jit.load(tmp_path / "p.pt", _extra_files=extra)
    rows = np.random.default_rng(1).standard_normal((20, 12)).astype(np.float32)
    rows[3] = 0
    assert_same(Case(projector, rows, **output), run(loaded, rows))
    record = json.loads(extra["faceblind.json"])
    assert record["projector"] == projector.digest == loaded.digest
    assert record["encoder"] == fingerprint().to_dict() == json.loads(loaded.encoder_fingerprint)
    assert record["synthetic"] is True
    assert record["output_dim"] == run(loaded, rows).shape[1]


def test_the_module_equals_the_definition():
    projector = projector_of(10, 4, "oblique affine")
    rows = np.random.default_rng(0).standard_normal((6, 10))
    module = to_torch(projector, renormalise=False).double()
    np.testing.assert_allclose(run(module, rows), by_definition(projector, rows), atol=1e-6)  # arrays are float32


@pytest.mark.parametrize("scripted", [False, True])
def test_autocast_does_not_round_the_products(scripted):
    projector = projector_of(64, 20)
    module = to_torch(projector)
    ran = torch.jit.script(module) if scripted else module
    rows = torch.randn(5, 64, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        found = ran(rows)
        half = rows @ module.first
    assert half.dtype == torch.bfloat16  # autocast was on
    assert found.dtype == torch.float32
    assert torch.equal(found, module(rows))


def test_half_precision_is_computed_in_float32():
    projector = projector_of(64, 20)
    rows = np.random.default_rng(0).standard_normal((50, 64)).astype(np.float16)
    found = to_torch(projector)(torch.from_numpy(rows))
    assert found.dtype == torch.float16
    expected = projector.apply(rows).vectors
    np.testing.assert_allclose(found.numpy(), expected, rtol=2**-11 + 1e-5, atol=1e-6)  # rounded once, at the end
    module = to_torch(projector).half()
    assert module.first.dtype == torch.float32
    np.testing.assert_array_equal(module(torch.from_numpy(rows)).numpy(), found.numpy())
    with pytest.raises(torch.jit.Error, match="float32 or float64"):  # a scripted module follows .half() without asking
        torch.jit.script(to_torch(projector)).half()(torch.from_numpy(rows))


def test_arrays_are_buffers_and_gradients_pass():
    module = to_torch(projector_of(8, 3, "oblique affine")).double()
    assert not list(module.parameters())
    assert set(module.state_dict()) == {"first", "second", "offset"}
    rows = torch.randn(3, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert torch.autograd.gradcheck(module, (rows,))


def test_any_leading_shape_and_no_rows():
    module = to_torch(projector_of(8, 3), compact=True)
    rows = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0))
    assert module(rows).shape == (2, 3, 5)
    assert torch.allclose(module(rows[1, 2]), module(rows)[1, 2], atol=1e-6)
    assert module(torch.empty(0, 8)).shape == (0, 5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_broken_row_is_seen(form, value):
    rows = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    rows[1, 2] = value
    found = to_torch(projector_of(8, 3, form))(rows)
    assert found[1].isnan().all()
    assert found[[0, 2]].isfinite().all()


def test_exports_through_torch_export():
    module, rows = to_torch(projector_of(8, 3, "oblique affine")), torch.ones(2, 8)
    exported = torch.export.export(module, (rows,))
    assert torch.equal(exported.module()(rows), module(rows))


def test_behind_an_encoder_only_clean_vectors_come_out():
    projector = projector_of(8, 3)
    encoder = torch.nn.Linear(5, 8).eval()
    fused = behind(encoder, projector, compact=True)
    pixels = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        expected = projector.apply(encoder(pixels).numpy(), compact=True).vectors
        np.testing.assert_allclose(fused(pixels).numpy(), expected, atol=1e-6)
    buffer = io.BytesIO()
    torch.save(fused.state_dict(), buffer)
    assert sorted(fused.state_dict()) == [
        "encoder.bias",
        "encoder.weight",
        "erase.first",
        "erase.offset",
        "erase.second",
    ]


def test_behind_takes_the_vectors_that_it_is_told_to():
    class Tokens(torch.nn.Module):
        def forward(self, x, *, twice=False):
            tokens = torch.stack([x, 2 * x, 3 * x], dim=1)
            return {"tokens": tokens * (2 if twice else 1)}

    projector = projector_of(8, 3)
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    fused = behind(Tokens(), projector, renormalise=False, select=lambda out: out["tokens"][:, 1])
    expected = projector.apply(4 * x.numpy(), renormalise=False).vectors
    np.testing.assert_allclose(fused(x, twice=True).numpy(), expected, atol=1e-5)
    with pytest.raises(DataError, match=r"dict, not a tensor.*select="):
        behind(Tokens(), projector)(x)
    with pytest.raises(DataError, match=r"\(batch, 8\) vectors, the encoder gives shape \(4, 3, 8\): pool first"):
        behind(Tokens(), projector, select=lambda out: out["tokens"])(x)
    with pytest.raises(DataError, match=r"torch\.nn\.Module, got str"):
        behind("clip", projector)


def test_a_wrong_file_never_appears(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "faceblind.deploy.export.steps.Steps.arrays", property(lambda self: {"first": self.first.astype("f4") * 2})
    )
    with pytest.raises(ProjectorError, match=r"TorchScript module is off by .* nothing written"):
        save_torchscript(projector_of(8, 5), tmp_path / "p.pt", compact=True, renormalise=False)
    assert not list(tmp_path.iterdir())


def test_without_torch(monkeypatch):
    monkeypatch.setattr("faceblind.deploy.export.torch.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"exporting to torch needs torch.*faceblind\[torch\]"):
        to_torch(projector_of(8, 3))
