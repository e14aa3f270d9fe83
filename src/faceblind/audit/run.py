"""`audit`: from a table with identities to a record, in one direction.

hygiene -> split -> releases (raw, erased, controls) -> attackers (tuned on validation, test once) -> curves, rank
curve, planted leak, utility -> verdict.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from faceblind._errors import HygieneError
from faceblind.audit.attacks import Attack, attacks_of
from faceblind.audit.compare import comparisons, worst_entries
from faceblind.audit.curves import curve_of
from faceblind.audit.entries import Curve, Power, RankPoint, Row, Utility
from faceblind.audit.evaluate import Averaged, SeedOutcome, run_seed, summarise
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
    compared,
    control_projectors,
    fit_eraser,
    given_eraser,
    nothing_left,
    release_name,
)
from faceblind.audit.result import AuditResult
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
    hygiene = worst_first([*hygiene, *measured.notes])
    erased = release_name(fitted.projector)
    summary = tuple(a.summary for a in measured.points)
    worst = worst_entries(measured.points)
    compares = comparisons(measured.points, erased, [n for n in plan.compare if n != erased])
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
        verdict=give_verdict(summary, worst, compares, hygiene, measured.power, measured.utility, erased),
        rows=tuple(measured.rows),
        summary=summary,
        worst=worst,
        comparisons=compares,
        curves=tuple(measured.curves),
        rank_curve=measured.rank_curve,
        utility=tuple(measured.utility),
        power=measured.power,
        limits=LIMITS,
        gate=judge(plan.fail_if, gate_release, worst, measured.curves) if plan.fail_if else None,
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
        self.points: list[Averaged] = []
        self.curves: list[Curve] = []
        self.utility: list[Utility] = []
        self.attackers: list[dict[str, Any]] = []
        self.notes: list[Finding] = []
        self.rank_curve: tuple[RankPoint, ...] = ()
        self.power: Power | None = None

    def run(self) -> _Audit:
        plan, projector = self.plan, self.fitted.projector
        raw = self.data.raw()
        people = int(np.unique(raw.test.identity).size)
        bootstrap = SubjectBootstrap.of(people, draws=plan.draws, rng=np.random.default_rng([plan.seed, 0xB0, 0]))
        erased = self.data.through(projector, release_name(projector))
        others, self.notes = compared(self.data, projector.rank, plan, audited=erased.name)
        controls = control_projectors(self.data, projector.rank, plan)
        releases = [raw, erased, *(self.data.through(p, n) for n, p in (others | controls).items())]
        attacks = attacks_of(plan, self.data)
        steps = len(releases) * len(attacks) + 3
        for index, release in enumerate(releases):
            self._release(release, attacks, bootstrap, index * len(attacks), steps)
            self._utility(raw, release)
        done = steps - 3
        self.progress("error trade-off curves", done, steps)
        drawn = [release for release in releases if release.name not in others]
        wanted = [pair for release in drawn for pair in self._curves_of(attacks, release)]
        self.curves = each(lambda pair: curve_of(*pair, plan, bootstrap), wanted)
        self.progress("rank curve", done + 1, steps)
        if self.fitted.directions is not None:
            self.rank_curve = rank_curve(self.data, self.fitted.directions, projector.rank, plan)
        self.progress("planted leak", done + 2, steps)
        if plan.planted:
            self.power = detection_power(erased, self.data, plan, bootstrap, removed=projector.basis)
        self.progress("done", steps, steps)
        return self

    def _release(
        self, release: Release, attacks: Sequence[Attack], bootstrap: SubjectBootstrap, done: int, steps: int
    ) -> None:
        """Run all seeds of all attacks on a release, several at a time."""
        jobs = [(attack, seed) for attack in attacks for seed in attack.seeds(self.plan)]
        finished = itertools.count(1)

        def work(job: tuple[Attack, int]) -> SeedOutcome:
            attack, seed = job
            outcome = run_seed(attack, release, seed, self.plan, bootstrap)
            self.progress(f"{release.name}: {attack.label}", done + len(attacks) * next(finished) // len(jobs), steps)
            return outcome

        self.progress(f"{release.name}: {attacks[0].label}", done, steps)
        outcomes = dict(zip(jobs, each(work, jobs), strict=True))
        for attack in attacks:
            mine = [outcomes[attack, seed] for seed in attack.seeds(self.plan)]
            self.rows += [row for outcome in mine for row in outcome.rows]
            self.points += summarise(mine)
            self.attackers.append(
                {
                    **attack.attacker.describe(),
                    "name": attack.name,
                    "protocol": attack.protocol,
                    "release": release.name,
                    "trained_on": attack.trained_on,
                    "k": attack.k,
                    "chosen": [outcome.setting for outcome in mine],
                }
            )

    def _curves_of(self, attacks: Sequence[Attack], release: Release) -> list[tuple[Attack, Release]]:
        """Choose cosine, and the learning attacker that reads most from this release at the reference FAR."""
        summary = [a.summary for a in self.points]
        learned = [s for s in summary if s.trained_on is not None]
        worst = worst_of(learned, release.name, reference_point(summary))
        best = None if worst is None else (worst.attacker, worst.trained_on, worst.k)
        return [
            (attack, release)
            for attack in attacks
            if attack.name == "cosine" or (attack.name, attack.trained_on, attack.k) == best
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


def _silent(_what: str, _done: int, _of: int) -> None:
    return
