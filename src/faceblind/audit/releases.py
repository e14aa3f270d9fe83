"""Releases: the same photographs as different maps let them out; raw, erased, and the controls at the same rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import RankError
from faceblind.audit.plan import DEFAULT_RANK, AuditPlan
from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.split import PARTS, IdentitySplit
from faceblind.erase import ISP, IdentityMoments, PCAEraser, PermutedISP, Projector, RandomEraser
from faceblind.erase.isp import check_rank, identity_directions, projector_of


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
    """Raw unit vectors per split, and the identity directions fitted on `fit` (shared by every rank)."""

    parts: dict[str, Part]

    @classmethod
    def of(cls, embeddings: EmbeddingSet, split: IdentitySplit) -> SplitData:
        """Cut a table by its split."""
        identity = embeddings.require_identity()
        parts = {}
        for name in PARTS:
            rows = split.rows(name)
            parts[name] = Part(embeddings.take(rows).unit(), identity[rows])
        return cls(parts)

    def moments(self) -> IdentityMoments:
        """Return per-identity sums of the fit split."""
        fit = self.parts["fit"]
        return IdentityMoments().partial_fit(fit.vectors, fit.identity)

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
    """The eraser of an audit, and all directions it could be cut from (None for a projector from a file)."""

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
    moments = data.moments()
    basis, spectrum = identity_directions(moments)
    most = min(basis.shape[1], basis.shape[0] - 1)
    people = int(moments.counts().size)
    if plan.rank is not None:
        check_rank(plan.rank, basis.shape[1], basis.shape[0], identities=people)
    if most < 1:
        raise RankError(f"{people} fit identities in {basis.shape[0]} dimensions leave nothing to remove")
    rank = plan.rank or min(DEFAULT_RANK, most)
    note = f"rank {rank} as asked for"
    if plan.rank is None:
        capped = f", capped from {DEFAULT_RANK} by {people} fit identities" if rank < DEFAULT_RANK else ""
        note = f"rank {rank} by default{capped}"
    projector = projector_of(
        basis, spectrum, rank, moments, method=ISP.method, encoder=embeddings.encoder, synthetic=embeddings.meta.synthetic
    )
    return Fitted(projector, basis, note)


def control_projectors(data: SplitData, rank: int, plan: AuditPlan) -> dict[str, Projector]:
    """Fit the controls at a rank on the fit split; a control that the data cannot support at this rank is left out."""
    fit = data.parts["fit"]
    made: dict[str, Projector] = {}
    for index, name in enumerate(plan.controls):
        rng = np.random.default_rng([plan.seed, 0xC0, index])
        eraser = {
            "random": lambda rng=rng: RandomEraser(rank, rng=rng),
            "pca": lambda: PCAEraser(rank),
            "permuted": lambda rng=rng: PermutedISP(rank, rng=rng),
        }[name]()
        try:
            made[name] = eraser.fit(fit.vectors, fit.identity).projector_
        except RankError:
            continue
    return made
