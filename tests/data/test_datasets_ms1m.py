"""MS1M-style RecordIO and folder trees: listing, unpacking, and what disagrees."""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

import pytest
from datasets_trees import MAGIC, faces_emore, jpeg, kinds, lfw, packed, put, write_records

from faceblind import DataError, FormatError
from faceblind.data.datasets import FaceRecords, Request, prepare, read_leave_out

FEW = Request(images=4)


def test_drawn_images_are_unpacked_byte_for_byte(tmp_path):
    made = prepare("ms1m", faces_emore(tmp_path / "data", people=9, each=6), tmp_path / "out", FEW)
    assert made.root == tmp_path / "out/images"
    assert len(made.records) == 36
    for record in made.records:
        person, number = record.identity, int(record.id)
        assert record.file == f"{person}/{number:08d}.jpg"
        data = (made.root / record.file).read_bytes()
        assert data == jpeg(f"rec {person} {number - 1 - int(person) * 6}")
        assert (record.size, record.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    with (tmp_path / "out/labels.csv").open() as stream:
        assert [row["path"] for row in csv.DictReader(stream)] == [record.file for record in made.records]
    assert len(list((tmp_path / "out/images").rglob("*.*"))) == 36
    assert {f.kind for f in made.findings} == {"fewer_people", "not_checked"}


def test_the_same_bytes_again_and_whole_files_are_kept(tmp_path):
    root = faces_emore(tmp_path / "data", people=8, each=6)
    made = prepare("ms1m", root, tmp_path / "out", FEW)
    kept, cut, other = (made.root / record.file for record in made.records[:3])
    before = kept.stat().st_mtime_ns, kept.stat().st_ino
    manifest = (tmp_path / "out/manifest.json").read_bytes()
    whole = cut.read_bytes()
    cut.write_bytes(whole[:-3])  # a run that was killed
    other.write_bytes(bytes(len(other.read_bytes())))
    again = prepare("ms1m", root, tmp_path / "out", FEW)
    assert (kept.stat().st_mtime_ns, kept.stat().st_ino) == before
    assert cut.read_bytes() == whole
    assert again.records == made.records
    assert all(hashlib.sha256((again.root / r.file).read_bytes()).hexdigest() == r.sha256 for r in again.records)
    assert (tmp_path / "out/manifest.json").read_bytes() == manifest


def test_layouts_give_the_same_draw(tmp_path):
    base = prepare("ms1m", faces_emore(tmp_path / "a", each=6), tmp_path / "out", FEW)
    several = prepare("ms1m", faces_emore(tmp_path / "b", each=6, extra_label=True), tmp_path / "out2", FEW)
    nested = prepare("ms1m", faces_emore(tmp_path / "c" / "faces_emore", each=6).parent, tmp_path / "out3", FEW)
    (faces_emore(tmp_path / "d", each=6) / "train.idx").unlink()
    unlisted = prepare("ms1m", tmp_path / "d", tmp_path / "out4", FEW)
    faces_emore(tmp_path / "e", each=6)
    (tmp_path / "e/train.rec").rename(tmp_path / "e/faces.rec")
    (tmp_path / "e/train.idx").rename(tmp_path / "e/faces.idx")
    renamed = prepare("ms1m", tmp_path / "e", tmp_path / "out5", FEW)
    assert base.records == several.records == nested.records == unlisted.records == renamed.records
    assert "no_index" in kinds(unlisted.findings)


def test_files_without_ranges_are_read_through(tmp_path):
    records = [packed(float(i % 8), jpeg(f"flat {i}")) for i in range(48)]
    write_records(tmp_path / "a", records)
    made = prepare("ms1m", tmp_path / "a", tmp_path / "out", FEW)
    assert made.counts["found"] == {"images": 48, "identities": 8}
    assert all(int(record.id) % 8 == int(record.identity) for record in made.records)


def test_labels_that_count_otherwise_than_the_ranges(tmp_path):
    """Identities 100, 101, ...: the label on the images names them, not their place."""
    images, people, each = 40, 8, 5
    records = [packed([images + 1.0, images + 1.0 + people])]
    records += [packed(100.0 + i // each, jpeg(f"far {i}")) for i in range(images)]
    records += [packed([1.0 + p * each, 1.0 + (p + 1) * each]) for p in range(people)]
    write_records(tmp_path / "a", records)
    made = prepare("ms1m", tmp_path / "a", tmp_path / "out", FEW)
    assert {record.identity for record in made.records} == {str(100 + p) for p in range(8)}
    assert "label_mismatch" not in kinds(made.findings)


def test_iterating_and_reading(tmp_path):
    root = faces_emore(tmp_path / "data", people=4, each=3)
    with FaceRecords(root / "train.rec") as faces:
        assert len(faces) == 12
        found = list(faces)
        assert [(r.number, r.label) for r in found] == [(1 + i, i // 3) for i in range(12)]
        assert found[5].image == jpeg("rec 1 2")
        assert list(faces.people["2"]) == ["7", "8", "9"]
        assert list(faces.people["2"][1:]) == ["8", "9"]
        assert faces.read(6) == found[5]


def test_damaged_and_mislabelled_images_are_replaced(tmp_path):
    root = faces_emore(tmp_path / "data", people=8, each=6)
    first = prepare("ms1m", root, tmp_path / "out", FEW)
    cut, wrong = int(first.records[0].id), int(first.records[4].id)
    records = [packed([49, 57])]
    for n in range(1, 49):
        image = jpeg(f"rec {(n - 1) // 6} {(n - 1) % 6}")
        records.append(
            packed(float((n - 1) // 6) if n != wrong else 7.0 - (n - 1) // 6, image[:-5] if n == cut else image)
        )
    records += [packed([1 + p * 6, 1 + (p + 1) * 6]) for p in range(8)]
    write_records(root, records)
    made = prepare("ms1m", root, tmp_path / "out2", FEW)
    assert not {cut, wrong} & {int(record.id) for record in made.records}
    found = kinds(made.findings)
    assert f"{cut} is a JPEG file that was cut off" in found["damaged_image"].examples[0]
    assert found["label_mismatch"].examples[0].startswith(f"{wrong} carries the label ")
    assert found["label_mismatch"].severity == "error"


def test_a_damaged_record_among_the_drawn_is_named_with_its_byte(tmp_path):
    root = faces_emore(tmp_path / "data", people=8, each=6)
    number = int(prepare("ms1m", root, tmp_path / "out", FEW).records[0].id)
    data = bytearray((root / "train.rec").read_bytes())
    offset = int((root / "train.idx").read_text().splitlines()[number].split("\t")[1])
    data[offset] ^= 1
    (root / "train.rec").write_bytes(bytes(data))
    found = kinds(prepare("ms1m", root, tmp_path / "out2", FEW).findings)
    assert (
        f"record {number}: {root / 'train.rec'}, byte {offset:,}: no record begins here"
        in found["damaged_image"].examples[0]
    )


def test_incomplete_downloads_and_files_of_two_data_sets(tmp_path):
    root = faces_emore(tmp_path / "data", people=8, each=6)
    whole, index = (root / "train.rec").read_bytes(), (root / "train.idx").read_text()
    last = index.splitlines()[-1].split("\t")[1]

    def fails(data, text, said):
        (root / "train.rec").write_bytes(data)
        (root / "train.idx").write_text(text)
        with pytest.raises(FormatError, match=said):
            prepare("ms1m", root, tmp_path / "out", FEW)

    fails(
        whole[:2000],
        index,
        r"train\.idx, line \d+: record \d+ at byte [\d,]+, but train\.rec ends at byte 2,000: an incomplete",
    )
    fails(whole[:-8], index, rf"record 56, the last one: .*byte {int(last):,}: a record of 32 bytes, but the file ends")
    fails(
        whole,
        "".join(index.splitlines(keepends=True)[:50]),
        r"identities are to be records 49 to 56, but the index ends at 49",
    )
    shifted = "".join(f"{n}\t{int(o) + 4}\n" for n, o in (line.split("\t") for line in index.splitlines()))
    fails(whole, shifted, r"record 56, the last one: .*no record begins here")
    fails(b"", "", r"holds no records")
    (root / "train.rec").write_bytes(whole + MAGIC + b"\0\0\0\0")
    (root / "train.idx").write_text(index)
    assert kinds(prepare("ms1m", root, tmp_path / "out", FEW).findings)["not_indexed"].count == 8


@pytest.mark.parametrize(
    ("first", "identity", "said"),
    [
        ([3.0, 2.0], [1.0, 3.0], "record 0: images end at 3 and identities at 2, which is no range"),
        ([3.0, 4.5], [1.0, 3.0], r"record 0, byte 0: label 4\.5 is not a whole number"),
        (
            [3.0, 2.0**24],
            [1.0, 3.0],
            r"record 0, byte 0: label 16777216\.0 is not a whole number that float32 holds exactly",
        ),
        ([3.0, float("nan")], [1.0, 3.0], "label nan is not a whole number"),
        ([3.0, float("inf")], [1.0, 3.0], "label inf is not a whole number"),
        ([3.0, 4.0], [1.0, 9.0], r"record 3, byte [\d,]+: images 1 to 9 lie outside of 1 to 3"),
        ([3.0, 4.0], [0.0, 2.0], "images 0 to 2 lie outside"),
        ([3.0, 4.0], [2.0, 1.0], "images 2 to 1 lie outside"),
        ([3.0, 4.0], 7.0, r"record 3, byte [\d,]+: no range of images, though it is an identity's"),
    ],
)
def test_ranges_that_make_no_sense(first, identity, said, tmp_path):
    records = [packed(first), packed(0.0, jpeg("a")), packed(0.0, jpeg("b")), packed(identity)]
    write_records(tmp_path / "a", records)
    with pytest.raises(FormatError, match=said):
        prepare("ms1m", tmp_path / "a", tmp_path / "out", FEW)


def test_property_files(tmp_path):
    root = faces_emore(tmp_path / "data", each=6)
    put(root / "property", "9,112,112\n")
    assert kinds(prepare("ms1m", root, tmp_path / "out", FEW).findings)["count_differs"].examples == (
        "identities: 8 here, 9 in property",
    )
    put(root / "property", "a\n")
    with pytest.raises(FormatError, match="property: expected identities,height,width, got 'a'"):
        prepare("ms1m", root, tmp_path / "out", FEW)


def test_what_embed_skipped_is_left_out(tmp_path):
    root = faces_emore(tmp_path / "data", people=8, each=6)
    skipped = prepare("ms1m", root, tmp_path / "out", FEW).records[0]
    put(tmp_path / "t.skipped.csv", f"sample,reason\n{skipped.file},bad\n")
    again = prepare(
        "ms1m", root, tmp_path / "out", Request(images=4, leave_out=read_leave_out(tmp_path / "t.skipped.csv"))
    )
    assert skipped.file not in {record.file for record in again.records}
    assert len(again.records) == 32


def test_folder_trees(tmp_path):
    made = prepare("ms1m", lfw(tmp_path / "data" / "imgs", people=9, each=6), tmp_path / "out", FEW)
    assert made.root == tmp_path / "data/imgs"
    assert len(made.records) == 36
    with pytest.raises(DataError, match=r"neither RecordIO files nor folders of people; looked for train\.rec"):
        prepare("ms1m", put(tmp_path / "b" / "x.txt", "x").parent, tmp_path / "out", FEW)


def test_a_file_that_changes_while_it_is_read(tmp_path, monkeypatch):
    from faceblind.data.datasets import ms1m

    root = faces_emore(tmp_path / "data", people=8, each=6)
    write = Path.write_bytes
    monkeypatch.setattr(ms1m.Path, "write_bytes", lambda path, data: write(path, data[:-1]))
    with pytest.raises(FormatError, match=r"record \d+ is not what it was when it was checked"):
        prepare("ms1m", root, tmp_path / "out", FEW)
    assert not [p for p in Path(tmp_path / "out").rglob("*") if p.is_file()]
