"""Runs over folders: the table, what is skipped and why, and outputs that cannot be written."""

from __future__ import annotations

import csv
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL")
pytest.importorskip("pyarrow")
from colour_encoder import ColourEncoder, colour, people
from odd_images import cmyk_jpeg, huge_png
from PIL import Image
from tiny_onnx import mean_colour

from faceblind._errors import DataError, EncoderError, FormatError, OutputError, UsageError
from faceblind.data.tables import read_table
from faceblind.encoders import OnnxEncoder, PreprocessSpec, Skip, embed, embed_folder


def left_behind(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", ["out.parquet", "out.npz", "clip-retrieval"])
def test_a_folder_becomes_a_table(tmp_path: Path, name: str) -> None:
    root = people(tmp_path / "photos")
    encoder = ColourEncoder()
    result = embed_folder(root, encoder, tmp_path / "out" / name)
    table = read_table(tmp_path / "out" / name)
    assert result.embedded == len(table) == 20
    assert (result.skipped, result.notes, result.skip_list_path, result.resumed) == ((), (), None, 0)
    assert table.encoder == encoder.fingerprint
    assert not table.meta.synthetic
    assert table.sample.tolist() == [f"p{p}/{i}.png" for p in range(4) for i in range(5)]
    assert table.require_identity().tolist() == [f"p{p}" for p in range(4) for _ in range(5)]
    expected = [np.array(colour(p, i)) / 255 for p in range(4) for i in range(5)]
    np.testing.assert_allclose(table.vectors, expected, atol=1e-7)
    assert left_behind(tmp_path / "out") == [name]


def test_the_synthetic_mark_reaches_the_table(tmp_path: Path) -> None:
    root = people(tmp_path / "photos", count=1)
    (root / "synthetic.json").write_text('{"synthetic": true}')
    embed_folder(root, ColourEncoder(), tmp_path / "out.parquet")
    assert read_table(tmp_path / "out.parquet").meta.synthetic


def test_float16(tmp_path: Path) -> None:
    root = people(tmp_path / "photos", count=1)
    embed_folder(root, ColourEncoder(), tmp_path / "full.parquet")
    embed_folder(root, ColourEncoder(), tmp_path / "half.parquet", dtype="float16")
    half = read_table(tmp_path / "half.parquet").vectors
    assert np.array_equal(half, read_table(tmp_path / "full.parquet").vectors.astype(np.float16).astype(np.float32))


def test_an_onnx_encoder(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    root = people(tmp_path / "photos")
    matrix = mean_colour(tmp_path / "m.onnx")
    keys = {"size": 4, "resize": "squash", "interpolation": "bilinear", "channels": "RGB", "layout": "NCHW"}
    keys |= {"dtype": "float32", "scale": "1/255", "mean": [0, 0, 0], "std": [1, 1, 1]}
    encoder = OnnxEncoder(tmp_path / "m.onnx", PreprocessSpec.parse(keys), threads=2)
    embed_folder(root, encoder, tmp_path / "a.parquet", batch_size=3)
    embed_folder(root, encoder, tmp_path / "b.parquet", batch_size=16, workers=1)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    expected = np.array([colour(p, i) for p in range(4) for i in range(5)]) / 255 @ matrix
    np.testing.assert_allclose(read_table(tmp_path / "a.parquet").vectors, expected, atol=1e-6)


def odd_files(root: Path) -> dict[str, str]:
    """Add files that cannot be used to the first person, and return what the reasons must contain."""
    folder = root / "p0"
    noise = np.random.default_rng(0).integers(0, 256, (50, 50, 3), dtype=np.uint8)
    Image.fromarray(noise).save(folder / "whole.jpg")
    data = (folder / "whole.jpg").read_bytes()
    (folder / "cut.jpg").write_bytes(data[: len(data) // 2])
    (folder / "text.jpg").write_text("sorry")
    (folder / "zero.png").write_bytes(b"")
    (folder / "bomb.png").write_bytes(huge_png(60_000, 60_000))
    (folder / "gone.jpg").symlink_to(root / "nowhere.jpg")
    (folder / "inks.jpg").write_bytes(cmyk_jpeg((255, 0, 0, 0), adobe=True))
    Image.new("RGB", (3, 3)).save(folder / "black.png")
    return {
        "p0/black.png": "its vector is all zeros",
        "p0/bomb.png": "over the limit",
        "p0/cut.jpg": "truncated",
        "p0/gone.jpg": "no such file",
        "p0/text.jpg": "not an image in a format that can be read",
        "p0/zero.png": "the file is empty (0 bytes)",
    }


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_what_cannot_be_used_is_skipped_and_named(tmp_path: Path, batch_size: int) -> None:
    root = people(tmp_path / "photos", count=2)
    reasons = odd_files(root)
    result = embed_folder(root, ColourEncoder(), tmp_path / "out.parquet", batch_size=batch_size)
    assert [skip.sample for skip in result.skipped] == sorted(reasons)
    for skip in result.skipped:
        assert reasons[skip.sample] in skip.reason
        assert str(tmp_path) not in skip.reason
    table = read_table(tmp_path / "out.parquet")
    assert len(table) == result.embedded == 12
    assert not set(table.sample) & set(reasons)
    row = table.sample.tolist().index("p0/inks.jpg")
    np.testing.assert_allclose(table.vectors[row], [0, 1, 1], atol=0.02)
    assert result.skip_list_path == tmp_path / "out.parquet.skipped.csv"
    with result.skip_list_path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [Skip(row["sample"], row["reason"]) for row in rows] == list(result.skipped)


def test_a_skip_list_of_an_earlier_run_goes(tmp_path: Path) -> None:
    root = people(tmp_path / "photos", count=2)
    (root / "p0" / "x.jpg").write_text("sorry")
    first = embed_folder(root, ColourEncoder(), tmp_path / "out.parquet")
    assert first.skip_list_path is not None
    assert first.skip_list_path.exists()
    (root / "p0" / "x.jpg").unlink()
    assert embed_folder(root, ColourEncoder(), tmp_path / "out.parquet").skip_list_path is None
    assert not first.skip_list_path.exists()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_vectors_that_are_not_finite_are_skipped(tmp_path: Path, value: float) -> None:
    class Odd(ColourEncoder):
        def run(self, prepared: Any) -> Any:
            vectors = super().run(prepared)
            vectors[np.isclose(vectors[:, 1] * 255, 3)] = value  # photo 2 of each person
            return vectors

    result = embed_folder(people(tmp_path / "photos"), Odd(), tmp_path / "out.parquet", batch_size=7)
    expected = [Skip(f"p{p}/2.png", "its vector holds NaN or infinity") for p in range(4)]
    assert list(result.skipped) == expected


def test_nothing_usable(tmp_path: Path) -> None:
    (tmp_path / "photos" / "p").mkdir(parents=True)
    for i in range(5):
        (tmp_path / "photos" / "p" / f"{i}.jpg").write_text("sorry")
    with pytest.raises(DataError, match=r"none of the 5 photographs under .* \(p/0\.jpg: not an image.*; see .*csv"):
        embed_folder(tmp_path / "photos", ColourEncoder(), tmp_path / "out.parquet")
    assert left_behind(tmp_path) == ["out.parquet.skipped.csv", "photos"]


def test_labels_from_a_csv_file(tmp_path: Path) -> None:
    root = people(tmp_path / "photos", count=2)
    (root / "labels.csv").write_text("path,identity\np1/3.png,ann\np0/0.png,bob\n")
    result = embed_folder(root, ColourEncoder(), tmp_path / "out.parquet", labels_csv=root / "labels.csv")
    table = read_table(tmp_path / "out.parquet")
    assert result.embedded == 2
    assert table.sample.tolist() == ["p0/0.png", "p1/3.png"]
    assert table.require_identity().tolist() == ["bob", "ann"]


def test_notes_of_the_listing_are_passed_on(tmp_path: Path) -> None:
    root = people(tmp_path / "photos", count=1)
    (root / "empty").mkdir()
    result = embed_folder(root, ColourEncoder(), tmp_path / "out.parquet")
    assert [note.kind for note in result.notes] == ["empty_folders"]


def test_progress_counts_every_photograph(tmp_path: Path) -> None:
    root = people(tmp_path / "photos", count=2)
    (root / "p0" / "x.jpg").write_text("sorry")
    calls: list[tuple[int, int]] = []
    embed_folder(
        root, ColourEncoder(), tmp_path / "out.parquet", batch_size=4, progress=lambda *call: calls.append(call)
    )
    assert calls == [(0, 11), (4, 11), (8, 11), (11, 11)]


def test_memory_holds_a_bounded_number_of_photographs(tmp_path: Path) -> None:
    root = people(tmp_path / "photos", count=10, photos=6)
    lock, held, most = threading.Lock(), 0, 0

    class Counting(ColourEncoder):
        def prepare(self, image: Any) -> Any:
            nonlocal held, most
            with lock:
                held += 1
                most = max(most, held)
            return image

        def run(self, prepared: Any) -> Any:
            nonlocal held
            with lock:
                held -= len(prepared)
            return super().run(prepared)

    embed_folder(root, Counting(), tmp_path / "out.parquet", batch_size=5, workers=3)
    # those waiting, and one batch on its way to the encoder
    assert 5 <= most <= 5 + 3 + 5


def test_pillows_remarks_do_not_reach_the_user(tmp_path: Path) -> None:
    root = people(tmp_path / "photos", count=1, photos=1)
    exif = b"Exif\0\0MM\0*\0\0\0\x08\xff\xff"  # cut short: Pillow warns
    Image.new("RGB", (8, 8), (9, 9, 9)).save(root / "p0" / "x.jpg", exif=exif)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = embed_folder(root, ColourEncoder(), tmp_path / "out.parquet")
    assert result.embedded == 2
    assert caught == []


@pytest.mark.parametrize("name", ["batch_size", "workers"])
def test_options_must_be_positive(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} must be at least 1, got 0"):
        embed_folder(tmp_path, ColourEncoder(), tmp_path / "out.parquet", **{name: 0})


def never(_: Any) -> None:
    raise AssertionError("the encoder must not run before the output is known to be writable")


def test_outputs_that_cannot_be_written_are_found_first(tmp_path: Path) -> None:
    root = people(tmp_path / "photos", count=1)
    (tmp_path / "file").write_text("x")
    encoder = ColourEncoder(never)
    with pytest.raises(OutputError, match=r"cannot write .*file/out\.parquet"):
        embed_folder(root, encoder, tmp_path / "file" / "out.parquet")
    with pytest.raises(FormatError, match=r"unknown format \.csv"):
        embed_folder(root, encoder, tmp_path / "out.csv")
    with pytest.raises(UsageError, match="float64"):
        embed_folder(root, encoder, tmp_path / "out.parquet", dtype="float64")
    assert left_behind(tmp_path) == ["file", "photos"]


def test_a_working_folder_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    root = people(tmp_path / "photos", count=1)
    (tmp_path / "out.parquet.partial").mkdir()
    (tmp_path / "out.parquet.partial" / "thesis.txt").write_text("dear")
    with pytest.raises(OutputError, match=r"out\.parquet\.partial is needed .* holds something else: move it away"):
        embed_folder(root, ColourEncoder(never), tmp_path / "out.parquet", resume=False)
    assert (tmp_path / "out.parquet.partial" / "thesis.txt").read_text() == "dear"


@pytest.mark.parametrize("shape", [(4,), (0, 3), (99, 3)])
def test_an_encoder_that_breaks_its_promise(tmp_path: Path, shape: tuple[int, ...]) -> None:
    class Broken(ColourEncoder):
        def run(self, prepared: Any) -> Any:
            return np.zeros(shape, dtype=np.float32)

    with pytest.raises(EncoderError, match=r"encoder 'colour' gave float32 of shape .*; it promises"):
        embed_folder(people(tmp_path / "photos"), Broken(), tmp_path / "out.parquet")


def test_many_shards_make_the_same_table_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = people(tmp_path / "photos")
    odd_files(root)
    embed_folder(root, ColourEncoder(), tmp_path / "one.parquet")
    monkeypatch.setattr(embed, "_SHARD_ROWS", 3)
    embed_folder(root, ColourEncoder(), tmp_path / "many.parquet", batch_size=2)
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "many.parquet").read_bytes()
