"""Which attackers an audit runs, what each learns from, and how its comparisons are made.

Every learning attacker is trained twice: on `attack` people, whom the eraser never saw, and on the eraser's own `fit`
people. The two protocols of the paper's k are both here. *Pairs*: k images of every training identity, and every two
test images are compared. *Templates*: all training images, and k support images of every test identity are
averaged into a template that its other images are compared with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from faceblind.attack import LDA, PLDA, WCCN, Attacker, BestEffort, Candidate, Cosine, MLPProbe, RidgeProbe
from faceblind.audit.entries import TrainedOn
from faceblind.audit.plan import AuditPlan
from faceblind.audit.releases import Part, Release, SplitData

Protocol = Literal["pairs", "templates"]
_NOTHING = 1e-6
_LEARNERS: tuple[TrainedOn, ...] = ("attack", "fit")


@dataclass(frozen=True)
class Attack:
    """An attacker with the people and images it learns from and the way its comparisons are made."""

    attacker: Attacker
    trained_on: TrainedOn | None
    k: int | None
    """Images per training identity (None: all of them), or support images per template."""
    protocol: Protocol = "pairs"
    repeats: bool = True
    """Whether seeds draw other images; without, one run says it all."""

    @property
    def name(self) -> str:
        """Name in the record."""
        if self.protocol == "pairs":
            return self.attacker.name
        return f"{self.attacker.name}-template" if self.attacker.learns else "class-mean"

    @property
    def label(self) -> str:
        """Name for people."""
        images = "" if self.k is None else f" k={self.k}"
        return f"{self.name}{images}" + (f" on {self.trained_on}" if self.trained_on else "")

    def seeds(self, plan: AuditPlan) -> range:
        """Seeds to run: one when there is nothing to draw, and at most three of a network."""
        if not self.repeats:
            return range(1)
        return range(plan.attacker_seeds if self.attacker.patience is None else min(3, plan.attacker_seeds))

    def train(self, release: Release, seed: int, plan: AuditPlan) -> Iterable[Candidate]:
        """Fit on what was released; the same seed draws the same images on every release."""
        part = release.parts[self.trained_on or "attack"]
        if np.ptp(part.vectors, axis=0).max() < _NOTHING:  # a map that erases everything leaves nothing to learn from
            return (Cosine(),)
        k = self.k if self.protocol == "pairs" else None
        rng = np.random.default_rng([plan.seed, 0xA77, seed, self.k or 0])
        if self.protocol == "pairs" or not self.attacker.learns:
            return self.attacker.fit(part.vectors, part.identity, k=k, rng=rng)
        key = (self.attacker.name, str(self.trained_on))
        if key not in release.fitted:
            release.fitted[key] = tuple(self.attacker.fit(part.vectors, part.identity, k=None, rng=rng))
        return release.fitted[key]

    def support(self, part: Part, seed: int, plan: AuditPlan) -> np.random.Generator:
        """Return the generator that draws support images: the same images on every release."""
        return np.random.default_rng([plan.seed, 0x7E3, seed, self.k or 0, part.identity.size])


def attacks_of(plan: AuditPlan, data: SplitData) -> list[Attack]:
    """Return every attack that a plan asks for and the data allow: templates need people with images left to recognise."""
    found: list[Attack] = []
    for name in plan.attackers:
        match name:
            case "cosine":
                found.append(Attack(Cosine(), None, None, repeats=False))
            case "class-mean":
                found += [Attack(Cosine(), None, k, "templates") for k in plan.ks]
            case "ridge":
                found += [Attack(RidgeProbe(), people, k) for people in _LEARNERS for k in plan.ks]
            case "ridge-template":
                found += [Attack(RidgeProbe(), people, k, "templates") for people in _LEARNERS for k in plan.ks]
            case "mlp":  # the most images: with fewer it is weaker, and each k costs as much again
                found += [Attack(MLPProbe(), people, max(plan.ks)) for people in _LEARNERS]
            case "best-effort":
                found += [Attack(BestEffort(), people, None, repeats=False) for people in _LEARNERS]
            case _:  # second-order attackers use all images: there is nothing to draw
                attacker: Attacker = {"wccn": WCCN, "lda": LDA, "plda": PLDA}[name]()
                found += [Attack(attacker, people, None, repeats=False) for people in _LEARNERS]
    return [attack for attack in found if attack.protocol == "pairs" or _has_queries(data, attack.k or 1)]


def screening(plan: AuditPlan, data: SplitData) -> tuple[Attack, ...]:
    """Return one run of every attacker asked for, with the most images: for choosing a rank."""
    attacks = attacks_of(plan, data)
    most = {attack.name: max((a.k or 0) for a in attacks if a.name == attack.name) for attack in attacks}
    return tuple(replace(attack, repeats=False) for attack in attacks if (attack.k or 0) == most[attack.name])


def linear_screening(plan: AuditPlan, data: SplitData) -> tuple[Attack, ...]:
    """Return the same without networks: planted codes are linear, and networks cost more than all others together."""
    return tuple(attack for attack in screening(plan, data) if attack.name not in ("mlp", "best-effort"))


def _has_queries(data: SplitData, k: int) -> bool:
    """Whether at least half of the people to recognise, and two, have an image left when k make the template."""
    for name in ("validation", "test"):
        counts = np.unique(data.parts[name].identity, return_counts=True)[1]
        if (counts > k).sum() < max(2, counts.size / 2):
            return False
    return True
