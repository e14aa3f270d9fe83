"""Face recognition encoders on tiny networks: what they are fed, what they refuse, what they say of themselves."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from encoders.tiny_onnx import FLOAT, block, model, node
from faceblind._errors import EncoderError, ImageError, UsageError
from faceblind.encoders.entry import OpenOptions
from faceblind.encoders.face_encoder import ALIGNED, FaceEncoder, with_faces
from faceblind.encoders.face_models import ENTRIES
from faceblind.faces.aligner import Aligner
from faceblind.faces.centerface import CenterFace
from faces.planted import spot_finder

pytest.importorskip("onnxruntime")
pytest.importorskip("PIL")

ENTRY = {entry.info.name: entry for entry in ENTRIES}
ONNX_NAMES = ("arcface", "adaface", "edgeface-xs", "edgeface-xxs")


def network(path, *, image=("image", FLOAT, ("n", 3, 112, 112)), dim=512, norm=False, scales_itself=False):
    """Write a network whose vector is its input's mean colour times a fixed matrix, which is returned."""
    matrix = np.random.default_rng(0).normal(size=(3, dim)).astype(np.float32)
    weights = {"matrix": matrix}
    nodes, feed = [], image[0]
    if scales_itself:  # as networks converted from MXNet do
        weights |= {"mean": np.float32([127.5]), "share": np.float32([1 / 127.5])}
        nodes = [node("Sub", [feed, "mean"], "centred"), node("Mul", ["centred", "share"], "scaled")]
        feed = "scaled"
    weights["kernel"] = np.eye(3, dtype=np.float32)[:, :, None, None]
    nodes += [
        node("Conv", [feed, "kernel"], "same", kernel_shape=(1, 1)),
        node("GlobalAveragePool", ["same"], "pooled"),
        node("Flatten", ["pooled"], "flat", axis=1),
        node("MatMul", ["flat", "matrix"], "embedding"),
    ]
    outputs = [("embedding", FLOAT, ("n", dim))]
    if norm:
        nodes.append(node("ReduceL2", ["embedding"], "norm", axes=(1,), keepdims=1))
        outputs.append(("norm", FLOAT, ("n", 1)))
    path.write_bytes(model(nodes, inputs=[image], outputs=outputs, weights=weights))
    return matrix


def open_aligned(name, path, **options):
    return ENTRY[name].open(OpenOptions(weights=path, detector=ALIGNED, **options))


def chips(n=3, seed=0):
    rng = np.random.default_rng(seed)
    return [np.broadcast_to(rng.integers(0, 256, size=3, dtype=np.uint8), (112, 112, 3)).copy() for _ in range(n)]


@pytest.mark.parametrize("name", ONNX_NAMES)
@pytest.mark.parametrize("scales_itself", [False, True])
def test_pixels_reach_the_network_as_it_was_trained(tmp_path, name, scales_itself):
    matrix = network(tmp_path / "n.onnx", scales_itself=scales_itself)
    images = chips()
    got = open_aligned(name, tmp_path / "n.onnx").embed(images)
    colours = np.array([image[0, 0] for image in images], dtype=np.float64)
    if name == "adaface":
        colours = colours[:, ::-1]  # BGR
    expected = ((colours - 127.5) / 127.5) @ matrix
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(got, expected, atol=2e-5)


def test_the_order_of_channels_shows_in_the_fingerprint(tmp_path):
    network(tmp_path / "n.onnx")
    rgb, bgr = (open_aligned(name, tmp_path / "n.onnx").fingerprint for name in ("edgeface-xs", "adaface"))
    (difference,) = rgb.differs_from(bgr)
    assert 'channels "RGB" != "BGR"' in difference


def test_how_pixels_are_scaled_shows_in_the_fingerprint(tmp_path):
    network(tmp_path / "n.onnx")
    network(tmp_path / "s.onnx", scales_itself=True)
    outside, inside = (open_aligned("arcface", tmp_path / f"{name}.onnx").fingerprint for name in "ns")
    assert json.loads(outside.preprocessing)["mean"] == [127.5] * 3
    assert json.loads(inside.preprocessing)["mean"] == [0.0] * 3


def test_a_length_beside_the_vector_is_left_alone(tmp_path):
    network(tmp_path / "n.onnx", norm=True)
    network(tmp_path / "plain.onnx")
    got = open_aligned("adaface", tmp_path / "n.onnx").embed(chips())
    np.testing.assert_array_equal(got, open_aligned("adaface", tmp_path / "plain.onnx").embed(chips()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": ("image", FLOAT, ("n", 3, 160, 160))}, r"input has the shape \(any, 3, 160, 160\)"),
        ({"image": ("image", FLOAT, ("n", 112, 112, 3))}, r"expected \(1, 3, 112, 112\)"),
        ({"image": ("image", FLOAT, ("n", 1, 112, 112))}, r"shape \(any, 1, 112, 112\)"),
        ({"image": ("image", FLOAT, (8, 3, 112, 112))}, "takes? one image|batch"),
        ({"dim": 128}, r"one output of the shape \(1, 512\); it has embedding \(any, 128\)"),
    ],
)
def test_a_network_of_another_kind_is_refused_when_it_is_opened(tmp_path, change, message):
    network(tmp_path / "n.onnx", **change)
    with pytest.raises(EncoderError, match=message):
        open_aligned("arcface", tmp_path / "n.onnx")


