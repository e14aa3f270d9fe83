"""``faceblind angles``: two projectors, their angles, and what those angles are without identity."""

from __future__ import annotations

import json

import numpy as np
import pytest

import faceblind as fb
from faceblind.cli import main
from strategies import planted


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("angles")
    shared = np.linalg.qr(np.random.default_rng(5).standard_normal((24, 4)))[0]
    for index in (0, 1):
        made = planted(index, people=60, images=6, dim=24, rank=4, strength=0.5, noise=0.2)
        turned = np.linalg.qr(np.hstack([made.subspace, np.random.default_rng(9).standard_normal((24, 20))]))[0]
        target = np.linalg.qr(np.hstack([shared, np.random.default_rng(9).standard_normal((24, 20))]))[0]
        people = fb.EmbeddingSet.of(made.vectors @ turned @ target.T, made.identity)  # the same subspace in both
        fb.write_table(folder / f"{index}.npz", people)
        fb.ISP(4).fit(people.vectors, people.identity).projector_.save(folder / f"{index}.safetensors")
    return folder


def test_without_tables_it_says_what_is_missing(folder, capsys):
    assert main(["angles", str(folder / "0.safetensors"), str(folder / "1.safetensors"), "--draws", "20"]) == 0
    said = capsys.readouterr().out
    assert "nothing can be said about identity without" in said


def test_a_shared_identity_subspace_is_told_from_chance(folder, capsys):
    output = folder / "angles.json"
    files = [str(folder / f"{index}.safetensors") for index in (0, 1)]
    tables = ["--first-table", str(folder / "0.npz"), "--second-table", str(folder / "1.npz")]
    assert main(["angles", *files, *tables, "--draws", "20", "--permutations", "5", "-o", str(output)]) == 0
    said = capsys.readouterr().out
    record = json.loads(output.read_text())
    assert record["said"] in said.replace("\n", " ") or record["said"][:40] in said
    assert len(record["cosines"]) == 4
    assert record["overlap"] > 0.9
    assert len(record["nulls"]) == 3
    assert record["first"] == fb.Projector.load(files[0]).digest


def test_one_table_alone_is_refused(folder, capsys):
    files = [str(folder / f"{index}.safetensors") for index in (0, 1)]
    assert main(["angles", *files, "--first-table", str(folder / "0.npz")]) == 2
    assert "both sides or of neither" in capsys.readouterr().err
