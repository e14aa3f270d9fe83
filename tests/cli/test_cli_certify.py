"""`certify` and `verify` as a user runs them: exit codes, files, and what the terminal names."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import faceblind as fb
from faceblind.audit.certificate.certificate import digests_of
from faceblind.cli import main
from faceblind.data.meta import TableMeta
from faceblind.data.tables import read_table, write_table
from strategies import fingerprint, planted

QUICK = ["--ks", "1", "--attackers", "cosine,ridge", "--attacker-seeds", "1", "--draws", "100", "--fars", "1e-1,1e-2"]


def run(capsys, *argv):
    code = main([str(a) for a in argv])
    streams = capsys.readouterr()
    return code, streams.out, streams.err


def save(path, vectors, identity, **changes):
    meta = TableMeta(encoder=fingerprint(**({"dim": 32} | changes)))
    write_table(path, fb.EmbeddingSet.of(vectors, identity, meta=meta))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table, its split, a projector fitted on the fit people, and the certificate."""
    folder = tmp_path_factory.mktemp("made")
    leaky = planted(3, people=60, images=6, rank=6, strength=0.5, noise=0.2)
    save(folder / "t.parquet", leaky.vectors, leaky.identity)
    people = read_table(folder / "t.parquet")
    fb.IdentitySplit.draw(people, seed=0).save(folder / "split.csv", people)
    fit = ["fit", folder / "t.parquet", "--rank", 3, "-o", folder / "isp.safetensors"]
    certify = ["certify", folder / "isp.safetensors", folder / "t.parquet", "-o", folder / "c.json", *QUICK]
    for argv in (fit, [*certify, "--note", "for tests"]):
        assert main([str(a) for a in (*argv, "--split", folder / "split.csv")]) == 0
    return folder


def data_of(made):
    return [made / "c.json", "--projector", made / "isp.safetensors", "--table", made / "t.parquet"]


def test_the_pair_is_written_and_holds_no_path(made):
    record = json.loads((made / "c.json").read_text())
    assert record["format"] == "faceblind.certificate/1"
    assert record["note"] == "for tests"
    assert record["subject"]["table"]["name"] == "t.parquet"
    assert record["environment"]["command"] == "faceblind certify --split (a file)"
    assert str(made) not in (made / "c.json").read_text()
    page = (made / "c.html").read_text()
    assert record["digests"]["overall"] in page
    assert str(made) not in page


def test_verify_recomputes_everything_and_exits_0(made, capsys):
    code, out, err = run(capsys, "verify", *data_of(made), "--split", made / "split.csv")
    assert (code, err) == (0, "")
    assert "Nothing failed" in out
    assert out.count("every value is the same") >= 8
    assert record_headline(made) in out


def record_headline(made):
    return json.loads((made / "c.json").read_text())["conclusion"]["headline"]


def test_verify_without_data_says_what_was_not_checked(made, capsys):
    code, out, _ = run(capsys, "verify", made / "c.json")
    assert code == 0
    assert "not checked" in out
    assert "needs the projector and the table" in " ".join(out.replace("│", " ").split())


def tampered(made, tmp_path, change, *, fit_digests):
    data = json.loads((made / "c.json").read_text())
    change(data)
    if fit_digests:
        data["digests"] = digests_of(data)
    path = tmp_path / "tampered.json"
    path.write_text(json.dumps(data))
    return path


def lower(data):
    row = next(r for r in data["audit"]["summary"] if r["release"] == "isp")
    row["tar"] = row["tar_low"]


def test_an_edited_number_fails_and_is_named(made, tmp_path, capsys):
    code, out, _ = run(capsys, "verify", tampered(made, tmp_path, lower, fit_digests=False))
    assert code == 1
    assert "FAILED: section digest: audit/summary" in out


def test_an_edited_number_with_fitting_digests_is_listed_by_its_path(made, tmp_path, capsys):
    path = tampered(made, tmp_path, lower, fit_digests=True)
    code, out, _ = run(capsys, "verify", path, *data_of(made)[1:])
    assert code == 1
    assert "FAILED: " in out
    assert "recomputed: audit" in out
    assert "audit/summary[" in out
    assert "release isp" in out
    assert "]/tar: recorded" in out


def test_long_lists_of_differences_are_cut_unless_all_are_wanted(made, tmp_path, capsys):
    def all_rows(data):
        for row in data["audit"]["rows"]:
            row["ties"] += 7

    path = tampered(made, tmp_path, all_rows, fit_digests=True)
    code, out, _ = run(capsys, "verify", path, *data_of(made)[1:])
    assert code == 1
    assert "more; list them with --all" in out
    code, every, _ = run(capsys, "verify", path, *data_of(made)[1:], "--all")
    assert code == 1
    assert every.count("/ties: recorded") == len(json.loads((made / "c.json").read_text())["audit"]["rows"])


def test_another_projector_table_and_encoder_are_named(made, tmp_path, capsys):
    flipped = bytearray((made / "isp.safetensors").read_bytes())
    flipped[-3] ^= 1
    (tmp_path / "isp.safetensors").write_bytes(flipped)
    code, out, _ = run(capsys, "verify", made / "c.json", "--projector", tmp_path / "isp.safetensors")
    assert code == 1
    assert "FAILED: projector file, projector digest" in out
    people = read_table(made / "t.parquet")
    save(tmp_path / "other.parquet", people.vectors, people.identity, weights_sha256="cd" * 32)
    code, out, _ = run(capsys, "verify", made / "c.json", "--table", tmp_path / "other.parquet")
    assert code == 1
    assert "FAILED: encoder" in out
    save(tmp_path / "fewer.parquet", people.vectors[:-1], people.identity[:-1])
    code, out, _ = run(capsys, "verify", made / "c.json", "--table", tmp_path / "fewer.parquet")
    assert code == 1
    assert "FAILED: table" in out


