"""Extrapolation below the FAR floor by extreme-value theory: always labelled as such, and refused when it does not fit.

n non-mated pairs cannot show a FAR below 1/n. In the manner of ISO/IEC 5152:2024, a generalised Pareto distribution
(GPD) is fitted to what the highest scores exceed a start by, and its tail is read on further. That is a statement
about a model, which the data cannot confirm where it is used. So the result says ``extrapolated`` whatever happens, the
fit is tested where there are data, and nothing is said far from them.

Dependence: the scores of one pair of look-alikes come together, so 500 exceedances may be the word of ten pairs of
people. The fit stays consistent, but errors computed as for independent data are far too small. So intervals resample
people and refit in every draw, and a tail that few pairs of people fill is refused. The test of fit is that for
independent scores: look-alikes make it reject more often, so it errs to the side of refusing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.measure.intervals import SubjectBootstrap
from faceblind.measure.limits import LEVEL, subject_interval
from faceblind.measure.operating import grade_of
from faceblind.measure.pareto import Method, anderson_darling, fit_pareto
from faceblind.measure.tail import SUPPORTED, ScoreTail

EXCEEDANCES = 1000
"""Scores of the first fit, at most; halved until a fit is not rejected."""
FEWEST = 100
"""Scores of a fit, at least."""
REACH = 100.0
"""How far below the smallest supported FAR (30/n) an extrapolation may go."""
SIGNIFICANCE = 0.05
_TOP_SIGNIFICANCE = 0.01
_PAIRS = 10  # pairs of people that must share the exceedances, in effect
_SHARE = 20  # fitted to the highest 1/20 of all scores at most
_REGULAR = 0.5  # maximum likelihood is regular up to this k (a shape above -1/2)
_CHUNK = 256  # draws fitted at once
_ROUGH = 48
_SIMULATED = 199
_FEWEST_DRAWN = 20  # exceedances that a draw must hold for a fit


@dataclass(frozen=True)
class TailFit:
    """A GPD of the highest non-mated scores: P(S > s | S > start) = (1 + shape (s - start) / scale)^(-1 / shape).

    Attributes
    ----------
    end_point : float
        ``start - scale / shape``: no score can exceed it; 1 at most, as scores are cosines.
    exceedances : int
        Scores above `start`.
    pairs_of_people : float
        How many pairs of people share them, in effect (1 / sum of squared shares).
    method : {"likelihood", "moments"}
    distance : float
        Anderson-Darling distance between fit and exceedances; `p_value` is the share of independent samples of the
        fitted GPD, fitted anew, that lie as far off.
    p_highest : float
        Bound on the chance that the model gives a score as high as the highest one found.
    """

    shape: float
    scale: float
    start: float
    end_point: float
    exceedances: int
    pairs_of_people: float
    method: Method
    distance: float
    p_value: float
    p_highest: float

    @property
    def misfit(self) -> str | None:
        """Say why the fit must not be used; None when there is no reason."""
        if self.p_highest < _TOP_SIGNIFICANCE:
            return (
                "the highest scores do not belong to the tail under them; look for duplicates and wrong labels among "
                f"them (chance of such a score {self.p_highest:.1e})"
            )
        if self.p_value < SIGNIFICANCE:
            return f"no generalised Pareto tail fits the highest {self.exceedances} scores (p = {self.p_value:.3f})"
        if self.pairs_of_people < _PAIRS:
            return (
                f"the highest {self.exceedances} scores come from {self.pairs_of_people:.1f} pairs of people in effect, "
                f"fewer than {_PAIRS}"
            )
        return None


@dataclass(frozen=True)
class Extrapolation:
    """TAR at a FAR that the data do not support, read off a fitted tail; or why there is none.

    Attributes
    ----------
    threshold, threshold_low, threshold_high : float or None
        Score that a share `far` of non-mated pairs reaches by the model, and its 95 % interval over people.
    tar, tar_low, tar_high : float or None
        Share of mated pairs that reach `threshold`, and its 95 % interval over people (mated scores resampled, tail
        fitted anew).
    refusal : str or None
        Why there is no number.
    below_support : float
        How many times `far` lies below the smallest supported FAR, 30 / nonmated.
    fit : TailFit or None
        The fit that was used, or the last one that was refused.
    """

    far: float
    threshold: float | None
    threshold_low: float | None
    threshold_high: float | None
    tar: float | None
    tar_low: float | None
    tar_high: float | None
    refusal: str | None
    below_support: float
    nonmated: int
    fit: TailFit | None
    extrapolated: Literal[True] = field(default=True, init=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in plain JSON types."""
        return asdict(self)


