"""Who is who: people to train on, people the attacker owns, people to test on. No identity is in two of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from faceblind.data.split import IdentitySplit

if TYPE_CHECKING:
    from faceblind.frequency.faces import FaceSource

SHARES: Mapping[str, float] = {"fit": 0.65, "attack": 0.12, "validation": 0.03, "test": 0.20}
"""Training a network takes far more people than fitting a linear map does."""


@dataclass(frozen=True, eq=False)
class Labels:
    """Keys and identities of a face source, as a split reads them."""

    sample: NDArray[np.str_]
    identity: NDArray[np.str_]

    def require_identity(self) -> NDArray[np.str_]:
        """Return the identity of each face."""
        return self.identity


def split_people(
    source: FaceSource,
    *,
    seed: int = 0,
    shares: Mapping[str, float] = SHARES,
    csv: str | Path | None = None,
) -> IdentitySplit:
    """Draw identity-disjoint parts of a face source, or read them from a manifest (columns sample, identity, split).

    The network is trained on ``fit``; the attacker owns ``attack``; ``test`` is released and attacked, and what the
    network still recognises is measured on it. ``validation`` is kept for choices that a user makes.

    Raises
    ------
    SplitError
        Too few people with two images.
    FormatError
        A manifest that does not fit the faces.
    """
    labels = Labels(source.sample, source.identity)
    if csv is not None:
        return IdentitySplit.from_csv(csv, labels)
    return IdentitySplit.draw(labels, seed=seed, shares=shares)


def save_split(split: IdentitySplit, path: str | Path, source: FaceSource) -> None:
    """Write a split beside what was made with it, so that a later command finds the same people."""
    split.save(path, Labels(source.sample, source.identity))
