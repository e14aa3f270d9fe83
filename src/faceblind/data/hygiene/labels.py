"""Wrong labels, told by the vectors: slipped rows, single images, one person under two names."""

from __future__ import annotations

import math

import numpy as np

from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.findings import Finding
from faceblind.data.hygiene.alike import Alike, find_alike
from faceblind.data.hygiene.duplicates import name_row
from faceblind.data.hygiene.outliers import LEAST_PEOPLE, Outliers, find_outliers
from faceblind.data.hygiene.people import People
from faceblind.data.hygiene.shifts import Shift, find_shifts

SHOWN = 5
_LEAST_IMAGES = 50


def label_findings(embeddings: EmbeddingSet, people: People) -> list[Finding]:
    """Check labels against vectors; says when these vectors cannot tell."""
    several = people.counts > 1
    if several.sum() < LEAST_PEOPLE or people.counts[several].sum() < _LEAST_IMAGES:
        return [
            Finding(
                kind="labels_not_checked",
                severity="note",
                count=len(embeddings),
                message=f"labels were not checked against the vectors: that takes {LEAST_PEOPLE} identities with two images or more "
                f"and {_LEAST_IMAGES} images, here are {int(several.sum())} and {int(people.counts[several].sum())}",
            )
        ]
    shifts = find_shifts(people)
    if shifts:  # every other label check would only repeat it
        return [_shifted(embeddings, shifts)]
    alike = find_alike(people)
    outliers = find_outliers(people, alike={(int(a), int(b)) for a, b in alike.pairs})
    found = [
        _one_person(people, alike),
        _moved(embeddings, people, outliers),
        _far(embeddings, people, outliers),
        _cannot_tell(people, alike, outliers),
    ]
    return [finding for finding in found if finding is not None]


def _shifted(embeddings: EmbeddingSet, shifts: list[Shift]) -> Finding:
    rows = sum(shift.end - shift.start for shift in shifts)
    return Finding(
        kind="labels_shifted",
        severity="error",
        count=rows,
        examples=tuple(
            f"rows {s.start:,} ({embeddings.sample[s.start]}) to {s.end - 1:,} ({embeddings.sample[s.end - 1]}): each fits the label of "
            f"the row {abs(s.by)} {'further down' if s.by > 0 else 'further up'}"
            for s in shifts[:SHOWN]
        ),
        message=f"{100 * rows / len(embeddings):.0f} % of the rows (counted from 0) carry the label of a neighbouring row, as after a skipped "
        "header or an image that failed: identities are mixed up and no rate is right; join labels to vectors by key, not by "
        "position. Other label checks were left out",
    )


def _one_person(people: People, alike: Alike) -> Finding | None:
    if not len(alike.pairs):
        return None
    return Finding(
        kind="one_person_under_two_names",
        severity="warning",
        count=len(alike.pairs),
        examples=tuple(
            f"{people.names[a]} and {people.names[b]}: likeness {ratio:.2f} (1 is one person)"
            for (a, b), ratio in zip(alike.pairs[:SHOWN], alike.ratio[:SHOWN], strict=True)
        ),
        message="two identities are as alike as the images of one person: probably one person under two names (or two that this encoder "
        "cannot tell apart); their pairs count as false accepts and make the leak look smaller; look at them and merge or drop one",
    )


def _moved(embeddings: EmbeddingSet, people: People, outliers: Outliers) -> Finding | None:
    if not outliers.moved.size:
        return None
    return Finding(
        kind="label_fits_another_identity",
        severity="warning",
        count=int(outliers.moved.size),
        examples=tuple(
            f"{name_row(embeddings, int(row))} looks like {people.names[target]}: similarity {there:.2f} there, {people.own[row]:.2f} to its own"
            for row, target, there in zip(
                outliers.moved[:SHOWN], outliers.target[:SHOWN], outliers.similarity[:SHOWN], strict=True
            )
        ),
        message="images are far from their own identity and about as near to another as its own images are: probably a wrong label, which "
        "makes a mated pair fail and a non-mated one match; look at them and correct the label or drop them",
    )


def _far(embeddings: EmbeddingSet, people: People, outliers: Outliers) -> Finding | None:
    if not outliers.far.size:
        return None
    return Finding(
        kind="label_outliers",
        severity="warning",
        count=int(outliers.far.size),
        examples=tuple(
            f"{name_row(embeddings, int(row))}: similarity {people.own[row]:.2f} to its own, {outliers.stranger[row]:.2f} to others"
            for row in outliers.far[:SHOWN]
        ),
        message="images are no more like their own identity than strangers are: a wrong label, another person in the picture, or a face "
        "that hardly shows; they make the leak look smaller; look at them and correct, crop again or drop them",
    )


def _cannot_tell(people: People, alike: Alike, outliers: Outliers) -> Finding | None:
    blind = []
    if not outliers.can_tell:
        blind.append(
            f"the wrong label of a single image (about {100 * outliers.mistaken:.2g} % of right ones are as far from their own as strangers are)"
        )
    if not alike.can_tell:
        chance = alike.by_chance
        number = "many" if not math.isfinite(chance) else f"about {chance:.2g}" if chance < 100 else f"{chance:,.0f}"
        blind.append(f"one person under two names ({number} pairs of different people would look like that)")
    if not blind:
        return None
    return Finding(
        kind="labels_hard_to_check",
        severity="note",
        count=int(np.count_nonzero(people.counts > 1)),
        message=f"these vectors separate people too weakly to show {' or '.join(blind)}: that nothing is listed does not mean that labels are "
        "right; check them with a face recogniser's vectors of the same images",
    )
