"""IJB-B and IJB-C, one to one: templates of several images, and lists of pairs of templates.

The images of a template that come from one video (a *medium*) are averaged first, the media of a template are then added
up, and the sum is brought to length 1; the score is the cosine. The published code reads TPR off the curve where its FPR
is *nearest* to the target, which may lie above it. Both are given here: that, and the TAR at the threshold that stays
within the target, with an interval over draws of people.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.frequency.evaluation.draws import digest_of
from faceblind.frequency.evaluation.ijb_files import listed_pairs
from faceblind.frequency.evaluation.listed import ListedPairs
from faceblind.frequency.evaluation.people import point_row
from faceblind.frequency.evaluation.tenfold import unit_rows
from faceblind.measure.intervals import SubjectBootstrap
from faceblind.measure.point import Threshold, operating_point

FARS = (1e-3, 1e-4, 1e-5)
_BLOCK = 8192


def make_templates(
    embeddings: NDArray[np.float32],
    template: NDArray[np.int64],
    medium: NDArray[np.int64],
    *,
    weights: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Average the images of each medium, add up the media of each template, and bring the sums to length 1.

    Parameters
    ----------
    embeddings : (n, d)
        As they are: their lengths count, as in the published code. Give unit rows for the other common practice.
    template, medium : (n,) int
    weights : (n,), optional
        The face detector's scores, by which the published code multiplies the embeddings.

    Returns
    -------
    ids : (t,) int64, ascending
    templates : (t, d) float32

    Raises
    ------
    DataError
        Other numbers of rows, or a template that adds up to zero or is not finite (named).
    """
    n = template.size
    if (
        embeddings.ndim != 2
        or embeddings.shape[0] != n
        or medium.shape != (n,)
        or (weights is not None and weights.shape != (n,))
    ):
        raise DataError(
            f"{n:,} images need one embedding, one medium and one weight each; embeddings are {embeddings.shape}"
        )
    order = np.lexsort((medium, template))
    new = np.ones(n, dtype=np.bool_)
    new[1:] = (np.diff(template[order]) != 0) | (np.diff(medium[order]) != 0)
    starts = np.flatnonzero(new)
    counts = np.diff(np.append(starts, n))
    ids, first_medium = np.unique(template[order][starts], return_index=True)
    sums = np.empty((ids.size, embeddings.shape[1]))
    for column in range(0, embeddings.shape[1], 64):  # float64 of all at once would double the largest array there is
        part = embeddings[:, column : column + 64][order].astype(np.float64)
        if weights is not None:
            part *= weights[order, None]
        means = np.add.reduceat(part, starts, axis=0) / counts[:, None]
        sums[:, column : column + 64] = np.add.reduceat(means, first_medium, axis=0)
    return ids, unit_rows(sums.astype(np.float32), ids.size, "templates, numbered as they come").astype(np.float32)


@dataclass(frozen=True, eq=False)
class IjbEvaluation:
    """TAR of templates at each FAR, and what the published rule reads off the same scores."""

    pairs: ListedPairs
    rates: tuple[dict[str, Any], ...]

    def rows(self, name: str, *, noise: bool) -> list[dict[str, Any]]:
        """Return the rows of the record for a set of this name: two for each target FAR, told apart by ``rule``."""
        return [{**row, "set": name, "protocol": "ijb", "noise": noise} for row in self.rates]


def evaluate_ijb(
    ids: NDArray[np.int64],
    templates: NDArray[np.float32],
    pairs_file: str | Path,
    *,
    fars: tuple[float, ...] = FARS,
    draws: int = 1000,
    rng: np.random.Generator,
    progress: Callable[[int], None] | None = None,
) -> IjbEvaluation:
    """Score the listed pairs of templates, reading the list as a stream, and measure TAR at each FAR.

    Parameters
    ----------
    ids, templates
        See `make_templates`.
    pairs_file
        Lines of two template numbers and 1 (one person) or 0.
    progress
        Called with the number of pairs scored.

    Raises
    ------
    FormatError
        A line that cannot be read, or a template without images; names it.
    DataError
        No pairs of one kind, or a FAR outside of 0 to 1.
    """
    if not fars or not all(0 < far < 1 for far in fars):
        raise DataError(f"target FARs lie between 0 and 1, got {fars}")
    parts: list[tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]] = []
    done = 0
    for first, second, same in listed_pairs(Path(pairs_file), ids):
        parts.append((_scores(templates, first, second), first, second, same))
        done += same.size
        if progress is not None:
            progress(done)
    scores, first, second, same = (np.concatenate(column) for column in zip(*parts, strict=True))
    del parts
    listed = ListedPairs.of(scores, first, second, same, ids.size)
    tail = listed.tail(max(fars))
    of = digest_of(rng, first, second, same)
    bootstrap = SubjectBootstrap.of(tail.subjects, draws=draws, rng=rng)
    rates: list[dict[str, Any]] = []
    for far in fars:
        point = operating_point(tail, Threshold.set_on(tail, far), bootstrap, frozen=False)
        rates.append(
            {
                **point_row(point, of),
                "rule": "at most",
                "note": "people taken from the pairs said to be of one person",
            }
        )
        tpr, fpr = listed.nearest(far)
        rates.append(
            {
                **{key: rates[-1][key] for key in ("far_target", "grade", "people", "mated", "nonmated")},
                "tar": tpr,
                "far": fpr,
                "low": None,
                "high": None,
                "rule": "nearest",
                "note": "as published: the point of the curve whose FPR is nearest to the target, above it or below",
            }
        )
    return IjbEvaluation(listed, tuple(rates))


def _scores(templates: NDArray[np.float32], first: NDArray[np.int32], second: NDArray[np.int32]) -> NDArray[np.float32]:
    out = np.empty(first.size, dtype=np.float32)
    for start in range(0, first.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        out[part] = np.einsum("ij,ij->i", templates[first[part]], templates[second[part]])
    return out
