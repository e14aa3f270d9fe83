"""ImageNet and DISC2021: data without people, for what is left of use."""

from __future__ import annotations

import csv
import json
import shutil

import pytest
from datasets_trees import jpeg, kinds, put

from faceblind import DataError, FormatError
from faceblind.data.datasets import Request, prepare

CLASSES = ("n01440764", "n01443537", "n01484850")
ORDER = (CLASSES[2], CLASSES[0], CLASSES[1])  # the development kit counts classes in an order of its own


def rows(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def imagenet(root, *, inner=".", flat=True, train=7, val=50):
    base = root / inner
    for name in CLASSES:
        for i in range(train):
            put(base / "train" / name / f"{name}_{i}.JPEG", jpeg(f"train {name} {i}"))
    for i in range(1, val * len(CLASSES) + 1):
        file = f"ILSVRC2012_val_{i:08d}.JPEG"
        put(base / "val" / ("." if flat else truth(i)) / file, jpeg(f"val {i}"))
    return root


def truth(i):
    return ORDER[i % 3]


def solution(root, count=150, **wrong):
    lines = [f"ILSVRC2012_val_{i:08d},{wrong.get(f'i{i}', truth(i))} 1 2 3 4" for i in range(1, count + 1)]
    put(root / "LOC_val_solution.csv", "ImageId,PredictionString\n" + "\n".join(lines) + "\n")


def kit(root, count=150):
    np, io = pytest.importorskip("numpy"), pytest.importorskip("scipy.io")
    rows = [(i + 1, name, 0) for i, name in enumerate(ORDER)] + [(4, "n00001740", 3)]
    synsets = np.array(rows, dtype=[("ILSVRC2012_ID", "O"), ("WNID", "O"), ("num_children", "O")])
    (root / "ILSVRC2012_devkit_t12/data").mkdir(parents=True)
    io.savemat(root / "ILSVRC2012_devkit_t12/data/meta.mat", {"synsets": synsets[:, None]})
    numbers = "\n".join(str(1 + i % 3) for i in range(1, count + 1))
    put(root / "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt", numbers + "\n")


def test_imagenet_layouts_agree(tmp_path):
    solution(imagenet(tmp_path / "kaggle", inner="ILSVRC/Data/CLS-LOC"))
    kit(imagenet(tmp_path / "owner"))
    imagenet(tmp_path / "folders", flat=False)
    made = [prepare("imagenet", tmp_path / name, tmp_path / f"{name}-out") for name in ("kaggle", "owner", "folders")]
    found = [{(r.id, r.identity, r.split) for r in one.records} for one in made]
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 21 + 150
    assert all(identity == truth(int(name[-8:])) for name, identity, split in found[0] if split == "validation")
    assert made[0].embed == ("train.csv", "validation.csv")
    labels = rows(tmp_path / "owner-out/validation.csv")
    assert labels[0] == {"path": "val/ILSVRC2012_val_00000001.JPEG", "identity": truth(1)}
    assert not (tmp_path / "owner-out/split.csv").exists()
    manifest = json.loads((tmp_path / "owner-out/manifest.json").read_text())
    assert manifest["counts"]["found"] == {"classes": 3, "train images": 21, "validation images": 150}
    assert "classes: 3 here, 1,000 published" in kinds(made[0].findings)["count_differs"].examples


def test_imagenet_draws_so_many_of_each_class(tmp_path):
    solution(imagenet(tmp_path / "a"))
    prepare("imagenet", tmp_path / "a", tmp_path / "out", Request(images=2))
    labels = rows(tmp_path / "out/train.csv")
    assert [sum(row["identity"] == name for row in labels) for name in CLASSES] == [2, 2, 2]
    before = (tmp_path / "out/manifest.json").read_bytes()
    prepare("imagenet", tmp_path / "a", tmp_path / "out", Request(images=2))
    assert (tmp_path / "out/manifest.json").read_bytes() == before
    prepare("imagenet", tmp_path / "a", tmp_path / "out", Request(images=2, seed=1))
    assert rows(tmp_path / "out/train.csv") != labels
    made = prepare("imagenet", tmp_path / "a", tmp_path / "out", Request(images="all", check="all"))
    assert len(rows(tmp_path / "out/train.csv")) == 21
    assert "not_checked" not in kinds(made.findings)


def test_imagenet_with_everything_wrong(tmp_path):
    root = imagenet(tmp_path / "a")
    solution(root, count=148)
    shutil.rmtree(root / "train" / CLASSES[0])
    put(root / "train" / CLASSES[1] / f"{CLASSES[1]}_0.JPEG", b"")
    put(root / "train" / CLASSES[2] / f"{CLASSES[2]}_0.JPEG", jpeg("val 1"))
    put(root / "train" / "extra" / "1.JPEG", jpeg("extra"))
    found = kinds(prepare("imagenet", root, tmp_path / "out").findings)
    assert found["no_labels"].count == 2
    assert found["class_missing"].examples == (CLASSES[0],)
    assert found["damaged_image"].examples == (f"train/{CLASSES[1]}/{CLASSES[1]}_0.JPEG is empty",)
    assert found["same_picture_train_validation"].count == 1
    assert found["uneven_classes"].count == 2
    assert found["unusual_name"].examples == ("extra/",)


def test_imagenet_labels_that_cannot_be_used(tmp_path):
    root = imagenet(tmp_path / "a", val=1)
    with pytest.raises(
        DataError, match=r"validation images lie flat and have no labels; looked for LOC_val_solution\.csv"
    ):
        prepare("imagenet", root, tmp_path / "out")
    kit(root, count=3)
    text = root / "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt"
    text.write_text("1\n9\n2\n")
    with pytest.raises(FormatError, match=r"line 2: '9' is not the number of a class in meta\.mat"):
        prepare("imagenet", root, tmp_path / "out")
    put(text.with_name("meta.mat"), "no matrix")
    with pytest.raises(FormatError, match=r"meta\.mat is not the meta\.mat of the development kit"):
        prepare("imagenet", root, tmp_path / "out")
    text.with_name("meta.mat").unlink()
    with pytest.raises(DataError, match=r"counts classes in an order of its own, which only meta\.mat"):
        prepare("imagenet", root, tmp_path / "out")
    solution(root, count=3, i2="dog")
    with pytest.raises(FormatError, match=r"LOC_val_solution\.csv, line 3: 'dog' is not a class"):
        prepare("imagenet", root, tmp_path / "out")
    shutil.rmtree(root / "train")
    with pytest.raises(DataError, match=r"no train classes; looked for train/n01440764.*image-net\.org"):
        prepare("imagenet", root, tmp_path / "out")


def test_imagenet_without_validation_is_a_finding(tmp_path):
    root = imagenet(tmp_path / "a", val=0)
    made = prepare("imagenet", root, tmp_path / "out")
    assert any("no folder of validation images" in text for text in kinds(made.findings)["count_differs"].examples)
    assert rows(tmp_path / "out/validation.csv") == []


PAIRS = {"Q00000": "R000003", "Q00001": "", "Q00002": "R000005", "Q00003": "R000003"}


def disc(root, *, refs="references", dev="dev_queries", final="final_queries", train="train", header=True):
    for folder, ids in (
        (refs, [f"R{i:06d}" for i in range(12)]),
        (train, [f"T{i:06d}" for i in range(6)]),
        (dev, list(PAIRS)),
        (final, ["Q50000", "Q50001"]),
    ):
        for name in ids:
            put(root / folder / f"{name}.jpg", jpeg(name))
    head = "query_id,reference_id\n" if header else ""
    put(root / "dev_queries_groundtruth.csv", head + "".join(f"{q},{r}\n" for q, r in PAIRS.items()))
    put(root / "test_queries_groundtruth.csv", head + "Q50000,\nQ50001,R000001\n")
    put(root / "disc21_yfcc_attributions.csv", "image_id,author,licence\nR000000,x,y\n")
    return root


def test_disc_layouts_agree(tmp_path):
    plain = prepare("disc2021", disc(tmp_path / "a"), tmp_path / "out")
    owner = disc(tmp_path / "b", refs="refs_50k_0", dev="dev_queries_50k_0", final="test_queries_50k_0", header=False)
    mirror = disc(tmp_path / "c", refs="references_0/images/references", dev="dev_queries/images/queries")
    for root in (owner, mirror):
        made = prepare("disc2021", root, tmp_path / "out2")
        assert {(r.id, r.split, r.sha256) for r in made.records} == {(r.id, r.split, r.sha256) for r in plain.records}
    assert rows(tmp_path / "out/pairs.csv") == [
        {"query_id": q, "reference_id": r, "query": f"dev_queries/{q}.jpg", "reference": f"references/{r}.jpg"}
        for q, r in PAIRS.items()
        if r
    ]
    assert rows(tmp_path / "out/queries.csv")[1] == {"path": "dev_queries/Q00001.jpg", "identity": "Q00001"}
    assert plain.embed == ("queries.csv", "references.csv", "training.csv")
    assert plain.counts["drawn"]["copies"] == {"pairs": 3}
    assert {f.kind for f in plain.findings} == {"count_differs", "not_checked"}


def test_disc_final_queries(tmp_path):
    made = prepare("disc2021", disc(tmp_path / "a"), tmp_path / "out", Request(queries="final"))
    assert [row["query_id"] for row in rows(tmp_path / "out/pairs.csv")] == ["Q50001"]
    assert made.counts["found"]["query images"] == 2


def test_disc_draws_distractors_and_keeps_what_is_copied(tmp_path):
    root = disc(tmp_path / "a")
    prepare("disc2021", root, tmp_path / "out", Request(images=4))
    references = {row["identity"] for row in rows(tmp_path / "out/references.csv")}
    assert references > {"R000003", "R000005"}
    assert len(references) == 6
    assert len(rows(tmp_path / "out/training.csv")) == 4
    assert len(rows(tmp_path / "out/pairs.csv")) == 3


def test_disc_with_everything_wrong(tmp_path):
    root = disc(tmp_path / "a")
    (root / "references/R000005.jpg").unlink()
    put(root / "references/R000007.jpg", b"<html>")
    put(root / "references/face.jpg")
    put(root / "other/R000001.jpg")
    put(root / "dev_queries/Q00009.jpg")
    put(root / "dev_queries/Q00003.jpg", jpeg("x")[:-8])
    with (root / "dev_queries_groundtruth.csv").open("a") as stream:
        stream.write("Q00044,\nQ00045,R000001\n")
    made = prepare("disc2021", root, tmp_path / "out")
    found = kinds(made.findings)
    assert found["unknown_image_id"].count == 3
    assert found["unknown_image_id"].examples == (
        "Q00002, R000005: no R000005",
        "Q00044: no Q00044",
        "Q00045, R000001: no Q00045",
    )
    assert found["query_not_in_ground_truth"].examples == ("Q00009",)
    assert found["damaged_image"].count == 2
    assert found["listed_twice"].count == 1
    assert found["unusual_name"].examples == ("references/face.jpg",)
    assert [row["query_id"] for row in rows(tmp_path / "out/pairs.csv")] == ["Q00000"]


def test_disc_without_what_is_essential(tmp_path):
    root = disc(tmp_path / "a")
    put(root / "dev_queries_groundtruth.csv", "query_id,reference_id\nQ00000,R000001\nQ00001,x\n")
    with pytest.raises(FormatError, match=r"line 3: 'Q00001', 'x' are not ids"):
        prepare("disc2021", root, tmp_path / "out")
    put(root / "dev_queries_groundtruth.csv", "a,b,c\n")
    with pytest.raises(FormatError, match=r"line 1: expected two cells"):
        prepare("disc2021", root, tmp_path / "out")
    (root / "dev_queries_groundtruth.csv").unlink()
    with pytest.raises(DataError, match=r"no ground truth for the dev queries; looked for a CSV file.*ai\.meta\.com"):
        prepare("disc2021", root, tmp_path / "out")
    shutil.rmtree(root / "final_queries")
    with pytest.raises(DataError, match=r"no final queries; looked for Q50000"):
        prepare("disc2021", root, tmp_path / "out", Request(queries="final"))
    shutil.rmtree(root / "references")
    with pytest.raises(DataError, match=r"no references; looked for R000000\.jpg"):
        prepare("disc2021", root, tmp_path / "out")
