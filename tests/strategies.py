"""Tables of embeddings whose truth is known, as generators and as hypothesis strategies.

`exact_rows` makes vectors whose dot products are exact in float32 in any order of summation, so that a blocked scan
can be compared with brute force bit by bit. `planted` makes people whose identity lives in a known subspace.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from scipy import linalg

from faceblind.data.meta import Fingerprint


def exact_rows(rng: np.random.Generator, n: int, dim: int, *, peak: int = 3) -> np.ndarray:
    """(n, dim) float32 rows of whole numbers up to `peak` over a power of two; no longer than 1."""
    scale = 2.0 ** np.ceil(np.log2(peak * np.sqrt(dim)))
    return (rng.integers(-peak, peak + 1, size=(n, dim)) / scale).astype(np.float32)


def unit_gauss(rng: np.random.Generator, n: int, dim: int) -> np.ndarray:
    """(n, dim) float32 directions, uniform on the sphere."""
    rows = rng.standard_normal((n, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def orthonormal(rng: np.random.Generator, dim: int, rank: int) -> np.ndarray:
    """(dim, rank) random orthonormal columns."""
    return linalg.qr(rng.standard_normal((dim, rank)), mode="economic")[0]


def labels_of(counts: list[int], arrangement: str = "sorted", rng: np.random.Generator | None = None) -> np.ndarray:
    """Names for images per identity: sorted, interleaved (a b c a b a ...) or shuffled."""
    names = np.array([f"p{i:03d}" for i in range(len(counts))])
    if arrangement == "interleaved":
        return np.array([names[i] for turn in range(max(counts)) for i, c in enumerate(counts) if turn < c])
    labels = np.repeat(names, counts)
    return labels if arrangement == "sorted" else (rng or np.random.default_rng(0)).permutation(labels)


@st.composite
def layouts(draw: st.DrawFn, *, max_people: int = 7, max_images: int = 6) -> np.ndarray:
    """Labels of at least two identities, one of which has two images; often a huge one and single images."""
    counts = draw(st.lists(st.integers(1, max_images), min_size=2, max_size=max_people))
    counts[0] = draw(st.sampled_from([2, 3, 5 * max_images]))
    counts = draw(st.permutations(counts))
    seed = draw(st.integers(0, 2**16))
    return labels_of(counts, draw(st.sampled_from(["sorted", "interleaved", "shuffled"])), np.random.default_rng(seed))


@st.composite
def exact_tables(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """(vectors, labels) with exact dot products: few or many ties, duplicates and zero rows."""
    labels = draw(layouts())
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    vectors = exact_rows(rng, labels.size, draw(st.sampled_from([2, 5, 16])), peak=draw(st.sampled_from([1, 3, 60])))
    for _ in range(draw(st.integers(0, 4))):  # duplicated and zeroed rows
        i, j = rng.integers(0, labels.size, 2)
        vectors[i] = 0 if draw(st.booleans()) else vectors[j]
    return vectors, labels


@dataclass(frozen=True)
class Planted:
    """People whose identity lives in the span of `subspace` (d, p) and nowhere else."""

    vectors: np.ndarray
    identity: np.ndarray
    subspace: np.ndarray


def planted(
    seed: int,
    *,
    people: int,
    images: int = 6,
    dim: int = 32,
    rank: int = 4,
    strength: float = 1.0,
    noise: float = 0.15,
    subspace: np.ndarray | None = None,
    prefix: str = "p",
) -> Planted:
    """Draw vectors ``strength U a_i + noise e``: a_i (p,) per person, e (d,) per image. Other seeds are other people."""
    rng = np.random.default_rng([seed, 77])
    basis = orthonormal(np.random.default_rng(5), dim, rank) if subspace is None else subspace
    who = np.repeat(np.arange(people), images)
    traits = rng.standard_normal((people, rank))
    vectors = strength * traits[who] @ basis.T + noise * rng.standard_normal((who.size, dim))
    identity = np.array([f"{prefix}{i:04d}" for i in who])
    order = rng.permutation(who.size)
    return Planted(vectors[order].astype(np.float32), identity[order], basis)


def fingerprint(**changes: object) -> Fingerprint:
    """An encoder fingerprint, with some fields changed."""
    fields: dict[str, object] = {
        "encoder": "test",
        "weights_sha256": "ab" * 32,
        "dim": 12,
        "pooling": "cls",
        "preprocessing": "{}",
        "precision": "float32",
        "libraries": {"numpy": "2"},
    }
    return Fingerprint(**(fields | changes))  # type: ignore[arg-type]
