from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from table_samples import save_npy, some_set, unit_vectors, write_parquet

from faceblind._errors import DataError, FormatError, UsageError
from faceblind.data.tables import open_table, read_table, write_table

X = unit_vectors(5, 3)
NAMES = ["a", "b", "c", "d", "e"]


def test_paths_that_lead_nowhere(tmp_path):
    save_npy(tmp_path / "vectors.npy", X)
    with pytest.raises(DataError, match=r"vektors\.npy does not exist; did you mean .*/vectors\.npy\?"):
        open_table(tmp_path / "vektors.npy")
    with pytest.raises(DataError, match=r"does not exist$"):
        open_table(tmp_path / "no" / "folder.npy")


def test_formats_that_are_not_known(tmp_path):
    (tmp_path / "x.csv").write_text("a")
    with pytest.raises(FormatError, match=r"x\.csv: unknown format \.csv; what is read: a \.parquet file, a folder"):
        open_table(tmp_path / "x.csv")
    (tmp_path / "x").write_text("a")
    with pytest.raises(FormatError, match="x: unknown format without suffix"):
        open_table(tmp_path / "x")


def test_folders_without_a_table(tmp_path):
    write_table(tmp_path / "t", some_set())
    with pytest.raises(FormatError, match=r"is a folder without a table in it; what is read: .*clip-retrieval"):
        open_table(tmp_path)
    with pytest.raises(FormatError, match=r"open the folder above it, .*/t; "):
        open_table(tmp_path / "t" / "img_emb")
    with pytest.raises(UsageError, match="is neither"):
        open_table(tmp_path, metadata=tmp_path)


def test_folder_that_could_be_two_tables(tmp_path):
    write_table(tmp_path, some_set())
    write_parquet(tmp_path / "more.parquet", X)
    with pytest.raises(FormatError, match=r"has both img_emb/ and more\.parquet"):
        open_table(tmp_path)


def test_suffix_in_capitals(tmp_path):
    assert len(read_table(save_npy(tmp_path / "X.npy", X).rename(tmp_path / "Y.NPY"), identity=None)) == 5


def test_files_that_may_not_be_read(tmp_path, monkeypatch):
    paths = [save_npy(tmp_path / "X.npy", X), write_parquet(tmp_path / "t.parquet", X)]
    np.savez(tmp_path / "t.npz", X=X)
    paths.append(tmp_path / "t.npz")

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr("zipfile.ZipFile", refuse)
    monkeypatch.setattr("pyarrow.parquet.ParquetFile", refuse)
    for path in paths:
        with pytest.raises(DataError, match=rf"cannot read {path}: Permission denied; check its permissions"):
            open_table(path, identity=None)
