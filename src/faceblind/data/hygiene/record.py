"""Findings as a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from faceblind._files import write_text
from faceblind.data.findings import Finding

SCHEMA = "faceblind.hygiene/1"


def save_findings(path: str | Path, findings: Sequence[Finding], *, tables: Sequence[str]) -> None:
    """Write findings as JSON: ``schema``, the names of the ``tables`` looked at, and ``findings``, in the order given.

    Raises
    ------
    OutputError
        The file cannot be written.
    """
    record = {"schema": SCHEMA, "tables": list(tables), "findings": [finding.to_dict() for finding in findings]}
    write_text(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
