"""LEACE fits from index labels beside concept-erasure's from one-hot labels: time, and what many people do to them.

Both are timed in turn in one process (ours, theirs, ours, theirs, ...) with as many threads, on the same float32 rows, and
the median of the ratios is printed. Theirs gets its one-hot labels ready made where they fit into memory as one batch;
otherwise batches of them are made as they are read, and the table says so. Needs torch and
``pip install --no-deps concept-erasure==0.2.4``. Results go between the markers of benchmarks/RESULTS.md with --record.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import warnings
from datetime import date
from pathlib import Path

import numpy as np

from faceblind._processors import processors
from faceblind.erase import LEACE, IdentityMoments
from recording import record
from speed import people, ratio

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it still uses torch.jit
    import torch
    from concept_erasure import LeaceFitter

BATCH = 10_000  # rows a batch where one-hot labels do not fit at once
COPIES = 4  # one-hot labels, and what an update makes of them: as floats, and twice centred


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=200_000)
    arguments.add_argument("--dim", type=int, default=512)
    arguments.add_argument("--people", type=int, nargs="+", default=[320, 10_000])
    arguments.add_argument(
        "--runs", type=int, default=5, help="pairs of runs with few people; a third where batches are needed"
    )
    arguments.add_argument("--many", type=int, default=12_000, help="people of the no-op check, two images each")
    arguments.add_argument("--record", action="store_true", help="write the figures into RESULTS.md")
    options = arguments.parse_args()
    torch.set_num_threads(processors())
    rows = []
    for m in options.people:
        for row in fits(options.rows, m, options.dim, options.runs):
            print(row, flush=True)
            rows.append(row)
    for row in no_op(options.many):
        print(row, flush=True)
        rows.append(row)
    if options.record:
        record_rows(rows, options)
    return 0


def fits(n: int, m: int, d: int, runs: int) -> list[str]:
    X, identity = people(n, m, d)
    order = np.random.default_rng(1).permutation(identity.size)
    X, identity = X[order], identity[order]
    x, codes = torch.from_numpy(X), torch.from_numpy(identity)
    fits_at_once = X.nbytes * 3 + COPIES * identity.size * m * 4 < free_memory()
    rank = min(m - 1, d - 1)

    def ours() -> object:
        moments = IdentityMoments(scatter=True).partial_fit(X, identity)
        return LEACE.directions(moments).projector(rank)

    rows = []
    for dtype, bar in ((torch.float32, ">= 10"), (torch.float64, "-")):
        if not fits_at_once and dtype is torch.float64:
            continue  # twice a run that takes minutes, to show what the first row shows
        z = torch.nn.functional.one_hot(codes, m).to(dtype) if fits_at_once else None

        removed = []

        def theirs(dtype: torch.dtype = dtype, z: torch.Tensor | None = z, removed: list[int] = removed) -> None:
            fitter = LeaceFitter(d, m, dtype=dtype)
            for start in range(0, len(x), BATCH if z is None else len(x)):
                part = slice(start, start + BATCH)
                if z is None:
                    fitter.update(x[part], torch.nn.functional.one_hot(codes[part], m).to(dtype))
                else:
                    fitter.update(x, z)
            removed.append(int(fitter.eraser.proj_left.any(dim=0).sum()))

        pairs = runs if fits_at_once else max(1, runs // 3)
        text, _ = ratio(theirs, ours, pairs)
        how = "one-hot labels ready, in one batch" if fits_at_once else (
            f"one-hot labels in batches of {BATCH:,}: at once they would take {COPIES * identity.size * m * 4 / 2**30:.0f} GiB"
        )  # fmt: skip
        name = str(dtype).removeprefix("torch.")
        rows.append(
            f"| LEACE fit, n={identity.size:,}, {m:,} people, d={d}: concept-erasure ({name}; {how}) / ours (index labels, float64, "
            f"rank {rank}) | {bar} | {text} over {pairs} pairs; theirs removes {removed[-1]} dimensions |"
        )
    start = time.perf_counter()
    moments = IdentityMoments(scatter=True).partial_fit(X, identity)
    middle = time.perf_counter()
    LEACE.directions(moments).projector(rank)
    share = (middle - start) / (time.perf_counter() - start)
    product = statistics.median(timed(lambda: bare_scatter(X)) for _ in range(3))
    rows.append(
        f"| share of our fit that is sums and scatter, {m:,} people; that pass / the bare float64 product `X.T @ X` | - | "
        f"{100 * share:.0f} %; {(middle - start) / product:.2f} |"
    )
    return rows


def bare_scatter(X: np.ndarray) -> None:
    """The symmetric float64 product alone, which no exact fit can do without; numpy takes all threads."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for start in range(0, len(X), 4_096):
        rows = X[start : start + 4_096].astype(np.float64)
        total += rows.T @ rows


