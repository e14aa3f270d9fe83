from __future__ import annotations

import dataclasses
import json
import struct

import numpy as np
import pytest
from safetensors.numpy import save

from faceblind._errors import OutputError, ProjectorError
from faceblind.data.meta import METADATA_KEY
from faceblind.erase import Projector, RankChoice
from faceblind.erase.projector import digest_of
from strategies import fingerprint, orthonormal, unit_gauss


@pytest.fixture
def projector() -> Projector:
    return Projector.of(
        orthonormal(np.random.default_rng(0), 12, 4),
        method="isp",
        choice=RankChoice(
            rule="target", target="TAR@FAR(0.0001) <= 5%", curve=((2, 0.5, 0.4, 0.6), (4, 0, 0, 0.01)), note="naïve ü"
        ),
        spectrum=[3.0, 2.0, 1.0, 0.5, 0.1],
        encoder=fingerprint(),
        synthetic=True,
        fit_identities=9,
        fit_images=33,
        fit_people="aa",
        fit_digest="bb",
    )


@pytest.fixture
def path(projector, tmp_path):
    target = tmp_path / "p.faceblind"
    projector.save(target)
    return target


def parts(data: bytes) -> tuple[dict, bytes]:
    """Safetensors header and buffer."""
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def write(path, header: dict, buffer: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + buffer)


