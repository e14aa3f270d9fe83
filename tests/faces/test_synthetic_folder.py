"""Rendering to a folder: labels, resuming, refusing, and the same bytes from any process."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from faceblind._errors import DataError, FormatError
from faceblind.faces.synthetic import SyntheticPeople, render_folder

Image = pytest.importorskip("PIL.Image")

_SIZE = 64


def _render(folder: Path, people: int = 3, shots: int = 2, **options: object) -> int:
    return render_folder(folder, people, shots, **{"size": _SIZE, "seed": 5, **options})


def _bytes(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_files_and_labels(tmp_path):
    seen: list[tuple[int, int]] = []
    assert _render(tmp_path, progress=lambda done, total: seen.append((done, total))) == 6
    assert seen == [(i, 6) for i in range(1, 7)]
    record = json.loads((tmp_path / "synthetic.json").read_text())
    images = record.pop("images")
    assert record == {
        "synthetic": True,
        "generator": "faceblind.faces.synthetic",
        "version": 1,
        "seed": 5,
        "people": 3,
        "images_per_person": 2,
        "size": _SIZE,
    }
    portraits = list(SyntheticPeople(3, 2, seed=5, size=_SIZE))
    assert [image["sample"] for image in images] == [portrait.sample for portrait in portraits]
    assert set(_bytes(tmp_path)) == {"synthetic.json", *(portrait.sample for portrait in portraits)}
    for image, portrait in zip(images, portraits, strict=True):
        assert image["identity"] == portrait.identity
        assert image["background"] == portrait.background
        np.testing.assert_allclose(image["landmarks"], portrait.landmarks, atol=6e-4)
        with Image.open(tmp_path / portrait.sample) as png:
            assert png.info["Source"] == "synthetic portrait rendered by faceblind"
            np.testing.assert_array_equal(np.asarray(png), portrait.image)


def test_two_processes_give_the_same_bytes_as_one(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    _render(one)
    counts: list[int] = []
    assert _render(two, workers=2, progress=lambda done, _: counts.append(done)) == 6
    assert counts == [1, 2, 3, 4, 5, 6]
    assert _bytes(one) == _bytes(two)


def test_a_complete_folder_is_left_alone(tmp_path):
    _render(tmp_path)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.png")}
    seen: list[tuple[int, int]] = []
    assert _render(tmp_path, progress=lambda done, total: seen.append((done, total))) == 0
    assert seen == [(6, 6)]
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.png")} == before
    assert len(json.loads((tmp_path / "synthetic.json").read_text())["images"]) == 6


def test_missing_and_damaged_files_are_rendered_again(tmp_path):
    _render(tmp_path)
    whole = _bytes(tmp_path)
    (tmp_path / "person-0000/01.png").unlink()
    truncated = tmp_path / "person-0001/00.png"
    truncated.write_bytes(truncated.read_bytes()[:-900])
    (tmp_path / "person-0001/01.png").write_bytes(b"not a picture")
    stranger = tmp_path / "person-0002/00.png"
    Image.new("RGB", (_SIZE, _SIZE)).save(stranger)
    assert _render(tmp_path) == 4
    assert _bytes(tmp_path) == whole


def test_a_picture_of_another_person_is_not_taken_for_this_one(tmp_path):
    _render(tmp_path)
    whole = _bytes(tmp_path)
    (tmp_path / "person-0000/00.png").write_bytes(whole["person-0002/01.png"])
    assert _render(tmp_path) == 1
    assert _bytes(tmp_path) == whole


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    class StopError(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise StopError

    with pytest.raises(StopError):
        _render(tmp_path, progress=stop)
    assert json.loads((tmp_path / "synthetic.json").read_text())["images"] == []
    assert len(list(tmp_path.rglob("*.png"))) == 2
    assert not list(tmp_path.rglob("*.part"))
    assert _render(tmp_path) == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 6}, "seed is 5 there, 6 here"),
        ({"people": 4}, "people is 3 there, 4 here"),
        ({"size": 72}, "size is 64 there, 72 here"),
    ],
)
def test_a_folder_of_other_parameters_is_refused(tmp_path, changes, message):
    _render(tmp_path)
    before = _bytes(tmp_path)
    with pytest.raises(DataError, match=message) as caught:
        _render(tmp_path, **changes)
    assert str(tmp_path) in str(caught.value)
    assert "another folder" in str(caught.value)
    assert _bytes(tmp_path) == before


@pytest.mark.parametrize("text", ["{half", "[1, 2]"])
def test_a_record_that_cannot_be_read_is_refused(tmp_path, text):
    (tmp_path / "synthetic.json").write_text(text)
    with pytest.raises(FormatError, match=r"synthetic\.json.*remove it"):
        _render(tmp_path)


def test_at_least_one_worker(tmp_path):
    with pytest.raises(DataError, match="workers is 0"):
        _render(tmp_path, workers=0)
    assert not list(tmp_path.iterdir())
