"""Plain cosine: the attacker who does nothing but compare vectors. The floor no audit may fall below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind.attack.base import Candidate
from faceblind.data.embeddings import unit_rows


class Cosine:
    """Compare released vectors as they are."""

    name = "cosine"
    learns = False
    patience: int | None = None
    setting: Mapping[str, float] = {}

    def fit(
        self, X: NDArray[np.float32], identity: NDArray[Any], *, k: int | None, rng: np.random.Generator
    ) -> Sequence[Candidate]:
        """Learn nothing."""
        return (self,)

    def map(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scale rows to unit length."""
        return unit_rows(X)

    def describe(self) -> dict[str, Any]:
        """Return the recipe, for the record."""
        return {"name": self.name, "recipe": "cosine of released vectors", "grid": {}}
