"""Images that do not look like their identity, and those that look like another one.

An image's similarity to its own people is measured against the same image's similarity to everybody else (so a blurred
photograph, far from all, is judged among its equals), and the result against the bulk of right labels. How many right
labels would be as far out is known from the bulk, so the list is held to one false entry in fifty, and an encoder whose right
labels reach down to strangers' level is told apart from clean labels: it cannot tell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from faceblind.data.hygiene.bulk import Bulk, discoveries
from faceblind.data.hygiene.people import People

FALSE_SHARE = 0.02
"""Share of false entries that a list of findings is held to."""

LEAST_PEOPLE = 10
"""Fewer identities than this give no bulk of strangers to measure against."""

_COHORT = 2048
_ROWS = 4096
_REFERENCE = 4000
_SUSPICIOUS = 1.64
_STRANGER = 2.0
_LIKE_THEM = 0.7
_HARD = 2.0
_TELLING = 5e-4
_HOPELESS = 0.1


@dataclass(frozen=True, eq=False)
class Outliers:
    """What was found among the labels of single images.

    Attributes
    ----------
    far : (f,) int
        Rows that are like strangers to their identity, farthest first.
    stranger : (n,) float64
        Median similarity of each row to other identities.
    moved : (m,) int
        Rows that are far from their own identity and nearly as near to another as its own images are.
    target : (m,) int
        That identity.
    similarity : (m,) float64
        Mean similarity to it.
    mistaken : float
        Share of right labels expected at strangers' level: how little the encoder can tell.
    """

    far: NDArray[np.intp]
    stranger: NDArray[np.float64]
    moved: NDArray[np.intp]
    target: NDArray[np.intp]
    similarity: NDArray[np.float64]
    mistaken: float

    @property
    def can_tell(self) -> bool:
        """Whether a wrong label would stand out."""
        return self.mistaken <= _TELLING


def tells_images_apart(people: People, *, seed: int = 0) -> bool:
    """Whether the vectors separate people enough for the wrong label of a single image to stand out."""
    if people.names.size < LEAST_PEOPLE or people.counts.max() < 2:
        return False
    tested, middle, spread = _against_strangers(people, np.random.default_rng([seed, 0x0D1]))
    sizes = people.counts[people.codes[tested]]
    return _mistaken(Bulk.of((people.own[tested] - middle) / spread, sizes, "low"), sizes) <= _TELLING


def find_outliers(people: People, *, alike: set[tuple[int, int]], seed: int = 0) -> Outliers:
    """Look for wrong labels of single images.

    Parameters
    ----------
    alike : set of (int, int)
        Pairs of identities that are probably one person: an image of one that fits the other is no finding.
    """
    rng = np.random.default_rng([seed, 0x0D1])
    tested, middle, spread = _against_strangers(people, rng)
    means = people.means().astype(np.float32)
    sizes = people.counts[people.codes[tested]]
    level = (people.own[tested] - middle) / spread
    bulk = Bulk.of(level, sizes, "low")
    mistaken = _mistaken(bulk, sizes)
    if mistaken > _HOPELESS:  # to be far from one's own means nothing here
        none = np.empty(0, dtype=np.intp)
        return Outliers(none, np.full(people.codes.size, np.nan), none, none, np.empty(0), mistaken)
    p = bulk.p(level, sizes)
    listed = (mistaken <= _TELLING) & discoveries(p, tested.size, FALSE_SHARE) & (level <= _STRANGER)
    far = tested[listed][np.argsort(level[listed], kind="stable")]
    at = np.full(people.codes.size, -1)
    at[tested] = np.arange(tested.size)
    far = far[[_others_agree(people, int(row), bulk, middle, spread, at) for row in far]]

    suspicious = bulk.z(level, sizes) >= _SUSPICIOUS
    calm = np.flatnonzero(~suspicious)
    calm = np.sort(rng.choice(calm, min(calm.size, _REFERENCE), replace=False))
    rows = np.r_[np.flatnonzero(suspicious), calm]
    best, similarity = _nearest_other(people, tested[rows], means)
    height = (similarity - middle[rows]) / spread[rows]
    moved = _fits(people, tested[rows], best, similarity, height, int(suspicious.sum()))
    pairs = [(min(a, b), max(a, b)) for a, b in zip(people.codes[tested[rows]].tolist(), best.tolist(), strict=True)]
    moved &= np.array([pair not in alike for pair in pairs])
    order = np.flatnonzero(moved)[np.argsort(-height[moved], kind="stable")]
    stranger = np.full(people.codes.size, np.nan)
    stranger[tested] = middle
    return Outliers(
        far=far[~np.isin(far, tested[rows[order]])],
        stranger=stranger,
        moved=tested[rows[order]],
        target=best[order],
        similarity=similarity[order],
        mistaken=mistaken,
    )


def _others_agree(
    people: People,
    row: int,
    bulk: Bulk,
    middle: NDArray[np.float64],
    spread: NDArray[np.float64],
    at: NDArray[np.intp],
) -> bool:
    """Whether the other images of a row's identity are as near to each other as is usual; yes when there is only one.

    Where they are not, the whole person is hard for this encoder, and the row is no exception.
    """
    others = np.flatnonzero(people.codes == people.codes[row])
    others = others[others != row]
    if others.size < 2:
        return True
    to_row = people.vectors[others].astype(np.float64) @ people.vectors[row]
    without = (people.own[others] * others.size - to_row) / (others.size - 1)
    level = np.median((without - middle[at[others]]) / spread[at[others]])
    return bool(bulk.z(level[None], np.array([others.size]))[0] < _HARD)


def _fits(
    people: People,
    rows: NDArray[np.intp],
    best: NDArray[np.intp],
    similarity: NDArray[np.float64],
    height: NDArray[np.float64],
    suspicious: int,
) -> NDArray[np.bool_]:
    """Which of the suspicious rows (the first ones) are nearer to another identity than any stranger gets by chance.

    The best of many strangers is an extreme, so calm rows give the location and scale of a Gumbel law.
    """
    fits = np.zeros(rows.size, dtype=bool)
    calm = height[suspicious:]
    if not suspicious or not calm.size:
        return fits
    q50, q84 = np.quantile(calm, [0.5, stats.norm.cdf(1)])
    x50, x84 = (-np.log(-np.log(q)) for q in (0.5, stats.norm.cdf(1)))
    scale = max((q84 - q50) / (x84 - x50), 1e-6)
    p = stats.gumbel_r.sf(height[:suspicious], loc=q50 - x50 * scale, scale=scale)
    first = slice(0, suspicious)
    usual = np.array([np.median(people.own[people.codes == b]) for b in best[first]])
    like_them = (similarity[first] >= _LIKE_THEM * usual) & (similarity[first] > people.own[rows[first]])
    fits[:suspicious] = discoveries(p, suspicious, FALSE_SHARE) & like_them
    return fits


def _mistaken(bulk: Bulk, sizes: NDArray[np.intp]) -> float:
    """Share of right labels expected to be as far from their own identity as strangers are."""
    return float(np.median(bulk.p(np.zeros(sizes.size), sizes)))


def _against_strangers(
    people: People, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """Rows whose identity has another image; median and standard deviation of their similarity to other identities."""
    rows = np.flatnonzero(people.counts[people.codes] > 1)
    cohort = np.sort(rng.choice(people.names.size, min(people.names.size, _COHORT), replace=False))
    means = people.means()[cohort].astype(np.float32)
    middle, spread = np.empty(rows.size), np.empty(rows.size)
    where = np.full(people.names.size, -1)
    where[cohort] = np.arange(cohort.size)
    for start in range(0, rows.size, _ROWS):
        part = rows[start : start + _ROWS]
        scores = (people.vectors[part] @ means.T).astype(np.float64)
        mine = where[people.codes[part]]
        inside = np.flatnonzero(mine >= 0)
        scores[inside, mine[inside]] = np.nan
        middle[start : start + part.size] = np.nanmedian(scores, axis=1)
        spread[start : start + part.size] = np.nanstd(scores, axis=1)
    return rows, middle, np.maximum(spread, 1e-6)


def _nearest_other(
    people: People, rows: NDArray[np.intp], means: NDArray[np.float32]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Nearest identity with two images or more, other than the row's own."""
    best, similarity = np.empty(rows.size, dtype=np.intp), np.empty(rows.size)
    single = np.flatnonzero(people.counts < 2)
    for start in range(0, rows.size, _ROWS):
        part = rows[start : start + _ROWS]
        scores = people.vectors[part] @ means.T
        scores[:, single] = -np.inf
        scores[np.arange(part.size), people.codes[part]] = -np.inf
        best[start : start + part.size] = scores.argmax(axis=1)
        similarity[start : start + part.size] = scores.max(axis=1)
    return best, similarity
