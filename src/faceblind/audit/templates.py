"""Templates: k support images of a person averaged into one vector, and the images left to be recognised by it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faceblind.attack import draw_images
from faceblind.audit.releases import Part


@dataclass(frozen=True, eq=False)
class Gallery:
    """One template a person (rows of `templates` in the order of `names`), and the queries."""

    templates: NDArray[np.float32]
    names: NDArray[np.str_]
    queries: Part


def enroll(part: Part, k: int, rng: np.random.Generator) -> Gallery:
    """Average k random images of each person; the others are queries.

    People with k images or fewer have no query left: their template, of all they have, still stands among those that
    others are falsely matched with.
    """
    support = draw_images(part.identity, k, rng)
    names, codes = np.unique(part.identity[support], return_inverse=True)
    sums = np.zeros((names.size, part.vectors.shape[1]))
    np.add.at(sums, codes, part.vectors[support].astype(np.float64))
    templates = sums / np.bincount(codes)[:, None]
    left = np.ones(part.identity.size, dtype=np.bool_)
    left[support] = False
    return Gallery(templates.astype(np.float32), names, Part(part.vectors[left], part.identity[left]))
