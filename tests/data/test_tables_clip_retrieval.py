from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from table_samples import META, collect, kinds, read_all, save_npy, unit_vectors, write_parquet

from faceblind._errors import DataError, FormatError
from faceblind.data.tables import open_table, read_with_findings

X = unit_vectors(5, 3)
NAMES = ["a", "b", "c", "d", "e"]


def clip_folder(folder, shards, names="{}", **columns):
    """Write shards {number: vectors}; keys tell shard and row."""
    for number, vectors in shards.items():
        padded = names.format(number)
        save_npy(folder / "img_emb" / f"img_emb_{padded}.npy", vectors)
        write_parquet(
            folder / "metadata" / f"metadata_{padded}.parquet",
            sample=[f"{number}/{row}" for row in range(len(vectors))],
            **{name: value[: len(vectors)] for name, value in columns.items()},
        )
    return folder


@pytest.mark.parametrize("names", ["{}", "{:04d}"])
def test_shards_are_in_the_order_of_their_numbers(tmp_path, names):
    shards = {number: unit_vectors(2, 3, seed=number) for number in range(12)}
    table = open_table(clip_folder(tmp_path, shards, names), identity=None)
    assert (table.rows, table.findings) == (24, ())
    vectors, _, sample, _ = collect(table, 5)
    np.testing.assert_array_equal(vectors, np.concatenate(list(shards.values())))
    assert sample.tolist() == [f"{number}/{row}" for number in range(12) for row in range(2)]


def test_clip_retrieval_as_exported(tmp_path):
    half = X.astype(np.float16)
    folder = clip_folder(tmp_path, {0: half, 1: half}, identity=list("xxyyz"), image_path=NAMES)
    (folder / "text_emb").mkdir()
    made, findings = read_with_findings(folder)
    assert kinds(findings) == ["float16_input", "rows_not_grouped"]
    np.testing.assert_array_equal(made.vectors, np.concatenate([half, half]).astype(np.float32))
    assert read_all(folder)[3]["image_path"].to_pylist() == NAMES * 2


def test_metadata_folder_elsewhere(tmp_path):
    clip_folder(tmp_path / "a", {0: X})
    (tmp_path / "a" / "metadata").rename(tmp_path / "m")
    table = open_table(tmp_path / "a", identity=None, metadata=tmp_path / "m")
    assert collect(table)[2][0] == "0/0"
    # Without it there are vectors alone.
    assert collect(open_table(tmp_path / "a", identity=None))[2].tolist() == list("01234")
    with pytest.raises(DataError, match="has no metadata, so no identities"):
        open_table(tmp_path / "a")
    with pytest.raises(FormatError, match="is not a folder"):
        open_table(tmp_path / "a", identity=None, metadata=tmp_path / "m" / "metadata_0.parquet")


@pytest.mark.parametrize("base", [[0, 0], [0, 3]])
def test_shuffled_shards_numbered_each_from_zero_or_throughout(tmp_path, base):
    order = [2, 0, 1]
    for number in (0, 1):
        save_npy(tmp_path / "img_emb" / f"img_emb_{number}.npy", X[:3] + number)
        write_parquet(
            tmp_path / "metadata" / f"metadata_{number}.parquet",
            sample=[f"{number}/{row}" for row in order],
            row=[base[number] + row for row in order],
        )
    table = open_table(tmp_path, identity=None)
    assert collect(table, 2)[2].tolist() == ["0/0", "0/1", "0/2", "1/0", "1/1", "1/2"]
    assert kinds(table.findings) == ["mixed_row_order"]
    assert table.findings[0].count == 2


def test_shards_that_number_differently(tmp_path):
    clip_folder(tmp_path, {0: X, 1: X})
    write_parquet(tmp_path / "metadata" / "metadata_1.parquet", sample=NAMES, row=list(range(5)))
    with pytest.raises(DataError, match=r"metadata_0\.parquet and .*metadata_1\.parquet number their vectors"):
        open_table(tmp_path, identity=None)


def test_shard_without_rows(tmp_path):
    folder = clip_folder(tmp_path, {0: X[:0], 1: X})
    write_parquet(folder / "metadata" / "metadata_0.parquet", sample=pa.array([], pa.string()))
    assert collect(open_table(folder, identity=None))[2][0] == "1/0"


def test_missing_numbers_are_said(tmp_path):
    table = open_table(clip_folder(tmp_path, {0: X, 3: X}), identity=None)
    assert [(f.kind, f.severity, f.count, f.examples) for f in table.findings] == [
        ("missing_shards", "warning", 2, ("img_emb_1.npy", "img_emb_2.npy"))
    ]


@pytest.mark.parametrize(
    ("removed", "message"),
    [
        ("img_emb/img_emb_1.npy", r"metadata_1\.parquet has no partner .*img_emb/img_emb_1\.npy"),
        ("metadata/metadata_1.parquet", r"img_emb_1\.npy has no partner .*metadata/metadata_1\.parquet"),
    ],
)
def test_missing_partner(tmp_path, removed, message):
    clip_folder(tmp_path, {0: X, 1: X})
    (tmp_path / removed).unlink()
    with pytest.raises(FormatError, match=message):
        open_table(tmp_path, identity=None)


def test_names_that_do_not_fit(tmp_path):
    clip_folder(tmp_path, {0: X})
    save_npy(tmp_path / "img_emb" / "img_emb_00.npy", X)
    with pytest.raises(FormatError, match=r"img_emb_0\.npy and .*img_emb_00\.npy have the same number"):
        open_table(tmp_path, identity=None)
    (tmp_path / "img_emb" / "img_emb_00.npy").rename(tmp_path / "img_emb" / "img_emb_0 (copy).npy")
    with pytest.raises(FormatError, match=r"\(copy\)\.npy is not named img_emb_N\.npy"):
        open_table(tmp_path, identity=None)


def test_clip_folder_without_vectors(tmp_path):
    (tmp_path / "img_emb").mkdir()
    with pytest.raises(FormatError, match=r"img_emb has no files img_emb_N\.npy in it"):
        open_table(tmp_path)


@pytest.mark.parametrize(
    ("second", "columns", "message"),
    [
        (X[:, :2], {}, r"img_emb_1\.npy holds float32 vectors of length 2, .*img_emb_0\.npy holds float32 of length 3"),
        (X.astype("f2"), {}, r"img_emb_1\.npy holds float16 vectors of length 3, .*img_emb_0\.npy holds float32"),
        (X[:4], {}, r"img_emb_1\.npy holds 4 vectors but .*metadata_1\.parquet has 5 rows"),
        (X, {"url": NAMES}, r"metadata_1\.parquet and .*metadata_0\.parquet have different columns \(url\)"),
        (X, {"meta": replace(META, projector="other")}, r"differ in provenance .*only one names its encoder"),
    ],
)
def test_shards_that_do_not_go_together(tmp_path, second, columns, message):
    clip_folder(tmp_path, {0: X, 1: X})
    save_npy(tmp_path / "img_emb" / "img_emb_1.npy", second)
    write_parquet(tmp_path / "metadata" / "metadata_1.parquet", sample=NAMES, **columns)
    with pytest.raises(DataError, match=message):
        open_table(tmp_path, identity=None)
