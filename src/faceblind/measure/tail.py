"""`ScoreTail`: all mated scores and the exact top of the non-mated scores, from all pairs, in little memory.

Low false-accept rates live in the far tail of the non-mated scores. Sampling pairs cannot reach it and keeping all
scores needs n x n memory, so the scan keeps a running bound: scores under it are dropped as they are made. What is
kept is exact, and takes memory proportional to ``far_max`` times the number of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.measure.blocks import BLOCK, Block, score_blocks
from faceblind.measure.survivors import PairPlaces, Survivors

SUPPORTED = 30
"""False accepts that must be allowed for an operating point to be called supported (the rule of 30)."""
HISTOGRAM_BINS = 65_536
_SUBJECT_BINS = (256, 4096)  # fewest and most bins of the histogram per subject
_SUBJECT_CELLS = 1 << 22
_MASKED = np.float32(-3.0)  # below any cosine: mated and mirrored pairs in a block of non-mated scores
_SAMPLE = 1024
_SMALL_SAMPLE = 320
_AMPLE = 1_000_000


@dataclass(frozen=True, eq=False)
class ScoreTail:
    """What all metrics read. Subjects are coded 0..m-1 in sorted order of their identity.

    Attributes
    ----------
    mated : (p,) float32
        Every mated score, and `mated_subject` (p,) the subject it belongs to.
    top : (t,) float32
        The highest non-mated scores in descending order; `pairs_of` tells the subjects of each.
    nonmated : int
        Number of all non-mated pairs.
    images : (m,) int64
        Images per subject.
    at : dict of threshold to (non-mated >= threshold, non-mated at the score just below it)
    histogram : (65536,) int64 or None
        Non-mated scores in equal bins over [-1, 1]; `subject_histogram` (m, 256 to 4096) counts each pair for
        both subjects.
    """

    mated: NDArray[np.float32]
    mated_subject: NDArray[np.int32]
    top: NDArray[np.float32]
    places: PairPlaces
    subject_of_row: NDArray[np.int32]
    nonmated: int
    images: NDArray[np.int64]
    at: dict[float, tuple[int, int]]
    histogram: NDArray[np.int64] | None = None
    subject_histogram: NDArray[np.int64] | None = None

    @property
    def subjects(self) -> int:
        """Number of people."""
        return int(self.images.size)

    def pairs_of(self, which: slice = slice(None)) -> NDArray[np.int32]:
        """Return the two subjects of each of the highest non-mated scores in a slice, (t, 2)."""
        return np.stack([self.subject_of_row[rows] for rows in self.places.rows(which)], axis=1)

    @property
    def paired_subjects(self) -> int:
        """Number of people with a mated pair: the ones that a TAR is about."""
        return int(np.count_nonzero(self.images > 1))

    def false_accepts(self, threshold: float) -> int:
        """Count non-mated pairs accepted at `threshold`; exact, or an error when the tail is too short to know."""
        return self._counts(threshold)[0]

    def ties(self, threshold: float) -> int:
        """Count non-mated pairs that score just below `threshold`: the tie that could not be split, if over 1."""
        return self._counts(threshold)[1]

    def true_accepts(self, threshold: float) -> NDArray[np.int64]:
        """Count accepted mated pairs per subject, (m,)."""
        accepted = self.mated >= np.float32(threshold)
        return np.bincount(self.mated_subject[accepted], minlength=self.subjects).astype(np.int64)

    def mated_pairs(self) -> NDArray[np.int64]:
        """Count mated pairs per subject, (m,)."""
        return self.images * (self.images - 1) // 2

    def _counts(self, threshold: float) -> tuple[int, int]:
        threshold = float(np.float32(threshold))
        if threshold in self.at:
            return self.at[threshold]
        below = np.nextafter(np.float32(threshold), np.float32(-np.inf))
        # `top` holds every score from its last one up, ties included.
        if self.top.size < self.nonmated and not (self.top.size and self.top[-1] <= below):
            raise DataError(
                f"the score tail ends at {self.top[-1] if self.top.size else 'nothing'} and cannot count at {threshold}: "
                "ask score_tail for a larger far_max, or pass the threshold in counts_at"
            )
        return int(np.count_nonzero(self.top >= np.float32(threshold))), int(np.count_nonzero(self.top == below))


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
    scan = _Scan(vectors, identity, far_max, counts_at, slack, histogram=histogram)
    top = scan.run(block, scan.starting_bound())
    if top.kept < scan.need:  # the sampled starting bound was too high: rare, and exactness is not negotiable
        scan.reset()
        top = scan.run(block, np.float32(-2.0))
    return scan.result(top)


class _Scan:
    """Mutable state of one pass over all pairs."""

    def __init__(
        self,
        vectors: NDArray[np.float32],
        identity: NDArray[Any],
        far_max: float,
        counts_at: Sequence[float],
        slack: float | None,
        *,
        histogram: bool,
    ) -> None:
        if np.shape(identity) != vectors.shape[:1]:
            raise DataError(f"every row needs one identity, got {vectors.shape[0]} rows and shape {np.shape(identity)}")
        finite = np.isfinite(np.einsum("ij->i", vectors, dtype=np.float64))
        if not finite.all():  # a comparison with NaN is never an accept: the leak would look smaller
            raise DataError(f"row {int(np.argmin(finite))} holds NaN or infinity and cannot be scored")
        _, codes = np.unique(np.asarray(identity), return_inverse=True)
        order = np.argsort(codes, kind="stable")
        self.codes = codes[order].astype(np.int32)
        self.vectors = np.ascontiguousarray(vectors[order], dtype=np.float32)
        self.images = np.bincount(self.codes).astype(np.int64)
        self.n = int(self.codes.size)
        mated = int((self.images * (self.images - 1) // 2).sum())
        self.nonmated = self.n * (self.n - 1) // 2 - mated
        if self.images.size < 2:
            raise DataError(f"verification needs at least two identities, got {self.images.size}")
        if mated == 0:
            raise DataError("verification needs at least one identity with two images; every identity has one")
        deepest = max(int(far_max * self.nonmated), SUPPORTED) + 1
        if slack is None:
            slack = float(np.clip(_AMPLE / deepest, 2, 8))
        self.need = min(self.nonmated, int(slack * deepest) + 64)
        self.thresholds = [float(np.float32(t)) for t in counts_at]
        self.wants_histogram = histogram
        self.reset()

    def reset(self) -> None:
        self.mated_scores: list[NDArray[np.float32]] = []
        self.mated_codes: list[NDArray[np.int32]] = []
        self.counts = np.zeros((len(self.thresholds), 2), dtype=np.int64)
        m = self.images.size
        self.histogram = np.zeros(HISTOGRAM_BINS, dtype=np.int64) if self.wants_histogram else None
        self.by_subject = np.zeros((m, subject_bins(m)), dtype=np.int64) if self.wants_histogram else None

    def starting_bound(self) -> np.float32:
        """Guess a bound from the pairs of evenly spaced rows, low enough to be safe most of the time."""
        rows = np.unique(
            np.linspace(0, self.n - 1, min(self.n, _SAMPLE if self.n > 4 * _SAMPLE else _SMALL_SAMPLE)).astype(np.int64)
        )
        sample = self.vectors[rows]
        codes = self.codes[rows]
        scores = (sample @ sample.T)[codes[:, None] < codes[None, :]]  # sorted: the upper triangle of other people
        share = 1.25 * self.need / self.nonmated
        rank = int(share * scores.size) + 16
        if rank >= scores.size:
            return np.float32(-2.0)
        return np.float32(np.partition(scores, scores.size - rank)[scores.size - rank])

    def run(self, block: int, bound: np.float32) -> Survivors:
        top = Survivors(self.need, bound)
        size = min(block, self.n)
        self.lower = np.tri(size, dtype=np.bool_)
        for part in score_blocks(self.vectors, block=block):
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
        )

    def _take_mated(self, part: Block) -> None:
        """Take the mated scores out of a block and mask them, and the mirrored half of a diagonal block.

        Rows are grouped by subject, so mated pairs are small squares on the diagonal, and the one rectangle of a
        subject that straddles two blocks.
        """
        left, right = self.codes[part.i0 : part.i1], self.codes[part.j0 : part.j1]
        for code in range(int(right[0]), int(left[-1]) + 1):
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


def subject_bins(subjects: int) -> int:
    """Return how many bins a subject's histogram has: fine for narrow cosine ranges, less so with very many people."""
    fewest, most = _SUBJECT_BINS
    return int(min(most, max(fewest, 1 << (_SUBJECT_CELLS // subjects).bit_length() - 1)))


@lru_cache(maxsize=64)
def _upper(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices above the diagonal of a square; people tend to have the same few numbers of images."""
    rows, columns = np.triu_indices(size, 1)
    return rows, columns
