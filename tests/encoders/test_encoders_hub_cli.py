"""`faceblind embed` with a checkpoint in the hub's cache, in a process of its own as a user has it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hub_checkpoints import photo, write_checkpoint

from faceblind.cli import main
from faceblind.data.tables import read_table

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("PIL")
pytest.importorskip("pyarrow")

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    from PIL import Image

    for person in ("ann", "bob"):
        (tmp_path / "photos" / person).mkdir(parents=True)
        for i in range(2):
            Image.fromarray(photo(200 + i, 260, seed=i + len(person))).save(tmp_path / "photos" / person / f"{i}.png")
    return tmp_path / "photos"


def test_weights_in_a_folder(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_checkpoint(tmp_path / "weights", "siglip2")
    capsys.readouterr()
    argv = ["embed", str(photos), "--encoder", f"hf:{tmp_path}/weights", "--precision", "bfloat16", "--threads", "1"]
    assert main([*argv, "-o", str(tmp_path / "t.parquet")]) == 0
    streams = capsys.readouterr()
    assert "4 photographs embedded, 0 skipped" in streams.out
    assert streams.err == ""
    table = read_table(tmp_path / "t.parquet")
    assert table.vectors.shape == (4, 32)
    assert table.encoder is not None
    assert table.encoder.precision == "bfloat16"
    assert table.encoder.pooling.startswith("attention pooling head (gelu_pytorch_tanh")
    assert json.loads(table.encoder.preprocessing)["mean"] == [0.5, 0.5, 0.5]
    assert main(["embed", str(photos), "--encoder", "siglip2-base", "--weights", str(tmp_path), "-o", "t.npz"]) == 2
    assert "has no config.json, so it is no transformers checkpoint" in capsys.readouterr().err


def test_the_hubs_cache_offline(photos: Path, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "weights", "dinov3-convnext")
    repository = tmp_path / "hub" / "models--owner--small"
    shutil.copytree(tmp_path / "weights", repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    argv = ["embed", str(photos), "--encoder", "hf:owner/small", "-o", str(tmp_path / "t.npz"), "--threads", "1"]
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-m", "faceblind", *argv],
        env=os.environ | {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1", "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    table = read_table(tmp_path / "t.npz")
    assert table.encoder is not None
    assert table.encoder.encoder == "hf:owner/small"
    assert np.isfinite(table.vectors).all()
