"""Miniature data sets in the layouts of their owners, with made-up pictures, for the tests of loaders."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from faceblind.data.datasets.listing import Listing, person_and_stem
from faceblind.data.datasets.looking import Look
from faceblind.data.datasets.notes import Notes


def jpeg(key: str, size: int = 40) -> bytes:
    """A file with the structure of a JPEG (not its picture), different for every key."""
    body = hashlib.sha256(key.encode()).digest() * (1 + size // 32)
    scan = body[:size].replace(b"\xff", b"\x00")
    comment = b"\xff\xfe" + struct.pack(">H", 2 + len(key.encode())) + key.encode()
    return b"\xff\xd8" + comment + b"\xff\xda\x00\x08\x01\x01\x00\x00?\x00" + scan + b"\xff\xd9"


def put(path: Path, data: bytes | str | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(data, str):
        path.write_text(data)
    else:
        path.write_bytes(jpeg(str(path)) if data is None else data)
    return path


def celeba(root: Path, *, people: int = 8, each: int = 20, folder: str = "Img/img_align_celeba") -> Path:
    """CelebA: numbered images in one folder, and who is on them; identities take turns, as in the original."""
    lines = []
    for number in range(1, people * each + 1):
        put(root / folder / f"{number:06d}.jpg", jpeg(f"celeba {number}"))
        lines.append(f"{number:06d}.jpg {1 + number % people}")
    put(root / "Anno" / "identity_CelebA.txt", "\n".join(lines) + "\n")
    return root


def vggface2(root: Path, *, people: int = 8, each: int = 20) -> Path:
    """VGGFace2: a folder per identity under train and test, and identity_meta.csv with names that hold commas."""
    lines = ["Class_ID, Name, Sample_Num, Flag, Gender"]
    for p in range(1, people + 1):
        part = "test" if p % 4 == 1 else "train"
        for i in range(each):
            put(root / part / f"n{p:06d}" / f"{i // 2 + 1:04d}_{i % 2 + 1:02d}.jpg", jpeg(f"vgg {p} {i}"))
        lines.append(f'n{p:06d}, "Surname_{p}, Name", {each}, {int(part == "train")}, m')
    put(root / "identity_meta.csv", "\n".join(lines) + "\n")
    return root


def lfw(root: Path, *, people: int = 8, each: int = 20) -> Path:
    """LFW: a folder per person, numbered from 0001."""
    for p in range(people):
        name = f"Ann_{chr(65 + p // 26)}{chr(97 + p % 26)}ring"
        for i in range(each):
            put(root / name / f"{name}_{i + 1:04d}.jpg", jpeg(f"lfw {p} {i}"))
    return root


def listing_of(people: dict[str, Sequence[str]], pictures: dict[str, bytes] | None = None) -> Listing:
    """A listing without files: pictures are the names of the files, or what `pictures` says; b"" is damaged."""
    pictures = pictures or {}

    def look(file: str, _identity: str) -> Look:
        data = pictures.get(file, file.encode())
        return Look(len(data), hashlib.sha256(data).digest(), None if data else "is empty")

    counts = {"images": sum(map(len, people.values())), "identities": len(people)}
    return Listing(
        root=Path("/data"), people=people, notes=Notes(), counts=counts, id_of=person_and_stem, look=look
    )  # fmt: skip


def crowd(people: int, each: int) -> dict[str, Sequence[str]]:
    return {f"p{p}": [f"p{p}/{i}.jpg" for i in range(each)] for p in range(people)}


MAGIC = struct.pack("<I", 0xCED7230A)


def recordio(records: Iterable[bytes]) -> tuple[bytes, list[int]]:
    """Write RecordIO as dmlc-core does: cut where the magic number stands at a multiple of four. Returns bytes and offsets."""
    out, offsets = bytearray(), []
    for record in records:
        offsets.append(len(out))
        pieces, start = [], 0
        for at in range(0, len(record) // 4 * 4, 4):
            if record[at : at + 4] == MAGIC:
                pieces.append(record[start:at])
                start = at + 4
        pieces.append(record[start:])
        for i, piece in enumerate(pieces):
            flag = 0 if len(pieces) == 1 else 1 if i == 0 else 3 if i == len(pieces) - 1 else 2
            out += MAGIC + struct.pack("<I", flag << 29 | len(piece)) + piece + bytes(-len(piece) % 4)
    return bytes(out), offsets


def packed(labels: float | Sequence[float], image: bytes = b"", number: int = 0) -> bytes:
    """Pack as mxnet.recordio.pack: one label in the header, several behind it."""
    if isinstance(labels, Sequence):
        return struct.pack("<IfQQ", len(labels), 0, number, 0) + struct.pack(f"<{len(labels)}f", *labels) + image
    return struct.pack("<IfQQ", 0, labels, number, 0) + image


def faces_emore(root: Path, *, people: int = 8, each: int = 20, extra_label: bool = False) -> Path:
    """train.rec, train.idx and property as in faces_emore."""
    images = people * each
    records = [packed([images + 1, images + 1 + people])]
    for p in range(people):
        for i in range(each):
            label = [float(p), 0.0] if extra_label else float(p)
            records.append(packed(label, jpeg(f"rec {p} {i}"), 1 + p * each + i))
    records += [packed([1 + p * each, 1 + (p + 1) * each], number=images + 1 + p) for p in range(people)]
    write_records(root, records)
    put(root / "property", f"{people},112,112\n")
    return root


def write_records(root: Path, records: Iterable[bytes]) -> list[int]:
    data, offsets = recordio(records)
    put(root / "train.rec", data)
    put(root / "train.idx", "".join(f"{n}\t{offset}\n" for n, offset in enumerate(offsets)))
    return offsets


def kinds(findings: Iterable[object]) -> dict[str, object]:
    return {finding.kind: finding for finding in findings}  # type: ignore[attr-defined]
