"""What every attacker offers.

An attacker is adaptive: it is fitted on vectors as they are released, erased ones included. It offers candidates, one
per hyper-parameter setting (or per stage of training); the audit freezes the one that does best on validation
identities and then shows it the test identities once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError


class Candidate(Protocol):
    """A fitted attacker at one hyper-parameter setting."""

    @property
    def setting(self) -> Mapping[str, float]:
        """Hyper-parameters, for the record."""
        ...

    def map(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Map (n, d) released vectors to (n, q) unit rows whose cosine is the attacker's score."""
        ...


class Attacker(Protocol):
    """A recipe that learns to verify identities."""

    @property
    def name(self) -> str:
        """Short name for the record."""
        ...

    @property
    def learns(self) -> bool:
        """Whether it is fitted on labelled people; plain cosine is not."""
        ...

    @property
    def patience(self) -> int | None:
        """How many candidates in a row may fail to improve on validation before the rest are left untrained.

        None for attackers whose candidates cost nothing more once they are fitted: all of them are looked at.
        """
        ...

    def fit(
        self, X: NDArray[np.float32], identity: NDArray[Any], *, k: int | None, rng: np.random.Generator
    ) -> Iterable[Candidate]:
        """Fit on k random images of each identity among (n, d) released vectors, or on all of them when k is None.

        Where `patience` is a number, candidates are made as they are asked for, in order of training.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Return the recipe and the hyper-parameter grid, for the record."""
        ...


def draw_images(identity: NDArray[Any], k: int | None, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw k rows of every identity without replacement (all rows of those that have fewer, or when k is None).

    Raises
    ------
    DataError
        k is less than one.
    """
    if k is None:
        return np.arange(np.size(identity))
    if k < 1:
        raise DataError(f"an attacker needs at least one image per identity, got k={k}")
    _, codes = np.unique(identity, return_inverse=True)
    shuffled = rng.permutation(codes.size)
    grouped = shuffled[np.argsort(codes[shuffled], kind="stable")]
    starts = np.concatenate([[0], np.cumsum(np.bincount(codes))[:-1]])
    position = np.arange(codes.size) - starts[codes[grouped]]
    return np.sort(grouped[position < k])


def freeze(
    candidates: Iterable[Candidate], objective: Callable[[Candidate], float], patience: int | None = None
) -> Candidate:
    """Return the candidate with the highest objective on validation identities; the earlier one on ties.

    Parameters
    ----------
    candidates : iterable of Candidate
        Consumed one at a time; only the best one so far is kept.
    objective : callable
        Not called when there is only one candidate.
    patience : int, optional
        Stop after this many candidates in a row that do not improve; None looks at all.

    Raises
    ------
    DataError
        There is no candidate, or patience is less than one.
    """
    if patience is not None and patience < 1:
        raise DataError(f"early stopping needs a patience of at least one candidate, got {patience}")
    remaining = iter(candidates)
    best = next(remaining, None)
    if best is None:
        raise DataError("an attacker offered no candidate: its grid is empty; give it at least one setting")
    highest: float | None = None
    since = 0
    for candidate in remaining:
        if highest is None:
            highest = objective(best)
        value = objective(candidate)
        if value > highest:
            best, highest, since = candidate, value, 0
        else:
            since += 1
            if since == patience:
                break
    return best
