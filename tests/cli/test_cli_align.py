"""`faceblind align` as a user runs it."""

from __future__ import annotations

import pytest
from PIL import Image

from faceblind.cli import main
from faceblind.faces.synthetic import render_folder
from faces.planted import centerface_saying

pytest.importorskip("onnxruntime")


@pytest.fixture
def photos(tmp_path):
    render_folder(tmp_path / "photos", 2, 2, size=64)
    (tmp_path / "photos" / "person-0001" / "broken.jpg").write_text("no photograph")
    return tmp_path / "photos"


@pytest.fixture
def detector(tmp_path):
    centerface_saying(tmp_path / "c.onnx", {(8, 8): 0.9}, upright=True)
    return f"centerface:{tmp_path / 'c.onnx'}"


def test_photographs_become_chips_and_the_rest_is_named(photos, detector, tmp_path, capsys):
    argv = ["align", str(photos), "-o", str(tmp_path / "chips"), "--detector", detector]
    assert main(argv) == 0
    streams = capsys.readouterr()
    assert "4 faces aligned, 1 skipped" in streams.out
    assert "skipped person-0001/broken.jpg: not an image" in streams.err
    assert "broken.jpg" in (tmp_path / "chips.skipped.csv").read_text()
    assert (tmp_path / "chips.faces.csv").read_text().count("\n") == 5
    with Image.open(tmp_path / "chips" / "person-0000" / "01.png") as chip:
        assert chip.size == (112, 112)
    assert main([*argv, "--workers", "1"]) == 0
    assert "4 faces aligned (4 of an earlier run), 1 skipped" in capsys.readouterr().out
    assert main([*argv, "--size", "64"]) == 0
    with Image.open(tmp_path / "chips" / "person-0000" / "01.png") as chip:
        assert chip.size == (64, 64)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--detector", "mtcnn"], "no face detector 'mtcnn'"),
        (["--labels", "none.csv"], "no such file: none.csv"),
        (["--size", "0"], "size must be at least 1"),
    ],
)
def test_mistakes_are_one_line(photos, detector, tmp_path, capsys, extra, message):
    given = [] if "--detector" in extra else ["--detector", detector]
    assert main(["align", str(photos), "-o", str(tmp_path / "chips"), *given, *extra]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
