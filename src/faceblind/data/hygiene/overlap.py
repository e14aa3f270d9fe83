"""Who is in both of two data sets: by name, by photograph, and by looks.

A projector fitted on people whom the audit then tests proves nothing about others, so the two must share nobody.
"""

from __future__ import annotations

import unicodedata

import numpy as np

from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.findings import Finding, worst_first
from faceblind.data.hygiene.alike import find_alike
from faceblind.data.hygiene.duplicates import across_findings, pairs_across
from faceblind.data.hygiene.near import NEAR, Progress, require_cosine
from faceblind.data.hygiene.outliers import tells_images_apart
from faceblind.data.hygiene.people import People
from faceblind.data.hygiene.vectors import identical_groups

SHOWN = 5


def identity_overlap(
    first: EmbeddingSet, second: EmbeddingSet, *, near: float = NEAR, progress: Progress | None = None
) -> tuple[Finding, ...]:
    """Look for people and photographs that two tables share.

    Parameters
    ----------
    first, second : EmbeddingSet
        (n, d) vectors with identities, of the same encoder.
    near : float
        Cosine from which two images are called near duplicates.
    progress : callable, optional
        Called with what is being done, steps done, and all steps.

    Returns
    -------
    tuple of Finding
        Shared photographs, shared names (in whatever case and spacing) and people who look alike under other names; worst first.

    Raises
    ------
    DataError
        One of the tables has no identities.
    UsageError
        `near` is not a cosine above 0.

    Notes
    -----
    Looks are compared only when both tables hold vectors of one encoder, treated alike; a note says when they do not. Each
    table is centred on its own mean, so that a difference between the collections is no likeness.
    """
    require_cosine(near)
    first.require_identity()
    second.require_identity()
    reason = _incomparable(first, second)
    if reason:
        note = Finding(
            kind="tables_not_comparable",
            severity="note",
            count=len(first) + len(second),
            message=f"only names were compared, because {reason}; embed both with one encoder to compare photographs and faces",
        )
        return tuple(worst_first([*_shared_names(first, second, None), note]))
    findings = _shared_photographs(first, second, near, progress)
    people = [People.of(table.unit(), table.require_identity()) for table in (first, second)]
    alike = find_alike(*people)
    couples = {
        (str(people[0].names[a]), str(people[1].names[b])): float(ratio)
        for (a, b), ratio in zip(alike.pairs, alike.ratio, strict=True)
    }
    findings += _shared_names(first, second, set(couples))
    findings += _same_looks(couples)
    if not (alike.can_tell and all(tells_images_apart(someone) for someone in people)):
        findings.append(
            Finding(
                kind="overlap_hard_to_check",
                severity="note",
                count=int(people[0].names.size + people[1].names.size),
                message="these vectors separate people too weakly to show a person who is in both tables under two names: that none is "
                "listed does not mean that there is none; compare a face recogniser's vectors of the same images",
            )
        )
    return tuple(worst_first(findings))


def _incomparable(first: EmbeddingSet, second: EmbeddingSet) -> str:
    if first.dim != second.dim:
        return f"the vectors have {first.dim} and {second.dim} dimensions"
    if first.encoder and second.encoder:
        differences = first.encoder.differs_from(second.encoder)
        if differences:
            return f"the encoders differ ({differences[0]})"
    if first.meta.projector != second.meta.projector:
        return "a projector was applied to one table and not, or another one, to the other"
    return ""


def _shared_photographs(
    first: EmbeddingSet, second: EmbeddingSet, near: float, progress: Progress | None
) -> list[Finding]:
    unit = np.concatenate([first.unit(), second.unit()])
    table = np.repeat(["first", "second"], [len(first), len(second)])
    groups = identical_groups(np.concatenate([first.vectors, second.vectors]))
    found = pairs_across(unit, groups, table, near, progress)
    return across_findings(
        first,
        second,
        found,
        near,
        exact=(
            "photograph_in_both_tables",
            "the same vector is in both tables, as {}: what is learned from one is not tested on unseen images in the other; drop it from one",
        ),
        close=(
            "near_duplicate_in_both_tables",
            f"images of the two tables have cosine {near:g} or more: probably one photograph in both; look at them and drop one",
        ),
    )


def _shared_names(first: EmbeddingSet, second: EmbeddingSet, couples: set[tuple[str, str]] | None) -> list[Finding]:
    """Compare names without case, spacing and punctuation; `couples` are pairs of names that look like one person."""
    ours, theirs = (
        {_plain(name): name for name in np.unique(table.require_identity()).tolist()} for table in (first, second)
    )
    shared = [(ours[key], theirs[key]) for key in sorted(ours.keys() & theirs.keys())]
    if not shared:
        return []
    looks = "" if couples is None else f" ({sum(pair in couples for pair in shared)} of them also look like one person)"
    return [
        Finding(
            kind="identity_in_both_tables",
            severity="warning",
            count=len(shared),
            examples=tuple(a if a == b else f"{a} and {b}" for a, b in shared[:SHOWN]),
            message=f"names are in both tables{looks}: unless they are numbers that mean other people there, the two share people, and "
            "what is learned from one is not tested on strangers in the other; drop them from one",
        )
    ]


def _plain(name: str) -> str:
    folded = unicodedata.normalize("NFKC", name).casefold()
    return "".join(c for c in folded if c.isalnum()) or name


def _same_looks(couples: dict[tuple[str, str], float]) -> list[Finding]:
    others = [(pair, ratio) for pair, ratio in couples.items() if _plain(pair[0]) != _plain(pair[1])]
    if not others:
        return []
    return [
        Finding(
            kind="same_person_in_both_tables",
            severity="warning",
            count=len(others),
            examples=tuple(f"{a} and {b}: likeness {ratio:.2f} (1 is one person)" for (a, b), ratio in others[:SHOWN]),
            message="an identity of one table is as like one of the other as the images of one person are: probably the same person (or "
            "two that this encoder cannot tell apart); look at them and drop one",
        )
    ]
