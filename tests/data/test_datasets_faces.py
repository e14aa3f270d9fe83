"""CelebA, VGGFace2, LFW and plain folders: each true layout, and what is wrong with each."""

from __future__ import annotations

import csv
import json
import os
import shutil
from pathlib import Path

import pytest
from datasets_trees import celeba, jpeg, kinds, lfw, put, vggface2

from faceblind import DataError, FormatError, SplitError, UsageError
from faceblind.data.datasets import Request, prepare

DATA = Path(os.environ.get("FACEBLIND_DATA", "/nonexistent"))
FEW = Request(images=5)


def rows(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def ids(made):
    return {(record.id, record.identity, record.split) for record in made.records}


@pytest.mark.parametrize(
    ("name", "tree"), [("celeba20", celeba), ("vggface2-20", vggface2), ("lfw20", lfw), ("folders", lfw)]
)
def test_files_say_the_same_and_the_same_again(name, tree, tmp_path):
    root = tree(tmp_path / "data", people=9, each=21)
    made = prepare(name, root, tmp_path / "out", Request(images=20))
    labels, split = rows(tmp_path / "out/labels.csv"), rows(tmp_path / "out/split.csv")
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert len(labels) == len(split) == len(manifest["images"]) == 9 * 20
    for label, part, image, record in zip(labels, split, manifest["images"], made.records, strict=True):
        assert label["path"] == part["sample"] == image["file"] == record.file
        assert label["identity"] == part["identity"] == image["identity"]
        assert part["split"] == image["split"]
        assert image["size"] == (root / image["file"]).stat().st_size
    assert manifest["dataset"] == name
    assert manifest["settings"]["seed"] == 0
    assert manifest["counts"]["drawn"]["fit"]["identities"] >= 2
    assert manifest["findings"] == [finding.to_dict() for finding in made.findings]
    assert str(tmp_path) not in (tmp_path / "out/manifest.json").read_text()
    prepare(name, root, tmp_path / "again", Request(images=20))
    for file in ("labels.csv", "split.csv", "manifest.json"):
        assert (tmp_path / "out" / file).read_bytes() == (tmp_path / "again" / file).read_bytes()


@pytest.mark.parametrize("folder", ["img_align_celeba", "img_align_celeba/img_align_celeba", "Img/img_align_celeba"])
def test_celeba_draws_the_same_wherever_its_folders_are(folder, tmp_path):
    base = prepare("celeba20", celeba(tmp_path / "a", each=6), tmp_path / "out", FEW)
    moved = prepare("celeba20", celeba(tmp_path / "b", each=6, folder=folder), tmp_path / "out2", FEW)
    assert ids(base) == ids(moved)
    assert all(record.file.startswith(folder) for record in moved.records)


def test_celeba_lists_as_csv_and_png_copies(tmp_path):
    root = celeba(tmp_path / "a", each=6)
    base = prepare("celeba20", root, tmp_path / "out", FEW)
    text = (root / "Anno/identity_CelebA.txt").read_text().replace(" ", ",")
    (root / "Anno/identity_CelebA.txt").unlink()
    put(root / "identity_CelebA.csv", "image_id,identity\n" + text)
    for path in sorted((root / "Img/img_align_celeba").iterdir()):
        path.rename(path.with_suffix(".png"))
    assert ids(prepare("celeba20", root, tmp_path / "out2", FEW)) == ids(base)


def test_celeba_in_the_wild_is_said(tmp_path):
    root = celeba(tmp_path / "a", each=6, folder="Img/img_celeba")
    assert "not_aligned" in kinds(prepare("celeba20", root, tmp_path / "out", FEW).findings)
    celeba(root, each=6)  # the aligned crops beside them are preferred
    made = prepare("celeba20", root, tmp_path / "out", FEW)
    assert "not_aligned" not in kinds(made.findings)
    assert made.records[0].file.startswith("Img/img_align_celeba/")


def test_celeba_with_everything_wrong(tmp_path):
    root = celeba(tmp_path / "a", people=9, each=8)
    images, labels = root / "Img/img_align_celeba", root / "Anno/identity_CelebA.txt"
    (images / "000001.jpg").unlink()
    put(images / "000900.jpg", jpeg("nobody"))
    put(images / "note.txt", "x")
    put(images / ".DS_Store", "x")
    put(images / "000002.jpg", b"")
    put(images / "000003.jpg", jpeg("x")[:-9])
    put(images / "000005.jpg", (images / "000004.jpg").read_bytes())
    with labels.open("a") as stream:
        stream.write("000010.jpg 999\n000011.jpg 3\n")
    put(root / "Eval/list_eval_partition.txt", "000004.jpg 0\n000013.jpg 2\n")
    made = prepare("celeba20", root, tmp_path / "out", Request(images=5, check="all"))
    found = kinds(made.findings)
    assert {kind: (f.severity, f.count) for kind, f in found.items()} == {
        "same_picture_two_identities": ("error", 2),
        "two_identities_one_file": ("error", 1),
        "listed_file_missing": ("error", 1),
        "damaged_image": ("warning", 2),
        "file_not_listed": ("warning", 1),
        "listed_twice": ("warning", 1),
        "count_differs": ("warning", 2),
        "fewer_people": ("warning", 9),
        "partition_shares_people": ("note", 1),
        "hidden_file": ("note", 1),
        "other_file": ("note", 1),
    }
    assert found["two_identities_one_file"].examples == ("000010.jpg: 2 and 999, line 73",)
    assert found["listed_file_missing"].examples == ("000001",)
    assert found["file_not_listed"].examples == ("Img/img_align_celeba/000900.jpg",)
    assert "images: 72 here, 202,599 published" in found["count_differs"].examples
    drawn = {Path(record.file).stem for record in made.records}
    assert not drawn & {f"{n:06d}" for n in (1, 2, 3, 4, 5, 10, 900)}
    assert [f.severity for f in made.errors] == ["error"] * 3


def test_celeba_without_what_is_essential(tmp_path):
    root = celeba(tmp_path / "a", each=3)
    labels = root / "Anno/identity_CelebA.txt"
    for text, said in (
        ("000001.jpg 1\n000002.jpg\n", r"line 2: expected two cells, got '000002.jpg'"),
        ("000001.jpg 1\n000002.jpg x\n", r"line 2: 'x' is not the number of an identity"),
        ("", "lists no images"),
    ):
        labels.write_text(text)
        with pytest.raises(FormatError, match=said):
            prepare("celeba20", root, tmp_path / "out", FEW)
    labels.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FormatError, match="not a UTF-8 text file"):
        prepare("celeba20", root, tmp_path / "out", FEW)
    labels.unlink()
    with pytest.raises(DataError, match=r"no identity file.*looked for identity_CelebA\.txt.*mmlab\.ie\.cuhk\.edu\.hk"):
        prepare("celeba20", root, tmp_path / "out", FEW)
    put(labels, "000001.jpg 1\n")
    shutil.rmtree(root / "Img")
    with pytest.raises(DataError, match=r"no images; looked for img_align_celeba/"):
        prepare("celeba20", root, tmp_path / "out", FEW)


