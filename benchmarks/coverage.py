"""Do 95 % intervals hold the truth in 95 of 100 audits? Simulated audits of people who differ, in full.

The reduced form runs in tests/measure/test_measure_coverage.py. Results go between the markers of
benchmarks/RESULTS.md with --record.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from datetime import date

import numpy as np
from scipy import special

from faceblind.measure import SubjectBootstrap, percentile_interval
from faceblind.measure.coverage import Coverage, Crowd, audit_coverage, rate_coverage
from recording import record

PEOPLE = (30, 80, 300)
RATES = (0.005, 0.02, 0.07, 0.2, 0.6)
CONCENTRATIONS = (0.3, 1.0, 4.0, 20.0)
CROWDS = (Crowd(0.4, 0.5, images=6), Crowd(0.25, 1.0, images=6), Crowd(0.9, 0.3, images=6), Crowd(1.2, 0.5, images=6))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--audits", type=int, default=2000, help="simulated audits per row at a fixed threshold")
    arguments.add_argument("--whole", type=int, default=300, help="simulated whole audits per row")
    arguments.add_argument("--draws", type=int, default=500)
    arguments.add_argument("--record", action="store_true", help="write the figures into RESULTS.md")
    options = arguments.parse_args()
    lines = [
        f"{date.today().isoformat()}, numpy {np.__version__}, seed 0, `python benchmarks/coverage.py --record`: "
        f"{options.audits:,} and {options.whole:,} simulated audits a row, {options.draws} draws of people each.",
        "",
        "Share of audits (%) whose nominal 95 % interval holds the true rate, and (ends too low / begins too high).",
        "",
        "**TAR at a fixed threshold.** Accept rates of people are Beta(TAR c, (1 - TAR) c); 10 to 20 images each. At c = 0.3 "
        "few people carry nearly all of a small leak, at c = 20 all are alike. *Carriers*: among how many people equal "
        "shares would vary as much.",
        "",
        "| people | c | " + " | ".join(f"TAR {100 * rate:g} %" for rate in RATES) + " | carriers |",
        "|---|---|" + "---|" * (len(RATES) + 1),
    ]
    show(lines)
    for people in PEOPLE:
        for c in CONCENTRATIONS:
            found = [rate_coverage(people, rate, c, audits=options.audits, draws=options.draws) for rate in RATES]
            carry = ", ".join(f"{carriers(people, rate, c):.1f}" for rate in RATES)
            lines.append(f"| {people} | {c:g} | " + " | ".join(cell(one) for one in found) + f" | {carry} |")
            show(lines[-1:])
    begun = len(lines)
    lines += ["", *percentiles(options.audits, options.draws)]
    lines += [
        "",
        "**Whole audits.** Vectors with an identity part of log-normal strength (s = standard deviation of its logarithm), all pairs "
        "scored, threshold set on test or fixed; FAR over people on both sides.",
        "",
        "| people | FAR | s | TAR | threshold set on test | threshold fixed | width | FAR, threshold fixed | draws lost |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    show(lines[begun:])
    for people in PEOPLE:
        for far in (1e-2, 1e-3):
            for crowd in CROWDS:
                if people == PEOPLE[-1] and far == 1e-2:
                    continue
                own, fixed, rate = audit_coverage(crowd, people, far, audits=options.whole, draws=options.draws)
                lines.append(
                    f"| {people} | {far:g} | {crowd.spread:g} | {100 * own.truth:.1f} % | {cell(own)} | {cell(fixed)} | "
                    f"{100 * fixed.width:.1f} | {cell(rate)} | {own.lost} of {own.audits * options.draws:,} |"
                )
                show(lines[-1:])
    if options.record:
        record("coverage", "\n".join(lines) + "\n")
    return 0


def cell(found: Coverage) -> str:
    low, high = (100 * count / found.audits for count in (found.too_low, found.too_high))
    return f"{100 * found.covered:.1f} ({low:.1f} / {high:.1f})"


def carriers(people: int, rate: float, concentration: float) -> float:
    rarer = min(rate, 1 - rate)
    return people / (1 + rate * (1 - rate) / (concentration + 1) / rarer**2)


def percentiles(audits: int, draws: int) -> list[str]:
    """The same for what is common: percentiles of the draws, and independent pairs; 80 people, c = 1."""
    cells = []
    for rate in RATES:
        rng = np.random.default_rng(0)
        weights = SubjectBootstrap.of(80, draws=draws, rng=rng).weights.astype(np.float64)
        held = np.zeros(2)
        for _ in range(audits):
            accepted = rng.binomial(105, rng.beta(rate, 1 - rate, 80))
            k, n = int(accepted.sum()), 80 * 105
            low, high = percentile_interval(k / n, weights @ accepted / n, 80)
            pair_low = special.betaincinv(k, n - k + 1, 0.025) if k else 0.0
            held += [low <= rate <= high, pair_low <= rate <= special.betaincinv(k + 1, n - k, 0.975)]
        cells.append(f"{100 * rate:g} %: {100 * held[0] / audits:.0f} and {100 * held[1] / audits:.0f}")
    return [
        "For comparison, 80 people, c = 1, percentiles of the draws and Clopper-Pearson over pairs: "
        + "; ".join(cells)
        + "."
    ]


def show(lines: Iterable[str]) -> None:
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
