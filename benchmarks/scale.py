"""Apply at scale: what reading and writing cost beside the arithmetic, memory, growth, workers, and peers.

Every figure is taken in a fresh process with one thread of linear algebra, so that cores are counted and not hidden.
Variants that are compared take turns (A B A B ...), and medians are printed. Rows are made as a stream into a temporary
file. Results go between the markers of benchmarks/RESULTS.md with --record.

    python benchmarks/scale.py --rows 100000,1000000            # minutes
    python benchmarks/scale.py --rows 100000,1000000,10000000   # 15 GB of disk for the source, as much for the output
    python benchmarks/scale.py --only peers
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from faceblind._processors import processors
from faceblind.data.meta import TableMeta
from faceblind.data.tables import open_table, open_writer
from faceblind.deploy import apply_sharded, apply_table
from faceblind.deploy.stream import BLOCK
from faceblind.erase import Projector, RankChoice
from recording import record

DIM, RANK = 768, 192
IN_MEMORY = 16 * BLOCK


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", default="100000,1000000", help="sizes of the table, comma-separated")
    arguments.add_argument("--main", type=int, default=1_000_000, help="rows for the ratio, the workers and the memory")
    arguments.add_argument("--shard-rows", type=int, default=262_144)
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--only", default="whole,workers,growth,peers")
    arguments.add_argument("--folder", type=Path, help="where temporary files go")
    arguments.add_argument("--record", action="store_true", help="write the figures into RESULTS.md")
    arguments.add_argument("--child", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.child:
        json.dump(CHILDREN[options.child.split(":")[0]](*options.child.split(":")[1:]), sys.stdout)
        return 0
    parts = {"whole": whole, "workers": workers, "growth": growth, "peers": peers}
    rows = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for name in options.only.split(","):
            for row in parts[name](Path(folder), options):
                print(row, flush=True)
                rows.append(row)
    if options.record:
        head = (
            f"{date.today().isoformat()}, {os.cpu_count()} cores, numpy {np.__version__}, seed 0, one thread of linear "
            f"algebra per block, {DIM} float16, rank {RANK}, `python {' '.join(['benchmarks/scale.py', *sys.argv[1:]])}`, "
            f"medians of {options.runs} runs in turn (min to max).\n"
        )
        record("scale", "\n".join([head, "| what | bar | measured |", "|---|---|---|", *rows]))
    return 0


# --- what is measured, in the parent


def whole(folder: Path, options: argparse.Namespace) -> Iterator[str]:
    """End to end beside the arithmetic, in one process: on all cores, and on one."""
    n = options.main
    sources = {"Parquet": (".parquet", ">= 85 %"), "npy": (".npy", "-")}
    for (form, (suffix, bar)), cores in product(sources.items(), (processors(), 1)):
        source = table(folder, n, suffix)
        runs = [child(f"whole:{source}:{folder}/o-{suffix[1:]}{suffix}:{n}", cores=cores) for _ in range(options.runs)]
        share = [100 * run["alone"] / run["whole"] for run in runs]
        cpu = [run["whole_cpu"] / run["alone_cpu"] for run in runs]
        yield (
            f"| {n:,} rows {form} to {form}, {cores} {plural(cores, 'core')}: rows/s as a share of the arithmetic alone on one "
            f"core | {bar if cores > 1 else '-'} | {spread(share, '.0f')} % ({n / middle(runs, 'whole'):,.0f} rows/s beside "
            f"{n / middle(runs, 'alone'):,.0f}); processor time {spread(cpu, '.2f')} x that of the arithmetic |"
        )
        if suffix == ".parquet" and cores > 1:
            peak = max(run["peak"] for run in runs)
            yield f"| peak memory of the same process, of which {in_memory_mib():.0f} MiB are the rows for the arithmetic | < 600 MB | {peak:.0f} MB |"


def workers(folder: Path, options: argparse.Namespace) -> Iterator[str]:
    """One worker on one core, two workers on two, and one worker on two."""
    source = table(folder, options.main)
    variants = {"one": (1, 1), "two": (2, 2), "wide": (1, 2)}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in variants}
    for _ in range(options.runs):
        for name, (count, cores) in variants.items():
            what = f"shards:{source}:{folder}/shards:{count}:{options.shard_rows}"
            found[name].append(child(what, cores=cores))
    gain = [a["seconds"] / b["seconds"] for a, b in zip(found["one"], found["two"], strict=True)]
    wide = [a["seconds"] / b["seconds"] for a, b in zip(found["one"], found["wide"], strict=True)]
    yield (
        f"| {options.main:,} rows in shards of {options.shard_rows:,}: two workers on two cores / one worker on one | >= 1.8 | "
        f"{spread(gain, '.2f')} ({options.main / middle(found['two'], 'seconds'):,.0f} rows/s, processes and all) |"
    )
    yield f"| the same: one worker on two cores, which reads and writes beside the arithmetic / one on one | - | {spread(wide, '.2f')} |"
    peaks = {name: max(run["peak"] for run in runs) for name, runs in found.items()}
    inner = max(run["children_peak"] for run in found["two"])
    yield (
        f"| peak memory: one worker / one on two cores / each of two | < 600 MB | {peaks['one']:.0f} / {peaks['wide']:.0f} / "
        f"{inner:.0f} MB |"
    )


def growth(folder: Path, options: argparse.Namespace) -> Iterator[str]:
    """Time and memory per row as the table grows."""
    sizes = sorted(int(size) for size in options.rows.split(","))
    found: dict[int, list[dict[str, float]]] = {size: [] for size in sizes}
    sources = {size: table(folder, size) for size in sizes}
    for turn in range(options.runs):
        for size in sizes:
            if turn and size > 2 * options.main:
                continue  # once is enough of the largest
            what = f"shards:{sources[size]}:{folder}/grown:1:{options.shard_rows}"
            found[size].append(child(what, cores=processors()))
    cost = {size: 1e6 * middle(runs, "seconds") / size for size, runs in found.items()}
    peak = {size: max(run["peak"] for run in runs) for size, runs in found.items()}
    told = ", ".join(f"{size:,}: {cost[size]:.1f} us, {peak[size]:.0f} MB" for size in sizes)
    yield (
        f"| time per row and peak memory by rows, one worker on {processors()} cores | flat | {told}; largest / smallest "
        f"{cost[sizes[-1]] / cost[sizes[0]]:.2f} |"
    )


def peers(_folder: Path, options: argparse.Namespace) -> Iterator[str]:
    """The same projection of the same rows by other libraries."""
    answer = child(f"peers:{options.runs}", cores=1)
    ours = answer.pop("ours")
    yield f"| apply, {IN_MEMORY:,} x {DIM} float32 in memory, scaled to unit length | - | {IN_MEMORY / statistics.median(ours):,.0f} rows/s |"
    for name, times in answer.items():
        ratios = [theirs / mine for theirs, mine in zip(times, ours, strict=True)]
        yield f"| rows/s of apply / {name} | - | {spread(ratios, '.2f')} |"


# --- helpers


def child(what: str, *, cores: int) -> Any:
    """Run a part of this file in a fresh process on some of the cores and return what it says."""
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        ["taskset", "-c", ",".join(map(str, allowed)), sys.executable, __file__, "--child", what],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | threads,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def table(folder: Path, rows: int, suffix: str = ".parquet") -> Path:
    """Make a table of unit rows as a stream, once."""
    path = folder / f"{suffix[1:]}-{rows}{suffix}"
    if not path.exists():
        rng = np.random.default_rng(0)
        with open_writer(path, meta=TableMeta(), dim=DIM, dtype="float16") as writer:
            while writer.rows < rows:
                block = rng.standard_normal((min(8192, rows - writer.rows), DIM), dtype=np.float32)
                writer.write(block / np.linalg.norm(block, axis=1, keepdims=True))
    return path


def projector() -> Projector:
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((DIM, RANK)))[0]
    return Projector.of(basis, method="isp", choice=RankChoice(rule="given"))


def middle(runs: list[dict[str, float]], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def spread(values: list[float], form: str) -> str:
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def plural(count: int, what: str) -> str:
    return what if count == 1 else what + "s"


def in_memory_mib() -> float:
    return IN_MEMORY * DIM * 2 / 2**20


def peak() -> float:
    """Peak memory of this process in MB; unlike ru_maxrss it does not begin with that of the parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024 / 1e6


