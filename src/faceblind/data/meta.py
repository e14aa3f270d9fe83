"""Where vectors come from: the encoder's fingerprint and what was done to the table since."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from faceblind._errors import FormatError

METADATA_KEY = "faceblind"
"""Key under which tables and projector files carry their JSON metadata."""


_HASH = 64  # hex digits of a SHA-256


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """What makes two vectors comparable: the same weights, read the same way.

    A model's name is not enough (libraries pool, resize and quantise differently), so a fingerprint holds the
    weights' hash, the pooling, the preprocessing and the precision. Library versions are recorded but do not
    decide a match.
    """

    encoder: str
    """Registry name, e.g. ``"sscd"`` or ``"onnx:my-model"``."""
    weights_sha256: str
    dim: int
    pooling: str
    """How the vector leaves the network, e.g. ``"output 'embedding', l2-normalised in graph"``."""
    preprocessing: str
    """Canonical JSON of every step from decoded pixels to the network's input."""
    precision: str
    """Arithmetic and storage of weights, e.g. ``"int8"`` or ``"float32"``."""
    libraries: Mapping[str, str] = field(default_factory=dict, hash=False)

    def differs_from(self, other: Fingerprint) -> list[str]:
        """List what differs, one ``"field: ours != theirs"`` each; empty when vectors are comparable."""
        names = ("weights_sha256", "dim", "pooling", "preprocessing", "precision")
        return [
            f"{name}: {_difference(getattr(self, name), getattr(other, name))}"
            for name in names
            if getattr(self, name) != getattr(other, name)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {name: getattr(self, name) for name in _TYPES} | {"libraries": dict(sorted(self.libraries.items()))}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Fingerprint:
        """Rebuild from `to_dict`; raises `FormatError` naming a missing, unknown or wrongly typed field."""
        try:
            made = cls(**data)
        except TypeError as error:
            raise FormatError(f"not an encoder fingerprint: {error}") from error
        for name, kind in _TYPES.items():
            value = getattr(made, name)
            if not isinstance(value, kind) or isinstance(value, bool):
                raise FormatError(f"not an encoder fingerprint: {name} must be {kind.__name__}, got {value!r}")
        libraries = made.libraries
        if not isinstance(libraries, Mapping) or not all(isinstance(text, str) for text in libraries.values()):
            raise FormatError(f"not an encoder fingerprint: libraries must map names to versions, got {libraries!r}")
        return made


_TYPES: dict[str, type] = {
    "encoder": str,
    "weights_sha256": str,
    "dim": int,
    "pooling": str,
    "preprocessing": str,
    "precision": str,
}


def _difference(ours: Any, theirs: Any) -> str:
    """Put two values side by side: of hashes the beginning, of preprocessing the steps that differ."""
    try:
        mine, other = json.loads(ours), json.loads(theirs)
    except (TypeError, ValueError):
        mine = other = None
    if isinstance(mine, dict) and isinstance(other, dict):
        steps = sorted(key for key in mine.keys() | other.keys() if mine.get(key) != other.get(key))
        return ", ".join(f"{key} {json.dumps(mine.get(key))} != {json.dumps(other.get(key))}" for key in steps)
    if isinstance(ours, str) and len(ours) == len(theirs) == _HASH:
        return f"{ours[:12]}... != {theirs[:12]}..."
    return f"{ours} != {theirs}"


@dataclass(frozen=True, kw_only=True)
class TableMeta:
    """Provenance that travels with a table of embeddings."""

    encoder: Fingerprint | None = None
    synthetic: bool = False
    """The photographs were rendered by faceblind; every output made from them says so."""
    projector: str | None = None
    """Digest of the projector that was applied, or None for vectors as the encoder gave them."""

    def to_json(self) -> str:
        """Return canonical JSON (sorted keys), the same bytes for the same content."""
        data = {
            "encoder": self.encoder.to_dict() if self.encoder else None,
            "synthetic": self.synthetic,
            "projector": self.projector,
        }
        return json.dumps(data, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> TableMeta:
        """Rebuild from `to_json`; raises `FormatError` when the text is not what `to_json` writes."""
        try:
            data = json.loads(text)
            encoder, synthetic, projector = data["encoder"], data["synthetic"], data["projector"]
            fingerprint = None if encoder is None else Fingerprint.from_dict(encoder)
        except KeyError as error:
            raise FormatError(f"table metadata {METADATA_KEY!r} is damaged: {error} is missing") from error
        except (ValueError, TypeError) as error:
            raise FormatError(f"table metadata {METADATA_KEY!r} is damaged: {error}") from error
        if not isinstance(synthetic, bool):
            raise FormatError(
                f"table metadata {METADATA_KEY!r} is damaged: synthetic is {synthetic!r}, not true or false"
            )
        if not isinstance(projector, str | None):
            raise FormatError(
                f"table metadata {METADATA_KEY!r} is damaged: projector is {projector!r}, not text or null"
            )
        return cls(encoder=fingerprint, synthetic=synthetic, projector=projector)