def test_vggface2_layouts(tmp_path):
    base = prepare("vggface2-20", vggface2(tmp_path / "a", each=6), tmp_path / "out", FEW)
    nested = prepare(
        "vggface2-20", vggface2(tmp_path / "b" / "VGG-Face2" / "data", each=6).parents[1], tmp_path / "out2", FEW
    )
    assert ids(base) == ids(nested)
    assert base.records[0].id.startswith("n000")
    assert {record.file.split("/")[0] for record in base.records} == {"train", "test"}
    assert "identity_counts_differ" not in kinds(base.findings)


def test_vggface2_with_everything_wrong(tmp_path):
    root = vggface2(tmp_path / "a", people=12, each=6)
    shutil.rmtree(root / "train/n000002")
    (root / "train/n000003/0001_01.jpg").unlink()
    shutil.copytree(root / "train/n000004", root / "test/n000004")
    put(root / "train/someone/0001_01.jpg", jpeg("someone"))
    put(root / "train/n000006/face.jpg", jpeg("face"))
    put(root / "train/stray.jpg", jpeg("stray"))
    (root / "train/n000099").mkdir()
    with (root / "identity_meta.csv").open("a") as stream:
        stream.write('n000013, "Surname_1, Name", 6, 1, f\n')
    found = kinds(prepare("vggface2-20", root, tmp_path / "out", Request(images=4)).findings)
    assert found["identity_missing"].examples == ("n000002", "n000013")
    assert found["identity_counts_differ"].examples[:2] == ("n000003: 5 here, 6 listed", "n000004: 12 here, 6 listed")
    assert found["one_name_two_identities"].examples == ("Surname_1, Name: n000001, n000013",)
    assert found["identity_in_two_folders"].examples == ("n000004",)
    assert sorted(found["unusual_name"].examples) == ["someone/", "train/n000006/face.jpg"]
    assert found["stray_image"].examples == ("train/stray.jpg",)
    assert found["empty_folder"].examples == ("train/n000099",)


