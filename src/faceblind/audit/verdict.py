"""The verdict in plain words: what was found, for the worst attacker, with its limits in the same breath."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from faceblind.audit.entries import Comparison, Grade, Level, Power, Summary, Utility, Verdict, Worst
from faceblind.audit.plan import CONTROLS
from faceblind.data.findings import Finding

LOW_LIFT = 10.0
"""A leak is called low when the upper bound of its TAR is at most this many times chance (chance TAR is the FAR).

A fixed TAR does not do: 5 % at a FAR of 1e-4 is 500 times chance, and raw vectors of a weak encoder meet it."""

LIMITS = (
    "The figures hold for the attackers listed, trained as described on this many people. A stronger attacker, more "
    "training people or knowledge of the image may read more; failing to read is not proof that nothing is there.",
    "The linear guarantee of the projection concerns the mean vectors of the people it was fitted on, before rescaling. "
    "For other people what remains is measured, not guaranteed.",
    "Same-person photographs often share clothes, scene and event. Part of what attackers read here may be context and "
    "not the face; the audit does not tell them apart.",
    "Results are for this encoder, this preprocessing and photographs like these. Another encoder version or image "
    "domain needs its own audit.",
    "The projector is one fixed map: it is not secret, not renewable and not a template-protection scheme.",
    "Whether vectors are personal or biometric data is a legal question that no figure here answers.",
)


def reference_point(summary: Sequence[Summary]) -> float:
    """Return the FAR the verdict speaks about: the smallest that is supported, else indicative, else the largest."""
    for grade in ("supported", "indicative"):
        fars = {s.far_target for s in summary if s.grade == grade and s.calibration == "test"}
        if fars:
            return min(fars)
    return max(s.far_target for s in summary)


P = TypeVar("P")
Get = Callable[[Any, str], Any]
GRADES: tuple[Grade, ...] = ("unsupported", "indicative", "supported")
"""Worst first."""


def bounding(summary: Sequence[P], release: str, far: float, get: Get = getattr) -> list[P]:
    """Return the operating points of a release that a bound at a FAR has to hold for.

    Points are entries of the record, or mappings as JSON gives them with ``get=operator.getitem``; likewise below.

    Only points whose threshold is set on test count: they meet the FAR exactly. A threshold frozen on validation may
    accept several times as many false pairs on other people, and its TAR is then one at another FAR; both are in the
    record. Hyper-parameters are frozen on validation in either case. Attacks with too few comparisons for the FAR
    (templates have fewer than pairs) bound nothing and are left out, unless that is so for all of them.
    """
    where = ("test", release, far)
    points = [s for s in summary if (get(s, "calibration"), get(s, "release"), get(s, "far_target")) == where]
    return [s for s in points if get(s, "grade") != "unsupported"] or points


def deciding(summary: Sequence[P], release: str, far: float, get: Get = getattr) -> list[P]:
    """Return those among which the worst attacker is looked for: the best supported ones.

    A handful of false accepts places a TAR so loosely that the highest of several such figures is mostly luck. The
    bound still holds for them.
    """
    points = bounding(summary, release, far, get)
    best = max((GRADES.index(get(s, "grade")) for s in points), default=0)
    return [s for s in points if GRADES.index(get(s, "grade")) == best]


def worst_of(summary: Sequence[P], release: str, far: float, get: Get = getattr) -> P | None:
    """Return the point of the attacker that reads most; of bounds, where there are only those, the highest."""
    return max(deciding(summary, release, far, get), key=lambda point: reading(point, get), default=None)


def reading(point: P, get: Get = getattr) -> tuple[float, float]:
    """Return what attackers are ordered by."""
    tar, high = get(point, "tar"), get(point, "tar_high")
    return (high, tar) if get(point, "grade") == "unsupported" else (tar, high)


def give_verdict(
    summary: Sequence[Summary],
    worst: Sequence[Worst],
    comparisons: Sequence[Comparison],
    hygiene: Sequence[Finding],
    power: Power | None,
    utility: Sequence[Utility],
    erased: str | None,
) -> Verdict:
    """Say what was found about the erased release (or the table as given when nothing was erased)."""
    far = reference_point(summary)
    raw = worst_of(summary, "raw", far)
    shown = (worst_of(summary, erased, far) if erased else None) or raw
    if raw is None or shown is None:
        raise ValueError("an audit measures the raw release")
    bounds = {w.release: w for w in worst if w.far_target == far}
    sentences = [_sentence(raw, "As given", bounds.get("raw"))]
    if shown is not raw:
        opening = f"After removing {shown.rank} dimensions ({shown.release})"
        sentences.append(_sentence(shown, opening, bounds.get(shown.release)))
        sentences += _against_controls(comparisons, shown, far) + _blindness(summary, shown, far)
        sentences += _against_erasers(comparisons, shown, far)
        sentences += _cost(utility, shown.release)
    if power is not None:
        sentences.append(_power(power))
    sentences += _loosely(summary, shown, far)
    unsupported = sorted({s.far_target for s in summary if s.grade == "unsupported" and s.calibration == "test"})
    if unsupported:
        listed = ", ".join(f"{f:g}" for f in unsupported)
        sentences.append(f"At FAR {listed} the data supports only an upper bound; no smaller leak was measured there.")
    bound = bounds[shown.release].bound if shown.release in bounds else shown.tar_high
    reduced = _find(comparisons, shown.release, "raw", far)
    level, headline = _headline(raw, shown, bound, reduced, hygiene, power)
    return Verdict(level=level, headline=headline, sentences=tuple(sentences))


def _find(comparisons: Sequence[Comparison], release: str, against: str, far: float) -> Comparison | None:
    found = [c for c in comparisons if (c.release, c.against, c.far_target) == (release, against, far)]
    return found[0] if found else None


def _headline(
    raw: Summary,
    shown: Summary,
    bound: float,
    reduced: Comparison | None,
    hygiene: Sequence[Finding],
    power: Power | None,
) -> tuple[Level, str]:
    far = shown.far_target
    what = "these vectors" if shown is raw else "the erased vectors"
    errors = [finding for finding in hygiene if finding.severity == "error"]
    if errors:
        return "inconclusive", f"No conclusion: {errors[0].message}"
    if shown.grade == "unsupported":
        return (
            "inconclusive",
            f"No conclusion: too few test pairs for a FAR of {far:g}; at most {_percent(bound)} can be said.",
        )
    rate = f"at a false accept rate of {far:g} ({_lift(shown)})"
    if bound <= LOW_LIFT * far:
        if power is not None and power.smallest_caught is None:
            return (
                "inconclusive",
                f"No conclusion: little was read from {what}, but a planted leak was not found either.",
            )
        return "low", (
            f"Little identity was read from {what}: at most {_percent(bound)} of same-person pairs "
            f"are recognised {rate}."
        )
    if shown is not raw and reduced is not None and reduced.leaks_less:
        return "reduced", (
            f"Identity leakage is reduced, not gone: from {_percent(raw.tar)} to {_percent(shown.tar)} "
            f"of same-person pairs recognised {rate}."
        )
    if shown.tar_low <= max(far, shown.far_achieved):  # not shown to be above chance, nor shown to be near it
        return "inconclusive", (
            f"No conclusion: {_percent(shown.tar)} of same-person pairs are recognised {rate}, but with {shown.people} test "
            f"people up to {_percent(bound)} cannot be ruled out."
        )
    headline = f"{what.capitalize()} leak identity: {_percent(shown.tar)} of same-person pairs are recognised {rate}"
    if shown is raw:
        return "leaks", f"{headline}."
    return "leaks", f"{headline}; as given it was {_percent(raw.tar)}, and a reduction is not shown."


def _sentence(point: Summary, opening: str, worst: Worst | None) -> str:
    if point.grade == "unsupported":
        return f"{opening}, at most {_percent(point.tar_high)} of same-person pairs can be recognised at FAR {point.far_target:g}."
    said = (
        f"{opening}, the worst attacker ({_who(point)}) recognises {_percent(point.tar)} of same-person pairs at FAR {point.far_target:g} "
        f"(95 % interval {_percent(point.tar_low)} to {_percent(point.tar_high)}, {point.people} test people): {_lift(point)}."
    )
    if worst is not None and worst.attackers > 1:
        said += f" No more than {_percent(worst.bound)} for all {worst.attackers} attacks together."
    return said


def _who(point: Summary) -> str:
    parts = [point.attacker]
    if point.k is not None:
        parts.append(f"k={point.k}")
    if point.trained_on is not None:
        parts.append(f"trained on {point.trained_on} people")
    return ", ".join(parts)


def _against_controls(comparisons: Sequence[Comparison], shown: Summary, far: float) -> list[str]:
    controls = [c for name in CONTROLS if (c := _find(comparisons, shown.release, name, far)) is not None]
    if not controls:
        return []
    listed = ", ".join(f"{c.against} {_percent(c.tar_against)}" for c in controls)
    if all(c.leaks_less for c in controls):
        return [
            f"Removing as many dimensions without knowing identities leaves more ({listed}): the map removed identity and not just variance."
        ]
    alike = " and ".join(c.against for c in controls if not c.leaks_less)
    return [
        f"Removing as many dimensions without knowing identities leaves {listed}: a gain over {alike} is not shown."
    ]


def _against_erasers(comparisons: Sequence[Comparison], shown: Summary, far: float) -> list[str]:
    others = [
        c
        for c in comparisons
        if c.release == shown.release and c.far_target == far and c.against not in ("raw", *CONTROLS)
    ]
    if not others:
        return []
    listed = ", ".join(f"{c.against} {_percent(c.tar_against)}" for c in others)
    better = [c.against for c in others if c.leaks_less]
    said = f"less than {' and '.join(better)}" if better else "none of the differences is shown"
    return [f"Other erasers at this rank leave {listed}: {said}."]


def _blindness(summary: Sequence[Summary], shown: Summary, far: float) -> list[str]:
    def top(trained: str | None) -> Summary | None:
        points = [
            s
            for s in summary
            if s.release == shown.release
            and s.far_target == far
            and s.trained_on == trained
            and s.calibration == "test"
        ]
        return max(points, key=lambda s: s.tar, default=None)

    own, fresh, plain = top("fit"), top("attack"), top(None)
    others = [s for s in (fresh, plain) if s is not None]
    if own is None or not others:
        return []
    best = max(others, key=lambda s: s.tar)
    if own.tar < 0.5 * best.tar:
        return [
            f"An attacker trained on the eraser's own people reads only {_percent(own.tar)}, one who is not reads {_percent(best.tar)}: "
            "the first figure is that probe's blindness, not privacy."
        ]
    return []


def _loosely(summary: Sequence[Summary], shown: Summary, far: float) -> list[str]:
    """Name an attack that reads more than the worst one but has too few comparisons to be sure of it."""
    above = [s for s in bounding(summary, shown.release, far) if s.tar > shown.tar and s.grade != shown.grade]
    if not above:
        return []
    most = max(above, key=reading)
    return [
        f"Another attack ({_who(most)}) may read more: {_percent(most.tar)} ({_percent(most.tar_low)} to "
        f"{_percent(most.tar_high)}), from too few comparisons to decide; the bound holds for it."
    ]


def _cost(utility: Sequence[Utility], release: str) -> list[str]:
    found = [u for u in utility if u.release == release]
    if not found:
        return []
    u = found[0]
    return [
        f"The cost on these photographs: {_percent(u.neighbour_overlap)} of each image's {u.neighbours} nearest neighbours stay the same, "
        f"and {_percent(u.energy_kept)} of the vectors' energy is kept."
    ]


def _power(power: Power) -> str:
    if power.smallest_caught is None:
        strongest = max(power.points, key=lambda p: p.strength).strength if power.points else 0.0
        return f"The audit would have missed even a planted identity code of {_percent(strongest)} of the energy: it has little power."
    return f"The audit would have caught an added identity code of {_percent(power.smallest_caught)} of each vector's energy (planted and found)."


def _lift(point: Summary) -> str:
    return f"{point.lift:,.0f} times chance" if point.lift >= 10 else f"{point.lift:.1f} times chance"


def _percent(value: float) -> str:
    percent = 100 * value
    if percent == 0:
        return "0 %"
    if percent < 0.01:
        return "less than 0.01 %"
    return f"{percent:.2f} %" if percent < 1 else f"{percent:.1f} %"