def extrapolate_tar(
    tail: ScoreTail, far: float, *, bootstrap: SubjectBootstrap, rng: np.random.Generator, reach: float = REACH
) -> Extrapolation:
    """Estimate threshold and TAR at a FAR below what the non-mated pairs support.

    The GPD is fitted to the highest 1,000 scores (never more than 1/20 of all), or half of them, and so on down to
    100, until neither its Anderson-Darling test nor the highest score speaks against it. With k = -shape, e the distance
    of the end point from the start u, and z the share of scores above u: ``threshold = u + e (1 - (far / z)^k)``.

    Parameters
    ----------
    tail : ScoreTail
    far : float
        Below 30 / nonmated.
    bootstrap : SubjectBootstrap
        People are resampled and the tail is fitted anew, from the same start, in each draw. A draw that holds too few
        exceedances for a fit counts as one with a high TAR.
    rng : Generator
        For the test of fit.
    reach : float
        Refuse when `far` lies further than this below 30 / nonmated.

    Returns
    -------
    Extrapolation
        With `refusal` set and no numbers when the tail is too short, fits no GPD, is filled by few pairs of people,
        holds a pair that scores 1, or `far` is out of reach.

    Raises
    ------
    DataError
        `far` is not above 0, or the data support it: then measure it.

    Notes
    -----
    ISO/IEC 5152:2024, Biometric performance estimation methodologies using statistical models. S. Coles, An
    Introduction to Statistical Modeling of Extreme Values (2001), chapter 4.
    """
    if not 0 < far < 1:
        raise DataError(f"a false accept rate to extrapolate to lies between 0 and 1, got {far}")
    if grade_of(far, tail.nonmated) == "supported":
        raise DataError(f"FAR {far:g} is supported by {tail.nonmated} pairs: measure it, with threshold_at")
    below = SUPPORTED / tail.nonmated / far
    fit = None
    refusal: str | None = None
    if below > reach:
        refusal = (
            f"FAR {far:g} lies {below:.0f} times below the smallest supported FAR; no further than {reach:g} times"
        )
    else:
        fit, refusal = _search(tail, rng)
    if fit is None or refusal is not None:
        return Extrapolation(far, *(None,) * 6, refusal, below, tail.nonmated, fit)
    ones = np.ones((1, tail.subjects))
    weights = np.concatenate([ones, bootstrap.weights.astype(np.float64)])
    thresholds = _thresholds(tail, fit, weights, far)
    threshold, drawn = float(thresholds[0]), thresholds[1:]
    tars = _tars(tail, weights[1:], drawn)
    tar = tail.tar(threshold)
    low, high = (float(q) for q in np.quantile(np.where(np.isnan(drawn), -1.0, drawn), _ends()))
    tar_low, tar_high = subject_interval(tar, tars, tail.effective_subjects)
    return Extrapolation(
        far,
        threshold,
        min(low, threshold),
        max(high, threshold),
        tar,
        tar_low,
        tar_high,
        None,
        below,
        tail.nonmated,
        fit,
    )