def test_vggface2_names_with_commas_and_no_quotes(tmp_path):
    root = vggface2(tmp_path / "a", each=6)
    meta = root / "identity_meta.csv"
    meta.write_text(meta.read_text().replace('"', ""))
    assert "identity_counts_differ" not in kinds(prepare("vggface2-20", root, tmp_path / "out", FEW).findings)
    meta.write_text("id,name\n")
    with pytest.raises(FormatError, match="expected the columns Class_ID, Name, Sample_Num"):
        prepare("vggface2-20", root, tmp_path / "out", FEW)
    with pytest.raises(DataError, match=r"no folders of identities.*robots\.ox\.ac\.uk"):
        prepare("vggface2-20", put(tmp_path / "b" / "x.jpg").parent, tmp_path / "out", FEW)


@pytest.mark.parametrize("inner", [".", "lfw", "lfw_funneled", "lfw-deepfunneled/lfw-deepfunneled"])
def test_lfw_layouts(inner, tmp_path):
    base = prepare("lfw20", lfw(tmp_path / "a", each=6), tmp_path / "out", FEW)
    lfw(tmp_path / "b" / inner, each=6)
    put(tmp_path / "b" / inner / "pairs_01.txt", "x")
    assert ids(base) == ids(prepare("lfw20", tmp_path / "b", tmp_path / "out2", FEW))


def test_lfw_says_how_many_people_it_has_and_adapts(tmp_path):
    root = lfw(tmp_path / "a", people=62, each=20)
    put(root / "Bob_Short" / "Bob_Short_0001.jpg")
    made = prepare("lfw20", root, tmp_path / "out")
    assert made.counts["drawn"]["test"] == {"identities": 13, "images": 260}
    assert made.counts["found"]["identities with 20 or more images"] == 62
    found = kinds(made.findings)
    assert "fewer_people" not in found
    assert not [e for e in found["count_differs"].examples if "20 or more" in e]
    put(root / "Bob_Short" / "other.jpg")
    shutil.rmtree(root / "Ann_Aaring")
    found = kinds(prepare("lfw20", root, tmp_path / "out").findings)
    assert found["unusual_name"].examples == ("Bob_Short/other.jpg",)
    assert "62 were to be drawn; now fit " in found["fewer_people"].examples[0]


def test_lfw_versions_side_by_side_are_refused(tmp_path):
    for name in ("lfw", "lfw_funneled"):
        lfw(tmp_path / "a" / name, each=2)
    with pytest.raises(DataError, match=r"several versions.*\(lfw, lfw_funneled\)"):
        prepare("lfw20", tmp_path / "a", tmp_path / "out", FEW)


