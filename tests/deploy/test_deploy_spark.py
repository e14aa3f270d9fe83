"""The Spark recipe of docs/distributed.md, on a Spark of two threads."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from docs_blocks import block

import faceblind as fb
from faceblind.data.tables import read_table, write_table
from strategies import planted

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

pytestmark = [
    pytest.mark.skipif(
        shutil.which("java") is None and "JAVA_HOME" not in os.environ, reason="Spark needs Java, which is not there"
    ),
    # Said of the pandas that happens to be installed; the recipe uses none of it.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a session whose current folder is `tmp_path`."""
    from pyspark.sql import SparkSession

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    options = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def test_map_in_arrow_gives_what_the_projector_gives(spark: Any, tmp_path: Path) -> None:
    made = planted(1, people=20, images=5)
    projector = fb.ISP(4).fit(made.vectors, made.identity).projector_
    write_table("people.parquet", fb.EmbeddingSet.of(made.vectors, made.identity))
    projector.save("isp.safetensors")
    exec(compile(block("Spark"), "docs/distributed.md", "exec"), {"spark": spark})
    clean = read_table(tmp_path / "clean.parquet")
    order = np.argsort(clean.sample.astype(int))
    assert len(clean) == len(made.vectors)
    np.testing.assert_allclose(clean.vectors[order], projector.apply(made.vectors).vectors, atol=1e-6)
    np.testing.assert_array_equal(clean.require_identity()[order], made.identity)
