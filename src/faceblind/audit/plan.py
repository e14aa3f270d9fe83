"""`AuditPlan`: everything that decides what an audit measures, in one place and in the record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from faceblind._errors import UsageError
from faceblind.data.split import DEFAULT_SHARES
from faceblind.measure import EER, Condition, parse_condition

FARS = (1e-2, 1e-3, 1e-4)
KS = (1, 4, 16)
PLANTED = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
CONTROLS = ("random", "pca", "permuted")


@dataclass(frozen=True, kw_only=True)
class AuditPlan:
    """Settings of an audit; the defaults are the ones the project stands by."""

    seed: int = 0
    fars: tuple[float, ...] = FARS
    ks: tuple[int, ...] = KS
    """Images per training identity of the learning attackers."""
    attacker_seeds: int = 5
    rank: int | None = None
    """Dimensions to remove; None takes 192, or less when the fit identities support less."""
    shares: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_SHARES))
    controls: tuple[str, ...] = CONTROLS
    draws: int = 1000
    planted: tuple[float, ...] = PLANTED
    rank_points: int = 6
    """Ranks on the privacy-utility curve."""
    fail_if: Condition | None = None
    gate_release: str | None = None

    def __post_init__(self) -> None:
        if not self.fars or not all(0 < far < 1 for far in self.fars):
            raise UsageError(
                f"false accept rates lie between 0 and 1, got {', '.join(f'{far:g}' for far in self.fars)}"
            )
        if not self.ks or min(self.ks) < 1:
            raise UsageError(f"images per identity (k) must be at least 1, got {self.ks}")
        if self.attacker_seeds < 1 or self.draws < 100:
            raise UsageError("an audit needs at least one attacker seed and 100 bootstrap draws")
        unknown = set(self.controls) - set(CONTROLS)
        if unknown:
            raise UsageError(f"unknown controls {sorted(unknown)}; known are {', '.join(CONTROLS)}")
        if not all(0 < strength < 1 for strength in self.planted):
            raise UsageError(f"planted strengths are shares of a vector's energy between 0 and 1, got {self.planted}")
        ordered = tuple(sorted(set(self.all_fars()), reverse=True))
        object.__setattr__(self, "fars", ordered)

    def all_fars(self) -> tuple[float, ...]:
        """Return the FARs asked for, with the one a gate names."""
        if self.fail_if is None or isinstance(self.fail_if.metric, EER):
            return self.fars
        return (*self.fars, self.fail_if.metric.far)


def parse_fars(text: str) -> tuple[float, ...]:
    """Read comma-separated false accept rates such as ``1e-2,1e-3,1e-4``."""
    try:
        fars = tuple(float(item) for item in text.split(","))
    except ValueError as error:
        raise UsageError(f"cannot read the false accept rates {text!r}: write for example 1e-2,1e-3,1e-4") from error
    if not all(0 < far < 1 for far in fars):
        raise UsageError(f"false accept rates lie between 0 and 1, got {text!r}")
    return fars


def parse_ks(text: str) -> tuple[int, ...]:
    """Read comma-separated numbers of images per identity such as ``1,4,16``."""
    try:
        ks = tuple(int(item) for item in text.split(","))
    except ValueError as error:
        raise UsageError(f"cannot read the images per identity {text!r}: write for example 1,4,16") from error
    return tuple(sorted(set(ks)))


def parse_gate(text: str) -> Condition:
    """Read a ``--fail-if`` expression."""
    return parse_condition(text)
