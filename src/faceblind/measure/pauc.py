"""Partial area under the ROC: the mean TAR over all FARs up to `far_max`, exact, with its noise called by name.

One TAR at one FAR hangs on one score; the area up to that FAR uses every step below it. It is as noisy as the
number of steps is small: a range that holds fewer than 30 non-mated scores is decided by a few pairs of look-alikes
(on the 1,326 pairs of a small LFW protocol, FAR 1e-3 is a single step), so the grade of `far_max` goes with it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from faceblind._errors import DataError
from faceblind.measure.intervals import SubjectBootstrap
from faceblind.measure.limits import subject_interval
from faceblind.measure.operating import allowed_false_accepts, grade_of
from faceblind.measure.tail import SUPPORTED, ScoreTail

Ties = Literal["at_most", "trapezoid"]
_FAR_MAX = 1e-3
_PIECE = 1 << 20  # scores looked at in one go
_CELLS = 1 << 22  # numbers held at once per array (32 MB)


@dataclass(frozen=True)
class PartialAuc:
    """Mean TAR over FAR in [0, `far_max`]: 0 to 1, `chance` for scores that know nothing.

    Attributes
    ----------
    value : float
        Area of TAR over FAR in [0, far_max], divided by far_max.
    standardised : float
        McClish's form, ``(1 + (value - chance) / (1 - chance)) / 2``: 0.5 at chance, 1 when perfect.
    chance : float
        ``far_max / 2``.
    low, high : float or None
        95 % subject-bootstrap interval of `value`.
    grade : str
        ``supported``, ``indicative`` or ``unsupported``, from `steps`.
    steps : int
        Non-mated scores in the range: how many false accepts `far_max` allows.
    """

    far_max: float
    value: float
    standardised: float
    chance: float
    low: float | None
    high: float | None
    grade: str
    steps: int
    nonmated: int
    mated: int
    ties: Ties

    @property
    def noise_dominated(self) -> bool:
        """Whether the range holds too few non-mated scores (under 30) for the value to mean much."""
        return self.steps < SUPPORTED

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in plain JSON types."""
        return {**asdict(self), "noise_dominated": self.noise_dominated}


def partial_auc(
    tail: ScoreTail, far_max: float = _FAR_MAX, *, bootstrap: SubjectBootstrap | None = None, ties: Ties = "at_most"
) -> PartialAuc:
    """Measure the mean TAR over FAR in [0, `far_max`].

    With G(s) the share of non-mated scores at or above s, the area under the step function is a plain mean over the
    mated scores s: ``pAUC = mean(max(0, 1 - G(s) / far_max))``, because s is accepted at every FAR from G(s) on.

    Parameters
    ----------
    tail : ScoreTail
        Made with a ``far_max`` at least as large.
    far_max : float
        End of the range, above 0 and up to 1.
    bootstrap : SubjectBootstrap, optional
        Gives the 95 % interval; people are resampled, thresholds move with the draw.
    ties : {"at_most", "trapezoid"}
        How a mated score that equals non-mated ones counts. ``at_most`` integrates the TAR of the threshold rule of
        this package, which rejects a tie it cannot afford whole. ``trapezoid`` lets TAR rise linearly across the tie,
        which is what an attacker gets who breaks ties by a coin, and what ROC codes draw. The two differ only where
        mated and non-mated scores are equal.

    Raises
    ------
    DataError
        `far_max` is out of range, or the tail is too short for it.

    Notes
    -----
    Standardisation: D. K. McClish, Analyzing a portion of the ROC curve, Medical Decision Making 9 (1989).
    """
    _check(tail, far_max, ties)
    whole = SubjectBootstrap(np.ones((1, tail.subjects), np.int32), np.ones((1, tail.subjects)))
    value = float(_areas(tail, whole, far_max, ties, np.array([float(tail.nonmated)]))[0])
    low = high = None
    if bootstrap is not None:
        draws = partial_auc_draws(tail, bootstrap, far_max, ties=ties)
        low, high = subject_interval(value, draws, tail.effective_subjects)
    chance = far_max / 2
    return PartialAuc(
        far_max=far_max,
        value=value,
        standardised=(1 + (value - chance) / (1 - chance)) / 2,
        chance=chance,
        low=low,
        high=high,
        grade=grade_of(far_max, tail.nonmated),
        steps=allowed_false_accepts(far_max, tail.nonmated),
        nonmated=tail.nonmated,
        mated=int(tail.mated.size),
        ties=ties,
    )


def partial_auc_draws(
    tail: ScoreTail, bootstrap: SubjectBootstrap, far_max: float = _FAR_MAX, *, ties: Ties = "at_most"
) -> NDArray[np.float64]:
    """Return the partial area per draw, (draws,), divided by `far_max`; see `partial_auc`.

    A mated pair counts as often as its person was drawn, a non-mated pair as often as the product of its two people.
    No score is left out or thinned. NaN marks a draw that has not used up `far_max` at the end of the tail, as in
    `SubjectBootstrap.tar_calibrated`; `subject_interval` takes it for high.
    """
    _check(tail, far_max, ties)
    return _areas(tail, bootstrap, far_max, ties, tail.nonmated_drawn(bootstrap.weights.astype(np.float64)))


def _check(tail: ScoreTail, far_max: float, ties: Ties) -> None:
    if not 0 < far_max <= 1:
        raise DataError(f"the range of a partial area ends above 0 and at most at 1, got far_max={far_max}")
    if ties not in ("at_most", "trapezoid"):
        raise DataError(f"ties are handled by 'at_most' or 'trapezoid', got {ties!r}")
    needed = allowed_false_accepts(far_max, tail.nonmated) + 1
    if tail.top.size < min(needed, tail.nonmated):
        raise DataError(
            f"a partial area up to FAR {far_max:g} needs the {needed} highest of {tail.nonmated} scores, only "
            f"{tail.top.size} were kept: ask score_tail for a larger far_max"
        )


