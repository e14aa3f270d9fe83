"""`Verification`: what was checked about a certificate, with what result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from faceblind.audit.certificate.compare import Difference

Status = Literal["passed", "failed", "warning", "not checked"]


@dataclass(frozen=True)
class Check:
    """One thing that was checked, or could not be."""

    name: str
    """What was checked; of a section, ``section digest: NAME`` or ``recomputed: NAME``."""
    status: Status
    detail: str
    differences: tuple[Difference, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {
            "name": self.name,
            "status": self.status,
            "detail": self.detail,
            "differences": [
                {"path": d.path, "recorded": d.recorded, "found": d.found, "tolerated": d.tolerated}
                for d in self.differences
            ],
        }


@dataclass(frozen=True)
class Verification:
    """All checks of a certificate, in the order they were made."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing failed. What was not checked did not fail: see `checks`."""
        return not self.failed

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.status == "failed")

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Every difference that is not tolerated, over all checks."""
        return tuple(d for check in self.checks for d in check.differences if not d.tolerated)

    def counts(self) -> dict[Status, int]:
        """Return how many checks passed, failed, warn or were not made."""
        order: tuple[Status, ...] = ("passed", "failed", "warning", "not checked")
        return {status: sum(check.status == status for check in self.checks) for status in order}

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {"ok": self.ok, "checks": [check.to_dict() for check in self.checks]}
