"""Ed25519 signatures over the overall digest, through `cryptography`.

The signed message is the format name and the overall digest, so a signature cannot be carried to another certificate or
be mistaken for one over something else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faceblind._errors import FormatError, MissingExtraError
from faceblind.audit.certificate.texts import FORMAT

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ALGORITHM = "ed25519"
_MAKE = "openssl genpkey -algorithm ed25519 -out key.pem"
_MAKE_PUBLIC = "openssl pkey -in key.pem -pubout -out public.pem"


def message_of(overall: str) -> bytes:
    """Return what is signed for a certificate with this overall digest."""
    return f"{FORMAT}\n{overall}\n".encode("ascii")


def fingerprint_of(public_key: bytes) -> str:
    """Return the hex SHA-256 of a raw public key (32 bytes)."""
    return hashlib.sha256(public_key).hexdigest()


def load_key(path: str | Path) -> Ed25519PrivateKey:
    """Read a private key (PEM, PKCS8, not encrypted).

    Raises
    ------
    FormatError
        No file, not such a key, encrypted, or of another kind.
    MissingExtraError
        `cryptography` is not installed.
    """
    _need()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    data = _read(path)
    try:
        key = load_pem_private_key(data, password=None)
    except TypeError as error:
        raise FormatError(
            f"the key in {path} is encrypted: give it decrypted (openssl pkey -in ... -out ...)"
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise FormatError(f"{path} holds no private key in PEM form; make one with: {_MAKE}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise FormatError(f"the key in {path} is not an Ed25519 key; make one with: {_MAKE}")
    return key


def load_public_key(path: str | Path) -> bytes:
    """Read a public key (PEM) and return its 32 bytes; raises as `load_key` does."""
    _need()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    data = _read(path)
    try:
        key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise FormatError(f"{path} holds no public key in PEM form; make one with: {_MAKE_PUBLIC}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise FormatError(f"the key in {path} is not an Ed25519 key; make one with: {_MAKE}")
    return key.public_bytes_raw()


def sign(overall: str, key: Ed25519PrivateKey) -> dict[str, str]:
    """Return the signature block for an overall digest."""
    public = key.public_key().public_bytes_raw()
    return {
        "algorithm": ALGORITHM,
        "public_key": public.hex(),
        "fingerprint": fingerprint_of(public),
        "value": key.sign(message_of(overall)).hex(),
    }


def fault_of(overall: str, signature: Mapping[str, Any]) -> str | None:
    """Say what is wrong with a signature block, or None when it is by the key it names, over this digest.

    Raises
    ------
    MissingExtraError
        `cryptography` is not installed.
    """
    _need()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    public = bytes.fromhex(signature["public_key"])
    if fingerprint_of(public) != signature["fingerprint"]:
        return "the fingerprint is not that of the public key beside it"
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(bytes.fromhex(signature["value"]), message_of(overall))
    except (InvalidSignature, ValueError):
        return "it is not a signature of this digest by the public key beside it"
    return None


def _need() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("cryptography", "sign", "signing and checking signatures") from error


def _read(path: str | Path) -> bytes:
    path = Path(path)
    if not path.is_file():
        raise FormatError(f"no key file at {path}")
    return path.read_bytes()
