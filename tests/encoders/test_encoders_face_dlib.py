"""The dlib encoder, where dlib and its weights are installed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from faceblind._errors import EncoderError, ImageError, MissingExtraError, UsageError
from faceblind.encoders import dlib_encoder
from faceblind.encoders.dlib_encoder import DlibEncoder, open_dlib
from faceblind.encoders.entry import OpenOptions
from faceblind.faces.synthetic import SyntheticPeople


@pytest.fixture(scope="module")
def encoder():
    pytest.importorskip("dlib")
    try:
        return open_dlib(OpenOptions())
    except EncoderError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def images():
    return [portrait.image for portrait in SyntheticPeople(3, 1, seed=4, size=128)]


@pytest.fixture(scope="module")
def chips(encoder, images):
    return [encoder.prepare(image) for image in images]


def test_a_photograph_goes_by_way_of_dlibs_own_chip(images, chips):
    import dlib

    (box, *_) = dlib.get_frontal_face_detector()(images[0], 0) or dlib.get_frontal_face_detector()(images[0], 1)
    points = dlib.shape_predictor(str(dlib_encoder._installed() / dlib_encoder._PREDICTOR))(images[0], box)
    assert chips[0].shape == (150, 150, 3)
    np.testing.assert_array_equal(chips[0], dlib.get_face_chip(images[0], points, size=150, padding=0.25))


def test_photographs_do_not_depend_on_each_other(encoder, images, chips):
    together = encoder.run(chips)
    assert together.shape == (3, encoder.fingerprint.dim)
    np.testing.assert_array_equal(encoder.run(chips[2:])[0], together[2])
    with ThreadPoolExecutor(3) as pool:
        again = list(pool.map(encoder.prepare, images))
    for a, b in zip(chips, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_no_face_is_a_reason_to_skip(encoder):
    with pytest.raises(ImageError, match="no face was found"):
        encoder.prepare(np.zeros((120, 120, 3), np.uint8))


def test_aligned_chips_are_taken_as_they_are(encoder, chips):
    aligned = open_dlib(OpenOptions(detector="aligned"))
    np.testing.assert_array_equal(aligned.prepare(chips[0]), chips[0])
    with pytest.raises(ImageError, match="112x112 pixels is no aligned 150x150 chip"):
        aligned.prepare(np.zeros((112, 112, 3), np.uint8))
    (difference,) = aligned.fingerprint.differs_from(encoder.fingerprint)
    assert difference.startswith("preprocessing: faces")
    assert json.loads(encoder.fingerprint.preprocessing)["faces"]["detector"]["name"] == "dlib hog"


def test_options_it_cannot_follow_are_refused(encoder, tmp_path):
    with pytest.raises(UsageError, match="by its own 'hog'; detector must be that"):
        open_dlib(OpenOptions(detector="centerface"))
    with pytest.raises(UsageError, match="one of central"):
        open_dlib(OpenOptions(face="any"))
    with pytest.raises(UsageError, match="takes no threads"):
        open_dlib(OpenOptions(threads=2))
    with pytest.raises(EncoderError, match=r"no dlib_face_recognition_resnet_model_v1\.dat in"):
        open_dlib(OpenOptions(weights=tmp_path))
    (tmp_path / dlib_encoder._NETWORK).write_bytes(b"weights of another kind")
    with pytest.raises(EncoderError, match="damaged or another version"):
        DlibEncoder(tmp_path)


def test_what_is_missing_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(dlib_encoder, "find_spec", lambda _: None)
    with pytest.raises(EncoderError, match="not installed; run: pip install dlib-bin"):
        open_dlib(OpenOptions())
    monkeypatch.setitem(__import__("sys").modules, "dlib", None)
    with pytest.raises(MissingExtraError, match="the dlib encoder needs dlib-bin"):
        DlibEncoder(tmp_path)
