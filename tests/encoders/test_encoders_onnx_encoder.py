"""ONNX encoders: right numbers, independent of batch and threads, and errors before the first photograph."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_onnx import ANY_IMAGE, FLOAT, FLOAT16, UINT8, mean_colour, model, node, one_node, pixels_as_tokens

from faceblind._errors import DataError, EncoderError, ImageError, MissingExtraError, UsageError
from faceblind._onnxruntime import _providers
from faceblind.data.meta import METADATA_KEY, TableMeta
from faceblind.encoders import OnnxEncoder, PreprocessSpec

pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(3)
PHOTOS = [RNG.integers(0, 256, (h, w, 3), dtype=np.uint8) for h, w in ((9, 12), (30, 20), (16, 16), (5, 40), (21, 8))]
KEYS = {
    "size": [8, 10],
    "resize": "squash",
    "interpolation": "bilinear",
    "channels": "RGB",
    "layout": "NCHW",
    "dtype": "float32",
    "scale": "1/255",
    "mean": [0.1, 0.2, 0.3],
    "std": [0.5, 1, 2],
}
FREE = {"resize": "none", "channels": "RGB", "layout": "NCHW", "dtype": "float32", "scale": 1}
FREE |= {"mean": [0, 0, 0], "std": [1, 1, 1]}


def encoder(path: Path, *, threads: int | None = None, **keys: Any) -> OnnxEncoder:
    return OnnxEncoder(path, PreprocessSpec.parse(KEYS | keys), threads=threads)


def test_numbers(tmp_path: Path) -> None:
    matrix = mean_colour(tmp_path / "m.onnx")
    free = OnnxEncoder(tmp_path / "m.onnx", PreprocessSpec.parse(FREE | {"mean": [1, 2, 3], "std": [2, 4, 8]}))
    colours = np.array([photo.mean(axis=(0, 1)) for photo in PHOTOS])
    expected = (colours - [1, 2, 3]) / [2, 4, 8] @ matrix
    vectors = free.embed(PHOTOS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, rtol=1e-4)
    unit = OnnxEncoder(tmp_path / "m.onnx", PreprocessSpec.parse(FREE | {"normalise": True})).embed(PHOTOS)
    raw = colours @ matrix
    np.testing.assert_allclose(unit, raw / np.linalg.norm(raw, axis=1, keepdims=True), atol=1e-5)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("cls", PHOTOS[0][0, 0]),
        ("mean", PHOTOS[0].mean(axis=(0, 1))),
        ("patch mean", PHOTOS[0].reshape(-1, 3)[1:].mean(axis=0)),
    ],
)
def test_tokens(tmp_path: Path, pooling: str, expected: np.ndarray) -> None:
    pixels_as_tokens(tmp_path / "m.onnx")
    vectors = OnnxEncoder(tmp_path / "m.onnx", PreprocessSpec.parse(FREE | {"pooling": pooling})).embed(PHOTOS[:1])
    np.testing.assert_allclose(vectors[0], expected, rtol=1e-5)


@pytest.mark.parametrize(("dtype", "number"), [("float16", FLOAT16), ("uint8", UINT8)])
def test_other_input_types(tmp_path: Path, dtype: str, number: int) -> None:
    pixels_as_tokens(tmp_path / "m.onnx", dtype=number)
    keys = {key: value for key, value in FREE.items() if dtype != "uint8" or key not in {"scale", "mean", "std"}}
    made = OnnxEncoder(tmp_path / "m.onnx", PreprocessSpec.parse(keys | {"dtype": dtype, "pooling": "mean"}))
    np.testing.assert_allclose(made.embed(PHOTOS)[1], PHOTOS[1].mean(axis=(0, 1)), rtol=1e-5)


def test_nhwc_bytes(tmp_path: Path) -> None:
    nodes = [
        node("Cast", ["image"], "float", to=FLOAT),
        node("Transpose", ["float"], "nchw", perm=(0, 3, 1, 2)),
    ]
    data = model(
        nodes,
        inputs=[("image", UINT8, ("b", "h", "w", 3))],
        outputs=[("nchw", FLOAT, ("b", 3, "h", "w"))],
    )
    (tmp_path / "m.onnx").write_bytes(data)
    spec = {"resize": "none", "channels": "BGR", "layout": "NHWC", "dtype": "uint8", "pooling": "mean"}
    vectors = OnnxEncoder(tmp_path / "m.onnx", PreprocessSpec.parse(spec)).embed(PHOTOS)
    np.testing.assert_allclose(vectors[3], PHOTOS[3].mean(axis=(0, 1))[::-1], rtol=1e-5)


def relative_to_batch(path: Path) -> None:
    """Write a network that divides by the largest value of the whole batch, as dynamic quantisation does."""
    nodes = [
        node("ReduceMax", ["image"], "largest", keepdims=0),
        node("GlobalAveragePool", ["image"], "pooled"),
        node("Flatten", ["pooled"], "flat", axis=1),
        node("Div", ["flat", "largest"], "embedding"),
    ]
    path.write_bytes(model(nodes, inputs=[ANY_IMAGE], outputs=[("embedding", FLOAT, ("batch", 3))]))


@pytest.mark.parametrize("make", [mean_colour, relative_to_batch])
def test_vectors_do_not_depend_on_batch_or_threads(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "m.onnx")
    one = encoder(tmp_path / "m.onnx", threads=1)
    alone = np.concatenate([one.embed([photo]) for photo in PHOTOS])
    assert len(np.unique(alone[:, 0])) == len(PHOTOS)
    for threads in (1, 2, 5):
        several = encoder(tmp_path / "m.onnx", threads=threads)
        assert np.array_equal(several.embed(PHOTOS), alone)  # to the last bit
        assert np.array_equal(several.embed(PHOTOS[::-1]), alone[::-1])


def test_the_tricky_network_would_depend_on_its_batch(tmp_path: Path) -> None:
    import onnxruntime

    relative_to_batch(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    made = encoder(tmp_path / "m.onnx")
    batch = np.stack([made.prepare(photo) for photo in PHOTOS])
    together = session.run(None, {"image": batch})[0]
    assert np.abs(together - made.embed(PHOTOS)).max() > 1e-3


def test_fingerprint(tmp_path: Path) -> None:
    mean_colour(tmp_path / "my-model.onnx")
    made = encoder(tmp_path / "my-model.onnx", threads=1, normalise=True)
    fingerprint = made.fingerprint
    assert fingerprint.encoder == "onnx:my-model"
    assert fingerprint.dim == 4
    assert fingerprint.precision == "weights float32"
    assert fingerprint.pooling == "output 'embedding', as output, l2-normalised"
    steps = json.loads(fingerprint.preprocessing)
    assert fingerprint.preprocessing == json.dumps(steps, sort_keys=True, separators=(",", ":"))
    assert set(steps["decode"]) == {"alpha", "deep", "frame", "icc", "orientation"}
    assert steps["size"] == [8, 10]
    assert set(fingerprint.libraries) == {"numpy", "onnxruntime", "pillow"}
    assert encoder(tmp_path / "my-model.onnx", threads=2, normalise=True).fingerprint == fingerprint


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        ({"size": 9}, "preprocessing"),
        ({"interpolation": "bicubic"}, "preprocessing"),
        ({"channels": "BGR"}, "preprocessing"),
        ({"std": [0.5, 1, 2.5]}, "preprocessing"),
        ({"normalise": True}, "pooling"),
    ],
)
def test_what_changes_vectors_changes_the_fingerprint(tmp_path: Path, keys: dict[str, Any], field: str) -> None:
    mean_colour(tmp_path / "m.onnx")
    ours, theirs = encoder(tmp_path / "m.onnx").fingerprint, encoder(tmp_path / "m.onnx", **keys).fingerprint
    assert [text.split(":")[0] for text in ours.differs_from(theirs)] == [field]


def test_other_weights_change_the_fingerprint(tmp_path: Path) -> None:
    mean_colour(tmp_path / "m.onnx")
    before = encoder(tmp_path / "m.onnx").fingerprint
    mean_colour(tmp_path / "m.onnx", seed=1)
    assert before.differs_from(encoder(tmp_path / "m.onnx").fingerprint)[0].startswith("weights_sha256")


def test_images_are_checked(tmp_path: Path) -> None:
    mean_colour(tmp_path / "m.onnx")
    made = encoder(tmp_path / "m.onnx")
    assert made.embed([]).shape == (0, 4)
    assert made.run([]).shape == (0, 4)
    for bad in (PHOTOS[0].astype(np.float32), PHOTOS[0][:, :, 0], PHOTOS[0][:, :, :2], PHOTOS[0][:0]):
        with pytest.raises(DataError, match=r"image 1 must be a \(height, width, 3\) uint8 RGB array"):
            made.embed([PHOTOS[0], bad])
    cropping = encoder(tmp_path / "m.onnx", resize="none", crop="center", interpolation=None)
    with pytest.raises(ImageError, match="smaller than the encoder's crop"):
        cropping.embed([PHOTOS[3]])


# What does not fit shows when the encoder is opened


def several_outputs(path: Path) -> None:
    nodes = [node("GlobalAveragePool", ["image"], "map"), node("Flatten", ["map"], "flat", axis=1)]
    outputs = [("map", FLOAT, ("batch", 3, 1, 1)), ("flat", FLOAT, ("batch", 3))]
    path.write_bytes(model(nodes, inputs=[ANY_IMAGE], outputs=outputs))


def test_outputs_are_chosen_by_name(tmp_path: Path) -> None:
    several_outputs(tmp_path / "m.onnx")
    assert encoder(tmp_path / "m.onnx", output="flat").embed(PHOTOS).shape == (5, 3)
    with pytest.raises(EncoderError, match=r"it has 2 outputs; set 'output' in the spec to one of map, flat"):
        encoder(tmp_path / "m.onnx")
    with pytest.raises(EncoderError, match=r"it has no output 'pooled'; .* one of map, flat"):
        encoder(tmp_path / "m.onnx", output="pooled")
    with pytest.raises(EncoderError, match=r"it has no input 'pixels'; .* one of image"):
        encoder(tmp_path / "m.onnx", input="pixels")
    with pytest.raises(EncoderError, match=r"m\.onnx: the output's shape \[1, 3, 1, 1\] does not suit"):
        encoder(tmp_path / "m.onnx", output="map")


@pytest.mark.parametrize(
    ("image", "keys", "message"),
    [
        (("image", FLOAT16, ("b", 3, "h", "w")), {}, r"input 'image' is tensor\(float16\); 'dtype': \"float32\""),
        (("image", FLOAT, (2, 3, 8, 10)), {}, r"shape \[2, 3, 8, 10\] and cannot take one image"),
        (("image", FLOAT, (3, 8, 10)), {}, r"shape \[3, 8, 10\] and cannot take one image of four axes"),
        (("image", FLOAT, (1, 8, 10, 3)), {}, r"no three channels in 'layout': \"NCHW\""),
        (("image", FLOAT, (1, 3, 8, 8)), {}, "takes images of 8x8 pixels, the spec feeds 10x8 pixels"),
        (("image", FLOAT, (1, 3, 8, 10)), {"resize": "shortest"}, "the spec feeds photographs of any size"),
    ],
)
def test_inputs_that_do_not_fit(tmp_path: Path, image: Any, keys: dict[str, Any], message: str) -> None:
    one_node(tmp_path / "m.onnx", "Identity", image, ("y", image[1], image[2]))
    with pytest.raises(EncoderError, match=r"m\.onnx and its spec do not fit: .*" + message):
        encoder(tmp_path / "m.onnx", **keys)


def test_dim_is_checked(tmp_path: Path) -> None:
    mean_colour(tmp_path / "m.onnx")
    assert encoder(tmp_path / "m.onnx", dim=4).fingerprint.dim == 4
    with pytest.raises(EncoderError, match="it gives vectors of length 4, the spec says 'dim': 512"):
        encoder(tmp_path / "m.onnx", dim=512)


def test_a_network_that_cannot_be_loaded_or_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    one_node(tmp_path / "m.onnx", "NoSuchOperator", ANY_IMAGE, ("y", FLOAT, ("b", 3, "h", "w")))
    with pytest.raises(EncoderError, match=r"onnxruntime cannot load .*m\.onnx: .*NoSuchOperator"):
        encoder(tmp_path / "m.onnx")
    data = model(
        [node("Reshape", ["image", "shape"], "y")],
        inputs=[ANY_IMAGE],
        outputs=[("y", FLOAT, ("a", "b"))],
        weights={"shape": np.array([7, 11], dtype=np.int64)},
    )
    (tmp_path / "m.onnx").write_bytes(data)
    with pytest.raises(EncoderError, match=r"m\.onnx failed on an input of shape \[3, 8, 10\]: "):
        encoder(tmp_path / "m.onnx")
    assert capfd.readouterr() == ("", "")  # onnxruntime keeps quiet


def test_threads_must_be_positive(tmp_path: Path) -> None:
    mean_colour(tmp_path / "m.onnx")
    with pytest.raises(UsageError, match="threads must be at least 1, got 0"):
        encoder(tmp_path / "m.onnx", threads=0)


def test_without_onnxruntime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mean_colour(tmp_path / "m.onnx")
    for name in [name for name in sys.modules if name.startswith("onnxruntime")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"running encoders needs onnxruntime; .*faceblind\[images\]"):
        encoder(tmp_path / "m.onnx")


# Files with a projector behind the encoder, and other devices


def fused(path: Path, meta: TableMeta, **keys: Any) -> OnnxEncoder:
    """Write a file that says it is `meta.encoder` with a projector behind, and open it."""
    mean_colour(path, dim=3, metadata={METADATA_KEY: meta.to_json()})
    return encoder(path, **keys)


def test_a_file_with_a_projector_in_it(tmp_path: Path) -> None:
    mean_colour(tmp_path / "raw.onnx", dim=5)
    raw = encoder(tmp_path / "raw.onnx")
    assert (raw.projector, raw.dim) == (None, 5)
    made = fused(tmp_path / "m.onnx", TableMeta(encoder=raw.fingerprint, projector="sha256:abc"))
    assert made.fingerprint == raw.fingerprint
    assert (made.projector, made.dim, made.fingerprint.dim) == ("sha256:abc", 3, 5)
    assert made.embed(PHOTOS).shape == (len(PHOTOS), 3)
    assert made.embed([]).shape == made.run([]).shape == (0, 3)
    assert fused(tmp_path / "m.onnx", TableMeta(encoder=raw.fingerprint, projector="sha256:abc"), dim=3).dim == 3


def test_a_fused_file_must_be_fed_as_its_projector_was_made(tmp_path: Path) -> None:
    mean_colour(tmp_path / "raw.onnx", dim=5)
    meta = TableMeta(encoder=encoder(tmp_path / "raw.onnx", channels="BGR").fingerprint, projector="sha256:abc")
    with pytest.raises(EncoderError, match=r'made for another preprocessing .preprocessing: channels "RGB" != "BGR"'):
        fused(tmp_path / "m.onnx", meta)
    assert fused(tmp_path / "m.onnx", meta, channels="BGR").projector == "sha256:abc"


@pytest.mark.parametrize("damage", ["", "{", "{}", "null", '{"encoder": {}, "synthetic": false, "projector": "x"}'])
def test_damaged_metadata(tmp_path: Path, damage: str) -> None:
    mean_colour(tmp_path / "m.onnx", metadata={METADATA_KEY: damage})
    with pytest.raises(EncoderError, match=r"m\.onnx: table metadata 'faceblind' is damaged: .*; export it again"):
        encoder(tmp_path / "m.onnx")


def test_metadata_must_name_encoder_and_projector(tmp_path: Path) -> None:
    mean_colour(tmp_path / "raw.onnx")
    fingerprint = encoder(tmp_path / "raw.onnx").fingerprint
    for meta in (TableMeta(), TableMeta(encoder=fingerprint), TableMeta(projector="sha256:abc")):
        with pytest.raises(EncoderError, match="it must name an encoder and a projector"):
            fused(tmp_path / "m.onnx", meta)


def test_metadata_of_others_are_not_read(tmp_path: Path) -> None:
    mean_colour(tmp_path / "m.onnx", metadata={"author": "somebody"})
    assert encoder(tmp_path / "m.onnx").projector is None


def test_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    mean_colour(tmp_path / "m.onnx")
    spec = PreprocessSpec.parse(KEYS)
    with pytest.raises(UsageError, match="device must be cpu, cuda or cuda:N, got 'gpu'"):
        OnnxEncoder(tmp_path / "m.onnx", spec, device="gpu")
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(
        EncoderError, match="'cuda' is not there: this onnxruntime has no CUDA; install onnxruntime-gpu"
    ):
        OnnxEncoder(tmp_path / "m.onnx", spec, device="cuda")
    cuda, cpu = _providers("cuda:1", ["CUDAExecutionProvider", "CPUExecutionProvider"])
    assert cuda == ("CUDAExecutionProvider", {"device_id": 1, "use_tf32": 0})
    assert cpu == "CPUExecutionProvider"
