"""What every attacker offers.

An attacker is adaptive: it is fitted on vectors as they are released, erased ones included. It offers candidates, one
per hyper-parameter setting; the audit freezes the one that does best on validation identities and then shows it the
test identities once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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

    def fit(
        self, X: NDArray[np.float32], identity: NDArray[Any], *, k: int, rng: np.random.Generator
    ) -> Sequence[Candidate]:
        """Fit on k random images of each identity among (n, d) released vectors."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return the recipe and the hyper-parameter grid, for the record."""
        ...


def draw_images(identity: NDArray[Any], k: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw k rows of every identity without replacement (all rows of those that have fewer).

    Raises
    ------
    DataError
        k is less than one.
    """
    if k < 1:
        raise DataError(f"an attacker needs at least one image per identity, got k={k}")
    _, codes = np.unique(identity, return_inverse=True)
    shuffled = rng.permutation(codes.size)
    grouped = shuffled[np.argsort(codes[shuffled], kind="stable")]
    starts = np.concatenate([[0], np.cumsum(np.bincount(codes))[:-1]])
    position = np.arange(codes.size) - starts[codes[grouped]]
    return np.sort(grouped[position < k])


def freeze(candidates: Sequence[Candidate], objective: Callable[[Candidate], float]) -> Candidate:
    """Return the candidate with the highest objective on validation identities; the earlier one on ties."""
    if len(candidates) == 1:
        return candidates[0]
    scores = [objective(candidate) for candidate in candidates]
    return candidates[int(np.argmax(scores))]
