"""Speed and memory as ratios, side by side in one run.

Each pair of variants is timed in turn (A B A B ...) and the median of the ratios is printed, so that a machine whose
speed drifts, or is shared, does not decide. Results go between the markers of benchmarks/RESULTS.md with --record.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np

from faceblind.data.tables.table import BATCH_ROWS
from faceblind.erase import IdentityMoments, Projector, RankChoice
from faceblind.measure import score_tail
from recording import record, times


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=7)
    arguments.add_argument("--record", action="store_true", help="write the figures into RESULTS.md")
    arguments.add_argument("--only", default="tail,sklearn,apply,memory,fit,start")
    options = arguments.parse_args()
    parts = {
        "tail": tail_against_product, "sklearn": tail_against_sklearn, "apply": apply_against_numpy,
        "memory": apply_memory, "fit": fit_against_pass, "start": start_up,
    }  # fmt: skip
    rows = []
    for name in options.only.split(","):
        for row in parts[name](options.runs):
            print(row, flush=True)
            rows.append(row)
    if options.record:
        head = (
            f"{date.today().isoformat()}, {os.cpu_count()} cores, numpy {np.__version__}, seed 0, "
            f"`python benchmarks/speed.py --record`, median of {options.runs} paired runs (min to max).\n"
        )
        table = ["| what | bar | measured |", "|---|---|---|", *rows]
        record("speed", "\n".join([head, *table]))
    return 0


def ratio(ours: Callable[[], object], theirs: Callable[[], object], runs: int) -> tuple[str, float]:
    """Time two variants in turn; return 'median (min to max)' of ours / theirs, and the median."""
    ratios = [a / b for a, b in times(ours, theirs, runs)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", statistics.median(ratios)


def people(n: int, m: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32)
    identity = np.repeat(np.arange(m), n // m)
    X += 0.5 * rng.standard_normal((m, d), dtype=np.float32)[identity]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, identity


def bare_product(X: np.ndarray, block: int = 2048) -> None:
    """The float32 product over the blocks that the scan visits, into one buffer, and nothing else."""
    n = X.shape[0]
    buffer = np.empty(block * block, dtype=np.float32)
    for i in range(0, n, block):
        for j in range(i, n, block):
            a, b = X[i : i + block], X[j : j + block]
            np.matmul(a, b.T, out=buffer[: len(a) * len(b)].reshape(len(a), len(b)))


def tail_against_product(runs: int) -> list[str]:
    X, identity = people(20_000, 1_000, 512)
    rows = []
    for far in (1e-4, 1e-3, 1e-2):
        text, _ = ratio(lambda far=far: score_tail(X, identity, far_max=far, slack=1), lambda: bare_product(X), runs)
        tracemalloc.start()
        tail = score_tail(X, identity, far_max=far, slack=1)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        held = tail.top.nbytes + tail.places.places.nbytes
        rows.append(
            f"| exact all-pairs tail / bare float32 product, n=20,000, d=512, FAR up to {far:g} | <= 1.15 | {text}; "
            f"tail holds {held / 2**20:.1f} MiB of {tail.nonmated:,} scores, peak {peak / 2**20:.0f} MiB (n x n would be "
            f"{X.shape[0] ** 2 * 4 / 2**20:,.0f} MiB) |"
        )
    return rows


def tail_against_sklearn(runs: int) -> list[str]:
    from sklearn.metrics import roc_curve

    X, identity = people(4_000, 200, 512)
    upper = np.triu_indices(X.shape[0], 1)

    def theirs() -> None:
        scores = (X @ X.T)[upper]
        roc_curve(identity[upper[0]] == identity[upper[1]], scores)

    text, median = ratio(lambda: score_tail(X, identity, far_max=1e-2), theirs, min(runs, 3))
    return [
        f"| exact tail / scikit-learn `roc_curve` on the same {upper[0].size:,} pairs, product included in both | <= 1/8 | "
        f"{text}, {1 / median:.0f}x faster |"
    ]


def apply_against_numpy(runs: int) -> list[str]:
    rows = []
    for d, r in ((512, 192), (768, 192), (768, 256), (1024, 192)):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((BATCH_ROWS, d), dtype=np.float32)  # what apply takes at a time
        projector = Projector.of(
            np.linalg.qr(rng.standard_normal((d, r)))[0], method="isp", choice=RankChoice(rule="given")
        )
        P = (np.eye(d) - projector.basis @ projector.basis.T).astype(np.float32)

        def theirs(X: np.ndarray = X, P: np.ndarray = P) -> np.ndarray:
            Y = X @ P
            return Y / np.linalg.norm(Y, axis=1, keepdims=True)

        for compact in (False, True):
            text, _ = ratio(theirs, lambda c=compact, X=X, p=projector: p.apply(X, compact=c), 5 * runs)
            bar = ">= 1.5 with one of the two" if (d, r) == (768, 192) else "-"
            rows.append(
                f"| rows/s of apply ({projector.formula(compact=compact)}) / `X @ P`, `X / norm`, d={d}, r={r} | {bar} | {text} |"
            )
    return rows


MEMORY = """
import json, sys
from pathlib import Path
import numpy as np
from faceblind.data.tables import open_table
from faceblind.deploy import apply_table
from faceblind.erase import Projector
table, projector, output = sys.argv[1:]
apply_table(Projector.load(projector), open_table(table, identity=None), output)
peak = next(line for line in Path('/proc/self/status').read_text().splitlines() if line.startswith('VmHWM'))
print(json.dumps(int(peak.split()[1])))  # KiB; unlike ru_maxrss it starts anew with the process
"""


def apply_memory(_runs: int) -> list[str]:
    from faceblind.data.meta import TableMeta
    from faceblind.data.tables import open_writer

    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        rng = np.random.default_rng(0)
        basis = np.linalg.qr(rng.standard_normal((768, 192)))[0]
        Projector.of(basis, method="isp", choice=RankChoice(rule="given")).save(work / "p.safetensors")
        peaks = []
        for n in (50_000, 500_000):
            with open_writer(work / f"{n}.parquet", meta=TableMeta(), dim=768, dtype="float16") as writer:
                for _ in range(n // 10_000):
                    writer.write(rng.standard_normal((10_000, 768), dtype=np.float32))
            argv = [
                sys.executable,
                "-c",
                MEMORY,
                str(work / f"{n}.parquet"),
                str(work / "p.safetensors"),
                str(work / "o.parquet"),
            ]
            peaks.append(json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout) / 1024)
    return [
        f"| peak memory of apply, 500,000 / 50,000 rows (768 float16, Parquet) | about 1 | {peaks[1]:.0f} MiB / {peaks[0]:.0f} MiB = "
        f"{peaks[1] / peaks[0]:.2f} |"
    ]


def fit_against_pass(runs: int) -> list[str]:
    X, identity = people(200_000, 10_000, 512)
    order = np.random.default_rng(1).permutation(identity.size)
    X, identity = X[order], identity[order]
    text, _ = ratio(lambda: IdentityMoments().partial_fit(X, identity), lambda: X.sum(axis=0, dtype=np.float64), runs)
    return [f"| per-identity sums / one float64 pass (`X.sum(axis=0)`), n=200,000, m=10,000, d=512 | <= 3 | {text} |"]


def start_up(runs: int) -> list[str]:
    def run(*argv: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, *argv], capture_output=True, check=True)
        return time.perf_counter() - start

    shown = [run("-m", "faceblind", "--help") for _ in range(runs)]
    blank = [run("-c", "pass") for _ in range(runs)]
    return [
        f"| `faceblind --help` | < 0.5 s | {statistics.median(shown):.2f} s (an empty Python takes {statistics.median(blank):.2f} s) |"
    ]


if __name__ == "__main__":
    raise SystemExit(main())
