"""Accuracy of verification in ten folds, as LFW and its kin are reported.

For each fold the best of 400 thresholds on the other nine is applied to it. A pair is accepted iff the squared distance
of its unit embeddings is *below* the threshold; of several thresholds with the best accuracy the smallest is taken; the
mean and the standard deviation (of the population) are over folds. This is the published code's rule in every detail.

The published standard deviation over folds says nothing about other people. The interval here is over draws of people,
with the thresholds set anew in each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.frequency.evaluation.draws import Draws, digest_of
from faceblind.frequency.evaluation.pairs import PairSet
from faceblind.measure.limits import limits, variance_of

THRESHOLDS = np.arange(0, 4, 0.01)
THRESHOLDS.setflags(write=False)
"""Squared distances of unit vectors lie in 0 to 4."""


@dataclass(frozen=True, eq=False)
class TenFold:
    """Accuracy in folds.

    Attributes
    ----------
    accuracy, std : float
        Mean and standard deviation over folds.
    low, high : float
        95 % interval of `accuracy` over draws of `interval`.
    interval : str
        ``people``, or ``pairs`` when nobody knows who is on the images (too narrow: pairs share people).
    by_fold, thresholds : (folds,) float64
        Accuracy of each fold, and the threshold that it was measured with.
    pairs : int
    people : int or None
    note : str
    draws : Draws or None
        The draws behind the interval, where it is over people; brought to its width.
    """

    accuracy: float
    std: float
    low: float
    high: float
    interval: str
    by_fold: NDArray[np.float64]
    thresholds: NDArray[np.float64]
    pairs: int
    people: int | None
    note: str
    draws: Draws | None

    def rows(self, name: str, *, noise: bool) -> list[dict[str, Any]]:
        """Return the row of the record for a set of this name."""
        return [
            {
                "set": name,
                "protocol": "tenfold",
                "noise": noise,
                "accuracy": self.accuracy,
                "std": self.std,
                "low": self.low,
                "high": self.high,
                "interval": self.interval,
                "pairs": self.pairs,
                "people": self.people,
                "folds": self.by_fold.tolist(),
                "thresholds": self.thresholds.tolist(),
                "note": self.note,
                "draws": None if self.draws is None else self.draws.to_dict(),
            }
        ]


def tenfold(embeddings: NDArray[np.float32], pairs: PairSet, *, draws: int = 1000, rng: np.random.Generator) -> TenFold:
    """Measure verification in the folds of a set.

    Parameters
    ----------
    embeddings : (images, d)
        Of any length; they are brought to length 1.
    pairs : PairSet
        With two folds or more.
    draws : int
        Draws of people.

    Raises
    ------
    DataError
        Other numbers of rows, a row that is not finite or is zero (named), or a single fold.
    """
    if pairs.folds < 2:
        raise DataError(f"{pairs.name}: a threshold is chosen on other folds, but there is one fold only")
    unit = unit_rows(embeddings, pairs.images, pairs.name)
    bins = _bins(squared_distances(unit, pairs))
    cells = pairs.fold * (THRESHOLDS.size + 1) + bins
    hits, sizes = _hits(cells, pairs, np.ones(len(pairs)))
    by_fold, chosen = _accuracy(hits, sizes)
    accuracy = float(by_fold.mean())
    correct = pairs.same == (bins <= chosen[pairs.fold])
    low, high, who, people, drawn = _interval(cells, pairs, accuracy, correct, draws, rng)
    return TenFold(
        accuracy=accuracy,
        std=float(by_fold.std()),
        low=low,
        high=high,
        interval=who,
        by_fold=by_fold,
        thresholds=THRESHOLDS[chosen],
        pairs=len(pairs),
        people=people,
        note=pairs.note,
        draws=drawn,
    )


def unit_rows(embeddings: NDArray[np.float32], images: int, name: str) -> NDArray[np.float64]:
    """Bring embeddings to length 1.

    Raises
    ------
    DataError
        Another number of rows, or rows that are not finite or are zero (the first is named).
    """
    rows = np.asarray(embeddings, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[0] != images:
        raise DataError(f"{name}: {images:,} images need one embedding each, got an array of shape {rows.shape}")
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    bad = ~(np.isfinite(lengths) & (lengths > 0))
    if bad.any():
        raise DataError(
            f"{name}: the embedding of image {int(bad.argmax())} is zero or not finite ({int(bad.sum()):,} such rows); it "
            "cannot be compared"
        )
    unit: NDArray[np.float64] = rows / lengths[:, None]
    return unit


def squared_distances(unit: NDArray[np.float64], pairs: PairSet, *, block: int = 4096) -> NDArray[np.float64]:
    """Return the squared distance of each pair, (n,), a block at a time."""
    out = np.empty(len(pairs))
    for start in range(0, len(pairs), block):
        part = slice(start, start + block)
        apart = unit[pairs.first[part]] - unit[pairs.second[part]]
        out[part] = np.einsum("ij,ij->i", apart, apart)
    return out


def _bins(distances: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return for each pair the first threshold that accepts it; 400 when none does."""
    return np.searchsorted(THRESHOLDS, distances, side="right").astype(np.int64)


