"""Provenance as text in a store: JSON with a table's metadata under the key ``"faceblind"``."""

from __future__ import annotations

import json

from faceblind._errors import FormatError
from faceblind.data.meta import METADATA_KEY, TableMeta


def meta_in_text(text: str | bytes | None, where: str) -> TableMeta:
    """Read `TableMeta` from a comment or metadata value; empty when it is about something else.

    Accepts what `TableMeta.to_json` writes, and JSON that holds it under ``"faceblind"`` (records of rewrites, sidecars).

    Raises
    ------
    FormatError
        It is ours but damaged.
    """
    if not text:
        return TableMeta()
    try:
        data = json.loads(text)
    except ValueError:
        return TableMeta()
    if not isinstance(data, dict):
        return TableMeta()
    held = data if data.keys() >= {"encoder", "projector", "synthetic"} else data.get(METADATA_KEY)
    if held is None:
        return TableMeta()
    try:
        return TableMeta.from_json(json.dumps(held))
    except FormatError as error:
        raise FormatError(f"{where}: {error}") from error
