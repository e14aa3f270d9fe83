"""One pass over all pairs that makes a `ScoreTail`: images with images, or queries with templates.

Scores are made block by block. A running bound drops those that cannot be among the highest as they are made, so memory is
proportional to ``far_max`` times the number of pairs, and what is kept is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.measure.blocks import BLOCK, Block, cross_blocks, score_blocks
from faceblind.measure.survivors import Survivors
from faceblind.measure.tail import HISTOGRAM_BINS, SUPPORTED, ScoreTail, subject_bins

_MASKED = np.float32(-3.0)  # below any cosine: mated and mirrored pairs in a block of non-mated scores
_SAMPLE = 1024
_SMALL_SAMPLE = 320
_AMPLE = 1_000_000


def score_tail(
    vectors: NDArray[np.float32],
    identity: NDArray[Any],
    *,
    far_max: float = 1e-2,
    counts_at: Sequence[float] = (),
    slack: float | None = None,
    histogram: bool = False,
    block: int = BLOCK,
) -> ScoreTail:
    """Score all pairs of rows by cosine.

    Parameters
    ----------
    vectors : (n, d) float32
        Unit rows (zero rows score 0 with everything).
    identity : (n,) labels
    far_max : float
        Largest FAR at which thresholds will be asked for. At least 31 scores are kept whatever it is.
    counts_at : thresholds
        Thresholds (float32 values) at which accepted non-mated pairs are counted exactly, however low they are.
    slack : float
        Keep this many times the scores `far_max` needs, so that bootstrap draws find their thresholds too: a draw
        without the few people who fill the top looks far down. When missing, 8, falling to 2 where that is much.
    histogram : bool
        Also histogram all non-mated scores (for the DET curve and the EER).

    Returns
    -------
    ScoreTail

    Raises
    ------
    DataError
        Fewer than two identities, no identity with two images, a row with NaN or infinity (named), or a number of
        labels that is not the number of rows.
    """
    rows, codes, _ = _grouped(vectors, identity, "row")
    images = np.bincount(codes).astype(np.int64)
    if images.size < 2:
        raise DataError(f"verification needs at least two identities, got {images.size}")
    if images.max() < 2:
        raise DataError("verification needs at least one identity with two images; every identity has one")
    return _Scan(rows, None, codes, images, None, far_max, counts_at, slack, histogram=histogram).tail(block)


def template_tail(
    queries: NDArray[np.float32],
    query_identity: NDArray[Any],
    templates: NDArray[np.float32],
    template_identity: NDArray[Any],
    *,
    far_max: float = 1e-2,
    counts_at: Sequence[float] = (),
    slack: float | None = None,
    histogram: bool = False,
    block: int = BLOCK,
) -> ScoreTail:
    """Score every query with every template by cosine.

    A template stands for a person, for instance the mean of k of its images; the queries are its other images. Mated
    pairs are (query, template) of one person, non-mated pairs those of two.

    Parameters
    ----------
    queries : (n, d) float32
        Unit rows (zero rows score 0 with everything).
    query_identity : (n,) labels
    templates : (m, d) float32
        Unit rows: a mean of unit vectors must be brought to length 1 again. One or more per person.
    template_identity : (m,) labels
        Every query's identity is among them. Templates of people without queries are impostors only.
    far_max, counts_at, slack, histogram
        As in `score_tail`.

    Returns
    -------
    ScoreTail
        With `templates` per subject. Subjects are all people with a template.

    Raises
    ------
    DataError
        No query, fewer than two people with templates, a query whose identity has no template (named), rows of
        different length, a row with NaN or infinity (named), or numbers of labels that are not those of rows.
    """
    rows, query_codes, query_names = _grouped(queries, query_identity, "query")
    others, template_codes, names = _grouped(templates, template_identity, "template")
    if queries.shape[0] == 0:
        raise DataError("verification needs at least one query, got none: leave an image a person out of its template")
    if names.size < 2:
        raise DataError(f"verification needs templates of at least two identities, got {names.size}")
    if queries.shape[1] != templates.shape[1]:
        raise DataError(f"queries have {queries.shape[1]} columns and templates {templates.shape[1]}; they must agree")
    place = np.minimum(np.searchsorted(names, query_names), names.size - 1)
    without = names[place] != query_names
    if without.any():
        raise DataError(
            f"{int(without.sum())} of {query_names.size} query identities have no template, the first is "
            f"{str(query_names[np.argmax(without)])!r}: build one from images that are not queries, or drop its queries"
        )
    query_codes = place[query_codes].astype(np.int32)
    images = np.bincount(query_codes, minlength=names.size).astype(np.int64)
    count = np.bincount(template_codes).astype(np.int64)
    codes = np.concatenate([query_codes, template_codes])
    return _Scan(rows, others, codes, images, count, far_max, counts_at, slack, histogram=histogram).tail(block)


def _grouped(
    vectors: NDArray[np.float32], identity: NDArray[Any], what: str
) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[Any]]:
    """Return rows grouped by identity, their codes in ascending order, and the sorted identities."""
    if np.shape(identity) != vectors.shape[:1]:
        raise DataError(f"every {what} needs one identity, got {vectors.shape[0]} rows and shape {np.shape(identity)}")
    finite = np.isfinite(np.einsum("ij->i", vectors, dtype=np.float64))
    if not finite.all():  # a comparison with NaN is never an accept: the leak would look smaller
        raise DataError(f"{what} {int(np.argmin(finite))} holds NaN or infinity and cannot be scored")
    names, codes = np.unique(np.asarray(identity), return_inverse=True)
    order = np.argsort(codes, kind="stable")
    return np.ascontiguousarray(vectors[order], dtype=np.float32), codes[order].astype(np.int32), names


class _Scan:
    """Mutable state of one pass. `others` is None when the rows meet each other, else what they meet."""

    def __init__(
        self,
        rows: NDArray[np.float32],
        others: NDArray[np.float32] | None,
        codes: NDArray[np.int32],
        images: NDArray[np.int64],
        templates: NDArray[np.int64] | None,
        far_max: float,
        counts_at: Sequence[float],
        slack: float | None,
        *,
        histogram: bool,
    ) -> None:
        self.rows, self.others, self.codes = rows, others, codes
        self.images, self.templates = images, templates
        self.n = int(rows.shape[0])
        if templates is None:
            self.nonmated = self.n * (self.n - 1) // 2 - int((images * (images - 1) // 2).sum())
        else:
            self.nonmated = int(images.sum() * templates.sum() - images @ templates)
        deepest = max(int(far_max * self.nonmated), SUPPORTED) + 1
        if slack is None:
            slack = float(np.clip(_AMPLE / deepest, 2, 8))
        self.need = min(self.nonmated, int(slack * deepest) + 64)
        self.thresholds = [float(np.float32(t)) for t in counts_at]
        self.wants_histogram = histogram
        self.reset()

    def tail(self, block: int) -> ScoreTail:
        top = self.run(block, self.starting_bound())
        if top.kept < self.need:  # the sampled starting bound was too high: rare, and exactness is not negotiable
            self.reset()
            top = self.run(block, np.float32(-2.0))
        return self.result(top)

    def reset(self) -> None:
        self.mated_scores: list[NDArray[np.float32]] = []
        self.mated_codes: list[NDArray[np.int32]] = []
        self.counts = np.zeros((len(self.thresholds), 2), dtype=np.int64)
        m = self.images.size
        self.histogram = np.zeros(HISTOGRAM_BINS, dtype=np.int64) if self.wants_histogram else None
        self.by_subject = np.zeros((m, subject_bins(m)), dtype=np.int64) if self.wants_histogram else None

    def blocks(self, block: int) -> Iterator[Block]:
        if self.others is None:
            return score_blocks(self.rows, block=block)
        return cross_blocks(self.rows, self.others, block=block)

    def starting_bound(self) -> np.float32:
        """Guess a bound from the pairs of evenly spaced rows, low enough to be safe most of the time."""
        rows = _spaced(self.n)
        codes = self.codes[rows]
        if self.others is None:
            scores = (self.rows[rows] @ self.rows[rows].T)[codes[:, None] < codes[None, :]]  # sorted: the upper half
        else:
            columns = _spaced(self.others.shape[0])
            apart = codes[:, None] != self.codes[self.n + columns][None, :]
            scores = (self.rows[rows] @ self.others[columns].T)[apart]
        share = 1.25 * self.need / max(self.nonmated, 1)
        rank = int(share * scores.size) + 16
        if rank >= scores.size:
            return np.float32(-2.0)
        return np.float32(np.partition(scores, scores.size - rank)[scores.size - rank])

    def run(self, block: int, bound: np.float32) -> Survivors:
        top = Survivors(self.need, bound)
        if self.others is None:
            self.lower = np.tri(min(block, self.n), dtype=np.bool_)
        for part in self.blocks(block):
            self._take_mated(part)
            self._count(part)
            top.offer(part)
        return top

    def result(self, top: Survivors) -> ScoreTail:
        values, places = top.finish()
        return ScoreTail(
            mated=np.concatenate(self.mated_scores),
            mated_subject=np.concatenate(self.mated_codes),
            top=values,
            places=places,
            subject_of_row=self.codes,
            nonmated=self.nonmated,
            images=self.images,
            at={t: (int(c[0]), int(c[1])) for t, c in zip(self.thresholds, self.counts, strict=True)},
            histogram=self.histogram,
            subject_histogram=self.by_subject,
            templates=self.templates,
        )

    def _take_mated(self, part: Block) -> None:
        """Take the mated scores out of a block and mask them, and the mirrored half of a diagonal block.

        Rows are grouped by subject, so mated pairs are small rectangles: on the diagonal where images meet images, and
        the one of a subject that straddles two blocks.
        """
        left, right = self.codes[part.i0 : part.i1], self.codes[part.j0 : part.j1]
        for code in range(max(int(left[0]), int(right[0])), min(int(left[-1]), int(right[-1])) + 1):
            rows = slice(*np.searchsorted(left, [code, code + 1]))
            columns = slice(*np.searchsorted(right, [code, code + 1]))
            pairs = part.scores[rows, columns]
            scores = pairs[_upper(pairs.shape[0])] if part.diagonal else pairs.reshape(-1).copy()
            self.mated_scores.append(scores)
            self.mated_codes.append(np.full(scores.size, code, dtype=np.int32))
            pairs[...] = _MASKED
        if part.diagonal:
            size = part.i1 - part.i0
            np.copyto(part.scores, _MASKED, where=self.lower[:size, :size])

    def _count(self, part: Block) -> None:
        for count, threshold in zip(self.counts, self.thresholds, strict=True):
            t = np.float32(threshold)
            count[0] += np.count_nonzero(part.scores >= t)
            count[1] += np.count_nonzero(part.scores == np.nextafter(t, np.float32(-np.inf)))
        if self.histogram is None or self.by_subject is None:
            return
        valid = part.scores > _MASKED
        rows, columns = np.nonzero(valid)
        scores = np.clip(part.scores[rows, columns], -1.0, 1.0)
        # In float64 the sum is exact: a score just under an edge stays under it.
        place = (scores.astype(np.float64) + 1.0) * (HISTOGRAM_BINS / 2)
        fine = np.minimum(place.astype(np.int64), HISTOGRAM_BINS - 1)
        self.histogram += np.bincount(fine, minlength=HISTOGRAM_BINS)
        bins = self.by_subject.shape[1]
        coarse = fine // (HISTOGRAM_BINS // bins)
        for codes in (self.codes[rows + part.i0], self.codes[columns + part.j0]):
            flat = np.bincount(codes * np.int64(bins) + coarse, minlength=self.by_subject.size)
            self.by_subject += flat.reshape(self.by_subject.shape)


def _spaced(n: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, n - 1, min(n, _SAMPLE if n > 4 * _SAMPLE else _SMALL_SAMPLE)).astype(np.int64))


@lru_cache(maxsize=64)
def _upper(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices above the diagonal of a square; people tend to have the same few numbers of images."""
    rows, columns = np.triu_indices(size, 1)
    return rows, columns
