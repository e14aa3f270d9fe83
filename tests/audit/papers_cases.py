"""Small folders of planted tables and a quick protocol, shared by the tests of the paper's tables."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

import faceblind as fb
from faceblind.audit.papers import Protocol, Reproduced, reproduce
from faceblind.audit.papers.people import Bench, divide
from faceblind.audit.papers.sources import Source
from strategies import planted

QUICK = {
    "far": 1e-2, "pauc_far": 0.05, "people": (20, 10, 10), "images": 6, "ks": (1, 4), "seeds": 2, "draws": 100, "rank": 6,
    "ranks": (0, 4, 8, 30), "fit_people": (10, 20, 30), "resamplings": 40,
}  # fmt: skip


def quick(**changes: object) -> Protocol:
    return Protocol(**(QUICK | changes))  # type: ignore[arg-type]


def table(seed: int, *, people: int = 44, images: int = 6, dim: int = 24, **more: object) -> fb.EmbeddingSet:
    made = planted(seed, people=people, images=images, dim=dim, rank=6, strength=0.5, noise=0.2, **more)  # type: ignore[arg-type]
    return fb.EmbeddingSet.of(made.vectors, made.identity)


def write(folder: Path, name: str, embeddings: fb.EmbeddingSet) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    fb.write_table(folder / name, embeddings)


def two_sets(folder: Path) -> Path:
    """Two data sets through one encoder."""
    write(folder, "celeba-enc.npz", table(1))
    write(folder, "lfw-enc.npz", table(2))
    return folder


def bench_of(embeddings: fb.EmbeddingSet, protocol: Protocol) -> Bench:
    return divide(embeddings, Source(Path("x.npz"), "x", "enc"), protocol)


@cache
def everything() -> tuple[Reproduced, ...]:
    """All tables but the MLP's, of two data sets, with the printed protocol: made once for all tests that look at files."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return reproduce(two_sets(Path(folder)), ("1", "4", "5", "6"), protocol=quick(as_printed=True))


def brute_tar(scores: np.ndarray, identity: np.ndarray, far: float) -> float:
    """TAR at the smallest threshold that accepts at most far of all different-person pairs, by sorting them."""
    rows, columns = np.triu_indices(identity.size, 1)
    same = identity[rows] == identity[columns]
    values = scores[rows, columns]
    impostors = np.sort(values[~same])[::-1]
    allowed = int(np.floor(far * impostors.size))
    return float((values[same] > impostors[allowed]).mean())
