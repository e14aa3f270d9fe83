"""`faceblind reproduce` as a user runs it."""

from __future__ import annotations

import csv

import pytest

import faceblind as fb
from faceblind.cli import main
from strategies import planted

QUICK = [
    "--far", "1e-2", "--people", "20,10,10", "--images", "6", "--ks", "1", "--seeds", "1", "--draws", "100", "--rank", "6",
]  # fmt: skip


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for seed, name in ((1, "celeba"), (2, "lfw")):
        made = planted(seed, people=44, images=6, dim=24, rank=6, strength=0.5, noise=0.2)
        fb.write_table(folder / f"{name}-enc.npz", fb.EmbeddingSet.of(made.vectors, made.identity))
    return folder


def run(capsys, *argv):
    code = main([str(a) for a in argv])
    streams = capsys.readouterr()
    return code, streams.out, streams.err


def test_tables_are_written_and_shown(tables, tmp_path, capsys):
    code, out, err = run(
        capsys, "reproduce", tables, "--table", "1,5", "--ranks", "0,4", "--as-printed", "--resamplings", "20", "-o", tmp_path, *QUICK
    )  # fmt: skip
    assert (code, err) == (0, "")
    names = {f"table{t}.{s}" for t in "15" for s in ("csv", "tex", "html")} | {"cells.json"}
    assert {p.name for p in tmp_path.iterdir()} == names
    with (tmp_path / "table1.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [r["column"] for r in rows[:3]] == ["k=1 RAW", "k=1 ISP-W", "k=1 ISP-X"]
    assert "Table 1. Ridge probe" in out
    assert "as printed" in out
    assert f"Written: {tmp_path / 'table5.html'}" in out


def test_the_second_run_reads_what_the_first_measured(tables, tmp_path, capsys):
    command = ["reproduce", tables, "--table", "5", "--ranks", "0", "-o", tmp_path, *QUICK]
    assert run(capsys, *command)[0] == 0
    cells = tmp_path / "cells.json"
    first, kept = (tmp_path / "table5.csv").read_bytes(), cells.read_text()
    cells.write_text(kept.replace('"grade": "indicative"', '"grade": "supported"'))
    assert run(capsys, *command)[0] == 0
    assert (tmp_path / "table5.csv").read_bytes() != first
    assert run(capsys, *command, "--restart")[0] == 0
    assert (tmp_path / "table5.csv").read_bytes() == first
    assert cells.read_text() == kept


def test_printed_tables_are_checked_without_data(capsys):
    code, out, err = run(capsys, "reproduce", "--check-printed")
    assert (code, err) == (0, "")
    for rule in ("far_below_floor", "impostor_count", "tables_disagree", "not_near_chance", "mlp_weaker_than_ridge"):
        assert f"[{rule}]" in out
    assert "1/6,400 = 1.6e-4" in out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "name the folder of embedding tables"),
        (["missing"], "is not a folder"),
        (["TABLES", "--table", "2"], "no layout for table 2"),
        (["TABLES", "--people", "1,2"], "three numbers"),
        (["TABLES", "--controls", "arc"], "no table is of the control encoder arc"),
    ],
)
def test_mistakes_are_one_line(tables, tmp_path, capsys, argv, words):
    code, _, err = run(capsys, "reproduce", *(tables if a == "TABLES" else a for a in argv), "-o", tmp_path / "out")
    assert code == 2
    assert err.startswith("faceblind: error: ")
    assert words in err
    assert err.count("\n") == 1
    assert not list((tmp_path / "out").glob("table*")) if (tmp_path / "out").exists() else True
