"""A plain CSV file: what it may hold, and what is wrong with it."""

from __future__ import annotations

import pytest
from datasets_trees import jpeg, kinds, put

from faceblind import DataError, FormatError, SplitError
from faceblind.data.datasets import Request, prepare


def photos(root, people=9, each=4, **columns):
    lines = [",".join(("path", "identity", *columns))]
    for p in range(people):
        for i in range(each):
            file = f"{i}/person {p}.jpg"
            put(root / file, jpeg(file))
            lines.append(",".join((file, f"p{p}", *(column(p) for column in columns.values()))))
    put(root / "people.csv", "\n".join(lines) + "\n")
    return root


def test_a_file_or_its_folder(tmp_path):
    root = photos(tmp_path / "a")
    folder = prepare("csv", root, tmp_path / "out")
    file = prepare("csv", root / "people.csv", tmp_path / "out2")
    assert folder.records == file.records
    assert len(folder.records) == 36
    assert folder.root == file.root == root
    assert folder.records[0].id == folder.records[0].file == "0/person 0.jpg"


def test_parts_that_the_file_gives(tmp_path):
    names = ("fit", "attack", "val", "Test")
    root = photos(tmp_path / "a", people=10, split=lambda p: names[p % 4] if p < 8 else "")
    made = prepare("csv", root, tmp_path / "out")
    expected = {f"p{p}": ("fit", "attack", "validation", "test")[p % 4] for p in range(8)}
    assert {record.identity: record.split for record in made.records} == expected
    assert "split_lacks_part" not in kinds(made.findings)


def test_train_people_become_fit_and_attack(tmp_path):
    root = photos(tmp_path / "a", people=12, split=lambda p: ("train", "valid", "test")[p % 3])
    made = prepare("csv", root, tmp_path / "out")
    of = {record.identity: record.split for record in made.records}
    assert {name for name, part in of.items() if part in ("fit", "attack")} == {"p0", "p3", "p6", "p9"}
    assert sorted(of.values()) == ["attack"] * 2 + ["fit"] * 2 + ["test"] * 4 + ["validation"] * 4
    assert kinds(made.findings)["split_lacks_part"].severity == "warning"
    root = photos(tmp_path / "b", people=12, split=lambda p: ("train", "test")[p % 2])
    with pytest.raises(SplitError, match="the column split gives 0 people with enough images to validation"):
        prepare("csv", root, tmp_path / "out")


def test_what_is_wrong_is_found(tmp_path):
    root = photos(tmp_path / "a", people=14, split=lambda p: ("fit", "attack", "val", "test")[p % 4])
    (root / "0/person 3.jpg").unlink()
    put(root / "0/person 4.jpg", b"")
    with (root / "people.csv").open("a") as stream:
        stream.write(
            "1/person 0.jpg,p0,fit\n1/person 1.jpg,p9,attack\n2/person 0.jpg,p0,fit\n\n3/person 2.jpg,p2,val\n"
        )
        put(root / "5/person 2.jpg", jpeg("new"))
        stream.write("5/person 2.jpg,p2,test\n")
    found = kinds(prepare("csv", root, tmp_path / "out", Request(images=2, check="all")).findings)
    assert found["listed_file_missing"].examples == ("0/person 3.jpg",)
    assert found["damaged_image"].examples == ("0/person 4.jpg is empty",)
    assert found["listed_twice"].count == 3
    assert found["listed_twice"].examples[0] == "1/person 0.jpg, line 58"
    assert found["two_identities_one_file"].examples == ("1/person 1.jpg: p1 and p9, line 59",)
    assert found["identity_in_two_splits"].examples == ("p2",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("file,identity\na.jpg,x\n", r"must have the columns path, identity, once each.*'file,identity'"),
        ("path,identity,path\n", r"once each"),
        ("path,identity\na.jpg\n", r"line 2: 1 cells where the header has 2"),
        ("path,identity\n,x\n", r"line 2: path is empty"),
        ("path,identity\na.jpg,\n", r"line 2: identity is empty"),
        ("path,identity\n../a.jpg,x\n", r"line 2: '\.\./a\.jpg' must be a path relative to and inside"),
        ("path,identity\n/etc/a.jpg,x\n", r"must be a path relative"),
        ('path,identity\n"a\nb.jpg",x\n', r"line 3: path and identity must not hold line breaks"),
        (
            "path,identity,split\na.jpg,x,dev\n",
            r"line 2: split 'dev' is none of fit, attack, validation, test, train, val, valid",
        ),
        ("path,identity\na.jpg,x\n", r"none of the 1 images it lists is under"),
        ("path,identity\n", r"none of the 0 images"),
        ("", r"must have the columns"),
    ],
)
def test_files_that_cannot_be_used(text, said, tmp_path):
    path = put(tmp_path / "a" / "x.csv", text)
    with pytest.raises(DataError, match=said):
        prepare("csv", path, tmp_path / "out")


def test_no_file_or_several(tmp_path):
    root = tmp_path / "a"
    root.mkdir()
    with pytest.raises(DataError, match=r"must hold one CSV file.*there is none: name the file itself"):
        prepare("csv", root, tmp_path / "out")
    put(root / "a.csv", "x")
    put(root / "b.csv", "x")
    with pytest.raises(DataError, match=r"there is a\.csv, b\.csv: name the file itself"):
        prepare("csv", root, tmp_path / "out")
    (root / "a.csv").unlink()
    (root / "b.csv").write_bytes(b"path,identity\n\xff\xfe,x\n")
    with pytest.raises(FormatError, match="is not a UTF-8 CSV file"):
        prepare("csv", root, tmp_path / "out")
