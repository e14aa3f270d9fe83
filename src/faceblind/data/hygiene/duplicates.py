"""One photograph more than once: under two names, under one name, and in two splits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.findings import Finding
from faceblind.data.hygiene.near import EXACT, NearPairs, Progress, near_pairs
from faceblind.data.split import IdentitySplit
from faceblind.measure.blocks import score_blocks

SHOWN = 5
_TWINS = 8
_SAME_SHARE = 1e-3


def duplicate_findings(
    embeddings: EmbeddingSet,
    unit: NDArray[np.float32],
    groups: NDArray[np.intp],
    *,
    split: IdentitySplit | None,
    near: float,
    progress: Progress | None,
) -> list[Finding]:
    """Look for duplicates across identities, within them, and between splits.

    Parameters
    ----------
    unit : (n, d) float32, unit rows
    groups : (n,)
        Number of the group of bit-identical vectors of each row.
    """
    identity = embeddings.require_identity()
    across = pairs_across(unit, groups, identity, near, progress)
    findings = across_findings(
        embeddings,
        embeddings,
        across,
        near,
        exact=(
            "duplicate_across_identities",
            "the same vector carries two identities, as {}: one such non-mated pair can hide the whole leak at a low FAR; "
            "correct the label or drop one of the two",
        ),
        close=(
            "near_duplicate_across_identities",
            f"images of two identities have cosine {near:g} or more: probably one photograph under two names; "
            "they raise thresholds and make the leak look smaller; look at them, and correct the label or drop one",
        ),
    )
    within = _pairs_within(unit, identity, near)
    findings += _within_findings(embeddings, within, near)
    if split is not None:
        findings += _between_splits(embeddings, split, [across, within.pairs])
    return findings


def pairs_across(
    unit: NDArray[np.float32],
    groups: NDArray[np.intp],
    labels: NDArray[np.str_],
    near: float,
    progress: Progress | None,
) -> NearPairs:
    """Find near pairs of different labels; of a crowd of identical vectors a few stand for all."""
    rows = _few_of_each(groups, labels)
    some = unit if rows.size == len(unit) else unit[rows]
    found = near_pairs(some, min(near, EXACT), labels=labels[rows], progress=progress)
    return NearPairs(rows[found.pairs], found.scores, found.count, found.recall, found.cut or rows.size < groups.size)


def _few_of_each(groups: NDArray[np.intp], labels: NDArray[np.str_]) -> NDArray[np.intp]:
    """Keep eight rows at most of every group of identical vectors, of different labels first."""
    sizes = np.bincount(groups)
    if sizes.max() <= _TWINS:
        return np.arange(groups.size)
    keep = sizes[groups] <= _TWINS
    for group in np.flatnonzero(sizes > _TWINS):
        rows = np.flatnonzero(groups == group)
        first = np.unique(labels[rows], return_index=True)[1]
        order = np.r_[np.sort(first), np.setdiff1d(np.arange(rows.size), first)]
        keep[rows[order[:_TWINS]]] = True
    return np.flatnonzero(keep)


def across_findings(
    first: EmbeddingSet,
    second: EmbeddingSet,
    found: NearPairs,
    near: float,
    *,
    exact: tuple[str, str],
    close: tuple[str, str],
) -> list[Finding]:
    """Make findings of pairs: identical ones are errors, near ones warnings; each is given as (kind, message).

    A message may hold ``{}`` for the first pair.
    With two tables the pairs count rows of the second after those of the first.
    """
    same = found.scores >= EXACT
    remark = _remark(found, near)
    findings = []
    for mask, (kind, message), error in ((same, exact, True), (~same, close, False)):
        if not mask.any():
            continue
        beyond = 0 if error else found.count - found.scores.size
        examples = _examples(first, second, found.pairs[mask], found.scores[mask])
        findings.append(
            Finding(
                kind=kind,
                severity="error" if error else "warning",
                count=int(mask.sum()) + beyond,
                examples=examples,
                message=message.format(examples[0]) + ("" if error else remark),
            )
        )
    return findings


def _remark(found: NearPairs, near: float) -> str:
    text = ""
    if found.cut:
        text += "; crowds of vectors that are nearly alike were counted in part, so there are more"
    if found.recall < 1:
        text += f" (a table of this size is searched by bucketing: a pair at cosine {near:g} is found with a chance of {found.recall:g} or more)"
    return text


def _examples(
    first: EmbeddingSet, second: EmbeddingSet, pairs: NDArray[np.int64], scores: NDArray[np.float32]
) -> tuple[str, ...]:
    offset = 0 if first is second else len(first)
    shown = _by_printed_score(pairs, scores)[:SHOWN]
    return tuple(
        f"{name_row(first, int(i))} = {name_row(second, int(j) - offset)}, cosine {score:.4f}"
        for (i, j), score in zip(pairs[shown], scores[shown], strict=True)
    )


def _by_printed_score(pairs: NDArray[np.int64], scores: NDArray[np.float32]) -> NDArray[np.intp]:
    """Order by the score as it is printed, then by row: rounding of other machines does not change what is shown."""
    return np.lexsort((pairs[:, 1], pairs[:, 0], -np.round(scores.astype(np.float64), 4)))


def name_row(embeddings: EmbeddingSet, row: int) -> str:
    """Name a row by its key and identity."""
    return f"{embeddings.sample[row]} ({embeddings.require_identity()[row]})"


@dataclass(frozen=True, eq=False)
class _Within:
    pairs: NearPairs
    exact: int
    mated: int


def _pairs_within(unit: NDArray[np.float32], identity: NDArray[np.str_], near: float) -> _Within:
    """Find near pairs of one identity, and count the pairs of one identity."""
    codes, counts = np.unique(identity, return_inverse=True, return_counts=True)[1:]
    order, ends = np.argsort(codes, kind="stable"), np.cumsum(counts)
    pairs, scores, count, exact = [np.empty((0, 2), np.int64)], [np.empty(0, np.float32)], 0, 0
    threshold = min(near, EXACT)
    for end, size in zip(ends[counts > 1].tolist(), counts[counts > 1].tolist(), strict=True):
        rows = np.sort(order[end - size : end])
        for part in score_blocks(np.ascontiguousarray(unit[rows])):
            i, j = np.nonzero(part.scores >= threshold)
            upper = i + part.i0 < j + part.j0
            i, j = i[upper], j[upper]
            if not i.size:
                continue
            values = part.scores[i, j]
            count += i.size
            exact += int(np.count_nonzero(values >= EXACT))
            top = np.argsort(-values, kind="stable")[:1000]  # enough for examples of every identity
            pairs.append(np.stack([rows[i[top] + part.i0], rows[j[top] + part.j0]], axis=1))
            scores.append(values[top])
    every, value = np.concatenate(pairs), np.concatenate(scores)
    best = np.lexsort((every[:, 1], every[:, 0], -value))
    mated = int((counts * (counts - 1) // 2).sum())
    return _Within(NearPairs(every[best], value[best], count, 1.0, cut=False), exact, mated)


def _within_findings(embeddings: EmbeddingSet, within: _Within, near: float) -> list[Finding]:
    if not within.pairs.count:
        return []
    share = within.pairs.count / within.mated
    exact = f", {within.exact:,} of them the same vector" if within.exact else ""
    return [
        Finding(
            kind="duplicates_within_identities",
            severity="warning" if share >= _SAME_SHARE else "note",
            count=within.pairs.count,
            examples=_examples(embeddings, embeddings, within.pairs.pairs, within.pairs.scores),
            message=f"{100 * share:.2g} % of the mated pairs have cosine {near:g} or more{exact}: one photograph twice under one name is "
            "accepted at any threshold and says nothing about recognising a person, so TAR is too high by up to that much; "
            "drop one of the two",
        )
    ]


def _between_splits(embeddings: EmbeddingSet, split: IdentitySplit, found: list[NearPairs]) -> list[Finding]:
    pairs = np.concatenate([f.pairs for f in found])
    scores = np.concatenate([f.scores for f in found])
    first, second = split.part[pairs[:, 0]], split.part[pairs[:, 1]]
    mask = (first != second) & (first != "") & (second != "")
    if not mask.any():
        return []
    order = _by_printed_score(pairs[mask], scores[mask])
    pairs, scores = pairs[mask][order], scores[mask][order]
    examples = tuple(
        f"{name_row(embeddings, i)} in {split.part[i]} = {name_row(embeddings, j)} in {split.part[j]}, cosine {score:.4f}"
        for (i, j), score in zip(pairs[:SHOWN].tolist(), scores[:SHOWN].tolist(), strict=True)
    )
    return [
        Finding(
            kind="photograph_in_two_splits",
            severity="error" if scores.max() >= EXACT else "warning",
            count=int(scores.size),
            examples=examples,
            message="one photograph is in two splits: what is measured on one was learned or tuned on the other; drop one of the two",
        )
    ]