def test_too_few_people(tmp_path):
    root = lfw(tmp_path / "a", people=7, each=20)
    with pytest.raises(SplitError, match="7 people have enough images; at least 8"):
        prepare("lfw20", root, tmp_path / "out")
    with pytest.raises(SplitError, match="7 people have enough images; at least 8"):
        prepare("lfw20", root, tmp_path / "out", Request(people="2,2,2,2"))


def test_damage_that_leaves_too_few_people_scales_down_or_says_so(tmp_path):
    root = lfw(tmp_path / "a", people=10, each=3)
    for path in (root / "Ann_Aaring").iterdir():
        path.write_bytes(b"")
    made = prepare("lfw20", root, tmp_path / "out", Request(images=3))
    assert sum(part["identities"] for part in made.counts["drawn"].values()) == 9
    with pytest.raises(
        SplitError, match=r"10 people, but only 9 have enough images.*; 3 files are empty, cut off or not images"
    ):
        prepare("lfw20", root, tmp_path / "out", Request(images=3, people="3,3,2,2"))


def test_names_that_cannot_be_keys_are_passed_over(tmp_path):
    root = lfw(tmp_path / "a", each=6)
    person = root / "Ann_Aaring"
    put(person / "line\nbreak.jpg")
    put(person / " space.jpg")
    put(Path(os.fsdecode(os.fsencode(person) + b"/\xff.jpg")), jpeg("odd"))
    found = kinds(prepare("folders", root, tmp_path / "out").findings)
    assert found["unusable_name"].count == 3
    assert r"'Ann_Aaring/\udcff.jpg'" in found["unusable_name"].examples


def test_names_with_commas_and_quotes_come_back(tmp_path):
    root = lfw(tmp_path / "a", each=2)
    put(root / 'O"Hara, Ann' / "é, 1.jpg")
    put(root / 'O"Hara, Ann' / "2.jpg")
    prepare("folders", root, tmp_path / "out")
    assert ('O"Hara, Ann/é, 1.jpg', 'O"Hara, Ann') in {
        (r["path"], r["identity"]) for r in rows(tmp_path / "out/labels.csv")
    }


def test_places_that_will_not_do(tmp_path):
    root = lfw(tmp_path / "a", each=2)
    with pytest.raises(DataError, match=r"no such folder; looked for lfw/.*vis-www\.cs\.umass\.edu"):
        prepare("lfw20", tmp_path / "none", tmp_path / "out")
    with pytest.raises(DataError, match="is a file, not a folder: unpack archives first"):
        prepare("lfw20", put(tmp_path / "lfw.tgz"), tmp_path / "out")
    for inside in (root, root / "out"):
        with pytest.raises(UsageError, match="lies in the data set's own directory"):
            prepare("folders", root, inside)
    with pytest.raises(UsageError, match="no data set 'celeb'; there are celeba20"):
        prepare("celeb", root, tmp_path / "out")


def test_a_failed_run_leaves_no_manifest_that_vouches_for_other_files(tmp_path, monkeypatch):
    root = lfw(tmp_path / "a", each=4)
    prepare("folders", root, tmp_path / "out", Request(images=2))
    from faceblind.data.datasets import output

    def full(path, *_):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(output, "write_csv", full)
    with pytest.raises(OSError, match="No space left"):
        prepare("folders", root, tmp_path / "out", Request(images=2, seed=1))
    assert not (tmp_path / "out/manifest.json").exists()
    assert not list((tmp_path / "out").glob(".*"))


@pytest.mark.skipif(not (DATA / "lfw").is_dir(), reason="FACEBLIND_DATA names no folder with lfw/")
def test_real_photographs(tmp_path):
    made = prepare("folders", DATA / "lfw", tmp_path / "out", Request(images=20, people="19,18,12,13", check="all"))
    assert len(made.records) == 62 * 20
    assert not kinds(made.findings).keys() & {"damaged_image", "not_checked"}