def test_files_that_are_not_there_or_damaged(tmp_path):
    with pytest.raises(EncoderError, match="'arcface' needs your own ONNX file as its weights"):
        ENTRY["arcface"].open(OpenOptions())
    with pytest.raises(EncoderError, match=r"cannot read the encoder file .*none: No such file"):
        open_aligned("arcface", tmp_path / "none")
    (tmp_path / "junk").write_bytes(block(7, b"")[:1] + b"\x7fjunk")
    with pytest.raises(EncoderError, match="junk is not a whole ONNX file"):
        open_aligned("arcface", tmp_path / "junk")


def test_options_that_have_no_meaning_are_refused(tmp_path):
    network(tmp_path / "n.onnx")
    with pytest.raises(UsageError, match="'arcface' takes no device"):
        open_aligned("arcface", tmp_path / "n.onnx", device="cuda")
    with pytest.raises(EncoderError, match="no face detector 'mtcnn'"):
        ENTRY["arcface"].open(OpenOptions(weights=tmp_path / "n.onnx", detector="mtcnn"))
    detector = f"centerface:{spot_finder(tmp_path / 'red.onnx')}"
    with pytest.raises(UsageError, match="must be one of central, largest, score, only, got 'first'"):
        ENTRY["arcface"].open(OpenOptions(weights=tmp_path / "n.onnx", detector=detector, face="first"))


def test_chips_are_asked_for_where_they_were_promised(tmp_path):
    network(tmp_path / "n.onnx")
    encoder = open_aligned("edgeface-xs", tmp_path / "n.onnx")
    with pytest.raises(ImageError, match="250x240 pixels is no aligned 112x112 chip"):
        encoder.prepare(np.zeros((240, 250, 3), np.uint8))


def spots(*places, size=160):
    image = np.full((size, size, 3), 40, np.uint8)
    for row, column in places:
        image[4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = (255, 0, 0)
    return image


def test_a_photograph_gives_what_its_chip_gives(tmp_path):
    network(tmp_path / "n.onnx")
    finder = spot_finder(tmp_path / "red.onnx", side=60)
    whole = ENTRY["edgeface-xs"].open(OpenOptions(weights=tmp_path / "n.onnx", detector=f"centerface:{finder}"))
    image = spots((20, 18))
    chip = Aligner(CenterFace(finder))(image).chip
    np.testing.assert_array_equal(whole.chip(image), chip)
    np.testing.assert_array_equal(whole.embed([image]), open_aligned("edgeface-xs", tmp_path / "n.onnx").embed([chip]))


def test_photographs_without_the_face_asked_for_are_image_errors(tmp_path):
    network(tmp_path / "n.onnx")
    finder = f"centerface:{spot_finder(tmp_path / 'red.onnx')}"
    options = OpenOptions(weights=tmp_path / "n.onnx", detector=finder)
    with pytest.raises(ImageError, match="no face was found"):
        ENTRY["arcface"].open(options).prepare(spots())
    only = ENTRY["arcface"].open(replace(options, face="only"))
    only.prepare(spots((10, 10)))
    with pytest.raises(ImageError, match="2 faces were found"):
        only.prepare(spots((10, 10), (30, 30)))


def test_the_fingerprint_tells_apart_every_way_to_a_chip(tmp_path):
    network(tmp_path / "n.onnx")
    network(tmp_path / "other.onnx", norm=True)
    a, b = (spot_finder(tmp_path / f"{side}.onnx", side=side) for side in (30, 40))
    base = OpenOptions(weights=tmp_path / "n.onnx", detector=f"centerface:{a}")
    ways = [
        base,
        replace(base, detector=f"centerface:{b}"),
        replace(base, face="largest"),
        replace(base, detector=ALIGNED),
    ]
    prints = [ENTRY["arcface"].open(way).fingerprint for way in ways]
    for i, ours in enumerate(prints):
        for j, theirs in enumerate(prints):
            differing = ours.differs_from(theirs)
            assert bool(differing) == (i != j)
            assert all(text.startswith("preprocessing: faces") for text in differing)
    faces = json.loads(prints[0].preprocessing)["faces"]
    assert faces["detector"]["sha256"] == CenterFace(a).facts()["sha256"]
    assert faces["choice"] == "central"
    assert faces["size"] == 112
    assert len(faces["template"]) == 5
    assert prints[0] == ENTRY["arcface"].open(base).fingerprint
    assert prints[0].encoder == "arcface"


def test_an_aligner_of_another_size_or_a_fingerprint_without_steps_is_refused(tmp_path):
    network(tmp_path / "n.onnx")
    finder = CenterFace(spot_finder(tmp_path / "red.onnx"))
    inner = open_aligned("arcface", tmp_path / "n.onnx")
    with pytest.raises(EncoderError, match="cuts chips of 96 pixels"):
        FaceEncoder(inner, Aligner(finder, size=96))
    for text, message in (("as always", "is not JSON"), ("[1]", "is no JSON object")):
        with pytest.raises(EncoderError, match=message):
            with_faces(replace(inner.fingerprint, preprocessing=text), {})


def test_every_entry_says_its_terms_and_how_to_get_it():
    assert sorted(ENTRY) == ["adaface", "arcface", "dlib", *ONNX_NAMES[2:]]
    for entry in ENTRIES:
        assert entry.info.licence
        assert entry.info.how_to_get
    for name in ("edgeface-xs", "arcface"):
        assert "non-commercial" in ENTRY[name].info.licence
