"""What a failed encoder leaves behind: constant vectors, one vector for many images, a table that hardly varies, mixed lengths."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.findings import Finding

SHOWN = 5
_CROWD = 10
_CROWD_NAMES = 3
_UNIT = 1e-3
_FEW = 0.01
_SPREAD = 10.0
_ROWS = 65_536


def vector_findings(
    embeddings: EmbeddingSet, unit: NDArray[np.float32], groups: NDArray[np.intp], near: float
) -> list[Finding]:
    """Look at the vectors alone.

    Parameters
    ----------
    unit : (n, d) float32, unit rows
    groups : (n,)
        Number of the group of bit-identical vectors that each row belongs to, see `identical_groups`.
    """
    found = [_constant(embeddings), _crowds(embeddings, groups), _collapsed(unit, near), _lengths(embeddings)]
    return [finding for finding in found if finding is not None]


def identical_groups(vectors: NDArray[np.float32]) -> NDArray[np.intp]:
    """Give bit-identical rows one number, by their hashes; returns (n,)."""
    # + 0.0 turns -0.0 into 0.0; equal hashes of different rows are a chance of n^2 / 2^129
    plain = np.ascontiguousarray(vectors)
    hashed = np.array([_digest(row + np.float32(0)) for row in plain], dtype="S16")
    return np.asarray(np.unique(hashed, return_inverse=True)[1])


def mean_cosine(unit: NDArray[np.float32]) -> float:
    """Mean cosine of two different rows, exactly, from their sum."""
    n = len(unit)
    total = unit.sum(axis=0, dtype=np.float64)
    return float((total @ total - n) / (n * (n - 1))) if n > 1 else 0.0


def _digest(row: NDArray[np.float32]) -> bytes:
    # a trailing zero byte would be dropped by numpy's fixed-width bytes: set its last bit
    digest = hashlib.blake2b(row.tobytes(), digest_size=16).digest()
    return digest[:-1] + bytes([digest[-1] | 1])


def _constant(embeddings: EmbeddingSet) -> Finding | None:
    vectors = embeddings.vectors
    if embeddings.dim < 3:
        return None
    rows = np.flatnonzero(np.ptp(vectors, axis=1) <= 1e-6 * np.abs(vectors).max(axis=1))
    if not rows.size:
        return None
    return Finding(
        kind="constant_vectors",
        severity="error",
        count=int(rows.size),
        examples=tuple(str(embeddings.sample[row]) for row in rows[:SHOWN]),
        message="vectors repeat one number in every place: the encoder failed on these images; embed them again or drop the rows",
    )


def _crowds(embeddings: EmbeddingSet, groups: NDArray[np.intp]) -> Finding | None:
    """Find one vector carried by ten rows or more of three identities or more."""
    identity = embeddings.require_identity()
    sizes = np.bincount(groups)
    crowds = []
    for group in np.flatnonzero(sizes >= _CROWD):
        rows = np.flatnonzero(groups == group)
        people = np.unique(identity[rows]).size
        if people >= _CROWD_NAMES:
            crowds.append((rows, people))
    if not crowds:
        return None
    crowds.sort(key=lambda item: (-item[0].size, item[0][0]))
    return Finding(
        kind="one_vector_for_many_images",
        severity="error",
        count=int(sum(rows.size for rows, _ in crowds)),
        examples=tuple(
            f"{embeddings.sample[rows[0]]}, {embeddings.sample[rows[1]]} and {rows.size - 2:,} more of {people:,} identities"
            for rows, people in crowds[:SHOWN]
        ),
        message="many images of different people share one vector: an encoder that failed, or a placeholder picture; "
        "embed these images again or drop the rows",
    )


def _collapsed(unit: NDArray[np.float32], near: float) -> Finding | None:
    mean = mean_cosine(unit)
    if mean < near or len(unit) < _CROWD:
        return None
    return Finding(
        kind="vectors_all_alike",
        severity="error",
        count=len(unit),
        message=f"two images have cosine {mean:.4f} on average, whoever is on them: the encoder failed, or a constant hides what it "
        "saw; duplicates and labels were not checked",
    )


def _lengths(embeddings: EmbeddingSet) -> Finding | None:
    vectors = embeddings.vectors
    norm = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    is_unit = np.abs(norm - 1) < _UNIT
    share = float(is_unit.mean())
    if _FEW <= share <= 1 - _FEW and is_unit.sum() >= _CROWD and (~is_unit).sum() >= _CROWD:
        odd = np.flatnonzero(is_unit != (share > 0.5))[:SHOWN]
        return Finding(
            kind="lengths_mixed",
            severity="warning",
            count=int(min(is_unit.sum(), (~is_unit).sum())),
            examples=tuple(f"{embeddings.sample[row]}: length {norm[row]:.4g}" for row in odd),
            message=f"{100 * share:.0f} % of the vectors have length 1 and the others do not: rows of two encoders, or only some normalised; "
            "make the table in one way",
        )
    typical = float(np.median(norm))
    far = np.flatnonzero((norm > _SPREAD * typical) | (norm * _SPREAD < typical))
    if not far.size:
        return None
    far = far[np.argsort(-np.abs(np.log(norm[far] / typical)), kind="stable")]
    return Finding(
        kind="lengths_far_apart",
        severity="note",
        count=int(far.size),
        examples=tuple(f"{embeddings.sample[row]}: length {norm[row]:.4g}" for row in far[:SHOWN]),
        message=f"vectors are ten times longer or shorter than is typical here ({typical:.4g}): cosines do not mind, but such rows are "
        "often failed images; look at them",
    )
