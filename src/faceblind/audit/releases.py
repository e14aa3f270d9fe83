"""Releases: the same photographs as different maps let them out; raw, erased, and the controls at the same rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import RankError
from faceblind.audit.plan import AuditPlan
from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.findings import Finding
from faceblind.data.split import PARTS, IdentitySplit
from faceblind.erase import ISP, IdentityMoments, PCAEraser, PermutedISP, Projector, RandomEraser
from faceblind.erase.isp import identity_directions, people_digest, projector_of, settle_rank

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
    energy_kept: NDArray[np.float64]
    """Share of squared length left, per test image."""

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
        return cls(parts, IdentityMoments().partial_fit(embeddings.vectors[fit], identity[fit]), everyone)

    def raw(self) -> Release:
        """Return the release of vectors as they are."""
        return Release("raw", 0, self.parts, np.ones(self.parts["test"].identity.size))

    def through(self, projector: Projector, name: str) -> Release:
        """Return the release through a projector."""
        parts, kept = {}, np.ones(0)
        for part_name, part in self.parts.items():
            applied = projector.apply(part.vectors)
            parts[part_name] = Part(applied.vectors, part.identity)
            if part_name == "test":
                kept = applied.energy_kept
        return Release(name, projector.rank, parts, kept)


@dataclass(frozen=True, eq=False)
class Fitted:
    """The eraser of an audit, and all directions it could be cut from (None when it was fitted on other people)."""

    projector: Projector
    basis: NDArray[np.float64] | None
    note: str


def fit_eraser(data: SplitData, plan: AuditPlan, embeddings: EmbeddingSet) -> Fitted:
    """Fit ISP on the fit split at the rank asked for, or at the default rank capped by what the data supports.

    Raises
    ------
    RankError
        A rank was asked for that the fit identities do not support.
    """
    moments = data.moments
    basis, spectrum = identity_directions(moments)
    rank, note = settle_rank(plan.rank, basis, identities=int(moments.counts().size))
    projector = projector_of(
        basis,
        spectrum,
        rank,
        moments,
        method=ISP.method,
        encoder=embeddings.encoder,
        synthetic=embeddings.meta.synthetic,
    )
    return Fitted(projector, basis, note)


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
        basis, _ = identity_directions(data.moments)
        return Fitted(projector, basis, note), found
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
