"""The paper's sampled-impostor protocol, and how much its numbers owe to which impostors were drawn.

Each test image meets q random images of other people; a threshold at FAR 1e-4 on 6,400 such pairs is the highest of 6,400
scores. Its true FAR is that of a sample maximum: Beta(1, 6,400) for independent pairs, mean 1.6e-4, 95 % between 4e-6 and
5.8e-4. Here impostors are sampled many times, and every threshold so found is counted on all pairs.

On LFW the paper has 13 people. 78 mated pairs are 13 times C(4, 2), so 4 images each, and the 1,326 "impostors" are
C(52, 2), all pairs of 52 images, the 78 mated ones among them; true impostors are 1,248.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind.measure import ScoreTail, allowed_false_accepts, score_tail

LFW_PEOPLE, LFW_IMAGES = 13, 4
_ENOUGH = 40.0  # a sample of N misses the top 40 / N of all pairs with probability e^-40
_MATRIX_ROWS = 5_000


@dataclass(frozen=True, kw_only=True)
class Spread:
    """One printed number, its mean over samples, and the 2.5 and 97.5 % points."""

    first: float
    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Spread:
        """Summarise (samples, ...) values; the first sample is what one run would have printed."""
        low, high = (float(q) for q in np.quantile(values, [0.025, 0.975]))
        return cls(first=float(values[0].mean()), mean=float(values.mean()), low=low, high=high)


@dataclass(frozen=True, kw_only=True)
class PrintedReading:
    """What the paper's protocol would print for a cell, under two readings of it.

    Attributes
    ----------
    pairs : int
        Impostor pairs per sample.
    value, far : Spread
        Number printed, and FAR that the thresholds achieve on all pairs, under the at-most rule (for the partial
        area: with true impostors only; no FAR).
    variant, variant_far : Spread
        The same under the nearest-point rule (for the partial area: with the mated pairs counted as impostors too).
    """

    pairs: int
    resamplings: int
    value: Spread
    variant: Spread
    variant_pairs: int
    far: Spread | None = None
    variant_far: Spread | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> PrintedReading:
        """Rebuild from `to_dict`."""
        built: dict[str, Any] = {
            key: Spread(**value) if isinstance(value, dict) else value for key, value in data.items()
        }
        return cls(**built)


def nearest_accepts(far: float, pairs: int) -> int:
    """Return how many impostors the ROC point nearest to `far` accepts; the lower one of two at the same distance."""
    below = allowed_false_accepts(far, pairs)
    return below if below >= pairs or far * pairs - below <= below + 1 - far * pairs else below + 1


def draw_impostors(
    identity: NDArray[np.str_], per_image: int, resamplings: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Draw for each image that many different images of other people, (resamplings, n, per_image)."""
    names, codes = np.unique(identity, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    others = (codes.size - sizes[codes])[:, None]
    q = min(per_image, int(others.min())) if names.size else 0
    drawn = np.empty((resamplings, codes.size, q), dtype=np.int32)
    for place in drawn:
        found = rng.integers(0, others, size=(codes.size, q))
        while True:
            ordered = np.sort(found, axis=1)
            again = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
            if not again.size:
                break
            found[again] = rng.integers(0, others[again], size=(again.size, q))
        # positions among other people's images, in order of people: step over one's own
        found += np.where(found >= starts[codes][:, None], sizes[codes][:, None], 0)
        place[...] = order[found]
    return drawn


def sampled_scores(vectors: NDArray[np.float32], partners: NDArray[np.int32]) -> NDArray[np.float32]:
    """Return the scores of each image with its sampled partners, (resamplings, n q), for unit rows (n, d)."""
    n = vectors.shape[0]
    if n <= _MATRIX_ROWS:
        scores = vectors @ vectors.T
        rows = np.arange(n)[None, :, None]
        return np.asarray(scores[rows, partners].reshape(partners.shape[0], -1))
    return np.stack([np.einsum("nd,nqd->nq", vectors, vectors[own]).reshape(-1) for own in partners])


def sampled_tar(
    mapped: Sequence[NDArray[np.float32]], identity: NDArray[np.str_], partners: NDArray[np.int32], far: float
) -> PrintedReading:
    """Measure TAR as printed: thresholds from sampled impostors, all mated pairs, averaged over seeds.

    Parameters
    ----------
    mapped : one (n, q) array of unit rows per seed, in which cosine is the score
    partners : (resamplings, n, per_image)
    """
    pairs = int(partners[0].size)
    rules = (allowed_false_accepts(far, pairs), nearest_accepts(far, pairs))
    tars = np.empty((len(mapped), len(rules), partners.shape[0]))
    fars = np.empty_like(tars)
    for seed, vectors in enumerate(mapped):
        scores = sampled_scores(vectors, partners)
        thresholds = np.stack([_above(scores, accepts) for accepts in rules])
        tail = _deep_tail(vectors, identity, pairs, float(thresholds.min()))
        mated, ascending = np.sort(tail.mated), tail.top[::-1]
        tars[seed] = 1 - np.searchsorted(mated, thresholds, side="left") / mated.size
        fars[seed] = (tail.top.size - np.searchsorted(ascending, thresholds, side="left")) / tail.nonmated
    tars, fars = tars.mean(axis=0), np.moveaxis(fars, 0, -1)  # seeds are averaged in print; each has its threshold
    return PrintedReading(
        pairs=pairs,
        resamplings=int(partners.shape[0]),
        value=Spread.of(tars[0]),
        variant=Spread.of(tars[1]),
        variant_pairs=pairs,
        far=Spread.of(fars[0]),
        variant_far=Spread.of(fars[1]),
    )


def sampled_pauc(
    mapped: Sequence[NDArray[np.float32]],
    identity: NDArray[np.str_],
    far_max: float,
    *,
    resamplings: int,
    rng: np.random.Generator,
) -> PrintedReading:
    """Measure the partial area as printed: 13 people, 4 images of each, drawn many times."""
    names, counts = np.unique(identity, return_counts=True)
    images = min(LFW_IMAGES, int(np.sort(counts)[-2]))
    able = names[counts >= images]
    people = min(LFW_PEOPLE, able.size)
    rows = {name: np.flatnonzero(identity == name) for name in able.tolist()}
    codes = np.repeat(np.arange(people), images)
    upper = np.triu_indices(codes.size, 1)
    mated = codes[upper[0]] == codes[upper[1]]
    values = np.empty((resamplings, len(mapped), 2))
    for sample in range(resamplings):
        drawn = np.concatenate(
            [rng.choice(rows[name], images, replace=False) for name in rng.choice(able, people, replace=False).tolist()]
        )
        for seed, vectors in enumerate(mapped):
            scores = (vectors[drawn] @ vectors[drawn].T)[upper]
            values[sample, seed] = [plain_pauc(scores[mated], s, far_max) for s in (scores[~mated], scores)]
    averaged = values.mean(axis=1)
    return PrintedReading(
        pairs=int((~mated).sum()),
        resamplings=resamplings,
        value=Spread.of(averaged[:, 0]),
        variant=Spread.of(averaged[:, 1]),
        variant_pairs=int(mated.size),
    )


def plain_pauc(mated: NDArray[np.float32], impostors: NDArray[np.float32], far_max: float) -> float:
    """Return the mean TAR over FAR in [0, far_max] of plain lists of scores, by the at-most rule."""
    ascending = np.sort(impostors)
    share = 1 - np.searchsorted(ascending, mated, side="left") / impostors.size
    return float(np.clip(1 - share / far_max, 0, None).mean())


def _above(scores: NDArray[np.float32], accepts: int) -> NDArray[np.float32]:
    """Return per sample the smallest threshold that accepts at most that many scores, (samples,)."""
    if accepts >= scores.shape[1]:
        return np.full(scores.shape[0], -1.0, dtype=np.float32)
    place = scores.shape[1] - 1 - accepts
    return np.nextafter(np.partition(scores, place, axis=1)[:, place], np.float32(np.inf))


def _deep_tail(vectors: NDArray[np.float32], identity: NDArray[np.str_], pairs: int, lowest: float) -> ScoreTail:
    """Score all pairs, deep enough to count at the lowest of the thresholds."""
    tail = score_tail(vectors, identity, far_max=min(1.0, max(1e-2, _ENOUGH / pairs)), slack=1.0)
    if tail.top.size < tail.nonmated and not tail.top[-1] < lowest:
        tail = score_tail(vectors, identity, far_max=1.0)
    return tail
