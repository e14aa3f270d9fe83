"""Which face is meant, overlapping boxes against brute force, and networks whose answer is known to the digit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faceblind._errors import DataError, EncoderError, ImageError, UsageError
from faceblind._onnx_graph import without_sizes
from faceblind.faces.aligner import Aligner
from faceblind.faces.boxes import suppress
from faceblind.faces.centerface import CenterFace
from faceblind.faces.detect import Face, choose_face
from faceblind.faces.scrfd import Scrfd
from faces.planted import centerface_saying, scrfd_saying, spot_finder

# Overlapping boxes


def iou(a, b):
    wide = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    high = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    both = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - wide * high
    return wide * high / both if both > 0 else 0.0


@given(st.integers(0, 2**32 - 1), st.integers(0, 40), st.sampled_from([0.2, 0.4, 0.7]), st.booleans())
def test_suppression_is_what_brute_force_does(seed, n, overlap, ties):
    rng = np.random.default_rng(seed)
    corner = rng.integers(0, 20, size=(n, 2)).astype(float)
    boxes = np.hstack([corner, corner + rng.integers(0, 12, size=(n, 2))])
    scores = rng.integers(0, 4, size=n) / 4 if ties else rng.permutation(n) / max(n, 1)
    kept: list[int] = []
    for i in sorted(range(n), key=lambda i: (-scores[i], i)):
        if all(iou(boxes[i], boxes[j]) <= overlap for j in kept):
            kept.append(i)
    assert suppress(boxes, scores, overlap=overlap).tolist() == kept


# Which face


def face(left, top, side, score=0.9):
    return Face(box=(left, top, left + side, top + side), score=score, points=np.zeros((5, 2)))


def test_the_middle_counts_unless_the_other_face_is_much_larger():
    middle, edge, huge = face(80, 80, 40), face(0, 80, 44, 0.95), face(0, 60, 80, 0.8)
    shape = (200, 200, 3)
    assert choose_face([edge, middle], shape) is middle
    assert choose_face([edge, middle], shape, "largest") is edge
    assert choose_face([middle, huge], shape) is huge
    assert choose_face([middle, huge, edge], shape, "score") is edge
    assert choose_face([middle], shape, "only") is middle
    same = [face(80, 80, 40), face(80, 80, 40)]
    assert choose_face(same, shape) is same[0]


def test_a_face_at_the_edge_counts_for_half():
    left = face(-20, 79.5, 40)  # its centre, 99.5 pixels from the middle of 200, is (almost) at the edge
    for side, wins in ((27.5, False), (29, True)):
        middle = face(99.5 - side / 2, 99.5 - side / 2, side)
        assert (choose_face([left, middle], (200, 200)) is middle) == wins


def test_no_face_and_too_many_are_reasons_to_skip():
    with pytest.raises(ImageError, match="no face was found"):
        choose_face([], (10, 10))
    with pytest.raises(ImageError, match="2 faces were found"):
        choose_face([face(0, 0, 4), face(5, 5, 4)], (10, 10), "only")
    with pytest.raises(UsageError, match="central, largest, score, only, got 'left'"):
        choose_face([], (10, 10), "left")


# Networks whose answer is known


def test_centerface_is_read_as_its_paper_says(tmp_path):
    maps = centerface_saying(tmp_path / "c.onnx", {(3, 5): 0.9, (12, 9): 0.7, (8, 8): 0.4})
    found = CenterFace(tmp_path / "c.onnx").detect(np.zeros((64, 64, 3), np.uint8))
    assert [round(f.score, 5) for f in found] == [0.9, 0.7]
    for got, (row, column) in zip(found, [(3, 5), (12, 9)], strict=True):
        height, width = 4 * np.exp(maps["size"][:, row, column].astype(float))
        top = 4 * (row + maps["offset"][0, row, column] + 0.5) - height / 2
        left = 4 * (column + maps["offset"][1, row, column] + 0.5) - width / 2
        assert got.box == pytest.approx((left, top, left + width, top + height), abs=1e-4)
        spots = maps["points"][:, row, column].reshape(5, 2)
        expected = [(left + width * x, top + height * y) for y, x in spots]
        np.testing.assert_allclose(got.points, expected, atol=1e-4)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("order", [None, [8, 3, 0, 7, 5, 1, 2, 6, 4]])
def test_scrfd_is_read_as_its_paper_says_whatever_the_order_of_its_outputs(tmp_path, batched, order):
    planted = {8: {(2, 6, 1): 0.8}, 16: {(3, 0, 0): 0.95}, 32: {(1, 1, 1): 0.6, (0, 0, 0): 0.3}}
    values = scrfd_saying(tmp_path / "s.onnx", planted, batched=batched, order=order)
    found = Scrfd(tmp_path / "s.onnx").detect(np.zeros((64, 64, 3), np.uint8))
    assert [round(f.score, 5) for f in found] == [0.95, 0.8, 0.6]
    for got, (stride, row, column, anchor) in zip(found, [(16, 3, 0, 0), (8, 2, 6, 1), (32, 1, 1, 1)], strict=True):
        at = (row * (64 // stride) + column) * 2 + anchor
        box, points = values[stride][1][at], values[stride][2][at].reshape(5, 2)
        x, y = column * stride, row * stride
        expected = (x - stride * box[0], y - stride * box[1], x + stride * box[2], y + stride * box[3])
        assert got.box == pytest.approx(expected, abs=1e-4)
        np.testing.assert_allclose(got.points, np.array([x, y]) + stride * points, atol=1e-4)


def test_faces_that_overlap_are_one(tmp_path):
    centerface_saying(tmp_path / "c.onnx", {(7, 7): 0.8, (7, 8): 0.9, (1, 1): 0.6}, side=30)
    found = CenterFace(tmp_path / "c.onnx").detect(np.zeros((64, 64, 3), np.uint8))
    assert [round(f.score, 5) for f in found] == [0.9, 0.6]


def test_answers_that_are_not_finite_are_left_out(tmp_path):
    maps = centerface_saying(tmp_path / "c.onnx", {(3, 5): 0.9, (12, 9): 0.7}, spoil=(3, 5))
    assert not np.isfinite(maps["size"]).all()
    assert [round(f.score, 5) for f in CenterFace(tmp_path / "c.onnx").detect(np.zeros((64, 64, 3), np.uint8))] == [0.7]


def red_spot(height, width, top, left, side=8):
    image = np.zeros((height, width, 3), np.uint8)
    image[top : top + side, left : left + side, 0] = 255
    return image


def test_the_network_sees_the_photograph_upright_and_in_rgb(tmp_path):
    detector = CenterFace(spot_finder(tmp_path / "red.onnx"))
    (found,) = detector.detect(red_spot(96, 160, 24, 100, side=4))
    assert found.score == pytest.approx(1.0)
    assert np.add(found.box[:2], found.box[2:]) / 2 == pytest.approx([102, 26])
    assert detector.detect(red_spot(96, 160, 24, 100)[:, :, ::-1].copy()) == []


@pytest.mark.parametrize(("height", "width"), [(640, 480), (500, 1000), (999, 700), (33, 640), (1280, 64)])
def test_faces_come_back_in_the_photographs_own_pixels(tmp_path, height, width):
    detector = CenterFace(spot_finder(tmp_path / "red.onnx"), max_side=320, threshold=0.7)
    side = max(16, max(height, width) // 20)
    top, left = (height - side) // 2, (width - side) // 4
    found = detector.detect(red_spot(height, width, top, left, side))
    assert found
    step = 4 * max(1.0, max(height, width) / 320)  # one cell of the heat map
    for spot in found:
        x, y = (spot.box[0] + spot.box[2]) / 2, (spot.box[1] + spot.box[3]) / 2
        assert left - step <= x <= left + side + step
        assert top - step <= y <= top + side + step


def test_half_the_size_keeps_pixel_centres(tmp_path):
    detector = CenterFace(spot_finder(tmp_path / "red.onnx"), max_side=64)
    (small,) = detector.detect(red_spot(64, 64, 24, 32, side=4))
    (large,) = detector.detect(red_spot(128, 128, 48, 64, side=8))
    assert large.box == pytest.approx([2 * edge + 0.5 for edge in small.box])
    np.testing.assert_allclose(large.points, 2 * small.points + 0.5, atol=1e-5)


def test_a_face_too_large_to_be_seen_is_found_when_looked_at_again(tmp_path):
    detector = CenterFace(spot_finder(tmp_path / "red.onnx", only_small=True), threshold=0.65)
    assert detector.detect(red_spot(192, 192, 96, 48, side=4))
    assert detector.detect(red_spot(192, 192, 96, 48, side=24)) == []
    (found,) = detector.detect(red_spot(192, 192, 96, 48, side=12))  # one cell at a third of the size
    assert np.add(found.box[:2], found.box[2:]) / 2 == pytest.approx(
        [55, 103]
    )  # 3 (16 + 2.5) - 0.5, 3 (32 + 2.5) - 0.5


@pytest.mark.parametrize("threads", [1, 4])
def test_the_same_faces_from_any_number_of_threads(tmp_path, threads):
    detector = CenterFace(spot_finder(tmp_path / "red.onnx"))
    images = [red_spot(96, 96, 8 * i, 88 - 8 * i) for i in range(10)]
    alone = [detector.detect(image) for image in images]
    with ThreadPoolExecutor(threads) as pool:
        together = list(pool.map(detector.detect, images))
    for a, b in zip(alone, together, strict=True):
        assert [f.box for f in a] == [f.box for f in b]
        assert all(np.array_equal(x.points, y.points) for x, y in zip(a, b, strict=True))


def test_a_network_of_one_size_gets_that_size(tmp_path):
    scrfd_saying(tmp_path / "s.onnx", {16: {(2, 2, 0): 0.9}}, fixed=True)
    detector = Scrfd(tmp_path / "s.onnx")
    (found,) = detector.detect(np.zeros((30, 50, 3), np.uint8))
    (again,) = detector.detect(np.zeros((320, 128, 3), np.uint8))
    scale = np.array([64 / 320, 26 / 128])  # 128 at 64 / 320 is 25.6, a whole number of pixels is 26
    np.testing.assert_allclose((found.points + 0.5) / scale[::-1] - 0.5, again.points, atol=1e-3)
    assert detector.facts()["canvas"] == [64, 64]


# Bad input


def test_files_that_are_not_such_networks_are_refused_at_once(tmp_path):
    centerface_saying(tmp_path / "c.onnx", {})
    scrfd_saying(tmp_path / "s.onnx", {})
    with pytest.raises(EncoderError, match=r"s\.onnx is no centerface network: its outputs have the shapes"):
        CenterFace(tmp_path / "s.onnx")
    with pytest.raises(EncoderError, match=r"c\.onnx is no scrfd network: it takes 10 photographs at a time"):
        Scrfd(tmp_path / "c.onnx")
    (tmp_path / "one.onnx").write_bytes(without_sizes((tmp_path / "c.onnx").read_bytes()))
    with pytest.raises(EncoderError, match=r"one\.onnx is no scrfd network: for a canvas of 64x64 pixels it must give"):
        Scrfd(tmp_path / "one.onnx")
    with pytest.raises(EncoderError, match=r"cannot read the detector file .*none.onnx: No such file"):
        CenterFace(tmp_path / "none.onnx")
    whole = (tmp_path / "c.onnx").read_bytes()
    for name, data in (("cut", whole[:-100]), ("empty", b""), ("text", b"not a network")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(EncoderError, match=f"{name} is not a whole ONNX file"):
            CenterFace(tmp_path / name)
    with pytest.raises(EncoderError, match="another version: its SHA-256 is"):
        CenterFace(tmp_path / "c.onnx", sha256="0" * 64)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 0}, "threshold must lie"),
        ({"overlap": 1.0}, "overlap must lie"),
        ({"max_side": 8}, "at least 32"),
    ],
)
def test_numbers_out_of_range_are_refused(tmp_path, options, message):
    with pytest.raises(UsageError, match=message):
        CenterFace(tmp_path / "not even there", **options)


def test_photographs_that_are_none_are_refused(tmp_path):
    detector = CenterFace(spot_finder(tmp_path / "red.onnx"))
    with pytest.raises(DataError, match="got float64"):
        detector.detect(np.zeros((64, 64, 3)))
    with pytest.raises(ImageError, match="5x64 pixels is too small"):
        detector.detect(np.zeros((64, 5, 3), np.uint8))


# The aligner


def test_the_aligner_records_what_decides_its_chips(tmp_path):
    detector = CenterFace(spot_finder(tmp_path / "red.onnx"))
    steps = Aligner(detector, choice="largest").steps()
    assert steps["detector"]["sha256"] == detector.facts()["sha256"]
    assert steps["choice"] == "largest"
    assert steps["size"] == 112
    assert steps["template"][0] == [38.2946, 51.6963]
    assert Aligner(CenterFace(tmp_path / "red.onnx", threshold=0.6)).steps() != Aligner(detector).steps()
    with pytest.raises(ImageError, match="no face was found"):
        Aligner(detector)(np.zeros((64, 64, 3), np.uint8))
    for options, error in (
        ({"choice": "best"}, "must be one of central"),
        ({"size": 0}, "at least 1"),
        ({"interpolation": "sinc"}, "one of bilinear"),
    ):
        with pytest.raises((UsageError, DataError), match=error):
            Aligner(detector, **options)
