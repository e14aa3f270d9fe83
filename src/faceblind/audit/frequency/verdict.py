"""A plain verdict on each model: did any attack show the face, by fixed rules on intervals, or was it not measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from faceblind.audit.frequency.record import Interval, Model, interval_of
from faceblind.audit.report.text import interval, percent

MARGIN: Final = 1.0
"""Decibels by which the low end of an attack's PSNR must exceed the high end of the floor's."""

VIEWABLE, NOT_SHOWN, NOT_MEASURED = "viewable", "not shown viewable by these attacks", "not measured"


@dataclass(frozen=True)
class Verdict:
    """What the attacks say about a model.

    Attributes
    ----------
    word : "viewable", "not shown viewable by these attacks" or "not measured"
    best : name of the attack with the highest PSNR among those that hold nothing of the photograph
    """

    word: str
    reasons: tuple[str, ...]
    best: str | None

    @property
    def css(self) -> str:
        """Return the class of its colour."""
        return {VIEWABLE: "v-leaks", NOT_SHOWN: "v-low"}.get(self.word, "v-inconclusive")


def holds_photograph(attack: Mapping[str, Any]) -> bool:
    """Whether an attacker already has the photograph that it is to recover; such an attack decides nothing."""
    return "and the true photograph" in str(attack["holds"])


def holds_colour(attack: Mapping[str, Any]) -> bool:
    """Whether an attacker has something of the photograph itself, its colour at least.

    Painting the whole picture in that colour already beats the floor, which knows public faces only: the PSNR of such an
    attack decides nothing, its re-identification may.
    """
    return "the true photograph" in str(attack["holds"])


def best_attack(model: Model) -> tuple[Mapping[str, Any], Interval] | None:
    """Return the attack whose mean PSNR is highest, with it; None where none was measured."""
    found = [
        (attack, psnr)
        for attack in model.rows("attacks")
        if not holds_colour(attack) and (psnr := interval_of(attack.get("psnr"))) is not None
    ]
    return max(found, key=lambda pair: pair[1].value, default=None)


def seen_by(attack: Mapping[str, Any], floor: Interval | None) -> str | None:
    """Return why an attack shows the face, None when it does not.

    Its PSNR must exceed a constant image's by `MARGIN` between the ends of both intervals, or its re-identification
    rate must lie above that with shuffled people between the ends of both.
    """
    psnr = None if holds_colour(attack) else interval_of(attack.get("psnr"))
    if psnr is not None and floor is not None and psnr.low is not None and floor.high is not None:
        above = psnr.low - floor.high
        if above >= MARGIN:
            return f"{attack['title']}: {decibel(psnr)}, against {decibel(floor)} for a constant image"
    reid = attack.get("reid") or {}
    tar, null = interval_of(reid, "tar"), interval_of(reid.get("null"), "tar")
    if tar is not None and null is not None and tar.low is not None and null.high is not None and tar.low > null.high:
        return (
            f"{attack['title']}: the person is recognised in {rate(tar)} of comparisons, against {rate(null)} "
            "with shuffled people"
        )
    return None


def verdict_of(model: Model) -> Verdict:
    """Return the verdict on a model; what was not measured is said, not assumed."""
    floor = model.floor()
    attacks = [attack for attack in model.rows("attacks") if not holds_photograph(attack)]
    best = best_attack(model)
    name = None if best is None else str(best[0]["attack"])
    shown = [reason for attack in attacks if (reason := seen_by(attack, floor))]
    reidentified = any(interval_of(attack.get("reid"), "tar") is not None for attack in attacks)
    notes = [] if reidentified else ["Re-identification of recovered faces was not measured."]
    notes.append(linked(model))
    if shown:
        more = [f"{len(shown) - 3} more attacks show it too."] if len(shown) > 3 else []
        return Verdict(VIEWABLE, (*shown[:3], *more, *notes), name)
    comparable = [a for a in attacks if _comparable(a, floor)]
    if not comparable:
        why = "No attack was run." if not attacks else "No attack has an interval that can be compared with its floor."
        return Verdict(NOT_MEASURED, (why,), name)
    said = [f"{len(comparable)} {'attack was' if len(comparable) == 1 else 'attacks were'} measured."]
    if best is not None and floor is not None:
        said.append(f"The closest, {best[0]['title']}, reaches {decibel(best[1])}; a constant image {decibel(floor)}.")
    if len(comparable) < len(attacks):
        said.append(f"{len(attacks) - len(comparable)} more have no interval to compare.")
    said.append("Attacks that were not run may do better.")
    return Verdict(NOT_SHOWN, (*said, *notes), name)


def linked(model: Model) -> str:
    """Say how well releases of one person are linked without recovering a face, by whoever links them best."""
    rows = [(row, tar) for row in model.rows("linkage") if (tar := interval_of(row, "tar")) is not None]
    if not rows:
        return "Linkage of releases was not measured."
    row, tar = max(rows, key=lambda pair: pair[1].value)
    null = interval_of(row.get("null"), "tar")
    who = f"{row['attacker']} on {row['space']}"
    if null is not None:
        who += f", against {rate(null)} with shuffled people"
    above = tar.low is not None and null is not None and null.high is not None and tar.low > null.high
    verb = "are linked" if above else "are not shown linked"
    return f"Without recovering a face, releases of one person {verb}: {rate(tar)} at FAR {float(row['far_target']):g}, {who}."


def decibel(value: Interval) -> str:
    """Write a PSNR with its interval; 100 dB is where measurements stop."""
    if value.value >= 99.95:
        return "an exact copy (100 dB)"
    ends = "no interval" if value.low is None or value.high is None else f"{value.low:.1f} to {value.high:.1f}"
    return f"{value.value:.1f} dB ({ends})"


def rate(value: Interval) -> str:
    """Write a share with its interval."""
    ends = "no interval" if value.low is None or value.high is None else interval(value.low, value.high)
    return f"{percent(value.value)} ({ends})"


def _comparable(attack: Mapping[str, Any], floor: Interval | None) -> bool:
    psnr = None if holds_colour(attack) else interval_of(attack.get("psnr"))
    reid = attack.get("reid") or {}
    tar, null = interval_of(reid, "tar"), interval_of(reid.get("null"), "tar")
    by_psnr = psnr is not None and floor is not None and psnr.low is not None and floor.high is not None
    by_people = tar is not None and null is not None and tar.low is not None and null.high is not None
    return by_psnr or by_people
