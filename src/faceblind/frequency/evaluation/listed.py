"""Scores of a list of pairs, where not every image meets every other: the same thresholds, grades and draws as anywhere.

Protocols such as IJB list which templates meet. Who the people are is not listed; templates that pairs of one person link
are one person's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from faceblind._errors import DataError
from faceblind.frequency.evaluation.pairs import linked_people
from faceblind.measure.survivors import PairPlaces
from faceblind.measure.tail import SUPPORTED, ScoreTail

_SLACK = 4


@dataclass(frozen=True, eq=False)
class ListedTail(ScoreTail):
    """A `ScoreTail` of listed pairs.

    Attributes
    ----------
    own : (m,) int64
        Mated pairs per subject.
    met : (m, m) sparse float64
        Non-mated pairs of each two subjects; summed over both triangles each pair is there once.
    """

    own: NDArray[np.int64] | None = None
    met: sparse.csr_array | None = None

    def mated_pairs(self) -> NDArray[np.int64]:
        """Count mated pairs per subject, (m,)."""
        return np.zeros(self.subjects, dtype=np.int64) if self.own is None else self.own

    def nonmated_drawn(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how many non-mated pairs each draw of people has, (b,)."""
        if self.met is None:
            return np.zeros(weights.shape[0])
        met: NDArray[np.float64] = np.asarray(self.met @ weights.T, dtype=np.float64)
        drawn: NDArray[np.float64] = np.einsum("bs,sb->b", weights, met)
        return drawn


@dataclass(frozen=True, eq=False)
class ListedPairs:
    """Scores of listed pairs by kind, each in descending order.

    Attributes
    ----------
    mated, nonmated : (p,), (q,) float32
    mated_subject : (p,) int32
    nonmated_subjects : (q, 2) int32
    subjects : int
        People with a pair.
    conflicts : int
        Pairs said to be of two people that other pairs link to one; they count as non-mated, as the list says.
    """

    mated: NDArray[np.float32]
    nonmated: NDArray[np.float32]
    mated_subject: NDArray[np.int32]
    nonmated_subjects: NDArray[np.int32]
    subjects: int
    conflicts: int

    @classmethod
    def of(
        cls,
        scores: NDArray[np.float32],
        first: NDArray[np.int32],
        second: NDArray[np.int32],
        same: NDArray[np.bool_],
        items: int,
    ) -> ListedPairs:
        """Sort the scores of pairs of items (rows from 0).

        Raises
        ------
        DataError
            No pair of one kind.
        """
        if same.all() or not same.any():
            raise DataError(f"all {same.size:,} listed pairs are of {'one person' if same.all() else 'two people'}")
        people = linked_people(first[same].astype(np.int64), second[same].astype(np.int64), items)
        used = np.zeros(items, dtype=np.bool_)
        used[first] = used[second] = True
        # Subjects are those in the list; unused items would be people who are drawn and bring nothing.
        people = np.unique(np.where(used, people, people[first[0]]), return_inverse=True)[1].astype(np.int32)
        mated, nonmated = np.flatnonzero(same), np.flatnonzero(~same)
        mated = mated[np.argsort(-scores[mated], kind="stable")]
        nonmated = nonmated[np.argsort(-scores[nonmated], kind="stable")]
        pairs = np.stack([people[first[nonmated]], people[second[nonmated]]], axis=1).astype(np.int32)
        return cls(
            scores[mated],
            scores[nonmated],
            people[first[mated]].astype(np.int32),
            pairs,
            int(people.max()) + 1,
            int((pairs[:, 0] == pairs[:, 1]).sum()),
        )

    def tail(self, far_max: float) -> ListedTail:
        """Return what the measurements of `faceblind.measure` read, with enough scores for FARs up to `far_max`."""
        m, count = self.subjects, self.nonmated.size
        kept = min(count, int(_SLACK * max(far_max * count, SUPPORTED)) + 64)
        a, b = self.nonmated_subjects.T
        met = sparse.coo_array((np.ones(count), (a, b)), shape=(m, m)).tocsr()
        return ListedTail(
            mated=self.mated,
            mated_subject=self.mated_subject,
            top=self.nonmated[:kept],
            places=_Places(self.nonmated_subjects),
            subject_of_row=np.arange(m, dtype=np.int32),
            nonmated=count,
            images=np.bincount(self.mated_subject, minlength=m).astype(np.int64),
            at={},
            own=np.bincount(self.mated_subject, minlength=m).astype(np.int64),
            met=met,
        )

    def nearest(self, far: float) -> tuple[float, float]:
        """Return TPR and FPR of the point of the curve whose FPR is nearest to `far`, as the published code picks it.

        The curve has a point for each score, of which those on a straight piece between two others are left out (the
        default of scikit-learn's ``roc_curve``, by which the published numbers were made); of two that are as near,
        the one with the higher FPR counts, and of those the one with the higher TPR.
        """
        scores = np.concatenate([self.mated, self.nonmated])
        positive = np.zeros(scores.size, dtype=np.bool_)
        positive[: self.mated.size] = True
        order = np.argsort(-scores, kind="stable")
        ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))
        true = np.cumsum(positive[order])[ends]
        false = 1 + ends - true
        if true.size > 2:
            bent = (np.diff(false, 2) != 0) | (np.diff(true, 2) != 0)
            keep = np.flatnonzero(np.concatenate([[True], bent, [True]]))
            true, false = true[keep], false[keep]
        tpr = np.append(0, true)[::-1] / self.mated.size
        fpr = np.append(0, false)[::-1] / self.nonmated.size
        best = int(np.abs(fpr - far).argmin())
        return float(tpr[best]), float(fpr[best])


class _Places(PairPlaces):
    """Subjects of each pair, where a tail of all pairs computes them from places in blocks."""

    def __init__(self, subjects: NDArray[np.int32]) -> None:
        super().__init__(np.empty(0, dtype=np.int64), np.empty((0, 3), dtype=np.int64))
        object.__setattr__(self, "_subjects", subjects)
        self._subjects: NDArray[np.int32]

    def rows(self, which: slice) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the two subjects of each pair in a slice of the scores."""
        first, second = self._subjects[which].T
        return first.astype(np.int64), second.astype(np.int64)
