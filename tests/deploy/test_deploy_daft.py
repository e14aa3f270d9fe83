"""The Daft recipe of docs/distributed.md."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from docs_blocks import block

import faceblind as fb
from faceblind.data.tables import read_table, write_table
from strategies import planted

pytest.importorskip("pyarrow")


def test_a_column_function_gives_what_the_projector_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DO_NOT_TRACK", "1")  # before Daft is loaded
    pytest.importorskip("daft")
    made = planted(1, people=20, images=5)
    projector = fb.ISP(4).fit(made.vectors, made.identity).projector_
    monkeypatch.chdir(tmp_path)
    write_table("people.parquet", fb.EmbeddingSet.of(made.vectors, made.identity))
    projector.save("isp.safetensors")
    exec(compile(block("Daft"), "docs/distributed.md", "exec"), {})
    clean = read_table(tmp_path / "clean.parquet")
    order = np.argsort(clean.sample.astype(int))
    assert len(clean) == len(made.vectors)
    np.testing.assert_allclose(clean.vectors[order], projector.apply(made.vectors).vectors, atol=1e-6)
    np.testing.assert_array_equal(clean.require_identity()[order], made.identity)
