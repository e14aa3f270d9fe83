"""Which eraser leaks least on real faces: at the same rank, and at the same cost.

LFW, SSCD and SSCD-distilled: every eraser and control against every attacker, trained on people the eraser never saw
and on its own. Then each eraser at a ladder of ranks, so that erasers can be compared where they keep the same share
of nearest neighbours. Figures go between the markers of benchmarks/RESULTS.md.

    FACEBLIND_DATA=/data python benchmarks/leaks.py --work out/faces
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

import faceblind as fb
from faceblind.audit.attacks import Attack, screening
from faceblind.audit.evaluate import calibrated_point
from faceblind.audit.parallel import each
from faceblind.audit.plan import ATTACKERS, DEFAULT_ATTACKERS, AuditPlan
from faceblind.audit.releases import Release, SplitData, compared, control_projectors
from faceblind.audit.report.text import percent
from faceblind.audit.run import AuditRun, run_audit
from faceblind.audit.verdict import GRADES
from faceblind.erase.methods import METHODS, MOMENT_METHODS, directions_from
from faceblind.measure import OperatingPoint, SubjectBootstrap, paired_difference
from faceblind.utility import neighbour_overlap
from faces import fb_version, lfw_split, table
from recording import record

FARS = (1e-2, 1e-3, 1e-4)
FAR = 1e-4
LADDER = (32, 64, 96, 128, 160, 192, 216)
RANK = 192


@dataclass(frozen=True)
class Step:
    """One map at one rank: what it keeps, and what the worst attacker reads."""

    name: str
    rank: int
    overlap: float
    energy: float
    attack: Attack
    point: OperatingPoint


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--work", type=Path, default=Path("out/faces"), help="where embeddings are kept")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--encoders", default="sscd,sscd-distilled")
    arguments.add_argument(
        "--ladder", default="sscd,sscd-distilled", help="encoders for which the ladder of ranks is run too"
    )
    arguments.add_argument("--best-effort", action="store_true", help="run the best-effort attacker too (slow)")
    arguments.add_argument("--record", action="store_true", help="write the figures into RESULTS.md")
    options = arguments.parse_args()
    data = os.environ.get("FACEBLIND_DATA")
    if not data or not Path(data).is_dir():
        print("FACEBLIND_DATA must name the folder with lfw/", file=sys.stderr)
        return 2
    started = time.time()
    attackers = ATTACKERS if options.best_effort else DEFAULT_ATTACKERS
    sections = []
    for encoder in options.encoders.split(","):
        people = table(Path(data), "lfw", encoder, options.work)
        split = lfw_split(people, options.seed)
        plan = AuditPlan(
            seed=options.seed, fars=FARS, rank=RANK, attackers=attackers, compare=METHODS, planted=(), rank_points=1
        )
        run = run_audit(people, plan=plan, split=split, progress=shown)
        lines = [f"### {encoder} on LFW\n", *matched_rank(run), ""]
        if encoder in options.ladder.split(","):
            lines += matched_cost(people, split, plan)
        sections.append("\n".join(lines))
        print(sections[-1], flush=True)
    command = "FACEBLIND_DATA=... python benchmarks/leaks.py" + (" --best-effort" if options.best_effort else "")
    head = f"{date.today().isoformat()}, {os.cpu_count()} cores, faceblind {fb_version()}, seed {options.seed}, `{command} --record`; {time.time() - started:.0f} s.\n"
    if options.record:
        record("leaks", head + "\n" + "\n\n".join(sections))
    return 0


def shown(what: str, done: int, of: int) -> None:
    print(f"\r{what} ({done}/{of})\x1b[K", end="", file=sys.stderr)


def matched_rank(run: AuditRun) -> Iterator[str]:
    """TAR in % at FAR 1e-4 of every attacker on every release, threshold set on test, five seeds."""
    result = run.result
    points = [s for s in result.summary if s.far_target == FAR and s.calibration == "test"]
    releases = list(dict.fromkeys(s.release for s in points))
    most = {s.attacker: max(p.k or 0 for p in points if p.attacker == s.attacker) for s in points}
    keys = list(dict.fromkeys((s.attacker, s.trained_on, s.k) for s in points if (s.k or 0) == most[s.attacker]))
    test = points[0]
    yield (
        f"TAR in % at FAR {FAR:g} (95 % interval) of every attacker at rank {RANK}, {test.people} test people, {test.mated:,} mated "
        f"and {test.nonmated:,} non-mated pairs; k={max(most.values())} where an attacker draws images. A star marks indicative points; <= marks "
        "bounds. *own*: trained on the people the eraser was fitted on; *fresh*: on people it never saw.\n"
    )
    yield "| attacker | " + " | ".join(releases) + " |"
    yield "|---|" + "---|" * len(releases)
    for attacker, trained_on, k in keys:
        who = attacker + {"attack": ", fresh", "fit": ", own", None: ""}[trained_on]
        cells = []
        for release in releases:
            found = [
                s for s in points if (s.release, s.attacker, s.trained_on, s.k) == (release, attacker, trained_on, k)
            ]
            cells.append(cell(found[0].tar, found[0].tar_low, found[0].tar_high, found[0].grade) if found else "-")
        yield f"| {who} | " + " | ".join(cells) + " |"
    worst = {w.release: w for w in result.worst if w.far_target == FAR}
    yield "| **worst** | " + " | ".join(f"**{100 * worst[r].tar:.2f}** ({worst[r].attacker})" for r in releases) + " |"
    yield "| no attack above | " + " | ".join(f"{100 * worst[r].bound:.2f}" for r in releases) + " |"
    kept = {u.release: u for u in result.utility}
    yield "| neighbours kept | " + " | ".join(f"{100 * kept[r].neighbour_overlap:.1f}" for r in releases) + " |"
    yield "| energy kept | " + " | ".join(f"{100 * kept[r].energy_kept:.1f}" for r in releases) + " |"
    yield ""
    shown_less = [
        f"{c.release} leaks less than {c.against} (p {c.p_adjusted:.2g})"
        for c in result.comparisons
        if c.far_target == FAR and c.leaks_less
    ]
    yield f"Differences shown after Holm's correction: {'; '.join(shown_less) or 'none'}."
    yield f"Verdict ({result.verdict.level}): {result.verdict.headline}"


def cell(tar: float, low: float, high: float, grade: str) -> str:
    if grade == "unsupported":
        return f"<= {100 * high:.2f}"
    return f"{100 * tar:.2f} ({100 * low:.2f} to {100 * high:.2f}){'' if grade == 'supported' else ' *'}"


def matched_cost(people: fb.EmbeddingSet, split: fb.IdentitySplit, plan: AuditPlan) -> Iterator[str]:
    """The worst attacker (one seed) on test people for every map at a ladder of ranks, and where costs are equal."""
    data = SplitData.of(people, split)
    raw = data.raw()
    size = int(np.unique(raw.test.identity).size)
    bootstrap = SubjectBootstrap.of(size, draws=plan.draws, rng=np.random.default_rng([plan.seed, 0xB0, 0]))
    steps = [measured(raw, raw, data, plan, bootstrap)]
    for release in ladder(data, plan):
        shown(f"{release.name} r={release.rank}", 0, 1)
        steps.append(measured(release, raw, data, plan, bootstrap))
    yield f"Every map at a ladder of ranks: worst attacker (one seed each) at FAR {FAR:g}, and neighbours kept (overlap@10 on the test photographs).\n"
    yield "| rank | " + " | ".join(dict.fromkeys(s.name for s in steps[1:])) + " |"
    names = list(dict.fromkeys(s.name for s in steps[1:]))
    yield "|---|" + "---|" * len(names)
    for rank in LADDER:
        row = {s.name: s for s in steps if s.rank == rank}
        cells = [
            f"{100 * row[n].point.tar:.2f} ({row[n].attack.name}), keeps {100 * row[n].overlap:.0f}"
            if n in row
            else "-"
            for n in names
        ]
        yield f"| {rank} | " + " | ".join(cells) + " |"
    yield ""
    yield f"Raw: {100 * steps[0].point.tar:.2f} ({steps[0].attack.name}).\n"
    for level in (0.6, 0.45, 0.35):
        yield from at_equal_cost(steps, level)


def ladder(data: SplitData, plan: AuditPlan) -> Iterator[Release]:
    for method in MOMENT_METHODS:
        directions = directions_from(method, data.moments)
        for rank in LADDER:
            if rank <= directions.most:
                yield data.through(directions.projector(rank), method)
    for rank in LADDER:
        rounds, _ = compared(data, rank, AuditPlan(seed=plan.seed, compare=("inlp",)), audited="isp")
        controls = control_projectors(data, rank, plan)
        for name, projector in (rounds | controls).items():
            yield data.through(projector, name)


def measured(release: Release, raw: Release, data: SplitData, plan: AuditPlan, bootstrap: SubjectBootstrap) -> Step:
    attacks = [a for a in screening(plan, data) if a.name != "best-effort"]
    points = each(lambda a: calibrated_point(a, release, "test", plan, bootstrap, FAR), attacks)
    best = max(GRADES.index(p.grade) for p in points)
    found = [(a, p) for a, p in zip(attacks, points, strict=True) if GRADES.index(p.grade) == best]
    attack, point = max(found, key=lambda pair: (pair[1].tar, pair[1].high))
    overlap, _ = neighbour_overlap(raw.test.vectors, release.test.vectors)
    return Step(release.name, release.rank, overlap, float(release.energy_kept.mean()), attack, point)


def at_equal_cost(steps: list[Step], level: float) -> Iterator[str]:
    """Each map at its largest rank that keeps at least `level` of the neighbours, least leak first."""
    chosen = {}
    for step in steps[1:]:
        if step.overlap >= level and (step.name not in chosen or step.rank > chosen[step.name].rank):
            chosen[step.name] = step
    ordered = sorted(chosen.values(), key=lambda s: s.point.tar)
    if not ordered:
        return
    best = ordered[0]
    yield f"Keeping at least {100 * level:.0f} % of the neighbours, least leak first (p: that {best.name} leaks less, one comparison at a time):"
    for step in ordered:
        pair = paired_difference(
            best.point.base,
            best.point.draws,
            step.point.base,
            step.point.draws,
            min(best.point.effective, step.point.effective),
        )
        against = "" if step is best else f"; p {pair.p_value:.2g}"
        p = step.point
        yield (
            f"- {step.name} r={step.rank}: {percent(p.tar)} ({100 * p.low:.2f} to {100 * p.high:.2f}; {step.attack.label}), "
            f"keeps {100 * step.overlap:.1f} % of neighbours, {100 * step.energy:.1f} % of energy{against}"
        )
    yield ""


if __name__ == "__main__":
    raise SystemExit(main())
