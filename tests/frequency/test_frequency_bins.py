"""The `.bin` layout: every way in which Python writes it is read as data, and what asks to run is refused unrun."""

from __future__ import annotations

import codecs
import io
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faceblind._errors import DataError, FormatError, ImageError
from faceblind.frequency.evaluation.bins import open_bin, read_bin
from faceblind.frequency.evaluation.pickle_data import read_pickle_data

Image = pytest.importorskip("PIL.Image")
PROTOCOLS = range(6)


def jpeg(seed: int, size: tuple[int, int] = (16, 16)) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


IMAGES = [jpeg(seed) for seed in range(8)]
SAME = [True, False, True, False]


def write(path: Path, value: object, protocol: int) -> Path:
    path.write_bytes(pickle.dumps(value, protocol))
    return path


ENTRIES = {
    "bytes": bytes,
    "bytearray": bytearray,
    "array": lambda data: np.frombuffer(data, dtype=np.uint8),
    "writable array": lambda data: np.frombuffer(data, dtype=np.uint8).copy(),
    "column": lambda data: np.frombuffer(data, dtype=np.uint8)[:, None].copy(),
}
LABELS = {
    "bool": list,
    "numpy bool": lambda same: [np.bool_(label) for label in same],
    "int": lambda same: [int(label) for label in same],
    "array": np.array,
    "tuple": tuple,
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("labels", LABELS)
def test_all_that_pickle_writes_is_read(tmp_path, protocol, entry, labels):
    value = ([ENTRIES[entry](data) for data in IMAGES], LABELS[labels](SAME))
    images, same = read_bin(write(tmp_path / "lfw.bin", value, protocol))
    assert images == IMAGES
    assert same.tolist() == SAME


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(
    st.lists(
        st.one_of(st.binary(max_size=300), st.booleans(), st.integers(), st.text(max_size=20), st.none()), max_size=20
    )
)
def test_values_come_back_as_python_reads_them(tmp_path_factory, protocol, values):
    path = write(tmp_path_factory.mktemp("pickle") / "x.bin", [values, tuple(values)], protocol)
    assert read_pickle_data(path) == [values, values]


def python2(images: list[bytes], same: list[bool], protocol: int) -> bytes:
    """What Python 2's pickle writes for str and bool: quoted strings in protocol 0, counted bytes in 1 and 2."""
    out = b"\x80\x02" if protocol == 2 else b""
    out += b"(" if protocol < 2 else b""
    for number, (entries, put) in enumerate(((images, True), (same, False))):
        out += b"(l" if protocol == 0 else b"]"
        out += b"p%d\n" % (100 + number) if protocol == 0 else b"q" + bytes([100 + number])
        out += b"(" if protocol else b""
        for place, value in enumerate(entries):
            if put and protocol == 0:
                out += b"S'" + codecs.escape_encode(value)[0] + b"'\np%d\na" % place
            elif put:
                out += b"T" + struct.pack("<i", len(value)) + value + b"q" + bytes([place])
            elif protocol == 2:
                out += b"\x88" if value else b"\x89"
            else:
                out += b"I0%d\n" % value + (b"a" if protocol == 0 else b"")
        out += b"e" if protocol else b""
    return out + (b"\x86" if protocol == 2 else b"t") + b"."


@pytest.mark.parametrize("protocol", range(3))
def test_files_of_python_2_are_read(tmp_path, protocol):
    data = python2(IMAGES, SAME, protocol)
    assert pickle.loads(data, encoding="latin-1")[1] == SAME  # the hand-written form is a pickle
    (tmp_path / "lfw.bin").write_bytes(data)
    images, same = read_bin(tmp_path / "lfw.bin")
    assert images == IMAGES
    assert same.tolist() == SAME


class Evil:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("place", ["instead", "image", "label"])
def test_a_pickle_that_runs_a_command_is_refused_and_not_run(tmp_path, protocol, place):
    mark = tmp_path / "was_run"
    evil = Evil(mark)
    value = {"instead": evil, "image": ([*IMAGES[:7], evil], SAME), "label": (IMAGES, [*SAME[:3], evil])}[place]
    path = write(tmp_path / "lfw.bin", value, protocol)
    with pytest.raises(
        FormatError, match=r"asks to run '(posix|nt).system', which is no list of images; nothing was run"
    ):
        read_bin(path)
    assert not mark.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"cbuiltins\neval\n(V1+1\ntR.",
        b"\x80\x04\x8c\x08builtins\x8c\x04exec\x93\x8c\x04pass\x85R.",
        b"(S'touch x'\nios\nsystem\n.",  # INST
        b"cnumpy\nndarray\n(I1\ntR.",  # an allowed name called in another way
        b"cnumpy\ndtype\n(VO8\ntR.",
        b"c_codecs\nencode\n(Vab\nVrot13\ntR.",
        b"\x80\x02cnumpy\ndtype\nq\x00)\x81.",  # NEWOBJ
        b"Pid\n.",  # PERSID
        b"\x82\x01.",  # EXT1
        b"}.",
    ],
)  # fmt: skip
def test_other_programs_are_refused(tmp_path, data):
    (tmp_path / "x.bin").write_bytes(data)
    with pytest.raises(FormatError, match=r"x\.bin(, byte \d+)?: "):
        read_bin(tmp_path / "x.bin")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_truncated_file_says_so_wherever_it_ends(tmp_path, protocol):
    data = pickle.dumps((IMAGES, SAME), protocol)
    path = tmp_path / "lfw.bin"
    for end in np.unique(np.linspace(0, len(data) - 1, 60).astype(int)):
        path.write_bytes(data[:end])
        with pytest.raises(FormatError, match=r"lfw\.bin, byte [\d,]+: .*(incomplete download|damaged)"):
            read_bin(path)


