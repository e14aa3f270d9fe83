"""The entries of an audit record: what each number is of, and what stands beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Calibration = Literal["validation", "test"]
Grade = Literal["supported", "indicative", "unsupported"]
TrainedOn = Literal["attack", "fit"]
Level = Literal["leaks", "reduced", "low", "inconclusive"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One operating point of one attacker (one seed) on one release."""

    release: str
    """``raw``, the eraser's name (``isp``, ``leace``, ...), or a control: ``random``, ``pca``, ``permuted``."""
    rank: int
    """Dimensions removed; 0 for raw."""
    attacker: str
    trained_on: TrainedOn | None
    """The people the attacker learned from; None when it learns nothing."""
    k: int | None
    """Images per training identity, or support images per template of a template attacker; None when it learns nothing
    or from all images."""
    seed: int | None
    calibration: Calibration
    """``validation``: threshold frozen there. ``test``: threshold set at the target on test itself."""
    far_target: float
    far_achieved: float
    """Share of the test non-mated pairs accepted."""
    far_low: float | None
    far_high: float | None
    """95 % interval of that share for a frozen threshold, resampling people on both sides; None where it was set here."""
    false_accepts: int
    nonmated: int
    true_accepts: int
    mated: int
    tar: float
    tar_low: float
    tar_high: float
    """95 % interval, resampling people. At an unsupported point only `tar_high` speaks: it bounds the TAR."""
    threshold: float
    """Accept iff score >= threshold."""
    ties: int
    """Non-mated test pairs at the highest score under the threshold: more than one could not be told apart."""
    grade: Grade


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One operating point averaged over the attacker's seeds; draws of people are shared by the seeds."""

    release: str
    rank: int
    attacker: str
    trained_on: TrainedOn | None
    k: int | None
    seeds: int
    calibration: Calibration
    far_target: float
    far_achieved: float
    tar: float
    tar_low: float
    tar_high: float
    lift: float
    """How many times chance: TAR over the target FAR, or over the achieved FAR where a frozen threshold exceeded it."""
    grade: Grade
    people: int
    mated: int
    nonmated: int


@dataclass(frozen=True, kw_only=True)
class Worst:
    """The attacker that decides for a release at a FAR, with a bound that holds for all attackers at once."""

    release: str
    rank: int
    far_target: float
    attacker: str
    trained_on: TrainedOn | None
    k: int | None
    tar: float
    tar_low: float
    tar_high: float
    """Pointwise 95 % interval of this attacker."""
    bound: float
    """With 95 % confidence no attacker that was run reads more than this: corrected for having looked at all of them."""
    attackers: int
    grade: Grade


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two releases on the same test people, each under its own worst attacker; draws of people are shared."""

    release: str
    against: str
    rank: int
    rank_against: int
    far_target: float
    attacker: str
    attacker_against: str
    tar: float
    tar_against: float
    difference: float
    """TAR of `release` minus TAR of `against`: below zero when `release` leaks less."""
    low: float
    high: float
    """95 % interval of the difference."""
    ratio: float | None
    """TAR of `release` over TAR of `against`; None when the latter is zero."""
    p_value: float
    """One-sided: how surprising the difference were if `release` did not leak less."""
    p_adjusted: float
    """The same after Holm's correction for all comparisons of its family at this FAR."""
    leaks_less: bool
    """`p_adjusted` is at most 2.5 %."""


@dataclass(frozen=True, kw_only=True)
class Extrapolated:
    """TAR at a FAR below what the pairs support, from a generalised Pareto tail: always an extrapolation."""

    far_target: float
    tar: float | None
    tar_low: float | None
    tar_high: float | None
    refused: str | None
    """Why no figure is given; None when one is."""


@dataclass(frozen=True, kw_only=True)
class Separation:
    """Measures over more than one operating point, for one attacker on one release."""

    pauc: float
    """Mean TAR over FAR in [0, `pauc_far`]; chance is half of `pauc_far`."""
    pauc_low: float
    pauc_high: float
    pauc_far: float
    pauc_grade: Grade
    dsys: float
    """Unlinkability D_sys as estimated: 0 when nothing links, 1 when everything does. Biased upwards."""
    dsys_null: float
    """Its mean when identities are shuffled: what the estimator shows where there is nothing."""
    dsys_excess: float
    """D_sys minus its null."""
    dsys_p: float
    """How often shuffled identities give as much."""
    extrapolated: tuple[Extrapolated, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Detection-error trade-off of one attacker on one release, on test people."""

    release: str
    rank: int
    attacker: str
    trained_on: TrainedOn | None
    k: int | None
    far: tuple[float, ...]
    fnmr: tuple[float, ...]
    fnmr_low: tuple[float, ...]
    fnmr_high: tuple[float, ...]
    eer: float
    eer_low: float
    eer_high: float
    far_floor: float
    """Below this FAR fewer than 30 false accepts are allowed: the curve is not supported there."""
    separation: Separation | None = None


@dataclass(frozen=True, kw_only=True)
class RankPoint:
    """One rank of the privacy-utility curve, on validation people; the worst attacker counts."""

    rank: int
    far_target: float
    attacker: str
    trained_on: TrainedOn | None
    k: int | None
    tar: float
    tar_low: float
    tar_high: float
    neighbour_overlap: float
    """Share of the ten nearest raw neighbours that are still among the ten nearest."""
    energy_kept: float
    """Mean share of a vector's squared length that is left."""


@dataclass(frozen=True, kw_only=True)
class Utility:
    """What is still of use on test photographs after the map."""

    release: str
    rank: int
    neighbour_overlap: float
    neighbours: int
    """How many neighbours were compared (10, fewer on tiny sets)."""
    energy_kept: float
    energy_kept_p05: float
    """5th percentile over images: the images that lose most."""
    images: int


@dataclass(frozen=True, kw_only=True)
class PlantedPoint:
    """A leak of known strength, planted in the erased vectors, as the audit saw it."""

    strength: float
    """Share of each vector's energy that is the planted identity code."""
    attacker: str
    tar: float
    tar_low: float
    tar_high: float
    caught: bool
    """The interval lies wholly above the interval without the plant."""


@dataclass(frozen=True, kw_only=True)
class Power:
    """What the audit would have caught."""

    release: str
    far_target: float
    unplanted_tar: float
    unplanted_tar_high: float
    points: tuple[PlantedPoint, ...]
    smallest_caught: float | None
    """Smallest planted strength from which on every strength was caught; None if none was."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result in plain words."""

    level: Level
    headline: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """Outcome of a ``--fail-if`` expression."""

    expression: str
    release: str
    failed: bool
    value: float
    """The end of the interval that was compared."""
    point: float
    attacker: str
    message: str
