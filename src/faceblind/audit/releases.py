"""Releases: the same photographs as different maps let them out; raw, erased, other erasers and controls at the same rank."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError, RankError
from faceblind.attack import Candidate
from faceblind.audit.plan import CONTROLS, AuditPlan
from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.findings import Finding
from faceblind.data.split import PARTS, IdentitySplit
from faceblind.erase import INLP, RLACE, Directions, IdentityMoments, PCAEraser, PermutedISP, Projector, RandomEraser
from faceblind.erase.directions import default_rank
from faceblind.erase.methods import MOMENT_METHODS, directions_from
from faceblind.erase.moments import people_digest

NOTHING_KEPT = 1e-4
"""Share of energy under which what is left is rounding and not a vector."""


@dataclass(frozen=True, eq=False)
class Part:
    """Released unit vectors of one split, with their identities."""

    vectors: NDArray[np.float32]
    identity: NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class Release:
    """What an attacker sees of every split under one map."""

    name: str
    rank: int
    parts: dict[str, Part]
    energy: dict[str, NDArray[np.float64]]
    """Share of squared length left, per image of each split."""
    fitted: dict[tuple[str, str], tuple[Candidate, ...]] = field(default_factory=dict, repr=False)
    """Attackers that learn from all images of a part: they are the same for every seed and k."""

    @property
    def energy_kept(self) -> NDArray[np.float64]:
        """Share of squared length left, per test image."""
        return self.energy["test"]

    @property
    def test(self) -> Part:
        """The test split."""
        return self.parts["test"]

    @property
    def validation(self) -> Part:
        """The validation split."""
        return self.parts["validation"]


@dataclass(frozen=True, eq=False)
class SplitData:
    """Unit vectors per split, and the sums that erasers are fitted from."""

    parts: dict[str, Part]
    moments: IdentityMoments
    """Per-identity sums of the fit people."""
    everyone: IdentityMoments
    """Per-identity sums of all people in the split, to recognise a projector that saw the test people."""

    @classmethod
    def of(cls, embeddings: EmbeddingSet, split: IdentitySplit) -> SplitData:
        """Cut a table by its split."""
        identity = embeddings.require_identity()
        parts = {}
        everyone = IdentityMoments()
        for name in PARTS:
            rows = split.rows(name)
            parts[name] = Part(embeddings.take(rows).unit(), identity[rows])
            everyone.partial_fit(embeddings.vectors[rows], identity[rows])
        fit = split.rows("fit")
        moments = IdentityMoments(scatter=True).partial_fit(embeddings.vectors[fit], identity[fit])
        return cls(parts, moments, everyone)

    def raw(self) -> Release:
        """Return the release of vectors as they are."""
        return Release("raw", 0, self.parts, {n: np.ones(part.identity.size) for n, part in self.parts.items()})

    def through(self, projector: Projector, name: str) -> Release:
        """Return the release through a projector."""
        applied = {n: projector.apply(part.vectors) for n, part in self.parts.items()}
        parts = {n: Part(done.vectors, self.parts[n].identity) for n, done in applied.items()}
        return Release(name, projector.rank, parts, {n: done.energy_kept for n, done in applied.items()})


@dataclass(frozen=True, eq=False)
class Fitted:
    """The eraser of an audit, and the directions it was cut from where one factorisation serves every rank."""

    projector: Projector
    directions: Directions | None
    note: str


def fit_eraser(data: SplitData, plan: AuditPlan, embeddings: EmbeddingSet) -> Fitted:
    """Fit the plan's eraser on the fit split at the rank asked for, or at the default rank capped by what the data supports.

    Raises
    ------
    RankError
        A rank was asked for that the fit identities do not support.
    """
    encoder, synthetic = embeddings.encoder, embeddings.meta.synthetic
    if plan.eraser in MOMENT_METHODS:
        directions = directions_from(plan.eraser, data.moments)
        rank, note = directions.settle(plan.rank)
        return Fitted(directions.projector(rank, encoder=encoder, synthetic=synthetic), directions, note)
    dim = data.parts["fit"].vectors.shape[1]
    most = min(int(data.moments.counts().size), dim) - 1
    rank = plan.rank or min(default_rank(dim), most)
    projector = _fit_in_rounds(plan.eraser, rank, data, plan)
    provenance = replace(
        projector,
        encoder=encoder,
        synthetic=synthetic,
        fit_identities=int(data.moments.counts().size),
        fit_images=data.moments.rows_,
        fit_people=people_digest(data.moments),
    )
    return Fitted(provenance, None, f"rank {projector.rank} by {plan.eraser}")


def compared(
    data: SplitData, rank: int, plan: AuditPlan, *, audited: str
) -> tuple[dict[str, Projector], list[Finding]]:
    """Fit the erasers to compare with at the same rank on the fit split; one that cannot be fitted is named and left out."""
    made: dict[str, Projector] = {}
    notes: list[Finding] = []
    for name in plan.compare:
        if name == audited:
            continue
        try:
            if name in MOMENT_METHODS:
                made[name] = directions_from(name, data.moments).projector(rank)
            else:
                made[name] = _fit_in_rounds(name, rank, data, plan)
        except (RankError, DataError) as error:
            notes.append(Finding(kind="eraser_not_compared", severity="note", count=rank, message=f"{name}: {error}"))
    return made, notes


def _fit_in_rounds(name: str, rank: int, data: SplitData, plan: AuditPlan) -> Projector:
    fit = data.parts["fit"]
    rng = np.random.default_rng([plan.seed, 0x1219])
    # A comparison at matched rank removes that many dimensions, whatever its own judge says.
    if name == "inlp":
        return INLP(rank, stop_at_chance=False, rng=rng).fit(fit.vectors, fit.identity).projector_
    eraser = RLACE(rank, stop_at_chance=False, rng=rng)
    return eraser.fit(fit.vectors, fit.identity).projector_


def given_eraser(data: SplitData, projector: Projector, note: str) -> tuple[Fitted, Finding]:
    """Wrap a projector from a file, and say whether it saw the people it will be tested on.

    A projector file holds a digest of the people it was fitted on, not their names: it can be recognised as fitted on
    this split's fit people, or on everybody in the table, and otherwise the user must know.
    """
    if projector.fit_people == people_digest(data.moments):
        found = Finding(
            kind="projector_fitted_on_fit_people",
            severity="note",
            count=projector.fit_identities,
            message="the projector was fitted on exactly the fit people of this split",
        )
        directions = directions_from(projector.method, data.moments) if projector.method in MOMENT_METHODS else None
        return Fitted(projector, directions, note), found
    if projector.fit_people == people_digest(data.everyone):
        found = Finding(
            kind="projector_saw_test_people",
            severity="error",
            count=projector.fit_identities,
            message="the projector was fitted on everybody in this table, test people included, so its figures say nothing about "
            "new people; fit it with --split (or --target) and audit with the same split",
        )
    else:
        found = Finding(
            kind="projector_fitted_elsewhere",
            severity="note",
            count=projector.fit_identities,
            message="the projector was fitted on other people; that none of them is tested here cannot be checked from the file",
        )
    return Fitted(projector, None, note), found


def release_name(projector: Projector) -> str:
    """Return how the record calls the release through a projector: by its method, unless a control has that name."""
    return "erased" if projector.method in ("raw", "planted", *CONTROLS) else projector.method


def nothing_left(data: SplitData, projector: Projector) -> Finding | None:
    """Return a finding when a projector removes all that the vectors hold (encoders can use fewer dimensions than d)."""
    kept = float(projector.apply(data.parts["test"].vectors).energy_kept.mean())
    if kept > NOTHING_KEPT:
        return None
    return Finding(
        kind="nothing_left",
        severity="error",
        count=projector.rank,
        message=f"removing {projector.rank} dimensions leaves {kept:.1e} of the vectors' energy: they span no more than that, "
        "so nothing is left to search; choose a smaller rank",
    )


def control_projectors(data: SplitData, rank: int, plan: AuditPlan) -> dict[str, Projector]:
    """Fit the controls at a rank on the fit split; a control that the data cannot support at this rank is left out."""
    fit = data.parts["fit"]
    made: dict[str, Projector] = {}
    for index, name in enumerate(plan.controls):
        rng = np.random.default_rng([plan.seed, 0xC0, index])
        eraser: RandomEraser | PCAEraser | PermutedISP
        match name:
            case "random":
                eraser = RandomEraser(rank, rng=rng)
            case "pca":
                eraser = PCAEraser(rank)
            case _:
                eraser = PermutedISP(rank, rng=rng)
        try:
            made[name] = eraser.fit(fit.vectors, fit.identity).projector_
        except RankError:
            continue
    return made