@given(st.integers(0, 10**9), st.integers(0, 255))
def test_a_changed_byte_gives_a_clear_error_or_a_sound_set(tmp_path_factory, place, value):
    data = bytearray(pickle.dumps((IMAGES[:4], SAME[:2]), 4))
    data[place % len(data)] = value
    path = tmp_path_factory.mktemp("bin") / "lfw.bin"
    path.write_bytes(bytes(data))
    try:
        images, same = read_bin(path)
    except FormatError:
        return
    assert len(images) == 2 * same.size


@given(st.binary(max_size=200))
def test_any_bytes_give_a_clear_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("bin") / "x.bin"
    path.write_bytes(data)
    with pytest.raises(FormatError):
        read_bin(path)


def test_a_length_beyond_the_file_allocates_nothing(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(b"\x80\x04\x8e" + struct.pack("<Q", 1 << 50) + b"abc")
    with pytest.raises(FormatError, match=r"byte 2: BINBYTES8 is cut off or damaged"):
        read_bin(path)


def test_sets_that_do_not_fit_are_refused(tmp_path):
    path = tmp_path / "lfw.bin"
    for value, message in (
        ((IMAGES[:7], SAME), r"lfw.bin holds 7 images, an odd number"),
        ((IMAGES[:6], SAME), r"lfw.bin holds 6 images and 4 labels"),
        (([], []), r"holds no pairs"),
        ((IMAGES, [True, False, 2, True]), r"label 2 is 2, neither True nor False"),
        ((IMAGES, [True, None, True, False]), r"label 1 is NoneType"),
        (([*IMAGES[:5], 17, *IMAGES[6:]], SAME), r"image 5 is 17, not the bytes of a JPEG file"),
        (
            ([*IMAGES[:3], b"<html>", *IMAGES[4:]], SAME),
            r"image 3 \(pair 1\) is not an image: it starts with b'<html>'",
        ),
        (([*IMAGES[:6], IMAGES[6][:-40], IMAGES[7]], SAME), r"image 6 \(pair 3\) is a JPEG file that was cut off"),
        (IMAGES, r"expected a pickle of \(list of JPEG files, list of True or False\)"),
        ((IMAGES, SAME, SAME), r"got a list of 3 \(list, list, list\)"),
        (([np.zeros((4, 4), np.uint8)] * 8, SAME), r"image 0 is an array of uint8 of shape \(4, 4\)"),
    ):
        write(path, value, 4)
        with pytest.raises(FormatError, match=message):
            read_bin(path)
    with pytest.raises(DataError, match=r"cannot read .*nowhere.bin"):
        read_bin(tmp_path / "nowhere.bin")


def test_a_set_gives_pairs_faces_and_who_is_linked(tmp_path):
    # 0 and 1 are one person, 1 again with 2: three pictures of one; the others are strangers.
    order = [0, 1, 3, 4, 1, 2, 5, 0]
    value = ([IMAGES[k] for k in order], [True, False, True, False])
    pairs, faces = open_bin(write(tmp_path / "cfp_fp.bin", value, 4), 16)
    assert pairs.name == "cfp_fp"
    assert pairs.first.tolist() == [0, 2, 4, 6]
    assert pairs.second.tolist() == [1, 3, 5, 7]
    assert pairs.fold.tolist() == [0, 1, 2, 3]
    who = pairs.people
    assert who[0] == who[1] == who[4] == who[5] == who[7]
    assert len({who[0], who[2], who[3], who[6]}) == 4
    assert "one person may count as several" in pairs.note
    with Image.open(io.BytesIO(IMAGES[3])) as image:
        assert np.array_equal(faces.pixels([2])[0], np.asarray(image))
    assert len(faces) == 8
    assert faces.sample[3] == "cfp_fp.bin/000003"


def test_images_that_cannot_become_chips_are_named(tmp_path):
    images = [*IMAGES[:3], jpeg(9, (16, 24))]
    _, faces = open_bin(write(tmp_path / "lfw.bin", (images, [True, False]), 4), 16)
    with pytest.raises(
        ImageError, match=r"lfw.bin, image 3 \(pair 1\): it is 24 x 16 pixels and cannot become 16 x 16"
    ):
        faces.pixels(np.arange(4))


def test_numpy_1_names_are_known(tmp_path):
    data = pickle.dumps(([np.frombuffer(i, np.uint8) for i in IMAGES], [np.bool_(s) for s in SAME]), 2)
    old = data.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    assert old != data
    (tmp_path / "lfw.bin").write_bytes(old)
    assert read_bin(tmp_path / "lfw.bin")[0] == IMAGES
