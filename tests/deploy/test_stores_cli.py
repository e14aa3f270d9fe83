"""``faceblind rewrite``: options, what is printed, exit codes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from stores_help import projector_of, vectors_of

from faceblind.cli import main

PROJECTOR = projector_of()
TARGET = f"items_clean_{PROJECTOR.digest[:8]}"


@pytest.fixture
def saved(tmp_path):
    PROJECTOR.save(tmp_path / "isp.safetensors")
    return str(tmp_path / "isp.safetensors")


@pytest.fixture
def folder(tmp_path):
    lance = pytest.importorskip("lancedb")
    pa = pytest.importorskip("pyarrow")
    vectors = vectors_of(30)
    flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    lance.connect(tmp_path / "db").create_table("items", pa.table({"id": range(30), "vector": flat}))
    return str(tmp_path / "db")


def test_it_says_what_was_written_how_to_switch_and_how_to_undo(saved, folder, capsys):
    assert main(["rewrite", saved, "--lancedb", folder, "--table", "items", "--batch-rows", "8"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == f"items.vector -> {TARGET}"
    assert lines[1].startswith("30 clean vectors of 24 columns in float32 (30 written now; low-rank formula)")
    assert lines[2].startswith("Checksum ")
    assert lines[2].endswith("read back and compared: they agree.")
    assert lines[3] == "To switch:"
    assert f"open_table('{TARGET}')" in lines[4]
    assert "To undo:" in lines
    assert f"drop_table('{TARGET}')" in lines[-1]
    assert "does not say which encoder" in err
    assert main(["rewrite", saved, "--lancedb", folder, "--table", "items", "--no-verify"]) == 0
    assert "(continued; 0 written now; " in capsys.readouterr().out


def test_the_options_reach_the_store(saved, folder, capsys):
    import lancedb

    options = ["--target", "small", "--compact", "--dtype", "float16", "--no-renormalise"]
    assert main(["rewrite", saved, "--lancedb", folder, "--table", "items", *options]) == 0
    capsys.readouterr()
    held = lancedb.connect(folder).open_table("small").search().limit(None).to_arrow().sort_by("id")
    expected = PROJECTOR.apply(vectors_of(30), compact=True, renormalise=False).vectors.astype(np.float16)
    np.testing.assert_allclose(np.stack(held["vector"].to_numpy()), expected, atol=1e-2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name one store: --lancedb, --postgres or --qdrant (got none)"),
        (["--lancedb", "x", "--qdrant", "y"], "(got --lancedb and --qdrant)"),
        (["--lancedb", "x"], "--lancedb needs --table NAME"),
        (["--qdrant", "x", "--table", "t"], "--qdrant needs --collection NAME"),
        (["--lancedb", "no/such/folder", "--table", "t"], "not a folder"),
        (["--lancedb", "x", "--table", "t", "--new-table"], "--new-table is for --postgres"),
        (["--lancedb", "x", "--table", "t", "--take-over"], "--take-over is for --qdrant"),
        (["--qdrant", "x", "--collection", "t", "--key", "nr"], "--key is for --lancedb and --postgres"),
    ],
)
def test_what_cannot_be_understood_is_one_line_and_exit_2(saved, arguments, said, capsys):
    assert main(["rewrite", saved, *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_a_password_is_not_printed(saved, capsys):
    pytest.importorskip("psycopg")
    dsn = "postgresql://me:s3cret@127.0.0.1:1/db?connect_timeout=1"
    assert main(["rewrite", saved, "--postgres", dsn, "--table", "t"]) == 2
    out, err = capsys.readouterr()
    assert "s3cret" not in out + err
    assert "cannot connect to PostgreSQL (host=127.0.0.1 port=1 dbname=db user=me)" in err


@pytest.mark.parametrize(
    ("package", "extra"), [("lancedb", "lancedb"), ("psycopg", "pgvector"), ("qdrant_client", "qdrant")]
)
def test_a_missing_package_is_named_with_its_extra(package, extra, saved, tmp_path):
    (tmp_path / "meta.json").write_text("{}")
    store = {
        "lancedb": ["--lancedb", str(tmp_path), "--table", "t"],
        "psycopg": ["--postgres", "postgresql://h/d", "--table", "t"],
        "qdrant_client": ["--qdrant", str(tmp_path), "--collection", "t"],
    }[package]
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        f"from faceblind.cli import main; sys.exit(main(['rewrite', {saved!r}, *{store!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"pip install 'faceblind[{extra}]'" in done.stderr