def test_data_that_allow_no_conclusion_are_written_down_and_exit_1(made, tmp_path, capsys):
    people = read_table(made / "t.parquet")
    vectors = people.vectors.copy()
    first, second = (np.flatnonzero(people.identity == name)[0] for name in np.unique(people.identity)[:2])
    vectors[second] = vectors[first]
    save(tmp_path / "dup.parquet", vectors, people.identity)
    argv = ["certify", made / "isp.safetensors", tmp_path / "dup.parquet", "-o", tmp_path / "d.json", *QUICK]
    code, out, _ = run(capsys, *argv)
    assert code == 1
    assert "No conclusion" in out
    assert "duplicate_across_identities" in out
    assert json.loads((tmp_path / "d.json").read_text())["conclusion"]["reached"] is False
    code, out, _ = run(
        capsys,
        "verify",
        tmp_path / "d.json",
        "--projector",
        made / "isp.safetensors",
        "--table",
        tmp_path / "dup.parquet",
    )
    assert code == 0  # the evidence is what it says it is; it says that nothing is shown
    assert "draws no conclusion" in " ".join(out.replace("│", " ").split())


def test_a_gate_decides_the_exit_code(made, tmp_path, capsys):
    argv = ["certify", made / "isp.safetensors", made / "t.parquet", "-o", tmp_path / "g.json", *QUICK]
    assert run(capsys, *argv, "--split", made / "split.csv", "--fail-if", "TAR@FAR(1e-1) > 1%")[0] == 1
    assert json.loads((tmp_path / "g.json").read_text())["conclusion"]["gate_failed"] is True


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["certify", "{isp}", "{table}", "-o", "{out}/c.txt"], "ending in .json"),
        (["certify", "{isp}", "{table}"], "output"),
        (["certify", "{isp}", "{table}", "-o", "{out}/c.json", "--valid-days", "0"], "1 to 3650"),
        (["certify", "{isp}", "{table}", "-o", "{out}/c.json", "--attackers", "psychic"], "psychic"),
        (["certify", "{out}/none", "{table}", "-o", "{out}/c.json"], "no projector file"),
        (["certify", "{isp}", "{out}/none.parquet", "-o", "{out}/c.json"], "none.parquet"),
        (["certify", "{table}", "{table}", "-o", "{out}/c.json"], "safetensors"),
        (["verify", "{out}/none.json"], "no certificate"),
        (["verify", "{isp}"], "not UTF-8"),
        (["verify", "{split}"], "not readable JSON"),
        (["verify", "{c}", "--projector", "{out}/none"], "no projector file"),
        (["verify", "{c}", "--table", "{out}/none.parquet"], "none.parquet"),
        (["verify", "{c}", "--split", "{split}"], "--table"),
        (["verify", "{c}", "--table", "{table}", "--split", "{out}/none.csv"], "none.csv"),
    ],
)
def test_usage_errors_exit_2_and_write_nothing(made, tmp_path, capsys, argv, says):
    names = {"isp": "isp.safetensors", "table": "t.parquet", "split": "split.csv", "c": "c.json"}
    argv = [a.format(out=tmp_path, **{k: made / v for k, v in names.items()}) for a in argv]
    code, out, err = run(capsys, *argv)
    assert code == 2
    assert says.lower() in (out + err).lower()
    assert list(tmp_path.iterdir()) == []


def test_signing_and_checking_the_key(made, tmp_path, capsys):
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives import serialization as ser
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(b"1" * 32)
    (tmp_path / "key.pem").write_bytes(key.private_bytes(ser.Encoding.PEM, ser.PrivateFormat.PKCS8, ser.NoEncryption()))
    (tmp_path / "pub.pem").write_bytes(
        key.public_key().public_bytes(ser.Encoding.PEM, ser.PublicFormat.SubjectPublicKeyInfo)
    )
    argv = ["certify", made / "isp.safetensors", made / "t.parquet", "-o", tmp_path / "s.json", *QUICK]
    code, out, _ = run(capsys, *argv, "--split", made / "split.csv", "--sign", tmp_path / "key.pem")
    assert code == 0
    assert "signed by" in out
    assert str(tmp_path) not in (tmp_path / "s.json").read_text()
    code, out, _ = run(capsys, "verify", tmp_path / "s.json", "--public-key", tmp_path / "pub.pem")
    assert code == 0
    assert "it is the key that you gave" in out
    data = json.loads((tmp_path / "s.json").read_text())
    (tmp_path / "u.json").write_text(json.dumps({**data, "signature": None}))
    code, out, _ = run(capsys, "verify", tmp_path / "u.json", "--public-key", tmp_path / "pub.pem")
    assert code == 1
    assert "FAILED: signature" in out
    assert run(capsys, "verify", tmp_path / "s.json", "--public-key", tmp_path / "key.pem")[0] == 2


def test_signing_without_the_library_names_the_extra(made, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    argv = [
        "certify",
        made / "isp.safetensors",
        made / "t.parquet",
        "-o",
        tmp_path / "s.json",
        "--sign",
        tmp_path / "k",
    ]
    code, _, err = run(capsys, *argv)
    assert code == 2
    assert "faceblind[sign]" in err
    assert list(tmp_path.iterdir()) == []


def test_help_says_the_exit_codes(capsys):
    for verb in ("certify", "verify"):
        code, out, _ = run(capsys, verb, "--help")
        assert code == 0
        assert "Exit codes" in out
