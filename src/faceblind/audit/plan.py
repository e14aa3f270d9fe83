"""`AuditPlan`: everything that decides what an audit measures, in one place and in the record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from faceblind._errors import UsageError
from faceblind.data.split import DEFAULT_SHARES, parse_shares
from faceblind.erase.methods import METHODS
from faceblind.measure import EER, Condition, parse_condition

FARS = (1e-2, 1e-3, 1e-4)
KS = (1, 4, 16)
PLANTED = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
CONTROLS = ("random", "pca", "permuted")
ATTACKERS = ("cosine", "class-mean", "ridge", "ridge-template", "wccn", "lda", "plda", "mlp", "best-effort")
DEFAULT_ATTACKERS = ATTACKERS[:-1]
"""All but ``best-effort``, which takes as long as the rest together."""
_ONE_SIDED_INVERSE = 40  # 1 / 2.5 %


@dataclass(frozen=True, kw_only=True)
class AuditPlan:
    """Settings of an audit; the defaults are the ones the project stands by."""

    seed: int = 0
    fars: tuple[float, ...] = FARS
    ks: tuple[int, ...] = KS
    """Images per training identity of the learning attackers, and support images per template of the template attackers."""
    attackers: tuple[str, ...] = DEFAULT_ATTACKERS
    attacker_seeds: int = 5
    eraser: str = "isp"
    """The eraser that is audited, when no projector is given."""
    compare: tuple[str, ...] = ()
    """Erasers measured beside it at the same rank."""
    rank: int | None = None
    """Dimensions to remove; None takes 192, or less when the fit identities support less."""
    shares: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_SHARES))
    controls: tuple[str, ...] = CONTROLS
    draws: int = 1000
    planted: tuple[float, ...] = PLANTED
    rank_points: int = 6
    """Ranks on the privacy-utility curve."""
    extrapolate: tuple[float, ...] = ()
    """FARs below what the data supports, to be extrapolated by extreme-value theory and labelled so."""
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
        if self.attacker_seeds > 1_000 or self.draws > 1_000_000:
            raise UsageError(
                f"an audit takes up to 1,000 attacker seeds and a million draws, got {self.attacker_seeds} and {self.draws}"
            )
        _refuse_unknown("controls", self.controls, CONTROLS)
        _refuse_unknown("attackers", self.attackers, ATTACKERS)
        _refuse_unknown("erasers", (self.eraser, *self.compare), METHODS)
        if "cosine" not in self.attackers:  # the floor no audit may fall below
            object.__setattr__(self, "attackers", ("cosine", *self.attackers))
        compared = max(1 + len(self.controls), 2 * len(self.compare))
        if self.compare and compared * _ONE_SIDED_INVERSE > self.draws + 1:
            raise UsageError(
                f"{compared} comparisons of releases need at least {compared * _ONE_SIDED_INVERSE} bootstrap draws to show any "
                f"difference after correction, got {self.draws}"
            )
        if not all(0 < far < 1 for far in self.extrapolate):
            raise UsageError(f"false accept rates lie between 0 and 1, got {self.extrapolate}")
        if not all(0 < strength < 1 for strength in self.planted):
            raise UsageError(f"planted strengths are shares of a vector's energy between 0 and 1, got {self.planted}")
        ordered = tuple(sorted(set(self.all_fars()), reverse=True))
        object.__setattr__(self, "fars", ordered)

    def all_fars(self) -> tuple[float, ...]:
        """Return the FARs asked for, with the one a gate names."""
        if self.fail_if is None or isinstance(self.fail_if.metric, EER):
            return self.fars
        return (*self.fars, self.fail_if.metric.far)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings in plain JSON types, for the record."""
        found = {item.name: getattr(self, item.name) for item in fields(self)}
        found["fail_if"] = str(self.fail_if) if self.fail_if else None
        found["shares"] = dict(self.shares)
        return {key: list(value) if isinstance(value, tuple) else value for key, value in found.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AuditPlan:
        """Rebuild from `to_dict`.

        Raises
        ------
        UsageError
            A setting is unknown or not valid.
        """
        known = {item.name for item in fields(cls)}
        _refuse_unknown("settings of an audit plan", data, known)
        given: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
        if given.get("fail_if"):
            given["fail_if"] = parse_condition(given["fail_if"])
        return cls(**given)


def _refuse_unknown(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise UsageError(f"unknown {what} {', '.join(unknown)}; known are {', '.join(sorted(known))}")


def parse_names(text: str, known: Iterable[str], *, what: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Read comma-separated names; ``all`` and ``default`` stand for lists."""
    found: list[str] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        found += known if item == "all" else default if item == "default" else (item,)
    _refuse_unknown(what, found, known)
    return tuple(dict.fromkeys(found))


def plan_of(
    *,
    fars: str,
    ks: str,
    attackers: str,
    compare: str,
    extrapolate: str | None,
    shares: str | None,
    fail_if: str | None,
    **settings: Any,
) -> AuditPlan:
    """Build a plan from the words of a command line; `settings` are fields that need no reading."""
    return AuditPlan(
        fars=parse_fars(fars),
        ks=parse_ks(ks),
        attackers=parse_attackers(attackers),
        compare=parse_names(compare, METHODS, what="erasers"),
        extrapolate=parse_fars(extrapolate) if extrapolate else (),
        shares=parse_shares(shares) if shares else DEFAULT_SHARES,
        fail_if=parse_gate(fail_if) if fail_if else None,
        **settings,
    )


def parse_attackers(text: str) -> tuple[str, ...]:
    """Read comma-separated attackers, ``default`` or ``all``."""
    return parse_names(text, ATTACKERS, what="attackers", default=DEFAULT_ATTACKERS)


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
