"""`check_hygiene`: every check in turn, worst findings first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.findings import Finding, worst_first
from faceblind.data.hygiene.duplicates import duplicate_findings
from faceblind.data.hygiene.labels import label_findings
from faceblind.data.hygiene.near import NEAR, Progress, require_cosine
from faceblind.data.hygiene.people import People
from faceblind.data.hygiene.vectors import identical_groups, vector_findings
from faceblind.data.split import IdentitySplit

_SHOWN = 5


def check_hygiene(
    embeddings: EmbeddingSet,
    *,
    split: IdentitySplit | None = None,
    near: float = NEAR,
    progress: Progress | None = None,
) -> tuple[Finding, ...]:
    """Look for what would make the numbers wrong, and list it before any number.

    Duplicates (across identities, within them, between splits), labels that slipped by a row, single wrong labels, one
    person under two names, identities shared between splits or with a single image, and vectors of a failed encoder.

    Parameters
    ----------
    embeddings : EmbeddingSet
        (n, d) vectors with identities, in the order in which labels were joined to them.
    split : IdentitySplit, optional
        Also look for what its parts share.
    near : float
        Cosine from which two images are called near duplicates.
    progress : callable, optional
        Called with what is being done, steps done, and all steps.

    Returns
    -------
    tuple of Finding
        Worst first.

    Raises
    ------
    DataError
        The table has no identities.
    UsageError
        `near` is not a cosine above 0.

    Notes
    -----
    All pairs are compared up to 20,000 rows; beyond that near duplicates are searched by bucketing, which misses a
    pair at the threshold with a chance of 0.001 at most. Checks of labels control how many of their findings are false;
    where the encoder separates people too weakly to tell, a note says so.
    """
    require_cosine(near)
    identity = embeddings.require_identity()
    unit = embeddings.unit()
    groups = identical_groups(embeddings.vectors)
    findings = vector_findings(embeddings, unit, groups, near)
    if "vectors_all_alike" not in {finding.kind for finding in findings}:
        findings += duplicate_findings(embeddings, unit, groups, split=split, near=near, progress=progress)
        findings += label_findings(embeddings, People.of(unit, identity))
    findings += _single_images(identity)
    if split is not None:
        shared = split.shared_identities(identity)
        findings += [shared] if shared else []
    return tuple(worst_first(findings))


def _single_images(identity: NDArray[np.str_]) -> list[Finding]:
    names, counts = np.unique(identity, return_counts=True)
    single = names[counts == 1]
    if not single.size:
        return []
    return [
        Finding(
            kind="single_image_identities",
            severity="warning",
            count=int(single.size),
            examples=tuple(single[:_SHOWN].tolist()),
            message=f"{single.size} of {names.size} identities have a single image: no mated pair, and a mean that is "
            "image noise; they are left out of the splits",
        )
    ]
