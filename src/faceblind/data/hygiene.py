"""Hygiene: what is wrong with the data, said before any number is printed.

One duplicated photograph under two names is a non-mated pair with cosine 1: under a correct threshold rule it pushes
the threshold above every mated score and the audit would report that nothing leaks. Such findings are errors.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.findings import Finding, worst_first
from faceblind.data.split import IdentitySplit
from faceblind.measure import pairs_above

EXACT = 1 - 1e-6
NEAR = 0.98
ALL_PAIRS_UP_TO = 50_000
_SHOWN = 5


def check_hygiene(
    embeddings: EmbeddingSet, *, split: IdentitySplit | None = None, near: float = NEAR
) -> tuple[Finding, ...]:
    """Look for duplicates across identities, single-image identities and identities shared between splits.

    Parameters
    ----------
    near : float
        Cosine from which two images of different identities are called near duplicates.

    Notes
    -----
    All pairs are compared in blocks up to 50,000 rows; beyond that near duplicates are looked for among the rows of
    validation and test (which decide thresholds and rates), exact ones everywhere by hashing.
    """
    identity = embeddings.require_identity()
    findings = [
        *_duplicates(embeddings, identity, split, near),
        *_single_images(identity),
    ]
    if split is not None:
        shared = split.shared_identities(identity)
        findings += [shared] if shared else []
    return tuple(worst_first(findings))


def _duplicates(
    embeddings: EmbeddingSet, identity: NDArray[np.str_], split: IdentitySplit | None, near: float
) -> list[Finding]:
    rows = np.arange(len(embeddings))
    hashed: list[tuple[int, int]] = []
    findings: list[Finding] = []
    if len(embeddings) > ALL_PAIRS_UP_TO:
        hashed = _identical_rows(embeddings.vectors, identity)
        used = np.isin(split.part, ["validation", "test"]) if split is not None else np.ones(len(embeddings), bool)
        rows = np.flatnonzero(used)[:ALL_PAIRS_UP_TO]
        findings.append(
            Finding(
                kind="near_duplicates_partly_checked",
                severity="note",
                count=len(embeddings) - int(rows.size),
                message=f"the table has more than {ALL_PAIRS_UP_TO:,} rows: near duplicates were looked for among {rows.size:,} "
                "rows of validation and test, identical vectors everywhere",
            )
        )
    compared, labels = embeddings.take(rows).unit(), identity[rows]
    pairs, scores, count = pairs_above(compared, min(near, EXACT), labels=labels)
    close = {(int(rows[i]), int(rows[j])): float(s) for (i, j), s in zip(pairs, scores, strict=True) if s < EXACT}
    if count > len(pairs):  # too many near ones to keep: the exact ones must not be lost among them
        pairs, scores, _ = pairs_above(compared, EXACT, labels=labels)
    exact = {(int(rows[i]), int(rows[j])): float(s) for (i, j), s in zip(pairs, scores, strict=True) if s >= EXACT}
    close_count = count - len(exact)
    exact |= {pair: 1.0 for pair in hashed if pair not in exact}
    if exact:
        findings.append(
            Finding(
                kind="duplicate_across_identities",
                severity="error",
                count=len(exact),
                examples=_name_pairs(embeddings, identity, exact),
                message="the same vector carries two identities: one such non-mated pair can hide the whole leak at a low FAR; "
                "correct the label or drop one of the two",
            )
        )
    if close:
        findings.append(
            Finding(
                kind="near_duplicate_across_identities",
                severity="warning",
                count=close_count,
                examples=_name_pairs(embeddings, identity, close),
                message=f"images of two identities have cosine {near:g} or more: probably one photograph under two names; "
                "they raise thresholds and make the leak look smaller",
            )
        )
    return findings


def _single_images(identity: NDArray[np.str_]) -> list[Finding]:
    names, counts = np.unique(identity, return_counts=True)
    single = names[counts == 1]
    if not single.size:
        return []
    return [
        Finding(
            kind="single_image_identities",
            severity="warning",
            count=int(single.size),
            examples=tuple(single[:_SHOWN].tolist()),
            message=f"{single.size} of {names.size} identities have a single image: no mated pair, and a mean that is "
            "image noise; they are left out of the splits",
        )
    ]


def _identical_rows(vectors: NDArray[np.float32], identity: NDArray[np.str_]) -> list[tuple[int, int]]:
    seen: dict[bytes, int] = {}
    found = []
    for row, vector in enumerate(vectors):
        first = seen.setdefault(hashlib.blake2b(vector.tobytes(), digest_size=16).digest(), row)
        if first != row and identity[first] != identity[row]:
            found.append((first, row))
    return found


def _name_pairs(
    embeddings: EmbeddingSet, identity: NDArray[np.str_], pairs: dict[tuple[int, int], float]
) -> tuple[str, ...]:
    best = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN]
    return tuple(
        f"{embeddings.sample[i]} ({identity[i]}) = {embeddings.sample[j]} ({identity[j]}), cosine {score:.4f}"
        for (i, j), score in best
    )
