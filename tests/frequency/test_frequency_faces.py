"""Sources of faces: the same pixels whatever the form, and damage found by name before or while it is read."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from data.datasets_trees import packed, write_records
from faceblind._errors import DataError, FormatError, ImageError, UsageError
from faceblind.frequency.faces import ArrayFaces, FolderFaces, RecordFaces, open_faces

Image = pytest.importorskip("PIL.Image")
SIZE = (16, 16)


def picture(seed: int, size: tuple[int, int] = SIZE) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)


def encoded(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.fixture
def folder(tmp_path):
    for person, faces in (("p2", 2), ("p10", 3), ("alone", 1)):
        for face in range(faces):
            put(tmp_path / "chips" / person / f"{face}.png", encoded(picture(10 * len(person) + face)))
    return tmp_path / "chips"


def test_a_folder_gives_its_pixels_in_natural_order_and_keeps_people_with_one_face(folder):
    faces = open_faces(folder, SIZE)
    assert faces.sample.tolist() == ["alone/0.png", "p2/0.png", "p2/1.png", "p10/0.png", "p10/1.png", "p10/2.png"]
    assert faces.identity.tolist() == ["alone", "p2", "p2", "p10", "p10", "p10"]
    got = faces.pixels([5, 1])
    assert got.dtype == np.uint8
    assert np.array_equal(got, np.stack([picture(32), picture(20)]))
    assert faces.pixels(faces.identity == "p2").shape == (2, 16, 16, 3)
    assert faces.pixels([]).shape == (0, 16, 16, 3)


def test_a_list_gives_people_to_photographs(folder, tmp_path):
    (tmp_path / "labels.csv").write_text("path,identity\np2/0.png,a\np10/0.png,b\n")
    faces = open_faces(folder, SIZE, labels=tmp_path / "labels.csv")
    assert faces.identity.tolist() == ["a", "b"]


def test_other_sizes_of_one_shape_are_averaged_and_other_shapes_refused(tmp_path):
    # Every 4 x 4 block holds one value: a filter that averages keeps it inside, one that picks pixels would, too, but not
    # on stripes of one pixel, whose mean is 127.5.
    stripes = np.zeros((64, 64, 3), dtype=np.uint8)
    stripes[:, ::2] = 255
    put(tmp_path / "a" / "0.png", encoded(stripes))
    put(tmp_path / "a" / "1.png", encoded(picture(1, (65, 64))))  # one rounded pixel is no other shape
    small = open_faces(tmp_path, 16).pixels([0])
    assert np.abs(small[0, 2:-2, 2:-2].astype(int) - 128).max() <= 12
    put(tmp_path / "b" / "wide.png", encoded(picture(2, (16, 24))))
    with pytest.raises(
        ImageError, match=r"1 of 3 images cannot be used: b/wide.png: it is 24 x 16 pixels and cannot become 16 x 16"
    ):
        open_faces(tmp_path, 16)
    lazy = open_faces(tmp_path, 16, check=False)
    with pytest.raises(ImageError, match=r"wide.png: it is 24 x 16 pixels"):
        lazy.pixels([2])
    assert open_faces(tmp_path, (16, 24), check=False).pixels([2]).shape == (1, 16, 24, 3)


def test_damage_is_found_when_opened_or_left_out_and_listed(folder):
    whole = encoded(picture(5, (64, 64)), "JPEG")
    put(folder / "p2" / "cut.jpg", whole[: len(whole) // 2])
    put(folder / "p2" / "empty.jpg", b"")
    put(folder / "p10" / "page.jpg", b"<html>not found</html>")
    with pytest.raises(ImageError, match=r"3 of 9 images cannot be used: p2/cut.jpg: is a JPEG file that was cut off"):
        open_faces(folder, SIZE)
    faces = open_faces(folder, SIZE, damaged="skip")
    assert len(faces) == 6
    assert [text.split(":")[0] for text in faces.left_out] == ["p2/cut.jpg", "p2/empty.jpg", "p10/page.jpg"]
    assert faces.pixels(np.arange(6)).shape == (6, 16, 16, 3)


def test_what_only_decoding_finds_names_the_file(folder):
    data = bytearray(encoded(picture(5)))
    data[60:80] = bytes(20)  # inside of the compressed pixels: header and end are as they were
    put(folder / "p2" / "zeros.png", bytes(data))
    faces = open_faces(folder, SIZE)
    row = faces.sample.tolist().index("p2/zeros.png")
    with pytest.raises(ImageError, match=r"p2/zeros.png: damaged or truncated"):
        faces.pixels([0, row])


def emore(root: Path, images: list[list[bytes]]) -> Path:
    flat = [(float(p), data) for p, own in enumerate(images) for data in own]
    end = len(flat) + 1
    records = [packed([end, end + len(images)])]
    records += [packed(label, data, number) for number, (label, data) in enumerate(flat, start=1)]
    start = 1
    for own in images:
        records.append(packed([start, start + len(own)]))
        start += len(own)
    write_records(root, records)
    (root / "property").write_text(f"{len(images)},16,16\n")
    return root


def test_records_give_the_same_pixels_as_a_folder(tmp_path):
    people = [[encoded(picture(10 * p + i)) for i in range(2)] for p in range(3)]
    faces = open_faces(emore(tmp_path / "rec", people), SIZE)
    assert isinstance(faces, RecordFaces)
    assert faces.sample.tolist() == [f"{p}/{1 + 2 * p + i:08d}" for p in range(3) for i in range(2)]
    assert faces.identity.tolist() == ["0", "0", "1", "1", "2", "2"]
    assert np.array_equal(faces.pixels([4, 0]), np.stack([picture(20), picture(0)]))
    faces.close()
    direct = open_faces(tmp_path / "rec" / "train.rec", 32)
    assert direct.pixels([0]).shape == (1, 32, 32, 3)
    direct.close()


def test_damaged_records_are_named_and_wrong_labels_left_out(tmp_path):
    good = encoded(picture(1))
    root = emore(tmp_path, [[good, encoded(picture(2, (64, 64)), "JPEG")[:-900]], [good, good]])
    with pytest.raises(ImageError, match=r"1 of 4 images cannot be used: .*train.rec, record 2: is a JPEG file"):
        open_faces(root, SIZE)
    faces = open_faces(root, SIZE, damaged="skip")
    assert faces.sample.tolist() == ["0/00000001", "1/00000003", "1/00000004"]
    faces.close()
    lazy = open_faces(root, SIZE, check=False)
    with pytest.raises(ImageError, match=r"train.rec, record 2: (damaged or )?truncated"):
        lazy.pixels([0, 1])
    lazy.close()
    records = [packed([4, 5]), *(packed(float(label), good) for label in (0, 0, 7)), packed([1, 4])]
    write_records(tmp_path / "mixed", records)
    mixed = open_faces(tmp_path / "mixed", SIZE)
    assert len(mixed) == 2
    assert "record 3: carries the label 7 among those of 0" in mixed.left_out[0]
    mixed.close()
    with (tmp_path / "train.rec").open("r+b") as stream:
        stream.truncate(stream.seek(0, 2) - 40)
    with pytest.raises(FormatError, match="incomplete download"):
        open_faces(tmp_path, SIZE)


def test_faces_in_memory_are_those_of_their_source(folder):
    source = FolderFaces(folder, SIZE)
    seen = []
    held = ArrayFaces.of(source, [4, 0], progress=lambda done, of: seen.append((done, of)))
    assert np.array_equal(held.pixels([0, 1]), source.pixels([4, 0]))
    assert held.sample.tolist() == ["p10/1.png", "alone/0.png"]
    assert held.identity.tolist() == ["p10", "alone"]
    assert seen == [(2, 2)]


def test_arrays_are_checked():
    faces = np.zeros((2, 16, 16, 3), dtype=np.uint8)
    assert ArrayFaces(faces, ["a", "b"]).sample.tolist() == ["0", "1"]
    with pytest.raises(DataError, match=r"must be \(n, height, width, 3\) uint8, got float32"):
        ArrayFaces(faces.astype(np.float32), ["a", "b"])
    with pytest.raises(DataError, match="2 faces need one key and one identity each"):
        ArrayFaces(faces, ["a"])
    with pytest.raises(DataError, match="the key 'x' stands for 2 faces"):
        ArrayFaces(faces, ["a", "b"], ["x", "x"])
    with pytest.raises(UsageError, match="at least 8 x 8 pixels, got 4 x 16"):
        ArrayFaces(faces[:, :4], ["a", "b"])


def test_places_without_faces_are_refused(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        open_faces(tmp_path / "nowhere", SIZE)
    with pytest.raises(DataError, match=r"pairs in a .bin file are for: faceblind frequency evaluate"):
        open_faces(put(tmp_path / "lfw.bin", b"x"), SIZE)
    put(tmp_path / "chips" / "p" / "0.jpg", b"")
    with pytest.raises(DataError, match="no faces: every file was left out"):
        open_faces(tmp_path / "chips", SIZE, damaged="skip")
