"""How long a full audit takes, what the rank curve adds, and what sharing an eigendecomposition saves the ridge probe.

Ratios side by side in one run; results go between the markers of benchmarks/RESULTS.md with --record.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from dataclasses import replace
from datetime import date

import numpy as np

import faceblind as fb
from faceblind.attack import RidgeProbe, draw_images
from faceblind.audit.plan import AuditPlan
from faceblind.audit.ranks import rank_curve
from faceblind.audit.releases import SplitData, fit_eraser
from faceblind.audit.run import run_audit
from recording import record
from speed import ratio

KS = (1, 4, 16)
SEEDS = 5


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--record", action="store_true", help="write the figures into RESULTS.md")
    options = arguments.parse_args()
    rows = [*audit(options.runs), *ridge(options.runs)]
    print("\n".join(rows))
    if options.record:
        head = (
            f"{date.today().isoformat()}, {os.cpu_count()} cores, numpy {np.__version__}, seed 0, "
            f"`python benchmarks/audit_speed.py --record`, median of {options.runs} runs (min to max).\n"
        )
        record("audit-speed", "\n".join([head, "| what | bar | measured |", "|---|---|---|", *rows]))
    return 0


def people(identities: int, images: int, dim: int) -> fb.EmbeddingSet:
    """Vectors with 30 directions of identity under uneven noise."""
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(identities), images)
    traits = rng.standard_normal((identities, 30)) @ rng.standard_normal((30, dim)) * 0.25
    noise = rng.standard_normal((who.size, dim)) * np.linspace(3, 0.3, dim)
    return fb.EmbeddingSet.of(traits[who] + noise, [f"p{i:04d}" for i in who])


def audit(runs: int) -> list[str]:
    table = people(80, 20, 768)
    plan = AuditPlan()
    data = SplitData.of(table, fb.IdentitySplit.draw(table))
    fitted = fit_eraser(data, plan, table)
    whole, grids = [], []
    for _ in range(runs):  # in turn, so that a drifting machine slows both
        start = time.perf_counter()
        run_audit(table, plan=plan)
        middle = time.perf_counter()
        points = rank_curve(data, fitted.directions, fitted.projector.rank, replace(plan, rank_points=12))
        whole.append(middle - start)
        grids.append((time.perf_counter() - middle) / whole[-1])
    return [
        f"| audit of 1,600 x 768 vectors: all attackers but best-effort, raw, ISP and three controls, curves, rank curve, planted leaks | < 60 s | "
        f"{spread(whole)} s |",
        f"| rank curve of {len(points)} ranks, every attacker at each / that audit | < 2.5 | {spread(grids)} |",
    ]


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def ridge(runs: int) -> list[str]:
    table = people(320, 20, 512)
    X, identity = table.unit(), table.identity
    test = X[:64]

    def ours(covariance: str) -> None:
        probe = RidgeProbe(covariance=covariance)
        for k in KS:
            for seed in range(SEEDS):
                for candidate in probe.fit(X, identity, k=k, rng=np.random.default_rng([seed, k])):
                    candidate.map(test)

    def plain() -> None:
        """One solve for every seed, k and lambda: the textbook formula."""
        for k in KS:
            for seed in range(SEEDS):
                rows = draw_images(identity, k, np.random.default_rng([seed, k]))
                names, codes = np.unique(identity[rows], return_inverse=True)
                Z = X[rows].astype(np.float64)
                Z -= Z.mean(axis=0)
                target = np.eye(names.size)[codes]
                target -= target.mean(axis=0)
                gram, right = Z.T @ Z, Z.T @ target
                for strength in RidgeProbe().lambdas:
                    eye = strength * np.trace(gram) / Z.shape[1] * np.eye(Z.shape[1])
                    test @ np.linalg.solve(gram + eye, right)

    what = f"{SEEDS} seeds x {len(KS)} k x {len(RidgeProbe().lambdas)} lambdas, 320 identities x 20, d=512"
    shared, _ = ratio(lambda: ours("all"), plain, runs)
    drawn, _ = ratio(lambda: ours("drawn"), plain, runs)
    return [
        f"| ridge probe, covariance of all images (one eigendecomposition in all) / one solve each; {what} | shares one | {shared} |",
        f"| ridge probe, covariance of the drawn images (one a draw) / one solve each; {what} | - | {drawn} |",
    ]


if __name__ == "__main__":
    raise SystemExit(main())
