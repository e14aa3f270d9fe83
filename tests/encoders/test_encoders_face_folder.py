"""Folders of chips: what is written, what is kept, what is refused."""

from __future__ import annotations

import csv
import json
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from faceblind._errors import DataError, OutputError, UsageError
from faceblind.encoders import embed_folder, list_photos
from faceblind.encoders.face_folder import COLUMNS, align_folder, chip_names
from faceblind.faces.aligner import Aligner
from faceblind.faces.centerface import CenterFace
from faces.planted import spot_finder

pytest.importorskip("onnxruntime")


class Counting(Aligner):
    """Counts the photographs it is given, and stops at one if told to."""

    stop_at: int | None = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen = 0

    def __call__(self, image):
        self.seen += 1
        if self.seen == self.stop_at:
            raise KeyboardInterrupt
        return super().__call__(image)


@pytest.fixture
def detector(tmp_path):
    return CenterFace(spot_finder(tmp_path / "red.onnx", side=40))


def photograph(path, *places, ground=0):
    image = np.full((128, 96, 3), ground, np.uint8)
    for row, column in places:
        image[4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = (255, 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path)
    return image


@pytest.fixture
def photos(tmp_path):
    root = tmp_path / "photos"
    for person in range(3):
        for shot in range(3):
            photograph(root / f"p{person}" / f"{shot}.png", (14 + shot, 11 + person), ground=10 * person)
    return root


def rows(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def files(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_every_photograph_becomes_its_chip(photos, tmp_path, detector):
    aligner = Aligner(detector)
    seen = []
    result = align_folder(photos, tmp_path / "chips", aligner, progress=lambda done, total: seen.append((done, total)))
    assert (result.chips, result.kept, result.skipped, result.notes) == (9, 0, (), ())
    assert seen == [(done, 9) for done in range(10)]
    for photo in list_photos(photos):
        chip = np.asarray(Image.open(tmp_path / "chips" / photo.sample))
        made = aligner(np.asarray(Image.open(photo.path)))
        np.testing.assert_array_equal(chip, made.chip)
    table = rows(result.faces_path)
    assert tuple(table[0]) == COLUMNS
    assert [row["path"] for row in table] == [photo.sample for photo in list_photos(photos)]
    made = aligner(np.asarray(Image.open(photos / "p0" / "0.png")))
    assert [float(table[0][name]) for name in COLUMNS[5:9]] == pytest.approx(made.face.box, abs=0.006)
    assert [float(table[0][name]) for name in COLUMNS[9:]] == pytest.approx(made.face.points.ravel(), abs=0.006)
    assert table[0]["faces"] == "1"
    assert float(table[0]["score"]) == pytest.approx(made.face.score, abs=1e-4)


def test_a_second_run_works_on_nothing_and_changes_nothing(photos, tmp_path, detector):
    align_folder(photos, tmp_path / "chips", Aligner(detector))
    before = files(tmp_path)
    again = Counting(detector)
    result = align_folder(photos, tmp_path / "chips", again, workers=3)
    assert (result.kept, again.seen) == (9, 0)
    assert files(tmp_path) == before
    align_folder(photos, tmp_path / "fresh", Aligner(detector), workers=5)
    assert files(tmp_path / "fresh") == files(tmp_path / "chips")


def test_a_run_that_was_stopped_goes_on(photos, tmp_path, detector):
    align_folder(photos, tmp_path / "whole", Aligner(detector))
    stopping = Counting(detector)
    stopping.stop_at = 5
    with pytest.raises(KeyboardInterrupt):
        align_folder(photos, tmp_path / "chips", stopping, workers=1)
    assert not (tmp_path / "chips.faces.csv").exists()
    rest = Counting(detector)
    result = align_folder(photos, tmp_path / "chips", rest, workers=1)
    assert 0 < rest.seen <= 5
    assert result.kept == 9 - rest.seen
    assert files(tmp_path / "chips") == files(tmp_path / "whole")


def test_only_what_changed_is_done_again(photos, tmp_path, detector):
    align_folder(photos, tmp_path / "chips", Aligner(detector))
    photograph(photos / "p1" / "1.png", (20, 5))
    (photos / "p0" / "0.png").touch()  # the same picture
    chip = tmp_path / "chips" / "p2" / "2.png"
    chip.write_bytes(chip.read_bytes()[:-30])  # cut short
    again = Counting(detector)
    assert align_folder(photos, tmp_path / "chips", again).kept == 7
    assert again.seen == 2
    other = Counting(detector, interpolation="bicubic")
    assert align_folder(photos, tmp_path / "chips", other).kept == 0
    assert other.seen == 9


def test_photographs_without_a_face_are_listed_and_leave_no_chip(photos, tmp_path, detector):
    align_folder(photos, tmp_path / "chips", Aligner(detector))
    photograph(photos / "p1" / "1.png")  # had one before
    (photos / "p2" / "0.png").write_bytes(b"no picture")
    photograph(photos / "p0" / "two.jpg", (5, 5), (20, 15))
    result = align_folder(photos, tmp_path / "chips", Aligner(detector, choice="only"))
    reasons = {skip.sample: skip.reason for skip in result.skipped}
    assert reasons["p1/1.png"] == "no face was found in it"
    assert "not an image" in reasons["p2/0.png"]
    assert set(reasons) <= {"p1/1.png", "p2/0.png", "p0/two.jpg"}
    assert not (tmp_path / "chips" / "p1" / "1.png").exists()
    assert result.skip_list_path == tmp_path / "chips.skipped.csv"
    assert {row["sample"] for row in rows(result.skip_list_path)} == set(reasons)
    for name in ("p1/1.png", "p2/0.png", "p0/two.jpg"):
        (photos / name).unlink()
    result = align_folder(photos, tmp_path / "chips", Aligner(detector))
    assert result.skip_list_path is None
    assert not (tmp_path / "chips.skipped.csv").exists()


def test_chips_of_photographs_that_are_gone_are_named(photos, tmp_path, detector):
    align_folder(photos, tmp_path / "chips", Aligner(detector))
    shutil.rmtree(photos / "p2")
    (note,) = align_folder(photos, tmp_path / "chips", Aligner(detector)).notes
    assert (note.severity, note.count, note.examples) == ("warning", 3, ("p2/0.png", "p2/1.png", "p2/2.png"))


def test_the_table_of_faces_is_a_list_of_labels(tmp_path, detector):
    from encoders.colour_encoder import ColourEncoder

    photograph(tmp_path / "flat" / "a.jpg", (14, 11), ground=9)
    photograph(tmp_path / "flat" / "sub" / "deep" / "b.webp", (14, 11), ground=99)
    (tmp_path / "who.csv").write_text("path,identity\na.jpg,ann\nsub/deep/b.webp,bob\n")
    for name in ("a.jpg", "sub/deep/b.webp"):  # lossy: make the spot survive
        Image.open(tmp_path / "flat" / name).save(tmp_path / "flat" / name, lossless=True, quality=100, subsampling=0)
    loose = CenterFace(tmp_path / "red.onnx", threshold=0.3)
    result = align_folder(tmp_path / "flat", tmp_path / "chips", Aligner(loose), labels_csv=tmp_path / "who.csv")
    assert result.chips == 2
    made = embed_folder(tmp_path / "chips", ColourEncoder(), tmp_path / "t.npz", labels_csv=result.faces_path)
    assert made.embedded == 2
    assert [row["identity"] for row in rows(result.faces_path)] == ["ann", "bob"]


def test_rendered_people_stay_marked(photos, tmp_path, detector):
    (photos / "synthetic.json").write_text(json.dumps({"synthetic": True}))
    align_folder(photos, tmp_path / "chips", Aligner(detector))
    assert list_photos(tmp_path / "chips").synthetic


def test_other_pictures_are_not_overwritten(photos, tmp_path, detector):
    photograph(tmp_path / "chips" / "p1" / "0.png")
    before = (tmp_path / "chips" / "p1" / "0.png").read_bytes()
    with pytest.raises(OutputError, match=r"p1/0\.png is in the way: it is no chip"):
        align_folder(photos, tmp_path / "chips", Aligner(detector))
    assert (tmp_path / "chips" / "p1" / "0.png").read_bytes() == before


def test_places_and_numbers_that_make_no_sense_are_refused(photos, tmp_path, detector):
    aligner = Aligner(detector)
    for output in (photos, photos / "chips", tmp_path):
        with pytest.raises(UsageError, match="must lie beside"):
            align_folder(photos, output, aligner)
    with pytest.raises(UsageError, match="workers must be at least 1"):
        align_folder(photos, tmp_path / "chips", aligner, workers=0)
    with pytest.raises(DataError, match="no such folder"):
        align_folder(tmp_path / "none", tmp_path / "chips", aligner)
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        align_folder(photos, tmp_path / "file", aligner)


def test_no_chip_at_all_is_an_error_that_names_the_reasons(tmp_path, detector):
    photograph(tmp_path / "photos" / "p" / "0.png")
    with pytest.raises(DataError, match=r"none of the 1 photographs .*p/0\.png: no face was found in it.*skipped\.csv"):
        align_folder(tmp_path / "photos", tmp_path / "chips", Aligner(detector))


# Names of chips


def test_extensions_become_png_unless_two_would_be_one():
    assert chip_names(["a/1.jpg", "a/2.PNG", "b/1.jpg"]) == ["a/1.png", "a/2.png", "b/1.png"]
    assert chip_names(["a/1.jpg", "a/1.png", "a/x.y.jpg"]) == ["a/1.jpg.png", "a/1.png.png", "a/x.y.png"]
    assert chip_names(["a/I.jpg", "a/i.jpeg"]) == ["a/I.jpg.png", "a/i.jpeg.png"]
    with pytest.raises(DataError, match=r"a/1\.jpg and a/1\.jpg\.webp would both give"):
        chip_names(["a/1.jpg", "a/1.png", "a/1.jpg.webp"])


@given(st.lists(st.from_regex(r"\A[ab]/[ab.]{0,3}[ab]\.(jpg|png|JPG)\Z"), unique=True, max_size=8))
def test_names_are_distinct_in_any_case_or_refused(samples):
    try:
        names = chip_names(samples)
    except DataError:
        return
    assert len({name.casefold() for name in names}) == len(samples)
