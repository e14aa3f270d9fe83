"""``faceblind hygiene`` as a user runs it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import faceblind as fb
from faceblind.cli import main
from faceblind.data.tables import write_table
from strategies import unit_gauss


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    means = unit_gauss(rng, 80, 96)
    vectors = np.sqrt(0.6) * np.repeat(means, 6, axis=0) + np.sqrt(0.4) * unit_gauss(rng, 480, 96)
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    identity = np.repeat([f"p{i:02d}" for i in range(80)], 6)
    first, second = slice(0, 240), slice(240, 480)
    clean = fb.EmbeddingSet.of(vectors[first], identity[first])
    write_table(folder / "clean.parquet", clean)
    fb.IdentitySplit.draw(clean).save(folder / "split.csv", clean)
    write_table(folder / "others.parquet", fb.EmbeddingSet.of(vectors[second], identity[second]))
    dirty = vectors[first].copy()
    dirty[100] = dirty[0]
    write_table(folder / "dirty.parquet", fb.EmbeddingSet.of(dirty, identity[first]))
    return folder


def run(capsys, *argv):
    code = main([str(a) for a in argv])
    streams = capsys.readouterr()
    return code, streams.out, streams.err


def test_a_clean_table_has_no_findings_and_passes_strict(made, capsys):
    code, out, err = run(capsys, "hygiene", made / "clean.parquet", "--split", made / "split.csv", "--strict")
    assert (code, err) == (0, "")
    assert out == "Data: no findings.\n"


def test_findings_are_printed_and_written(made, tmp_path, capsys):
    record = tmp_path / "new" / "findings.json"
    code, out, err = run(capsys, "hygiene", made / "dirty.parquet", "-o", record)
    assert (code, err) == (0, "")
    assert "ERROR  duplicate_across_identities (1)" in out
    assert "0 (p00) = 100 (p16), cosine 1.0000" in out
    written = json.loads(record.read_text())
    assert (written["schema"], written["tables"]) == ("faceblind.hygiene/1", ["dirty.parquet"])
    assert written["findings"][0]["kind"] == "duplicate_across_identities"


def test_strict_exits_with_one_after_printing_and_writing(made, tmp_path, capsys):
    code, out, err = run(capsys, "hygiene", made / "dirty.parquet", "--strict", "-o", tmp_path / "f.json")
    assert code == 1
    assert "duplicate_across_identities" in out
    assert (tmp_path / "f.json").exists()
    assert err.count("\n") == 1
    assert "findings do not pass --strict: duplicate_across_identities" in err


def test_another_table_is_compared(made, capsys):
    assert (
        run(capsys, "hygiene", made / "clean.parquet", "--other", made / "others.parquet")[1] == "Data: no findings.\n"
    )
    code, out, _ = run(capsys, "hygiene", made / "clean.parquet", "--other", made / "dirty.parquet", "--strict")
    assert code == 1
    for kind in ("photograph_in_both_tables", "identity_in_both_tables"):
        assert kind in out


def test_what_cannot_be_read_exits_with_two(made, tmp_path, capsys):
    code, _, err = run(capsys, "hygiene", tmp_path / "absent.parquet")
    assert (code, err.count("\n")) == (2, 1)
    code, _, err = run(capsys, "hygiene", made / "clean.parquet", "--near", "1.5")
    assert code == 2
    assert "it is a cosine" in err
    code, _, _ = run(capsys, "hygiene", made / "clean.parquet", "--split", made / "clean.parquet")
    assert code == 2
