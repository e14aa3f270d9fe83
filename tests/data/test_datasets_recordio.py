"""RecordIO: our reader against an independent writer, and every way in which a file can be damaged."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path

import pytest
from datasets_trees import MAGIC, packed, put, recordio
from hypothesis import given
from hypothesis import strategies as st

from faceblind import DataError, FormatError
from faceblind.data.datasets.recordio import RecordFile, RecordIndex

# Pieces that make the magic number likely, aligned and not, whole and cut short.
PIECES = st.lists(
    st.one_of(st.binary(max_size=9), st.just(MAGIC), st.just(MAGIC[:3]), st.just(b"\0\0\0\0")), max_size=8
).map(b"".join)


@given(records=st.lists(PIECES, min_size=1, max_size=6))
def test_records_come_back_whatever_their_size_and_wherever_the_magic_number_stands(records):
    data, offsets = recordio(records)
    with tempfile.TemporaryDirectory() as folder, RecordFile(put(Path(folder) / "a.rec", data)) as file:
        at = 0
        for record, offset in zip(records, offsets, strict=True):
            assert at == offset
            found, at = file.read(offset)
            assert found == record
        assert at == len(data)


@given(
    labels=st.one_of(st.floats(0, 1e6, width=32), st.lists(st.floats(0, 1e6, width=32), min_size=1, max_size=5)),
    image=PIECES,
)
def test_headers_come_back(labels, image):
    data, offsets = recordio([packed(0.0, b"first"), packed(labels, image), packed(1.0)])
    with tempfile.TemporaryDirectory() as folder, RecordFile(put(Path(folder) / "a.rec", data)) as file:
        header, found = file.header(offsets[1])
        assert found == image
        assert list(header.labels) == (labels if isinstance(labels, list) else [labels])
        scanned = list(file.scan())
        assert [offset for offset, _, _ in scanned] == offsets
        assert scanned[1][1] == header
        assert RecordIndex.scanned(file).offsets.tolist() == offsets


@given(records=st.lists(PIECES, min_size=1, max_size=4), data=st.data())
def test_a_file_cut_anywhere_gives_whole_records_or_an_error(records, data):
    whole, offsets = recordio(records)
    end = data.draw(st.integers(0, len(whole)))
    with tempfile.TemporaryDirectory() as folder, RecordFile(put(Path(folder) / "a.rec", whole[:end])) as file:
        for record, offset in zip(records, offsets, strict=True):
            try:
                found, _ = file.read(offset)
            except FormatError as error:
                assert f"a.rec, byte {offset:,}" in str(error) or "byte" in str(error)  # noqa: PT017
            else:
                assert found == record


def part(flag: int, data: bytes, magic: bytes = MAGIC, length: int | None = None) -> bytes:
    return (
        magic + struct.pack("<I", flag << 29 | (len(data) if length is None else length)) + data + bytes(-len(data) % 4)
    )


@pytest.mark.parametrize(
    ("data", "offset", "said"),
    [
        (part(0, b"abcd"), 2, r"byte 2: records begin at multiples of four"),
        (part(0, b"abcd"), 12, r"byte 12: the file ends \(12 bytes\): an incomplete download"),
        (part(0, b"abcd")[:6], 0, r"byte 0: the file ends \(6 bytes\)"),
        (
            part(0, b"abcd", length=9),
            0,
            r"byte 0: a record of 9 bytes, but the file ends after 4: an incomplete download",
        ),
        (
            part(0, b"abcd", magic=b"abcd"),
            0,
            r"byte 0: no record begins here: magic number 0xced7230a is due, 0x64636261",
        ),
        (part(2, b"abcd"), 0, r"byte 0: continuation flag 2 where 0 or 1 is due"),
        (part(3, b"abcd"), 0, r"byte 0: continuation flag 3 where 0 or 1 is due"),
        (part(5, b"abcd"), 0, r"byte 0: continuation flag 5 where 0 or 1 is due"),
        (part(1, b"abcd") + part(0, b"x"), 0, r"byte 12: continuation flag 0 where 2 or 3 is due"),
        (part(1, b"abcd") + part(1, b"x"), 0, r"byte 12: continuation flag 1 where 2 or 3 is due"),
        (part(1, b"abcd") + part(7, b"x"), 0, r"byte 12: continuation flag 7 where 2 or 3 is due"),
        (part(1, b"abcd"), 0, r"byte 12: the file ends"),
        (part(0, b"abcd"), 0, r"byte 0: a record of 4 bytes, too short for an image header of 24"),
        (recordio([packed([1.0, 2.0])[:-1]])[0], 0, r"byte 0: a header that promises 2 labels in a record of 31 bytes"),
        (
            recordio([struct.pack("<IfQQ", 1 << 31, 0, 0, 0)])[0],
            0,
            r"byte 0: a header that promises 2,147,483,648 labels in a record of 24 bytes",
        ),
    ],
)
def test_damage_is_named_with_its_place(data, offset, said, tmp_path):
    with (
        RecordFile(put(tmp_path / "train.rec", data)) as file,
        pytest.raises(FormatError, match=r"train\.rec, " + said),
    ):
        file.header(offset)


def test_records_too_large_to_be_an_image_are_not_read(tmp_path, monkeypatch):
    from faceblind.data.datasets import recordio as module

    monkeypatch.setattr(module, "_MOST_BYTES", 100)
    data, _ = recordio([bytes(90) + b"abc" + MAGIC * 3 + bytes(90)])
    with (
        RecordFile(put(tmp_path / "a.rec", data)) as file,
        pytest.raises(FormatError, match="byte 0: a record of more than"),
    ):
        file.read(0)


def test_memory_holds_one_record(tmp_path):
    import tracemalloc

    data, _ = recordio([packed(float(i), bytes(200_000)) for i in range(50)])
    put(tmp_path / "a.rec", data)
    size = len(data)
    del data
    tracemalloc.start()
    with RecordFile(tmp_path / "a.rec") as file:
        assert sum(1 for _ in file.scan()) == 50
        file.read(0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < size / 10


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0\t0\n1\n", r"line 2: expected number and byte offset, got '1'"),
        ("0\t0\n\n1\tx\n", r"line 3: expected number and byte offset"),
        ("0\t-4\n", r"line 1: expected number and byte offset"),
        ("0\t0\n1\t2\n", r"line 2: record 1 at byte 2, not a multiple of four"),
        (
            "0\t0\n1\t4000\n",
            r"line 2: record 1 at byte 4,000, but a\.rec ends at byte 12: an incomplete download, or the index of",
        ),
        ("0\t0\n1\t8\n0\t4\n", r"lists record 0 twice"),
        ("0\t99999999999999999999999999999999\n", r"record 0 at byte"),
        ("é\t0\n", r"is not an index of records"),
    ],
)
def test_indexes_that_disagree(text, said, tmp_path):
    put(tmp_path / "a.idx", text)
    with RecordFile(put(tmp_path / "a.rec", part(0, b"abcd"))) as file, pytest.raises(FormatError, match=said):
        RecordIndex.read(tmp_path / "a.idx", file)


def test_an_index_in_any_order(tmp_path):
    put(tmp_path / "a.idx", "7\t8\n2\t0\n\n5\t4\n")
    with RecordFile(put(tmp_path / "a.rec", part(0, b"abcd"))) as file:
        index = RecordIndex.read(tmp_path / "a.idx", file)
    assert [(n, index.offset(n)) for n in index.numbers.tolist()] == [(2, 0), (5, 4), (7, 8)]
    assert [n in index for n in (1, 2, 3, 7, 8)] == [False, True, False, True, False]
    with pytest.raises(DataError, match="record 3 is not in the index"):
        index.offset(3)
    with pytest.raises(DataError, match=r"cannot read .*none\.rec"):
        RecordFile(tmp_path / "none.rec")
