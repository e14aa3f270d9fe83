"""Code blocks of the documentation run, in order, page by page; links point to something."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import faceblind as fb
from strategies import planted

ROOT = Path(__file__).parents[1]
PAGES = sorted(ROOT.glob("docs/*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


EXTRAS = {"exports.md": ("faiss", "onnx", "onnxruntime", "torch"), "frequency.md": ("torch",)}


# The tutorial has shell blocks and needs a server: test_tutorial.py runs it.
@pytest.mark.parametrize(
    "page", [p for p in PAGES if BLOCK.search(p.read_text()) and p.name != "tutorial.md"], ids=lambda p: p.name
)
def test_code_blocks_run(page):
    for package in EXTRAS.get(page.name, ()):
        pytest.importorskip(package)
    space: dict[str, object] = {}
    for block in BLOCK.findall(page.read_text()):
        exec(compile(block, page.name, "exec"), space)


def test_readme_block_runs_on_a_table(tmp_path, monkeypatch, capsys):
    made = planted(3, people=40, images=5)
    fb.write_table(tmp_path / "photos.parquet", fb.EmbeddingSet.of(made.vectors, made.identity))
    monkeypatch.chdir(tmp_path)
    (block,) = BLOCK.findall((ROOT / "README.md").read_text())
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip().endswith(".")
    assert np.isfinite(made.vectors).all()


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES, ROOT / "benchmarks/RESULTS.md"], ids=lambda p: p.name)
def test_links_point_to_files(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_readme_names_only_options_that_exist():
    from faceblind.cli.app import build

    app = build()
    text = (ROOT / "README.md").read_text()
    for verb in re.findall(r"^ {4}faceblind (\w+)", text, re.MULTILINE):
        assert verb in {name for command in app for name in (command if isinstance(command, tuple) else (command,))}
