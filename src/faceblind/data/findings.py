"""Findings: what was noticed about the data, said before any number is printed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""Worst first."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing noticed about the data.

    ``error`` findings make the numbers untrustworthy, ``warning`` findings may bias them, ``note`` findings
    are good to know.
    """

    kind: str
    """Stable snake_case name, e.g. ``"duplicate_across_identities"``."""
    severity: Severity
    count: int
    """How many rows, pairs or identities it concerns."""
    examples: tuple[str, ...] = ()
    """A few of them by name, most telling first."""
    message: str = ""
    """One sentence: what it is, why it matters, what to do."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "count": self.count,
            "examples": list(self.examples),
            "message": self.message,
        }


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings by severity, errors first; those of one severity keep their order."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
