"""Which file is which data set through which encoder, and what is said when that cannot be told."""

from __future__ import annotations

import pytest
from papers_cases import table, write

from faceblind._errors import DataError, FormatError
from faceblind.audit.papers.sources import datasets_of, find_sources, other_of


@pytest.fixture
def folder(tmp_path):
    for name in ("celeba-dino-v2.npz", "lfw-dino-v2.npz", "lfw-clip.npz"):
        write(tmp_path, name, table(1, people=3, images=2))
    return tmp_path


def test_names_are_split_at_the_first_dash(folder):
    found = [(s.dataset, s.encoder) for s in find_sources(folder)]
    assert found == [("celeba", "dino-v2"), ("lfw", "clip"), ("lfw", "dino-v2")]
    assert datasets_of(find_sources(folder)) == ("celeba", "lfw")


def test_a_parquet_beside_a_npy_is_not_a_table_of_its_own(tmp_path):
    write(tmp_path, "lfw-enc.npy", table(1, people=3, images=2))
    assert {p.suffix for p in tmp_path.iterdir()} == {".npy", ".parquet"}
    assert [s.path.name for s in find_sources(tmp_path)] == ["lfw-enc.npy"]


def test_manifest_says_it_instead(folder):
    (folder / "tables.csv").write_text(
        "path,dataset,encoder,control\nlfw-clip.npz,B,x y,yes\nceleba-dino-v2.npz,A,z,\n"
    )
    found = find_sources(folder)
    assert [(s.dataset, s.encoder, s.control) for s in found] == [("B", "x y", True), ("A", "z", False)]


def test_controls_can_be_named(folder):
    assert [s.encoder for s in find_sources(folder, controls=["clip"]) if s.control] == ["clip"]
    with pytest.raises(DataError, match=r"control encoder arcface; the encoders are dino-v2, clip"):
        find_sources(folder, controls=["arcface"])


def test_other_data_set_of_the_encoder(folder):
    celeba, clip, lfw = find_sources(folder)
    everything = (celeba, clip, lfw)
    assert other_of(celeba, everything) == lfw
    assert other_of(lfw, everything) == celeba
    with pytest.raises(DataError, match=r"ISP-X of lfw through clip needs a second data set of encoder clip"):
        other_of(clip, everything)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("path,dataset\na,b\n", "lacks the columns encoder"),
        ("path,dataset,encoder\n", "lists no table"),
        ("path,dataset,encoder\nlfw-clip.npz,,x\n", "line 2: path, dataset and encoder must all be filled in"),
        ("path,dataset,encoder\nmissing.npz,a,x\n", "line 2.*does not exist"),
        ("path,dataset,encoder,control\nlfw-clip.npz,a,x,maybe\n", "line 2: control is yes or no, got 'maybe'"),
        ("path,dataset,encoder\nlfw-clip.npz,a,x\nlfw-dino-v2.npz,a,x\n", "are both a through x: keep one"),
    ],
)
def test_a_manifest_that_cannot_be_used(folder, text, words):
    (folder / "tables.csv").write_text(text)
    with pytest.raises((DataError, FormatError), match=words):
        find_sources(folder)


def test_a_folder_without_tables(tmp_path):
    with pytest.raises(DataError, match=r"no embedding table in .*DATASET-ENCODER.parquet"):
        find_sources(tmp_path)
    write(tmp_path, "lfw.npz", table(1, people=3, images=2))
    with pytest.raises(DataError, match=r"lfw.npz has no dash in its name"):
        find_sources(tmp_path)
    with pytest.raises(DataError, match="is not a folder"):
        find_sources(tmp_path / "nowhere")