@contextmanager
def timed(into: dict[str, float], name: str) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    into[name] = time.perf_counter() - wall
    into[name + "_cpu"] = time.process_time() - cpu


# --- what is measured, in a child


def whole_child(source: str, output: str, rows: str) -> dict[str, float]:
    """Time the arithmetic on rows in memory before and after the whole; their mean is what the whole is compared with."""
    opened, made = open_table(source, identity=None), projector()
    held = [batch.vectors.copy() for batch in opened.batches(BLOCK, stop=min(IN_MEMORY, opened.rows))]
    count = sum(map(len, held))
    found: dict[str, float] = {}

    def alone(name: str) -> None:
        passes = max(1, min(int(rows), 4 * IN_MEMORY) // count)
        with timed(found, name):
            for _ in range(passes):
                for block in held:
                    made.apply(block)
        for key in (name, name + "_cpu"):
            found[key] *= int(rows) / (passes * count)

    alone("warm")
    alone("before")
    with timed(found, "whole"):
        apply_table(made, opened, output)
    alone("after")
    for key in ("", "_cpu"):
        found["alone" + key] = (found["before" + key] + found["after" + key]) / 2
    for left in Path(output).parent.glob(f"{Path(output).stem}.*"):
        left.unlink()
    return found | {"peak": peak()}


def shards_child(source: str, output: str, count: str, shard_rows: str) -> dict[str, float]:
    opened, made = open_table(source, identity=None), projector()
    found: dict[str, float] = {}
    with timed(found, "seconds"):
        apply_sharded(made, opened, output, workers=int(count), shard_rows=int(shard_rows))
    shutil.rmtree(output)
    # With the parent it was forked from, so that it errs on the high side.
    inner = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
    return found | {"peak": peak(), "children_peak": inner}


def peers_child(runs: str) -> dict[str, list[float]]:
    """Check that all give the same rows, then time them in turn."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((IN_MEMORY, DIM), dtype=np.float32)
    made = projector()
    U = made.basis.astype(np.float32)
    P = (np.eye(DIM) - made.basis @ made.basis.T).astype(np.float32)
    variants: dict[str, Callable[[], Any]] = {"ours": lambda: made.apply(X).vectors}

    def numpy_full() -> np.ndarray:
        Y = X @ P
        return Y / np.linalg.norm(Y, axis=1, keepdims=True)

    variants["numpy, `X @ P` and `Y / norm`"] = numpy_full
    variants |= faiss_variant(X, P) | torch_variants(X, P, U)
    expected = variants["ours"]()
    for name, variant in variants.items():
        off = float(np.abs(np.asarray(variant()) - expected).max())
        if off > 1e-5:
            raise SystemExit(f"{name} gives other rows (off by {off:.1e})")
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(int(runs)):
        for name, variant in variants.items():
            start = time.perf_counter()
            variant()
            times[name].append(time.perf_counter() - start)
    return times


def faiss_variant(X: np.ndarray, P: np.ndarray) -> dict[str, Callable[[], Any]]:
    try:
        import faiss
    except ImportError:
        return {}
    faiss.omp_set_num_threads(1)
    linear = faiss.LinearTransform(DIM, DIM, False)
    faiss.copy_array_to_vector(np.ascontiguousarray(P.T).ravel(), linear.A)
    linear.is_trained = True
    chain = faiss.NormalizationTransform(DIM, 2.0)
    return {
        f"faiss {faiss.__version__}, `LinearTransform` and `NormalizationTransform`": lambda: chain.apply(
            linear.apply(X)
        )
    }


def torch_variants(X: np.ndarray, P: np.ndarray, U: np.ndarray) -> dict[str, Callable[[], Any]]:
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    x, p = torch.from_numpy(X), torch.from_numpy(P)
    normal = torch.nn.functional.normalize
    found: dict[str, Callable[[], Any]] = {f"torch {torch.__version__}, `normalize(x @ P)`": lambda: normal(x @ p)}
    try:
        from concept_erasure import LeaceEraser
    except ImportError:
        return found
    u = torch.from_numpy(U)
    eraser = LeaceEraser(u, u.T.contiguous(), None)
    found["concept-erasure, `normalize(LeaceEraser(x))` of the same projection"] = lambda: normal(eraser(x))
    return found


CHILDREN: dict[str, Callable[..., Any]] = {"whole": whole_child, "shards": shards_child, "peers": peers_child}

if __name__ == "__main__":
    raise SystemExit(main())