def _search(tail: ScoreTail, rng: np.random.Generator) -> tuple[TailFit | None, str | None]:
    """Return the first fit that is not rejected; or the last one and why it was."""
    count = min(EXCEEDANCES, tail.top.size - 1, tail.nonmated // _SHARE)
    if tail.top.size and tail.top[0] >= 1 - 1e-6:
        return None, "a pair of two people scores 1: remove the duplicate image, or its wrong label"
    fit, refusal = None, f"a tail fit needs {FEWEST} scores in the highest 1/{_SHARE}, there are {max(count, 0)}"
    while count >= FEWEST:
        start = float(tail.top[count])
        scores = tail.top[: int(np.count_nonzero(tail.top[:count] > tail.top[count]))]
        if scores.size >= FEWEST:
            fit = _fit(tail, scores.astype(np.float64) - start, start, rng)
            if fit.misfit is None:
                return fit, None
            refusal = fit.misfit
        else:
            refusal = f"the scores at {start:.6g} are tied: they have no tail to fit"
        count //= 2
    return fit, refusal


def _fit(tail: ScoreTail, excess: NDArray[np.float64], start: float, rng: np.random.Generator) -> TailFit:
    room, n = 1 - start, excess.size
    every = np.ones((1, n))
    method: Method = "likelihood"
    end, k = fit_pareto(excess, room, every, method=method)
    if k[0] >= _REGULAR:
        method = "moments"
        end, k = fit_pareto(excess, room, every, method=method)
    distance = _distance(excess, room, method)
    simulated = np.sort(end[0] * -np.expm1(k[0] * np.log(rng.uniform(size=(_SIMULATED, n)))), axis=1)[:, ::-1]
    further = sum(_distance(sample, room, method) >= distance for sample in simulated)
    pairs = np.sort(tail.pairs_of(slice(0, n)).astype(np.int64), axis=1)
    shares = np.unique(pairs @ [tail.subjects, 1], return_counts=True)[1] / n
    return TailFit(
        shape=-float(k[0]),
        scale=float(k[0] * end[0]),
        start=start,
        end_point=start + float(end[0]),
        exceedances=n,
        pairs_of_people=float(1 / (shares**2).sum()),
        method=method,
        distance=distance,
        p_value=(1 + further) / (1 + _SIMULATED),
        p_highest=float(min(1.0, n * (1 - excess[0] / end[0]) ** (1 / k[0]))),  # a union bound: dependence is no matter
    )


def _distance(excess: NDArray[np.float64], room: float, method: Method) -> float:
    """Fit on a rough grid, which is quick and the same for data and simulations, and return how far off the fit is."""
    end, k = fit_pareto(excess, room, np.ones((1, excess.size)), method=method, grid=_ROUGH)
    return anderson_darling(excess, float(end[0]), float(k[0]))


def _thresholds(tail: ScoreTail, fit: TailFit, weights: NDArray[np.float64], far: float) -> NDArray[np.float64]:
    """Return the threshold of each row of weights; NaN where too few exceedances were drawn."""
    excess = tail.top[: fit.exceedances].astype(np.float64) - fit.start
    first, second = tail.pairs_of(slice(0, fit.exceedances)).T
    found = np.full(weights.shape[0], np.nan)
    totals = tail.nonmated_drawn(weights)
    for begin in range(0, weights.shape[0], _CHUNK):
        rows = slice(begin, begin + _CHUNK)
        drawn = weights[rows, first] * weights[rows, second]
        some = np.count_nonzero(drawn, axis=1) >= _FEWEST_DRAWN
        if not some.any():
            continue
        end, k = fit_pareto(excess, 1 - fit.start, drawn[some], method=fit.method)
        beyond = far * totals[rows][some] / drawn[some].sum(axis=1)
        threshold = fit.start - end * np.expm1(k * np.log(beyond))
        found[rows][some] = np.where(beyond < 1, threshold, np.nan)
    return found


def _tars(tail: ScoreTail, weights: NDArray[np.float64], thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the TAR of each draw at its own threshold; NaN where there is none."""
    levels, which = np.unique(np.where(np.isnan(thresholds), 2.0, thresholds), return_inverse=True)
    slot = np.searchsorted(levels, tail.mated.astype(np.float64), side="right")  # thresholds at or below the score
    flat = tail.mated_subject.astype(np.int64) * (levels.size + 1) + slot
    counts = np.bincount(flat, minlength=tail.subjects * (levels.size + 1)).reshape(tail.subjects, -1)
    accepted = counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
    pairs = weights @ tail.mated_pairs()
    accepts = np.einsum("bs,sb->b", weights, accepted[:, which].astype(np.float64))
    tars = np.divide(accepts, pairs, out=np.zeros(pairs.size), where=pairs > 0)
    return np.where(np.isnan(thresholds), np.nan, tars)


def _ends() -> tuple[float, float]:
    return (1 - LEVEL) / 2, (1 + LEVEL) / 2
