"""`ScoreTail`: all mated scores and the exact top of the non-mated scores, with the counts that every rate needs.

Low false-accept rates live in the far tail of the non-mated scores. Sampling pairs cannot reach it and keeping all
scores needs n x n memory, so only the top is kept (`score_tail` and `template_tail` make it); it is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.measure.survivors import PairPlaces

SUPPORTED = 30
"""False accepts that must be allowed for an operating point to be called supported (the rule of 30)."""
HISTOGRAM_BINS = 65_536
_SUBJECT_BINS = (256, 4096)  # fewest and most bins of the histogram per subject
_SUBJECT_CELLS = 1 << 22


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
        Images per subject; queries, when they are matched with templates.
    at : dict of threshold to (non-mated >= threshold, non-mated at the score just below it)
    histogram : (65536,) int64 or None
        Non-mated scores in equal bins over [-1, 1]; `subject_histogram` (m, 256 to 4096) counts each pair for
        both subjects.
    templates : (m,) int64 or None
        Templates per subject: pairs are then (query, template), and a pair of subjects has a score each way. None
        when every image is matched with every other.
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
    templates: NDArray[np.int64] | None = None

    @property
    def subjects(self) -> int:
        """Number of people."""
        return int(self.images.size)

    @property
    def paired_subjects(self) -> int:
        """Number of people with a mated pair: the ones that a TAR is about."""
        return int(np.count_nonzero(self.mated_pairs()))

    @property
    def effective_subjects(self) -> float:
        """Number of people that a TAR rests on when they have different numbers of mated pairs (Kish's formula).

        ``(sum p)^2 / sum p^2`` over the pairs p of each person: `paired_subjects` when all have as many, and near 1 when
        one person has nearly all. Intervals are made for this many people.
        """
        pairs = self.mated_pairs().astype(np.float64)
        return float(pairs.sum() ** 2 / (pairs @ pairs))

    def pairs_of(self, which: slice = slice(None)) -> NDArray[np.int32]:
        """Return the two subjects of each of the highest non-mated scores in a slice, (t, 2).

        With templates the first is the query's subject, the second the template's.
        """
        return np.stack([self.subject_of_row[rows] for rows in self.places.rows(which)], axis=1)

    def mated_pairs(self) -> NDArray[np.int64]:
        """Count mated pairs per subject, (m,)."""
        if self.templates is not None:
            return self.images * self.templates
        return self.images * (self.images - 1) // 2

    def nonmated_pairs(self) -> NDArray[np.int64]:
        """Count non-mated pairs that each subject takes part in, (m,); their sum counts every pair twice."""
        n = self.images
        t = n if self.templates is None else self.templates
        with_templates: NDArray[np.int64] = n * (t.sum() - t)
        return with_templates if self.templates is None else with_templates + t * (n.sum() - n)

    def nonmated_drawn(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how many non-mated pairs each draw of people has, (b,).

        Parameters
        ----------
        weights : (b, m) float64
            How often each subject was drawn. A person drawn twice is no stranger to itself: such pairs do not count.
        """
        n = self.images.astype(np.float64)
        if self.templates is None:
            both: NDArray[np.float64] = ((weights @ n) ** 2 - (weights**2) @ (n**2)) / 2
            return both
        t = self.templates.astype(np.float64)
        cross: NDArray[np.float64] = (weights @ n) * (weights @ t) - (weights**2) @ (n * t)
        return cross

    def true_accepts(self, threshold: float) -> NDArray[np.int64]:
        """Count accepted mated pairs per subject, (m,)."""
        accepted = self.mated >= np.float32(threshold)
        return np.bincount(self.mated_subject[accepted], minlength=self.subjects).astype(np.int64)

    def tar(self, threshold: float) -> float:
        """Return the accepted share of all mated pairs."""
        return float(np.count_nonzero(self.mated >= np.float32(threshold)) / self.mated.size)

    def false_accepts(self, threshold: float) -> int:
        """Count non-mated pairs accepted at `threshold`; exact, or an error when the tail is too short to know."""
        return self._counts(threshold)[0]

    def ties(self, threshold: float) -> int:
        """Count non-mated pairs that score just below `threshold`: the tie that could not be split, if over 1."""
        return self._counts(threshold)[1]

    def reaches(self, threshold: float) -> bool:
        """Whether every non-mated score at or above `threshold` is kept in `top`."""
        return self.top.size == self.nonmated or bool(self.top.size and self.top[-1] <= np.float32(threshold))

    def _counts(self, threshold: float) -> tuple[int, int]:
        threshold = float(np.float32(threshold))
        if threshold in self.at:
            return self.at[threshold]
        below = np.nextafter(np.float32(threshold), np.float32(-np.inf))
        if not self.reaches(float(below)):  # `top` holds every score from its last one up, ties included
            raise self.too_short(threshold)
        return int(np.count_nonzero(self.top >= np.float32(threshold))), int(np.count_nonzero(self.top == below))

    def too_short(self, threshold: float) -> DataError:
        """Return the error for a threshold that lies under the kept scores."""
        return DataError(
            f"the score tail ends at {self.top[-1] if self.top.size else 'nothing'} and cannot count at {threshold}: "
            "ask score_tail for a larger far_max, or pass the threshold in counts_at"
        )


def subject_bins(subjects: int) -> int:
    """Return how many bins a subject's histogram has: fine for narrow cosine ranges, less so with very many people."""
    fewest, most = _SUBJECT_BINS
    return int(min(most, max(fewest, 1 << (_SUBJECT_CELLS // subjects).bit_length() - 1)))