def forge(path, change_header=None, change_tensors=None) -> None:
    """Edit a projector file and put in the right digest, as a careful forger (or another program) would."""
    header, buffer = parts(path.read_bytes())
    meta = json.loads(header["__metadata__"][METADATA_KEY])
    meta.pop("digest")
    kinds = {"F64": np.float64, "F32": np.float32}
    tensors = {
        name: np.frombuffer(buffer[slice(*entry["data_offsets"])], kinds[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in header.items()
        if name != "__metadata__"
    }
    if change_header:
        change_header(meta)
    if change_tensors:
        tensors = change_tensors({name: tensor.copy() for name, tensor in tensors.items()})
    text = json.dumps({**meta, "digest": digest_of(tensors, meta)})
    path.write_bytes(save(tensors, metadata={METADATA_KEY: text}))


def test_a_projector_comes_back_as_it_was_saved(projector, path, tmp_path):
    loaded = Projector.load(path)
    for field in dataclasses.fields(Projector):
        ours, theirs = getattr(projector, field.name), getattr(loaded, field.name)
        if isinstance(ours, np.ndarray):
            assert ours.tobytes() == theirs.tobytes(), field.name
        elif field.name != "compact_check":
            assert ours == theirs, field.name
    assert loaded.digest == projector.digest
    assert loaded.describe() == projector.describe()
    X = unit_gauss(np.random.default_rng(1), 30, 12)
    for compact in (False, True):
        assert (
            loaded.apply(X, compact=compact).vectors.tobytes() == projector.apply(X, compact=compact).vectors.tobytes()
        )
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    assert Projector.load(str(path)).digest == loaded.digest


def test_the_file_holds_no_square_matrix_and_says_what_it_is(path, projector):
    header, buffer = parts(path.read_bytes())
    assert {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"} == {
        "basis": [12, 4],
        "spectrum": [5],
        "compact_check": [8],
    }
    meta = json.loads(header["__metadata__"][METADATA_KEY])
    assert meta["format"] == "faceblind.projector/1"
    assert meta["digest"] == projector.digest
    assert len(buffer) == 8 * (48 + 5 + 8)


def test_a_minimal_projector_comes_back_too(tmp_path):
    plain = Projector.of(np.eye(3)[:, :2], method="random", choice=RankChoice(rule="given"))
    plain.save(tmp_path / "p")
    loaded = Projector.load(tmp_path / "p")
    assert (loaded.encoder, loaded.spectrum.size, loaded.digest) == (None, 0, plain.digest)


def test_everything_in_the_file_is_in_the_digest(projector):
    changed = {
        "basis": orthonormal(np.random.default_rng(1), 12, 4),
        "method": "pca",
        "spectrum": np.array([3.0]),
        "choice": RankChoice(rule="given"),
        "encoder": fingerprint(precision="int8"),
        "synthetic": False,
        "fit_identities": 8,
        "fit_images": 34,
        "fit_people": "ab",
        "fit_digest": "bc",
        "lift": orthonormal(np.random.default_rng(1), 12, 4),
        "mean": np.zeros(12),
        "settings": {"shrinkage": 0.5},
    }
    fields = {field.name for field in dataclasses.fields(Projector)} - {"compact_check"}
    assert fields == set(changed)
    for name, value in changed.items():
        assert dataclasses.replace(projector, **{name: value}).digest != projector.digest, name


def test_orthogonal_projectors_keep_the_digest_they_had_before_there_were_others():
    plain = Projector.of(
        np.eye(4)[:, :2],
        method="isp",
        choice=RankChoice(rule="given"),
        spectrum=[2.0, 1.0],
        compact_check=np.array([0.5, 0.25]),
        fit_identities=3,
        fit_images=9,
        fit_people="aa",
        fit_digest="bb",
    )
    assert plain.digest == "4ed2e4dc6a4c4753dda5f36ecbbbf49d78ca72a7dd550ac3b2df30fe4074d775"
    assert set(plain.header()) == {"format", "method", "choice", "encoder", "synthetic", "fit"}
    assert set(plain.tensors()) == {"basis", "spectrum", "compact_check"}


def test_the_digest_is_that_of_the_file_on_machines_that_round_otherwise(path, projector, monkeypatch):
    """The compact check is recomputed on load and compared, but the recorded one is what the digest is made of."""
    probe = Projector._probe
    monkeypatch.setattr(Projector, "_probe", lambda self: probe(self) * (1 + 1e-13))
    loaded = Projector.load(path)
    assert loaded.digest == projector.digest
    loaded.save(path.with_name("again"))
    assert path.with_name("again").read_bytes() == path.read_bytes()


def test_a_machine_that_builds_another_complement_says_so(path, monkeypatch):
    probe = Projector._probe
    monkeypatch.setattr(Projector, "_probe", lambda self: -probe(self))
    with pytest.raises(ProjectorError, match=r"the compact form of .* comes out differently on this machine"):
        Projector.load(path)


def test_a_file_cut_anywhere_is_a_projector_error(path):
    data = path.read_bytes()
    for length in {*range(40), *range(40, len(data), 9), *range(len(data) - 12, len(data))}:
        path.write_bytes(data[:length])
        with pytest.raises(ProjectorError, match=r"truncated or not a safetensors file|altered or damaged"):
            Projector.load(path)
    for extra in (b"\0", data):
        path.write_bytes(data + extra)
        with pytest.raises(ProjectorError):
            Projector.load(path)


def test_a_changed_byte_is_a_projector_error_wherever_it_is(path, projector):
    """Nothing else may be raised, and nothing else may be read: JSON has a few spaces that mean nothing."""
    data = path.read_bytes()
    described = projector.describe()
    harmless = 0
    text = 8 + struct.unpack("<Q", data[:8])[0]
    for position in [*range(text), *range(text, len(data), 5)]:
        for mask in (1 << (position % 8), 0x20 ^ 0x09)[: 1 + (position % 4 == 0)]:
            changed = bytearray(data)
            changed[position] ^= mask
            path.write_bytes(changed)
            try:
                loaded = Projector.load(path)
            except ProjectorError:
                continue
            harmless += 1
            assert loaded.describe() == described
            assert loaded.basis.tobytes() == projector.basis.tobytes()
    assert harmless < 100


@pytest.mark.parametrize("content", [b"", b"not a projector\n", b"{}", bytes(range(256)) * 10, b"PK\x03\x04" * 9])
def test_other_files_are_refused(tmp_path, content):
    target = tmp_path / "x"
    target.write_bytes(content)
    with pytest.raises(ProjectorError, match="truncated or not a safetensors file"):
        Projector.load(target)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for target in (tmp_path / "missing", tmp_path):
        with pytest.raises(ProjectorError, match=f"no projector file at {target}"):
            Projector.load(target)


def test_a_safetensors_file_of_something_else_is_refused_before_its_tensors_are_read(tmp_path):
    target = tmp_path / "model.safetensors"
    target.write_bytes(save({"weight": np.ones((2, 2), np.float32)}))
    with pytest.raises(ProjectorError, match="is a safetensors file but not a faceblind projector"):
        Projector.load(target)
    write(target, {"w": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}, b"\0" * 4)  # numpy has no bfloat16
    with pytest.raises(ProjectorError, match="not a faceblind projector"):
        Projector.load(target)
    target.write_bytes(save({"x": np.ones(2)}, metadata={METADATA_KEY: '{"encoder": null}'}))  # a table's metadata
    with pytest.raises(ProjectorError, match="damaged header"):
        Projector.load(target)


@pytest.mark.parametrize("text", ["null", "5", '"text"', "[]", "{", "[" * 100_000, '{"digest": 1}'])
def test_a_header_that_is_not_what_it_should_be_is_refused(tmp_path, text):
    target = tmp_path / "p"
    target.write_bytes(save({"basis": np.eye(3)[:, :1]}, metadata={METADATA_KEY: text}))
    with pytest.raises(ProjectorError, match="damaged header"):
        Projector.load(target)


def test_an_edited_header_is_noticed(path):
    header, buffer = parts(path.read_bytes())
    meta = json.loads(header["__metadata__"][METADATA_KEY])
    for edit in ({"method": "leace"}, {"synthetic": False}, {"digest": "0" * 64}, {"extra": 1}):
        header["__metadata__"][METADATA_KEY] = json.dumps({**meta, **edit})
        write(path, header, buffer)
        with pytest.raises(ProjectorError, match="was altered or damaged: its digest does not match its content"):
            Projector.load(path)
    header["__metadata__"][METADATA_KEY] = json.dumps({**meta, "format": "faceblind.projector/9"})
    write(path, header, buffer)
    with pytest.raises(ProjectorError, match=r"has format 'faceblind.projector/9', this version reads"):
        Projector.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: meta.pop("choice"),
        lambda meta: meta.update(choice="x"),
        lambda meta: meta["choice"].update(curve=[[1, 2]]),
        lambda meta: meta["choice"].update(curve=7),
        lambda meta: meta.update(encoder="sscd"),
        lambda meta: meta["encoder"].pop("dim"),
        lambda meta: meta.update(fit=None),
        lambda meta: meta["fit"].update(basis=1),
        lambda meta: meta.pop("method"),
    ],
)
def test_a_forged_header_with_the_right_digest_is_refused_and_never_a_bare_error(path, change):
    forge(path, change_header=change)
    with pytest.raises(ProjectorError, match="damaged header"):
        Projector.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: {k: v for k, v in t.items() if k != "compact_check"}, "compact_check"),
        (lambda t: {k: v for k, v in t.items() if k != "basis"}, "basis"),
        (lambda t: t | {"compact_check": t["compact_check"] * np.nan}, "comes out differently"),
        (lambda t: t | {"compact_check": t["compact_check"][:3]}, "damaged header"),
        (lambda t: t | {"basis": t["basis"] * 2}, "not orthonormal"),
        (lambda t: t | {"basis": t["basis"] * np.nan}, "NaN or infinity"),
        (lambda t: t | {"basis": np.eye(4)}, r"0 < r < d"),
    ],
)
def test_forged_tensors_with_the_right_digest_are_refused(path, change, message):
    forge(path, change_tensors=change)
    with pytest.raises(ProjectorError, match=message):
        Projector.load(path)
    assert not list(path.parent.glob(".*"))


def test_a_place_that_cannot_be_written_is_an_output_error_and_keeps_what_was_there(projector, path):
    before = path.read_bytes()
    with pytest.raises(OutputError):
        projector.save(path / "below")
    assert path.read_bytes() == before
