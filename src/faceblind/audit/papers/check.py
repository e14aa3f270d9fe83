"""`check_printed`: what arithmetic alone finds wrong in the paper's own tables.

No data are needed: counts of pairs, printed values that should agree, and orders that should hold. Each slip names the
rule, the numbers and what follows. A set of tables without contradictions gives none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from faceblind.audit.papers.orders import ORDER_RULES, Slip
from faceblind.audit.papers.printed import PairCounts, Printed, printed_paper
from faceblind.audit.report.text import rate
from faceblind.measure import allowed_false_accepts, grade_of


def check_printed(paper: Printed | None = None) -> tuple[Slip, ...]:
    """Check printed tables by arithmetic.

    Parameters
    ----------
    paper : Printed, optional
        By default arXiv 2604.05296, as shipped.

    Returns
    -------
    tuple of Slip
        In the order of the rules; empty when nothing contradicts.
    """
    paper = paper or printed_paper()
    return tuple(slip for rule in (_floor, _counts, _area_steps, *ORDER_RULES) for slip in rule(paper))


def effective_far(pairs: int, accepts: int = 0) -> tuple[float, float, float]:
    """Return mean, 2.5 and 97.5 % points of the true FAR of a threshold just above the highest of sampled impostors.

    With independent pairs it is that of a sample maximum, Beta(accepts + 1, pairs - accepts).
    """
    from scipy import stats

    beta = stats.beta(accepts + 1, pairs - accepts)
    low, high = (float(q) for q in beta.ppf([0.025, 0.975]))
    return float(beta.mean()), low, high


def images_each(counts: PairCounts) -> int | None:
    """Return how many images per person give the printed number of mated pairs, if any number does."""
    for images in range(2, max(counts.images, 64) + 1):
        if counts.people * math.comb(images, 2) == counts.mated:
            return images
    return None


def true_impostors(counts: PairCounts) -> int | None:
    """Return how many different-person pairs the printed people and mated pairs leave."""
    images = images_each(counts)
    return None if images is None else math.comb(counts.people * images, 2) - counts.mated


def _floor(paper: Printed) -> Iterator[Slip]:
    """Hold the FAR that was reported against the number of impostor pairs."""
    for counts in paper.pair_counts:
        floor, allowed = 1 / counts.impostors, allowed_false_accepts(paper.far, counts.impostors)
        mean, low, high = effective_far(counts.impostors, allowed)
        numbers = {"far": paper.far, "floor": floor, "impostors": float(counts.impostors), "allowed": float(allowed)}
        tables = tuple(dict.fromkeys(c.table for c in paper.cells if c.dataset == counts.dataset and c.metric == "TAR"))
        if allowed == 0:
            yield Slip(
                rule="far_below_floor",
                tables=("3", *tables),
                numbers=numbers | {"mean": mean, "low": low, "high": high},
                sentence=f"FAR {rate(paper.far)} is below the floor of {counts.dataset}, 1/{counts.impostors:,} = {rate(floor)}: no false accept is "
                f"allowed, so the threshold is the highest of {counts.impostors:,} scores, whose true FAR is {rate(mean)} on average and "
                f"anywhere from {rate(low)} to {rate(high)} (95 %, independent pairs).",
            )
        elif grade_of(paper.far, counts.impostors) == "unsupported":
            yield Slip(
                rule="far_unsupported",
                tables=("3", *tables),
                numbers=numbers,
                sentence=f"FAR {rate(paper.far)} on {counts.dataset} allows {allowed} false accept{'' if allowed == 1 else 's'} among "
                f"{counts.impostors:,} pairs: the true FAR of that threshold is anywhere from {rate(low)} to {rate(high)}.",
            )
        if float(f"{floor:.1e}") != float(f"{counts.min_far:.1e}"):
            yield Slip(
                rule="floor_is_wrong",
                tables=("3",),
                numbers=numbers | {"printed": counts.min_far},
                sentence=f"the smallest FAR of {counts.dataset} is 1/{counts.impostors:,} = {rate(floor)}, printed is {rate(counts.min_far)}.",
            )


def _counts(paper: Printed) -> Iterator[Slip]:
    """Count pairs again, from people and images."""
    for counts in paper.pair_counts:
        expected = counts.people * math.comb(counts.images, 2)
        if counts.mated != expected:
            found = images_each(counts)
            meaning = f"{counts.mated:,} is {found} images each" if found else "no number of images gives it"
            yield Slip(
                rule="mated_count",
                tables=("3",),
                numbers={"printed": float(counts.mated), "expected": float(expected), "images": float(found or 0)},
                sentence=f"{counts.dataset}: {counts.people} people of {counts.images} images have {expected:,} mated pairs, printed are "
                f"{counts.mated:,}; {meaning}.",
            )
        possible = true_impostors(counts)
        if possible is None or counts.impostors <= possible:
            continue
        images = counts.people * (images_each(counts) or 0)
        everything = math.comb(images, 2)
        slip = f"{counts.dataset}: {images} images have {possible:,} different-person pairs, printed are {counts.impostors:,}"
        if counts.impostors == everything:
            slip += f" = C({images},2), which counts the {counts.mated:,} mated pairs among the impostors"
        yield Slip(
            rule="impostor_count",
            tables=("3",),
            numbers={"printed": float(counts.impostors), "possible": float(possible), "mated": float(counts.mated)},
            sentence=f"{slip}; the smallest FAR is 1/{possible:,} = {rate(1 / possible)}.{_consequence(paper, counts)}",
        )


def _consequence(paper: Printed, counts: PairCounts) -> str:
    """Say whether the mated pairs can have been scored as impostors: areas over a few steps would then be tiny."""
    areas = [c for c in paper.cells if c.metric == "pAUC" and c.dataset == counts.dataset]
    if not areas:
        return ""
    top = max(areas, key=lambda c: c.value)
    accepted = allowed_false_accepts(top.far, counts.impostors) + 1
    most = 100 * accepted / counts.mated
    if top.value <= most:
        return ""
    return (
        f" Had the mated pairs been scored as impostors, at most {accepted} of {counts.mated} could be accepted within FAR {rate(top.far)} and no "
        f"area of Table {top.table} could exceed {most:.1f} %; {top.encoder} prints {top.value:g} %, so the slip is in the count or in the table."
    )


def _area_steps(paper: Printed) -> Iterator[Slip]:
    """Look for areas over so short a range that it holds a step or two."""
    for counts in paper.pair_counts:
        areas = [c for c in paper.cells if c.metric == "pAUC" and c.dataset == counts.dataset]
        for far in dict.fromkeys(c.far for c in areas):
            pairs = min(counts.impostors, true_impostors(counts) or counts.impostors)
            steps = allowed_false_accepts(far, pairs)
            if grade_of(far, pairs) != "unsupported":
                continue
            yield Slip(
                rule="area_of_few_steps",
                tables=tuple(dict.fromkeys(c.table for c in areas)),
                numbers={"far": far, "impostors": float(pairs), "steps": float(steps)},
                sentence=f"the range FAR 0 to {rate(far)} holds {steps} step{'' if steps == 1 else 's'} of {pairs:,} impostor pairs on {counts.dataset}: "
                "the area is the TAR at zero or one false accept, decided by two look-alikes.",
            )
