"""The record of a rewrite, kept in the store itself: what was done, how far it got, and a checksum of what is there.

The checksum is the sum, modulo 2**128, of a BLAKE2b hash of every row's key and vector bytes as stored. A sum does not
depend on the order of rows, grows with every batch and can be worked out again from the store alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import FormatError, UsageError
from faceblind.data.meta import METADATA_KEY, TableMeta
from faceblind.deploy.stores.base import Key, Rows

FORMAT = "faceblind.rewrite/1"
SHOWN = 5
_MODULUS = 1 << 128

WRITING = "writing"
"""Rows after `last` are still to be written."""
WRITTEN = "written"
"""Every row was written; not all of it was read back yet."""
COMPLETE = "complete"
REPAIRING = "repairing"
"""Rows are being compared and written anew: nothing is known about single rows."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a target says about itself."""

    meta: TableMeta
    source: str
    source_rows: int
    dim: int
    dtype: str
    compact: bool
    renormalise: bool
    metric: str | None = None
    scaled_by_store: bool = False
    """The store scales vectors to unit length, raw ones too: their lengths were lost before faceblind saw them."""
    status: str = WRITING
    last: Key | None = None
    """Key up to which all rows are durable."""
    rows: int = 0
    empty: int = 0
    """Rows without a vector."""
    emptied: int = 0
    """Rows that had nothing left; they have no vector in the target."""
    examples: tuple[Key, ...] = ()
    """Some keys of those."""
    energy: float = 0.0
    """Sum over rows of the share of squared length that is left."""
    checksum: str = "0" * 32

    def to_json(self) -> str:
        """Return canonical JSON with the table's metadata under ``"faceblind"``, where `index_meta` finds it."""
        fields = asdict(self) | {"format": FORMAT, METADATA_KEY: json.loads(self.meta.to_json())}
        del fields["meta"]
        return json.dumps(fields, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Record:
        """Rebuild from `to_json`; raises `FormatError` when it is something else."""
        try:
            data: dict[str, Any] = json.loads(text)
            if data.pop("format") != FORMAT:
                raise FormatError(f"the record of the rewrite is not {FORMAT}: drop the target and run again")
            meta = TableMeta.from_json(json.dumps(data.pop(METADATA_KEY)))
            return cls(meta=meta, **data | {"examples": tuple(data["examples"])})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(
                f"the record of the rewrite is damaged ({error}): drop the target and run again"
            ) from error

    def require_same(self, other: Record, target: str) -> None:
        """Raise `UsageError` unless the other record is of the same projector and options."""
        differences = [
            f"{name} {mine!r}, now {theirs!r}"
            for name, mine, theirs in (
                ("projector", (self.meta.projector or "")[:12], (other.meta.projector or "")[:12]),
                *((name, getattr(self, name), getattr(other, name)) for name in _OPTIONS),
            )
            if mine != theirs
        ]
        if differences:
            raise UsageError(
                f"{target} was begun with other settings ({'; '.join(differences)}): give the same ones, "
                "another --target, or drop it first"
            )

    def add(self, stored: Rows, emptied: Sequence[Key], energy: float, last: Key | None, empty: int) -> Record:
        """Return the record after one more batch."""
        return replace(
            self,
            last=last,
            rows=self.rows + len(stored),
            empty=self.empty + empty,
            emptied=self.emptied + len(emptied),
            examples=(*self.examples, *emptied)[:SHOWN],
            energy=self.energy + energy,
            checksum=add_checksums(self.checksum, checksum_of(stored.keys, stored.vectors)),
        )


_OPTIONS = ("source", "dim", "dtype", "compact", "renormalise")


def checksum_of(keys: Iterable[Key], vectors: NDArray[Any]) -> str:
    """Return the checksum of rows, 32 hex digits; `vectors` is (n, d) in float16 or float32, hashed little-endian."""
    rows = np.ascontiguousarray(vectors).astype(vectors.dtype.newbyteorder("<"), copy=False)
    total = 0
    for key, row in zip(keys, rows, strict=True):
        digest = hashlib.blake2b(f"{key}\0".encode(), digest_size=16)
        digest.update(row)
        total += int.from_bytes(digest.digest(), "big")
    return f"{total % _MODULUS:032x}"


def add_checksums(*parts: str) -> str:
    """Return the checksum of all rows of several parts that share none."""
    return f"{sum(int(part, 16) for part in parts) % _MODULUS:032x}"