def _hits(
    cells: NDArray[np.int64], pairs: PairSet, weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the weight of right answers per fold and threshold, (folds, 400), and of all pairs per fold."""
    shape = (pairs.folds, THRESHOLDS.size + 1)
    count = shape[0] * shape[1]
    accepted = np.bincount(cells, np.where(pairs.same, weights, 0.0), count).reshape(shape).cumsum(axis=1)
    wrongly = np.bincount(cells, np.where(pairs.same, 0.0, weights), count).reshape(shape).cumsum(axis=1)
    hits = accepted[:, :-1] + wrongly[:, -1:] - wrongly[:, :-1]
    return hits, accepted[:, -1] + wrongly[:, -1]


def _accuracy(hits: NDArray[np.float64], sizes: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return accuracy per fold at the threshold that is best on the others; NaN for a fold without pairs."""
    chosen = (hits.sum(axis=0) - hits).argmax(axis=1)
    right = hits[np.arange(sizes.size), chosen]
    by_fold = np.divide(right, sizes, out=np.full(sizes.size, np.nan), where=sizes > 0)
    return by_fold, chosen


def _interval(
    cells: NDArray[np.int64],
    pairs: PairSet,
    accuracy: float,
    correct: NDArray[np.bool_],
    draws: int,
    rng: np.random.Generator,
) -> tuple[float, float, str, int | None, Draws | None]:
    n = len(pairs)
    if pairs.people is None:
        return *limits(accuracy, accuracy * (1 - accuracy) / n, n), "pairs", None, None
    of = digest_of(rng, pairs.first, pairs.second, pairs.same, pairs.fold, pairs.people)
    ends = np.stack([pairs.first, pairs.second], axis=1)
    _, codes = np.unique(pairs.people[ends], return_inverse=True)
    a, b = codes.reshape(ends.shape).T
    people = int(codes.max()) + 1
    drawn, fixed = np.empty(draws), np.empty(draws)
    for draw in range(draws):
        times = rng.multinomial(people, np.full(people, 1 / people)).astype(np.float64)
        # A pair of one person counts as often as the person was drawn, one of two as often as the product.
        weights = np.where(a == b, times[a], times[a] * times[b])
        hits, sizes = _hits(cells, pairs, weights)
        # Of all folds together: a mean over folds would give the few people of a thin fold the weight of many.
        by_fold, total = _accuracy(hits, sizes)[0], float(weights.sum())
        drawn[draw] = np.nansum(by_fold * sizes) / total if total else accuracy
        fixed[draw] = weights @ correct / total if total else accuracy
    # How much wider draws make the interval than pairs that share people do is seen at thresholds that stay.
    wanted = _dyadic_variance(np.asarray(correct - accuracy, dtype=np.float64), a, b, people)
    share = min(1.0, wanted / max(variance_of(fixed, people), 1e-300))
    spread = variance_of(drawn, people) * share
    rests = _rests_on(accuracy, spread, a, b, people)
    kept = Draws(accuracy, rests, accuracy + np.sqrt(share) * (drawn - accuracy), of)
    return *limits(accuracy, spread, rests), "people", people, kept


def _rests_on(accuracy: float, spread: float, a: NDArray[np.int64], b: NDArray[np.int64], people: int) -> float:
    """Return how many independent trials there are at least: what `limits` falls back on where nothing varies.

    People with equal numbers of pairs hold half as many pairs that share nobody (Kish's formula for unequal ones). Where a
    few people, who have most of the pairs, make all of the errors, there are fewer still, and the spread says how many.
    """
    shares = (np.bincount(a, minlength=people) + np.bincount(b, minlength=people)).astype(np.float64)
    alike = shares.sum() ** 2 / (shares @ shares) / 2
    if spread > 0 and 0 < accuracy < 1:
        alike = min(alike, accuracy * (1 - accuracy) / spread)
    return max(1.0, float(alike))


def _dyadic_variance(rest: NDArray[np.float64], a: NDArray[np.int64], b: NDArray[np.int64], people: int) -> float:
    """Return the variance of a mean over pairs that vary together where they share a person.

    Products of two weights make the noise of single pairs of two people count three times, so draws alone give too wide
    an interval where people are in few pairs (see `faceblind.measure.SubjectBootstrap.far_frozen`, whose rule this is).
    """
    other = a != b
    by_person = np.bincount(a, rest, people) + np.bincount(b[other], rest[other], people)
    pairs = float(rest @ rest)
    twice = float(rest[other] @ rest[other])
    return max(float(by_person @ by_person) - twice / 2, pairs) / rest.size**2
