"""TAR at a FAR of queries against a gallery of other photographs, with chance beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind.frequency.evaluation.draws import digest_of
from faceblind.frequency.evaluation.people import point_row
from faceblind.measure import SubjectBootstrap, Threshold, operating_point, template_tail


def match(
    queries: NDArray[np.float32],
    identity: NDArray[np.str_],
    gallery: NDArray[np.float32],
    gallery_identity: NDArray[np.str_],
    *,
    far: float = 1e-2,
    seed: int = 0,
) -> dict[str, Any]:
    """Compare every query with every photograph of a gallery, unit rows each.

    Returns
    -------
    dict
        An operating point with its interval over people; the threshold is set on these people, where the attacker is
        strongest. ``null`` is the same with every query given to another person: chance. ``draws`` are alike for all queries
        of the same people, so that two attacks or two releases can be compared; see `faceblind.frequency.evaluation.draws`.
    """
    # Every query is said to show the next person.
    names, codes = np.unique(identity, return_inverse=True)
    shuffled = names[(codes + 1 + np.random.default_rng(seed).integers(0, max(names.size - 1, 1))) % names.size]
    chance = point(queries, shuffled, gallery, gallery_identity, far=far, seed=seed) | {"draws": None}
    return point(queries, identity, gallery, gallery_identity, far=far, seed=seed) | {"null": chance}


def point(
    queries: NDArray[np.float32],
    identity: NDArray[np.str_],
    gallery: NDArray[np.float32],
    gallery_identity: NDArray[np.str_],
    *,
    far: float,
    seed: int,
) -> dict[str, Any]:
    """Return the operating point alone, with its draws."""
    tail = template_tail(queries, identity, gallery, gallery_identity, far_max=far)
    rng = np.random.default_rng([seed, 0x1D])
    of = digest_of(rng, identity, gallery_identity)
    bootstrap = SubjectBootstrap.of(tail.subjects, rng=rng)
    return point_row(operating_point(tail, Threshold.set_on(tail, far), bootstrap, frozen=False), of)