def timed(work: object) -> float:
    start = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - start


def free_memory() -> int:
    """Bytes that can be had without swapping, from the kernel; none where it does not say."""
    text = Path("/proc/meminfo").read_text() if Path("/proc/meminfo").exists() else ""
    return next((1024 * int(line.split()[1]) for line in text.splitlines() if line.startswith("MemAvailable")), 0)


def no_op(m: int, d: int = 32, strong: int = 10) -> list[str]:
    """Erase many people with two images each, whose identity lives in `strong` of d dimensions."""
    rng = np.random.default_rng(0)
    identity = np.repeat(np.arange(m), 2)
    basis = np.linalg.qr(rng.standard_normal((d, strong)))[0]
    X = rng.standard_normal((m, strong))[identity] @ basis.T + 0.1 * rng.standard_normal((2 * m, d))
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    fitter = LeaceFitter(d, m)
    for start in range(0, len(X), 2_000):
        z = torch.nn.functional.one_hot(torch.from_numpy(identity[start : start + 2_000]), m)
        fitter.update(torch.from_numpy(X[start : start + 2_000]), z)
    eraser = fitter.eraser
    theirs = eraser(torch.from_numpy(X)).numpy()
    kept = int((torch.linalg.norm(eraser.proj_left, dim=0) > 1e-6).sum())
    ours = LEACE(strong).fit(X, identity).projector_.apply(X, renormalise=False).vectors
    raw, left = between(X, identity), [between(Z, identity) for Z in (theirs, ours)]
    return [
        f"| variance between people left (chance taken off), {m:,} people x 2, d={d}, identity in {strong} dimensions | "
        f"0 % | concept-erasure (float32, its defaults) {100 * left[0] / raw:.1f} %, which removes {kept} dimensions; ours "
        f"{100 * max(0.0, left[1]) / raw:.1f} %, which removes {strong} |"
    ]


def between(Z: np.ndarray, codes: np.ndarray) -> float:
    """Variance between people, less what as many random groups would show."""
    Z = Z.astype(np.float64)
    counts = np.bincount(codes)
    order = np.argsort(codes, kind="stable")
    sums = np.add.reduceat(Z[order], np.cumsum(counts) - counts)
    total = ((Z - Z.mean(axis=0)) ** 2).sum()
    within = (Z**2).sum() - (sums**2 / counts[:, None]).sum()
    return float(total / (len(Z) - 1) - within / (len(Z) - counts.size))


def record_rows(rows: list[str], options: argparse.Namespace) -> None:
    head = (
        f"{date.today().isoformat()}, {os.cpu_count()} cores, numpy {np.__version__}, torch {torch.__version__}, concept-erasure 0.2.4, "
        f"seed 0, `python benchmarks/erasers.py --record`, n={options.rows:,}; medians of paired runs (min to max).\n"
    )
    table = ["| what | bar | measured |", "|---|---|---|", *rows]
    record("erasers-speed", "\n".join([head, *table]))


if __name__ == "__main__":
    raise SystemExit(main())
