"""Published layouts of verification sets, in miniature trees of their true form."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from faceblind._errors import DataError, FormatError, ImageError
from faceblind.frequency.evaluation.layouts import open_pairs

Image = pytest.importorskip("PIL.Image")


def picture(path: Path, size: tuple[int, int] = (16, 16)) -> np.ndarray:
    seed = int.from_bytes(path.name.encode()[-8:], "little") % 2**32
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, "JPEG")
    return pixels


def held(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image)


@pytest.fixture
def lfw(tmp_path):
    for name, count in (("Ann_Lee", 3), ("Bo", 2), ("Cy_de_Rue", 2), ("Di", 1)):
        for number in range(1, count + 1):
            picture(tmp_path / "lfw" / name / f"{name}_{number:04d}.jpg")
    (tmp_path / "pairs.txt").write_text(
        "2\t2\n"
        "Ann_Lee\t1\t2\nBo\t1\t2\nAnn_Lee\t1\tBo\t2\nBo\t1\tDi\t1\n"
        "Ann_Lee\t2\t3\nCy_de_Rue\t1\t2\nCy_de_Rue\t1\tDi\t1\nAnn_Lee\t3\tBo\t1\n"
    )
    return tmp_path


def test_lfw(lfw):
    pairs, faces = open_pairs(lfw / "pairs.txt", 16, images=lfw / "lfw")
    assert pairs.same.tolist() == [True, True, False, False] * 2
    assert pairs.fold.tolist() == [0] * 4 + [1] * 4
    key = faces.sample
    assert [(key[a], key[b]) for a, b in zip(pairs.first, pairs.second, strict=True)][3:6] == [
        ("Bo_0001", "Di_0001"),
        ("Ann_Lee_0002", "Ann_Lee_0003"),
        ("Cy_de_Rue_0001", "Cy_de_Rue_0002"),
    ]
    assert set(pairs.people.tolist()) == {"Ann_Lee", "Bo", "Cy_de_Rue", "Di"}
    assert np.array_equal(faces.identity, pairs.people)
    assert np.array_equal(faces.pixels([2])[0], held(lfw / "lfw" / "Bo" / "Bo_0001.jpg"))
    assert pairs.note == ""


def test_lfw_in_other_suffixes_and_without_folders(lfw):
    (lfw / "flat").mkdir()
    for path in (lfw / "lfw").rglob("*.jpg"):
        with Image.open(path) as image:
            image.save(lfw / "flat" / f"{path.stem}.png")
    pairs, faces = open_pairs(lfw / "pairs.txt", 16, images=lfw / "flat")
    assert len(faces) == 8
    assert len(pairs) == 8


def test_lfw_faults_are_named(lfw):
    text = (lfw / "pairs.txt").read_text()
    (lfw / "lfw" / "Bo" / "Bo_0002.jpg").unlink()
    with pytest.raises(DataError, match=r"lists 1 images that are not there: .*Bo_0002.jpg \(line 3\)"):
        open_pairs(lfw / "pairs.txt", 16, images=lfw / "lfw")
    for changed, message in (
        (text.rsplit("\n", 2)[0], r"promises 2 folds of 2 pairs of either kind, 8 lines; it has 7"),
        (text.replace("Bo\t1\t2", "Bo\t1\tx"), r"line 3: expected a name and two numbers, got 'Bo\\t1\\tx'"),
        (text.replace("Bo\t1\tDi\t1", "Bo\t1\tDi"), r"line 5: expected name, number, name, number"),
    ):
        (lfw / "pairs.txt").write_text(changed)
        with pytest.raises(FormatError, match=message):
            open_pairs(lfw / "pairs.txt", 16, images=lfw / "lfw")
    with pytest.raises(DataError, match="no such folder of images"):
        open_pairs(lfw / "pairs.txt", 16, images=lfw / "nowhere")
    with pytest.raises(DataError, match=r"cannot read .*none.txt"):
        open_pairs(lfw / "none.txt", 16)
    (lfw / "empty.txt").write_text("\n")
    with pytest.raises(FormatError, match=r"empty.txt is empty"):
        open_pairs(lfw / "empty.txt", 16)


def rows_file(root: Path, *, numbered: bool) -> Path:
    """As CALFW lists: pairs of one person first, with their folds 1 to 10, then those of two, with 0."""
    lines = []
    for k in range(20):
        token = k // 2 + 1 if numbered else 1
        lines += [f"Ann_Lee_{2 * k:04d}.jpg {token}", f"Ann_Lee_{2 * k + 1:04d}.jpg {token}"]
    for k in range(20):
        lines += [f"Ann_Lee_{2 * k:04d}.jpg 0", f"Bo_{k:04d}.jpg 0"]
    for k in range(40):
        picture(root / "aligned images" / f"Ann_Lee_{k:04d}.jpg", (8, 8))
        picture(root / "aligned images" / f"Bo_{k:04d}.jpg", (8, 8))
    (root / "pairs_CALFW.txt").write_text("\n".join(lines) + "\n")
    return root / "pairs_CALFW.txt"


@pytest.mark.parametrize("numbered", [True, False])
def test_calfw_and_cplfw(tmp_path, numbered):
    path = rows_file(tmp_path, numbered=numbered)
    pairs, faces = open_pairs(path, 8, images=tmp_path / "aligned images")
    assert len(pairs) == 40
    assert pairs.same.tolist() == [True] * 20 + [False] * 20
    for fold in range(10):
        assert pairs.same[pairs.fold == fold].tolist() == [True] * 2 + [False] * 2
    assert pairs.fold[:20].tolist() == [k // 2 for k in range(20)]
    assert set(pairs.people.tolist()) == {"Ann_Lee", "Bo"}
    assert faces.sample[0] == "Ann_Lee_0000.jpg"
    assert "no fold for some pairs" in pairs.note


def test_calfw_faults_are_named(tmp_path):
    path = rows_file(tmp_path, numbered=True)
    text = path.read_text()
    for changed, message in (
        (text + "Bo_0001.jpg 0\n", r"has 81 lines, an odd number"),
        (
            text.replace("Ann_Lee_0003.jpg 1", "Ann_Lee_0003.jpg 0"),
            r"lines 3 and 4: expected an image and a number each, the same",
        ),
        (text.replace("Ann_Lee_0003.jpg 1", "Ann_Lee_0003.jpg x"), r"line 4: expected a whole number, got 'x'"),
        (
            text.replace("Ann_Lee", "Bo"),
            r"are said to be two people, which their names contradict; so it is with 20 of 40",
        ),
    ):
        path.write_text(changed)
        with pytest.raises(FormatError, match=message):
            open_pairs(path, 8, images=tmp_path / "aligned images")


def test_a_few_wrong_labels_are_noted_and_not_refused(tmp_path):
    lines = [f"{k}_1.jpg,{k}_2.jpg,1,{k % 2}" for k in range(150)] + [
        f"{k}_1.jpg,{k + 1}_2.jpg,0,{k % 2}" for k in range(150)
    ]
    for k in range(151):
        for face in (1, 2):
            picture(tmp_path / f"{k}_{face}.jpg", (8, 8))
    (tmp_path / "list.csv").write_text("\n".join(lines))
    pairs, _ = open_pairs(tmp_path / "list.csv", 8)
    assert pairs.note == ""
    rows = []
    for k in range(150):
        same = 0 if k == 7 else 1
        rows += [f"x{k}_1.jpg {same}", f"x{k}_2.jpg {same}"]
        for face in (1, 2):
            picture(tmp_path / f"x{k}_{face}.jpg", (8, 8))
    (tmp_path / "rows.txt").write_text("\n".join(rows))
    pairs, _ = open_pairs(tmp_path / "rows.txt", 8)
    assert (
        r"1 pairs have labels that the names of their files contradict (line 15: x7_1.jpg, x7_2.jpg, two people)"
        in pairs.note
    )


@pytest.fixture
def cfp(tmp_path):
    protocol = tmp_path / "Protocol"
    listed = {"F": [], "P": []}
    for person in range(1, 5):
        for kind, folder in (("F", "frontal"), ("P", "profile")):
            for number in (1, 2):
                place = f"Data/Images/{person:03d}/{folder}/{number:02d}.jpg"
                picture(tmp_path / place)
                listed[kind].append(f"{len(listed[kind]) + 1} ../{place}\n")
    for kind, lines in listed.items():
        protocol.mkdir(exist_ok=True)
        (protocol / f"Pair_list_{kind}.txt").write_text("".join(lines))
    for split in ("FP", "FF"):
        for fold in range(2):
            inner = protocol / "Split" / split / f"{fold + 1:02d}"
            inner.mkdir(parents=True)
            a = 4 * fold
            (inner / "same.txt").write_text(f"{a + 1},{a + 2}\n{a + 3},{a + 4}\n")
            (inner / "diff.txt").write_text(f"{a + 1},{a + 3}\n{a + 3},{a + 1}\n")
    return tmp_path


def test_cfp(cfp):
    pairs, faces = open_pairs(cfp, 16)
    assert pairs.name == "cfp_fp"
    assert pairs.fold.tolist() == [0] * 4 + [1] * 4
    assert pairs.same.tolist() == [True, True, False, False] * 2
    assert (faces.sample[pairs.first[0]], faces.sample[pairs.second[0]]) == ("001/frontal/01.jpg", "001/profile/02.jpg")
    assert np.array_equal(faces.pixels([0])[0], held(cfp / "Data/Images/001/frontal/01.jpg"))
    assert set(pairs.people.tolist()) == {"001", "002", "003", "004"}
    frontal, others = open_pairs(cfp, 16, protocol="FF")
    assert others.sample[frontal.second[0]] == "001/frontal/02.jpg"
    (cfp / "Data" / "Images").rename(cfp / "aligned")
    assert len(open_pairs(cfp, 16, images=cfp / "aligned")[1]) == len(faces)
    with pytest.raises(DataError, match=r"images that are not there: .*001.frontal.01.jpg"):
        open_pairs(cfp, 16)


def test_cfp_faults_are_named(cfp):
    with pytest.raises(DataError, match="CFP has the protocols FP, FF, got 'PP'"):
        open_pairs(cfp, 16, protocol="PP")
    same = cfp / "Protocol" / "Split" / "FP" / "02" / "same.txt"
    same.write_text("5,99\n")
    with pytest.raises(FormatError, match=r"02.same.txt, line 1: expected the numbers of two images"):
        open_pairs(cfp, 16)
    same.unlink()
    with pytest.raises(DataError, match=r"cannot read .*02.same.txt"):
        open_pairs(cfp, 16)
    (cfp / "Protocol" / "Pair_list_P.txt").unlink()
    with pytest.raises(DataError, match=r"cannot read .*Pair_list_P.txt"):
        open_pairs(cfp, 16)
    with pytest.raises(DataError, match="without Protocol/, so it is not CFP"):
        open_pairs(cfp / "Data", 16)


@pytest.mark.parametrize("mark", [" ", ",", "\t"])
@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("folds", [True, False])
def test_plain_lists(tmp_path, mark, header, folds):
    lines = [mark.join(["first", "second", "same", "fold"][: 3 + folds])] if header else []
    for k in range(8):
        same = k < 4
        cells = [f"a/{k}.jpg", f"a/{k + 1 if same else 9 + k}.jpg", str(int(same)), str(k % 2 + 5)]
        lines.append(mark.join(cells[: 3 + folds]))
    for k in range(20):
        picture(tmp_path / "a" / f"{k}.jpg")
    (tmp_path / "agedb.csv").write_text("\n".join(lines) + "\n")
    pairs, faces = open_pairs(tmp_path / "agedb.csv", 16)
    assert pairs.name == "agedb"
    assert pairs.people is None
    assert pairs.same.tolist() == [True] * 4 + [False] * 4
    assert pairs.fold.tolist() == ([0, 1] * 4 if folds else [0, 1, 2, 3] * 2)
    assert faces.sample[pairs.second[7]] == "a/16.jpg"


def test_plain_lists_with_faults(tmp_path):
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        picture(tmp_path / name)
    path = tmp_path / "list.csv"
    path.write_text("a.jpg,b.jpg,1\na.jpg,c.jpg,2\n")
    with pytest.raises(FormatError, match=r"list.csv, line 2: expected two paths, 1 \(one person\) or 0 \(two\)"):
        open_pairs(path, 16)
    path.write_bytes(b"a\xff.jpg,b.jpg,1\n")
    with pytest.raises(FormatError, match="is not a UTF-8 text file"):
        open_pairs(path, 16)
    path.write_text("a.jpg,b.jpg,1\na.jpg,c.jpg,0\n")
    picture(tmp_path / "c.jpg", (16, 32))
    with pytest.raises(ImageError, match=r"1 of 3 images cannot be used: c.jpg: it is 32 x 16 pixels"):
        open_pairs(path, 16)


def test_bin_files_open_the_same_way(tmp_path):
    picture(tmp_path / "a.jpg")
    data = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "calfw.bin").write_bytes(pickle.dumps(([data] * 4, [True, False]), 2))
    pairs, faces = open_pairs(tmp_path / "calfw.bin", 16)
    assert pairs.name == "calfw"
    assert faces.pixels([3]).shape == (1, 16, 16, 3)
