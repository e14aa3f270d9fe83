"""Ed25519 signatures: who signed, what a missing or foreign signature means, and keys that cannot be used."""

from __future__ import annotations

import sys

import pytest
from certificate_cases import ISSUED, NOW, PLAN, issued, projector_file, resealed, table

import faceblind as fb
from faceblind.audit.certificate import certificate_schema, certify, verify
from faceblind.audit.certificate.structure import problems

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives import serialization as ser
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def write_keys(folder, name, seed):
    key = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
    private, public = folder / f"{name}.pem", folder / f"{name}.pub.pem"
    private.write_bytes(key.private_bytes(ser.Encoding.PEM, ser.PrivateFormat.PKCS8, ser.NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(ser.Encoding.PEM, ser.PublicFormat.SubjectPublicKeyInfo))
    return private, public


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    return {name: write_keys(folder, name, seed) for seed, name in enumerate(("ours", "theirs"), start=1)}


@pytest.fixture(scope="module")
def signed(keys):
    return certify(table(), projector_file(), plan=PLAN, issued=ISSUED, note="for tests", key=keys["ours"][0]).to_dict()


def outcome(result):
    return {c.name: c.status for c in result.checks if c.name in {"signature", "signing key", "statements"}}


def test_a_signature_changes_nothing_else_and_is_the_same_again(signed, keys):
    assert {**signed, "signature": None} == issued()
    assert not problems(signed, certificate_schema())
    again = certify(table(), projector_file(), plan=PLAN, issued=ISSUED, note="for tests", key=keys["ours"][0])
    assert again.to_dict() == signed


def test_signed_by_the_key_you_know(signed, keys):
    result = verify(signed, public_key=keys["ours"][1], now=NOW)
    assert result.ok
    assert outcome(result) == {"signature": "passed", "signing key": "passed", "statements": "passed"}


def test_without_a_key_it_says_which_and_that_this_shows_no_owner(signed):
    result = verify(signed, now=NOW)
    assert result.ok
    assert outcome(result) == {"signature": "passed", "signing key": "not checked", "statements": "not checked"}
    assert signed["signature"]["fingerprint"] in next(c.detail for c in result.checks if c.name == "signature")
    assert "who owns that key is not shown" in next(c.detail for c in result.checks if c.name == "signing key")


def test_another_key_is_named(signed, keys):
    (failure,) = verify(signed, public_key=keys["theirs"][1], now=NOW).failed
    assert failure.name == "signing key"


def test_a_removed_signature_is_caught_when_a_key_is_asked_for(signed, keys):
    (failure,) = verify({**signed, "signature": None}, public_key=keys["ours"][1], now=NOW).failed
    assert (failure.name, "removed" in failure.detail) == ("signature", True)
    assert verify({**signed, "signature": None}, now=NOW).ok


@pytest.mark.parametrize("field", ["public_key", "fingerprint", "value"])
def test_an_edited_signature_is_caught(signed, keys, field):
    text = signed["signature"][field]
    changed = {**signed["signature"], field: ("0" if text[0] != "0" else "1") + text[1:]}
    names = {c.name for c in verify({**signed, "signature": changed}, public_key=keys["ours"][1], now=NOW).failed}
    assert "signature" in names


def test_a_signature_does_not_fit_an_edited_certificate_whose_digests_do(signed, keys):
    edited = {**signed, "note": "something else"}
    edited = {**resealed(edited), "signature": signed["signature"]}
    (failure,) = verify(edited, public_key=keys["ours"][1], now=NOW).failed
    assert failure.name == "signature"


def test_an_edit_signed_anew_is_by_another_key(signed, keys):
    from faceblind.audit.certificate.signing import load_key, sign

    edited = resealed({**signed, "note": "something else"})
    edited["signature"] = sign(edited["digests"]["overall"], load_key(keys["theirs"][0]))
    (failure,) = verify(edited, public_key=keys["ours"][1], now=NOW).failed
    assert failure.name == "signing key"


@pytest.mark.parametrize("kind", ["missing", "text", "encrypted", "elliptic", "public", "folder"])
def test_private_keys_that_cannot_be_used_are_refused_before_the_audit(tmp_path, keys, kind):
    path = tmp_path / "key.pem"
    key = Ed25519PrivateKey.from_private_bytes(b"7" * 32)
    pem = ser.Encoding.PEM, ser.PrivateFormat.PKCS8
    if kind == "text":
        path.write_text("hello")
    elif kind == "encrypted":
        path.write_bytes(key.private_bytes(*pem, ser.BestAvailableEncryption(b"secret")))
    elif kind == "elliptic":
        path.write_bytes(ec.generate_private_key(ec.SECP256R1()).private_bytes(*pem, ser.NoEncryption()))
    elif kind == "public":
        path = keys["ours"][1]
    elif kind == "folder":
        path.mkdir()
    message = {
        "missing": "no key file",
        "folder": "no key file",
        "text": "no private key",
        "public": "no private key",
        "encrypted": "encrypted",
        "elliptic": "not an Ed25519 key",
    }[kind]
    with pytest.raises(fb.FormatError, match=message):
        certify(table(), projector_file(), plan=PLAN, key=path)


def test_public_keys_that_cannot_be_used_are_refused(signed, keys, tmp_path):
    with pytest.raises(fb.FormatError, match="no public key"):
        verify(signed, public_key=keys["ours"][0], now=NOW)
    with pytest.raises(fb.FormatError, match="no key file"):
        verify(signed, public_key=tmp_path / "none.pem", now=NOW)


def test_without_cryptography_one_is_told_what_to_install(signed, keys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(fb.MissingExtraError, match=r"pip install 'faceblind\[sign\]'"):
        certify(table(), projector_file(), plan=PLAN, key=keys["ours"][0])
    with pytest.raises(fb.MissingExtraError, match="sign"):
        verify(signed, public_key=keys["ours"][1], now=NOW)
    result = verify(signed, now=NOW)
    assert result.ok
    assert outcome(result)["signature"] == "not checked"
