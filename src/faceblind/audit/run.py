"""`audit`: from a table with identities to a record, in one direction.

hygiene -> split -> releases (raw, erased, controls) -> attackers (tuned on validation, test once) -> curves, rank
curve, planted leak, utility -> verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from faceblind._errors import HygieneError
from faceblind.attack import Cosine, RidgeProbe
from faceblind.audit.evaluate import Attack, curve_of, run_seed, summarise
from faceblind.audit.gate import judge
from faceblind.audit.parallel import each
from faceblind.audit.plan import AuditPlan
from faceblind.audit.power import detection_power
from faceblind.audit.provenance import provenance
from faceblind.audit.ranks import rank_curve
from faceblind.audit.releases import (
    Fitted,
    Release,
    SplitData,
    control_projectors,
    fit_eraser,
    given_eraser,
    nothing_left,
)
from faceblind.audit.result import AuditResult, Curve, Power, RankPoint, Row, Summary, Utility
from faceblind.audit.verdict import LIMITS, give_verdict, reference_point, worst_of
from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.findings import Finding, worst_first
from faceblind.data.hygiene import check_hygiene
from faceblind.data.split import IdentitySplit
from faceblind.erase import Projector
from faceblind.measure import SubjectBootstrap
from faceblind.utility import neighbour_overlap

Progress = Callable[[str, int, int], None]
"""Called with what is being done, steps done, and all steps."""


@dataclass(frozen=True, eq=False)
class AuditRun:
    """A finished audit with what it used: for reports, and for passing on the projector that was audited."""

    result: AuditResult
    split: IdentitySplit
    projector: Projector


def audit(
    embeddings: EmbeddingSet,
    *,
    plan: AuditPlan | None = None,
    split: IdentitySplit | None = None,
    projector: Projector | None = None,
    strict: bool = False,
) -> AuditResult:
    """Measure how much identity an attacker reads from embeddings, before and after erasing.

    Parameters
    ----------
    embeddings : EmbeddingSet
        (n, d) vectors with identities.
    plan : AuditPlan, optional
        What to measure; defaults to `AuditPlan()`.
    split : IdentitySplit, optional
        Four identity-disjoint parts; drawn with the plan's seed when missing.
    projector : Projector, optional
        Audit this map instead of fitting ISP on the fit split. It must not have been fitted on attack, validation or
        test people.
    strict : bool
        Stop on error and warning findings instead of recording them.

    Returns
    -------
    AuditResult

    Raises
    ------
    DataError, SplitError, RankError
        The table has no identities, too few of them, or does not support the rank asked for.
    EncoderError, ProjectorError
        The projector was made for another encoder or another dimension.
    HygieneError
        Findings under `strict`.
    """
    return run_audit(embeddings, plan=plan, split=split, projector=projector, strict=strict).result


def run_audit(
    embeddings: EmbeddingSet,
    *,
    plan: AuditPlan | None = None,
    split: IdentitySplit | None = None,
    projector: Projector | None = None,
    strict: bool = False,
    force: bool = False,
    findings: Sequence[Finding] = (),
    name: str = "table",
    on_findings: Callable[[Sequence[Finding]], None] | None = None,
    progress: Progress | None = None,
) -> AuditRun:
    """Run `audit` and keep its split and projector.

    Parameters
    ----------
    findings : sequence of Finding
        What was already noticed when the table was read; goes into the record.
    name : str
        How the record calls the table.
    on_findings : callable, optional
        Shown all findings before any number is computed.
    progress : callable, optional
    """
    plan = plan or AuditPlan()
    plan = replace(plan, fars=plan.all_fars())
    split = split or IdentitySplit.draw(embeddings, seed=plan.seed, shares=plan.shares)
    data = SplitData.of(embeddings, split)
    hygiene = [*findings, *check_hygiene(embeddings, split=split)]
    if projector is None:
        fitted = fit_eraser(data, plan, embeddings)
    else:
        caution = projector.check_encoder(embeddings.encoder, force=force)
        note = f"projector file of rank {projector.rank}" + (f"; {caution}" if caution else "")
        fitted, seen = given_eraser(data, projector, note)
        hygiene.append(seen)
    empty = nothing_left(data, fitted.projector)
    hygiene += [empty] if empty else []
    hygiene = worst_first(hygiene)
    if on_findings is not None:
        on_findings(hygiene)
    serious = [finding for finding in hygiene if finding.severity != "note"]
    if strict and serious:
        raise HygieneError(f"{len(serious)} findings stop a strict audit: {', '.join(f.kind for f in serious)}")
    measured = _Audit(plan, data, fitted, progress or _silent).run()
    erased = fitted.projector.method
    gate_release = plan.gate_release or ("raw" if projector is None else erased)
    result = AuditResult(
        provenance=provenance(
            embeddings,
            split,
            plan,
            name=name,
            projector=fitted.projector,
            rank_note=fitted.note,
            attackers=measured.attackers,
        ),
        hygiene=tuple(hygiene),
        verdict=give_verdict(measured.summary, hygiene, measured.power, measured.utility, erased),
        rows=tuple(measured.rows),
        summary=tuple(measured.summary),
        curves=tuple(measured.curves),
        rank_curve=measured.rank_curve,
        utility=tuple(measured.utility),
        power=measured.power,
        limits=LIMITS,
        gate=judge(plan.fail_if, gate_release, measured.summary, measured.curves) if plan.fail_if else None,
        synthetic=embeddings.meta.synthetic or fitted.projector.synthetic,
    )
    return AuditRun(result, split, fitted.projector)


@dataclass
class _Audit:
    """One run; collects what it measures."""

    plan: AuditPlan
    data: SplitData
    fitted: Fitted
    progress: Progress

    def __post_init__(self) -> None:
        self.rows: list[Row] = []
        self.summary: list[Summary] = []
        self.curves: list[Curve] = []
        self.utility: list[Utility] = []
        self.attackers: list[dict[str, Any]] = []
        self.rank_curve: tuple[RankPoint, ...] = ()
        self.power: Power | None = None

    def run(self) -> _Audit:
        plan, projector = self.plan, self.fitted.projector
        raw = self.data.raw()
        people = int(np.unique(raw.test.identity).size)
        bootstrap = SubjectBootstrap.of(people, draws=plan.draws, rng=np.random.default_rng([plan.seed, 0xB0, 0]))
        erased = self.data.through(projector, projector.method)
        releases = [raw, erased]
        releases += [self.data.through(p, n) for n, p in control_projectors(self.data, projector.rank, plan).items()]
        attacks = _attacks(plan)
        steps = len(releases) * len(attacks) + 3
        done = 0
        for release in releases:
            for attack in attacks:
                self.progress(f"{release.name}: {_label(attack)}", done, steps)
                self._attack(attack, release, bootstrap, people)
                done += 1
            self._utility(raw, release)
        self.progress("error trade-off curves", done, steps)
        wanted = [pair for release in releases for pair in self._curves_of(attacks, release)]
        self.curves = each(lambda pair: curve_of(*pair, plan, bootstrap), wanted)
        self.progress("rank curve", done + 1, steps)
        if self.fitted.basis is not None:
            self.rank_curve = rank_curve(self.data, self.fitted.basis, projector.rank, plan)
        self.progress("planted leak", done + 2, steps)
        if plan.planted:
            self.power = detection_power(erased, plan, bootstrap, removed=projector.basis)
        self.progress("done", steps, steps)
        return self

    def _attack(self, attack: Attack, release: Release, bootstrap: SubjectBootstrap, people: int) -> None:
        outcomes = each(lambda seed: run_seed(attack, release, seed, self.plan, bootstrap), attack.seeds(self.plan))
        self.rows += [row for outcome in outcomes for row in outcome.rows]
        self.summary += summarise(outcomes, people)
        self.attackers.append(
            {
                **attack.attacker.describe(),
                "release": release.name,
                "trained_on": attack.trained_on,
                "k": attack.k,
                "chosen": [outcome.setting for outcome in outcomes],
            }
        )

    def _curves_of(self, attacks: Sequence[Attack], release: Release) -> list[tuple[Attack, Release]]:
        """Choose cosine, and the learning attacker that reads most from this release at the reference FAR."""
        learned = [s for s in self.summary if s.trained_on is not None]
        worst = worst_of(learned, release.name, reference_point(self.summary))
        best = None if worst is None else (worst.attacker, worst.trained_on, worst.k)
        return [
            (attack, release)
            for attack in attacks
            if not attack.attacker.learns or (attack.attacker.name, attack.trained_on, attack.k) == best
        ]

    def _utility(self, raw: Release, release: Release) -> None:
        overlap, used = neighbour_overlap(raw.test.vectors, release.test.vectors)
        self.utility.append(
            Utility(
                release=release.name,
                rank=release.rank,
                neighbour_overlap=overlap,
                neighbours=used,
                energy_kept=float(release.energy_kept.mean()),
                energy_kept_p05=float(np.quantile(release.energy_kept, 0.05)),
                images=int(release.energy_kept.size),
            )
        )


def _attacks(plan: AuditPlan) -> list[Attack]:
    ridge = RidgeProbe()
    return [
        Attack(Cosine(), None, None),
        *(Attack(ridge, trained_on, k) for trained_on in ("attack", "fit") for k in plan.ks),
    ]


def _label(attack: Attack) -> str:
    return (
        attack.attacker.name
        if attack.trained_on is None
        else f"{attack.attacker.name} k={attack.k} on {attack.trained_on}"
    )


def _silent(_what: str, _done: int, _of: int) -> None:
    return