def _areas(
    tail: ScoreTail, bootstrap: SubjectBootstrap, far_max: float, ties: Ties, nonmated: NDArray[np.float64]
) -> NDArray[np.float64]:
    weights = bootstrap.weights.astype(np.float64)
    above, upto, mated_at = _levels(tail)
    bounds = np.unique(np.concatenate([above, upto, [tail.top.size]]))  # ranks at which the running count is needed
    bounds = bounds[bounds > 0]
    span = far_max * nonmated  # false accepts that the range allows in a draw
    area = np.zeros(span.size)
    # Mated scores above all others are accepted all along.
    first = int(np.searchsorted(upto, 0, side="right"))
    area += weights @ mated_at[:first].sum(axis=0)
    spent = np.zeros(span.size)
    open_draws = np.flatnonzero(span > 0)
    depth = min(3 * allowed_false_accepts(far_max, tail.nonmated) + 64, _PIECE)
    start = 0
    while start < bounds.size and open_draws.size:
        begin = int(bounds[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(bounds, begin + depth, side="right")))
        here = slice(*np.searchsorted(upto, [begin + 1, bounds[stop - 1] + 1]))
        counts, first_of, second_of = _pair_counts(tail, bounds[start:stop], begin)
        at_above = np.searchsorted(bounds, above[here], side="left") - start + 1
        at_above[above[here] == begin] = 0
        at_upto = np.searchsorted(bounds, upto[here], side="left") - start + 1
        for draws in _chunks(open_draws, max(counts.shape)):
            drawn = weights[draws].T
            running = np.vstack([spent[draws][None, :], counts @ (drawn[first_of] * drawn[second_of])])
            np.cumsum(running, axis=0, out=running)
            credit = _credit(running[at_above], running[at_upto], span[draws], ties)
            area[draws] += np.einsum("lb,lb->b", mated_at[here] @ drawn, credit)
            spent[draws] = running[-1]
        open_draws = open_draws[spent[open_draws] < span[open_draws]]
        start, depth = stop, min(4 * depth, _PIECE)
    if tail.top.size < tail.nonmated and mated_at.sum() < tail.mated.size:
        area[open_draws] = np.nan
    pairs = weights @ np.bincount(tail.mated_subject, minlength=tail.subjects)
    return np.divide(area, pairs, out=np.zeros(area.size), where=(pairs > 0) & (span > 0))


def _levels(tail: ScoreTail) -> tuple[NDArray[np.int64], NDArray[np.int64], Any]:
    """Return where mated scores stand among the non-mated ones, from the top.

    Each level is one (number of non-mated scores above, number above or equal); the third result counts the mated
    pairs (levels, subjects) there. Mated scores under the end of the tail get no level.
    """
    inside = np.ones(tail.mated.size, dtype=np.bool_)
    if tail.top.size < tail.nonmated:
        inside = tail.mated >= tail.top[-1]
    scores, who = tail.mated[inside], tail.mated_subject[inside]
    ascending = tail.top[::-1]
    above = tail.top.size - np.searchsorted(ascending, scores, side="right")
    upto = tail.top.size - np.searchsorted(ascending, scores, side="left")
    # Levels in order: a tie (above < upto) comes after the scores just above it, and above has the same order.
    key = upto.astype(np.int64) * (tail.top.size + 1) + above
    levels, which = np.unique(key, return_inverse=True)
    shape = (levels.size, tail.subjects)
    mated_at = sparse.csr_array((np.ones(which.size), (which, who)), shape=shape)
    return levels % (tail.top.size + 1), levels // (tail.top.size + 1), mated_at


def _pair_counts(
    tail: ScoreTail, bounds: NDArray[np.int64], begin: int
) -> tuple[Any, NDArray[np.int64], NDArray[np.int64]]:
    """Count the scores from rank `begin` to each bound by pair of people: sparse (bounds, pairs), and the two people."""
    pairs = tail.pairs_of(slice(begin, int(bounds[-1]))).astype(np.int64)
    codes, which = np.unique(pairs.min(axis=1) * tail.subjects + pairs.max(axis=1), return_inverse=True)
    place = np.searchsorted(bounds, np.arange(begin, bounds[-1]), side="right")
    shape = (bounds.size, codes.size)
    counts = sparse.csr_array((np.ones(which.size), (place, which)), shape=shape)
    return counts, codes // tail.subjects, codes % tail.subjects


def _chunks(draws: NDArray[np.int64], rows: int) -> list[NDArray[np.int64]]:
    size = int(np.clip(_CELLS // max(rows, 1), 4, 256))
    return [draws[i : i + size] for i in range(0, draws.size, size)]


def _credit(
    above: NDArray[np.float64], upto: NDArray[np.float64], span: NDArray[np.float64], ties: Ties
) -> NDArray[np.float64]:
    """Return the share of the range over which a mated score is accepted, (levels, draws)."""
    if ties == "at_most":
        return np.clip(1 - upto / span, 0, 1)
    # TAR rises linearly while FAR goes through the tie, from `above` to `upto`: integrate the ramp up to `span`.
    width = upto - above
    into = np.clip(span - above, 0, width)
    ramp = np.divide(into**2, 2 * width, out=np.zeros(width.shape), where=width > 0)
    credit: NDArray[np.float64] = (ramp + np.clip(span - upto, 0, None)) / span
    return credit
