"""Facts read from ONNX files: hash, precision, external weights, damage."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from tiny_onnx import FLOAT, INT8, block, mean_colour, model, node, number, tensor

from faceblind._errors import EncoderError
from faceblind.encoders.onnx_file import inspect_onnx

IMAGE = ("x", FLOAT, ("n", 4))
OUT = ("y", FLOAT, ("n", 4))


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def weights_of(path: Path, **arrays: np.ndarray) -> str:
    nodes = [node("Identity", ["x"], "y")]
    return inspect_onnx(write(path, model(nodes, inputs=[IMAGE], outputs=[OUT], weights=arrays))).precision


def test_hash_is_that_of_the_file(tmp_path: Path) -> None:
    mean_colour(tmp_path / "m.onnx")
    facts = inspect_onnx(tmp_path / "m.onnx")
    assert facts.sha256 == hashlib.sha256((tmp_path / "m.onnx").read_bytes()).hexdigest()
    assert facts.precision == "weights float32"


def test_precision_names_the_types_that_matter(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    assert weights_of(path, w=np.zeros((10, 10), np.int8), scale=np.zeros(3, np.float32)) == "weights int8"
    assert weights_of(path, w=np.zeros((10, 10), np.float16), b=np.zeros(3, np.int64)) == "weights float16"
    both = weights_of(path, w=np.zeros((10, 10), np.int8), v=np.zeros((10, 10), np.float32))
    assert both == "weights float32 and int8"
    assert weights_of(path) == "no weights"


def test_constants_of_nodes_count_too(tmp_path: Path) -> None:
    constant = block(2, "c") + block(4, "Constant")
    constant += block(5, block(1, "value") + block(5, tensor("c", np.zeros(100, np.int8))) + number(20, 4))
    data = model([constant, node("Identity", ["x"], "y")], inputs=[IMAGE], outputs=[OUT])
    assert inspect_onnx(write(tmp_path / "m.onnx", data)).precision == "weights int8"


def test_packed_dimensions_are_read(tmp_path: Path) -> None:
    packed = block(1, b"\x0a\x0a") + number(2, INT8) + block(8, "w") + block(9, bytes(100))
    data = model(
        [node("Identity", ["x"], "y")],
        inputs=[IMAGE],
        outputs=[OUT],
        weights={"b": np.zeros(4, np.float32)},
        raw_weights=[packed],
    )
    assert inspect_onnx(write(tmp_path / "m.onnx", data)).precision == "weights int8"


def external(path: Path) -> None:
    raw = tensor("w", np.ones((4, 4), np.float32), external=("m.weights", 0))
    write(path, model([node("MatMul", ["x", "w"], "y")], inputs=[IMAGE], outputs=[OUT], raw_weights=[raw]))


def test_external_weights_are_part_of_the_hash(tmp_path: Path) -> None:
    external(tmp_path / "m.onnx")
    with pytest.raises(EncoderError, match=r"keeps its weights in .*m\.weights, which is missing"):
        inspect_onnx(tmp_path / "m.onnx")
    (tmp_path / "m.weights").write_bytes(np.ones((4, 4), np.float32).tobytes())
    before = inspect_onnx(tmp_path / "m.onnx")
    own = hashlib.sha256((tmp_path / "m.onnx").read_bytes()).hexdigest()
    other = hashlib.sha256((tmp_path / "m.weights").read_bytes()).hexdigest()
    assert before.sha256 == hashlib.sha256(f"{own}\n{other}  m.weights".encode()).hexdigest()
    (tmp_path / "m.weights").write_bytes(np.zeros((4, 4), np.float32).tobytes())
    assert inspect_onnx(tmp_path / "m.onnx").sha256 != before.sha256


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"no such encoder file: .*m\.onnx"):
        inspect_onnx(tmp_path / "m.onnx")


@pytest.mark.parametrize("data", [b"", b"\x00", b"not a model at all", b"\xff" * 40, number(1, 8)])
def test_other_files_are_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(EncoderError, match=r"m\.onnx is not a whole ONNX file"):
        inspect_onnx(write(tmp_path / "m.onnx", data))


def test_any_cut_is_found_or_leaves_the_graph_whole(tmp_path: Path) -> None:
    mean_colour(tmp_path / "m.onnx")
    data = (tmp_path / "m.onnx").read_bytes()
    whole = inspect_onnx(tmp_path / "m.onnx").precision
    refused = 0
    for cut in range(len(data)):
        try:
            assert inspect_onnx(write(tmp_path / "m.onnx", data[:cut])).precision == whole
        except EncoderError:
            refused += 1
    assert refused > 0.9 * len(data)
