"""Listing photographs: order, identities, what is left out, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faceblind._errors import DataError
from faceblind.encoders import list_photos
from faceblind.encoders.folder import _natural


def touch(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return root


def kinds(folder: Path) -> dict[str, int]:
    return {note.kind: note.count for note in list_photos(folder).notes}


def test_a_folder_per_person_in_natural_order(tmp_path: Path) -> None:
    touch(tmp_path, "p10/1.jpg", "p2/b.PNG", "p2/a10.jpg", "p2/a9.jpeg", "p1/x.webp")
    listing = list_photos(tmp_path)
    assert [(photo.sample, photo.identity) for photo in listing] == [
        ("p1/x.webp", "p1"),
        ("p2/a9.jpeg", "p2"),
        ("p2/a10.jpg", "p2"),
        ("p2/b.PNG", "p2"),
        ("p10/1.jpg", "p10"),
    ]
    assert listing.photos[0].path == tmp_path / "p1" / "x.webp"
    assert len(listing) == 5
    assert listing.notes == ()
    assert not listing.synthetic


@given(st.lists(st.text("ab01_/", max_size=6)))
def test_natural_order_is_total_and_does_not_depend_on_the_input_order(names: list[str]) -> None:
    backwards = names[::-1]
    assert sorted(names, key=_natural) == sorted(backwards, key=_natural)
    assert sorted(["01", "1", "001"], key=_natural) == ["001", "01", "1"]


@given(st.integers(0, 10**30), st.integers(0, 10**30))
def test_numbers_compare_by_value(a: int, b: int) -> None:
    assert (_natural(f"x{a}.jpg") < _natural(f"x{b}.jpg")) == (a < b)


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    touch(tmp_path, "p1/a.jpg", "p1/.a.jpg", "p1/notes.txt", "p1/b.HEIC", "p1/sub/readme.md", ".hidden/a.jpg")
    touch(tmp_path, "README", "synthetic.txt")
    (tmp_path / "empty").mkdir()
    listing = list_photos(tmp_path)
    assert [photo.sample for photo in listing] == ["p1/a.jpg"]
    assert kinds(tmp_path) == {"hidden_files": 2, "other_files": 5, "empty_folders": 1}
    by_kind = {note.kind: note for note in listing.notes}
    assert "1 .heic" in by_kind["other_files"].message
    assert by_kind["empty_folders"].examples == ("empty",)
    assert {note.severity for note in listing.notes} == {"note"}


def test_links_are_followed_and_dangling_ones_are_listed(tmp_path: Path) -> None:
    touch(tmp_path / "elsewhere", "1.jpg")
    root = tmp_path / "root"
    root.mkdir()
    (root / "p1").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "2.jpg").symlink_to(tmp_path / "gone.jpg")
    assert [photo.sample for photo in list_photos(root)] == ["p1/1.jpg", "p1/2.jpg"]


@pytest.mark.parametrize(("content", "expected"), [({"synthetic": True}, True), ({"synthetic": False, "n": 3}, False)])
def test_synthetic_mark(tmp_path: Path, content: object, expected: bool) -> None:
    touch(tmp_path, "p1/a.jpg")
    (tmp_path / "synthetic.json").write_text(json.dumps(content))
    listing = list_photos(tmp_path)
    assert listing.synthetic is expected
    assert listing.notes == ()


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"synthetic": 1}', '{"synthetic": "yes"}', b"\xff"])
def test_a_synthetic_mark_that_cannot_be_read_is_refused(tmp_path: Path, content: str | bytes) -> None:
    touch(tmp_path, "p1/a.jpg")
    (tmp_path / "synthetic.json").write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DataError, match=r'synthetic\.json.*"synthetic".* true or false'):
        list_photos(tmp_path)


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such folder: .*gone"):
        list_photos(tmp_path / "gone")
    touch(tmp_path, "file")
    with pytest.raises(DataError, match="file is not a folder"):
        list_photos(tmp_path / "file")


def test_no_photographs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no photographs under .*PERSON/PHOTO.*\.jpg"):
        list_photos(tmp_path)
    touch(tmp_path, "p1/a.heic", "p1/b.heic")
    with pytest.raises(DataError, match=r"found only 2 \.heic"):
        list_photos(tmp_path)


def test_photographs_in_the_root_belong_to_no_person(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{i}.jpg" for i in range(7)), "p1/a.jpg")
    with pytest.raises(DataError, match=r"7 photographs lie directly .* 0\.jpg, 1\.jpg.* and 2 more; .*CSV"):
        list_photos(tmp_path)


def test_deeper_folders_are_not_guessed_at(tmp_path: Path) -> None:
    touch(tmp_path, "train/p1/a.jpg", "train/p2/b.jpg", "p3/c.jpg")
    with pytest.raises(DataError, match=r"deeper than .*train/p1/a\.jpg, train/p2/b\.jpg; point at the folder"):
        list_photos(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="names are Unicode there")
def test_names_that_are_not_utf8_are_named(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "p1")
    Path(os.fsdecode(folder)).mkdir()
    Path(os.fsdecode(folder + b"/caf\xe9.jpg")).write_bytes(b"x")
    with pytest.raises(DataError, match=r"1 file names are not UTF-8 .*'p1/caf\\udce9\.jpg'; rename"):
        list_photos(tmp_path)


def test_a_folder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "p1/a.jpg")

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(DataError, match=f"cannot read {tmp_path}: Permission denied"):
        list_photos(tmp_path)


# CSV


def labels(root: Path, text: str, encoding: str = "utf-8") -> Path:
    path = root / "labels.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_csv(tmp_path: Path) -> None:
    touch(tmp_path, "a10.jpg", "a9.jpg", "deep/down/x.jpg", "unlisted.jpg")
    csv = labels(tmp_path, "identity, path,age\nann,a10.jpg,3\nbob,./a9.jpg,4\n\nann , deep/down/x.jpg,5\n")
    listing = list_photos(tmp_path, labels_csv=csv)
    assert [(photo.sample, photo.identity) for photo in listing] == [
        ("a9.jpg", "bob"),
        ("a10.jpg", "ann"),
        ("deep/down/x.jpg", "ann"),
    ]
    assert listing.photos[2].path == tmp_path / "deep/down/x.jpg"
    assert listing.notes == ()


def test_csv_with_byte_order_mark_quotes_and_the_synthetic_mark(tmp_path: Path) -> None:
    touch(tmp_path, "a, b.jpg")
    (tmp_path / "synthetic.json").write_text('{"synthetic": true}')
    csv = labels(tmp_path, 'path,identity\r\n"a, b.jpg","O\'Neil, Zoë"\r\n', "utf-8-sig")
    listing = list_photos(tmp_path, labels_csv=csv)
    assert listing.photos[0].identity == "O'Neil, Zoë"
    assert listing.synthetic


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"must have the columns path and identity, once each.* reads ''"),
        ("path;identity\na.jpg;x\n", r"separated by commas; its first line reads 'path;identity'"),
        ("path,person\na.jpg,x\n", r"must have the columns path and identity"),
        ("path,path,identity\na.jpg,a.jpg,x\n", r"once each"),
        ("path,identity\n", r"lists no photographs: only its header"),
        ("path,identity\na.jpg\n", r"line 2: 1 cells where the header has 2"),
        ("path,identity\na.jpg,x,y\n", r"line 2: 3 cells where the header has 2; quote"),
        ("path,identity\na.jpg,\n", r"line 2: identity is empty"),
        ("path,identity\n ,x\n", r"line 2: path is empty"),
        ("path,identity\n/etc/a.jpg,x\n", r"line 2: '/etc/a\.jpg' must be a path relative to and inside"),
        ("path,identity\n../a.jpg,x\n", r"line 2: '\.\./a\.jpg' must be a path relative"),
        ("path,identity\na.jpg,x\n./a.jpg,y\n", r"1 photographs more than once: a\.jpg \(lines 2, 3\)"),
        (
            "path,identity\na.jpg,x\nb.jpg,y\nc.jpg,y\n",
            r"2 of 3 photographs are not under .* b\.jpg \(line 3\), c\.jpg",
        ),
        ("path,identity\nfolder,x\n", r"1 of 1 photographs are not under"),
        ('path,identity\n"a.jpg,x\n', r"not a UTF-8 CSV file"),
    ],
)
def test_bad_csv(tmp_path: Path, text: str, message: str) -> None:
    touch(tmp_path, "a.jpg", "folder/x.jpg")
    with pytest.raises(DataError, match=message):
        list_photos(tmp_path, labels_csv=labels(tmp_path, text))


def test_csv_in_another_encoding_or_missing(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg")
    csv = labels(tmp_path, "path,identity\na.jpg,Zoë\n", "latin-1")
    with pytest.raises(DataError, match=r"labels\.csv is not a UTF-8 CSV file"):
        list_photos(tmp_path, labels_csv=csv)
    with pytest.raises(DataError, match=r"no such file: .*gone\.csv"):
        list_photos(tmp_path, labels_csv=tmp_path / "gone.csv")
