"""Tables for the hygiene tests: people whose images agree with each other as much as is asked for."""

from __future__ import annotations

import numpy as np

from faceblind.data.embeddings import EmbeddingSet, unit_rows
from faceblind.data.findings import Finding
from strategies import unit_gauss

CANNOT_TELL = {"labels_hard_to_check", "labels_not_checked"}
"""Notes of tables that are small or carry no identity."""


def table(vectors: np.ndarray, identity: np.ndarray) -> EmbeddingSet:
    return EmbeddingSet.of(vectors, identity, sample=[f"s{i}" for i in range(len(identity))])


def noise(people: int = 12, images: int = 4, dim: int = 24, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Vectors without any identity."""
    return unit_gauss(np.random.default_rng(seed), people * images, dim), names(people, images)


def faces(
    seed: int = 0, *, people: int = 60, images: int = 6, dim: int = 96, within: float = 0.6
) -> tuple[np.ndarray, np.ndarray]:
    """Vectors, one person after the other; two images of a person have a cosine around `within`, of two people around 0."""
    rng = np.random.default_rng([seed, 0xFACE])
    means = unit_gauss(rng, people, dim)
    own = unit_gauss(rng, people * images, dim)
    vectors = np.sqrt(within) * np.repeat(means, images, axis=0) + np.sqrt(1 - within) * own
    return unit_rows(vectors), names(people, images)


def names(people: int, images: int) -> np.ndarray:
    return np.repeat([f"p{i:03d}" for i in range(people)], images)


def kinds(findings: tuple[Finding, ...], *, without: set[str] = frozenset()) -> dict[str, Finding]:
    """Findings by kind, each of which comes once at most."""
    assert len({f.kind for f in findings}) == len(findings)
    for f in findings:
        assert f.count > 0
        assert f.message
        assert len(f.examples) <= 5
    return {f.kind: f for f in findings if f.kind not in without}


def at_cosine(vector: np.ndarray, cosine: float, rng: np.random.Generator) -> np.ndarray:
    other = rng.standard_normal(vector.size)
    other -= (other @ vector) * vector
    return cosine * vector + np.sqrt(1 - cosine**2) * other / np.linalg.norm(other)
