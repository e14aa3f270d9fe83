"""The paper's claims, each with what our models say about it: holds, does not hold, undecided or not measured.

Intervals decide, never point estimates alone: a claim about two models is settled when the interval of their difference
leaves out zero; draws of people are paired where both models were measured on the same people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from faceblind.audit.frequency.differences import Difference, Measure, points_of
from faceblind.audit.frequency.printed import FIG7_PSNR, FIG8_DROP, TAB1, TAB3_EQUAL, TEXT_DROPS, table_drop
from faceblind.audit.frequency.record import Interval, Model, interval_of
from faceblind.audit.frequency.verdict import decibel, rate, seen_by

HOLDS, FAILS, UNDECIDED, UNMEASURED = "holds", "does not hold", "undecided", "not measured"
_CLOSE: Final = 0.025
"""A drop that counts as small: the largest that the paper's Tab. 1 prints for accuracy is 2.42 points."""


@dataclass(frozen=True)
class Claim:
    """One claim with its outcome and the figures behind it."""

    text: str
    where: str
    outcome: str
    figures: str

    @property
    def css(self) -> str:
        """Return the class of its colour."""
        return {HOLDS: "o-holds", FAILS: "o-fails", UNDECIDED: "o-open"}.get(self.outcome, "o-none")


def claims(models: Sequence[Model], measure: Measure | None) -> tuple[Claim, ...]:
    """Return the claims about models, in the order of the paper."""
    return (
        _small_loss(models, measure),
        _baselines(models, measure),
        _irreversible(models),
        _budget_100(models),
        _denoising(models),
        _right_dc(models),
        _black_box(models),
        _learned(models, measure),
        _transform(models, measure),
        _more_budget(models, measure),
        _formal(models),
        _independent(models),
    )


def printed_claims() -> tuple[Claim, ...]:
    """Return what arithmetic on the printed numbers says; no measurement of ours is in it."""
    found = []
    for sets, said in TEXT_DROPS:
        drop = table_drop(sets)
        found.append(
            Claim(
                f"The text states an average drop of {said:g} % on {', '.join(sets)}.",
                "text, Tab. 1",
                HOLDS if abs(drop - said) <= 0.011 else FAILS,
                f"Its own table gives {drop + 1e-9:.2f} points over both heads.",
            )
        )
    turns = [f"{name} {a:g} then {b:g}" for name, drops in FIG8_DROP.items() for a, b in pairwise(drops) if b > a]
    found.append(
        Claim(
            "The accuracy drop shrinks as the budget grows.",
            "Fig. 8",
            FAILS if turns else HOLDS,
            f"As read off the figure it is not monotone: {'; '.join(turns)}. Single runs without intervals.",
        )
    )
    psnr = FIG7_PSNR["DCTDP"]
    found.append(
        Claim(
            "A U-Net recovers little: its PSNR is low.",
            "Fig. 7",
            UNDECIDED,
            f"Printed {min(psnr):.1f} to {max(psnr):.1f} dB, about what a constant image reaches on aligned faces; the paper "
            "prints no floor to compare with.",
        )
    )
    found.append(
        Claim(
            "Learned budgets are what saves accuracy.",
            "Tab. 3",
            UNDECIDED,
            f"Its control, {TAB3_EQUAL:g} % with equal budgets, puts the noise on a network trained without any: it mixes learned "
            "budgets with training under noise.",
        )
    )
    return tuple(found)


def pick(models: Sequence[Model], variant: str, *, eps: float | None = None, head: str | None = None) -> Model | None:
    """Return the first model of a variant with a mean budget and a head."""
    return next(
        (
            m
            for m in models
            if m.variant == variant and (eps is None or m.eps == eps) and (head is None or m.head == head)
        ),
        None,
    )


def _small_loss(models: Sequence[Model], measure: Measure | None) -> Claim:
    text = "Accuracy at mean budget 0.5 stays close to that of a plain RGB network."
    largest = max(
        TAB1[head][k] - TAB1[f"DCTDP {head}, eps 0.5"][k] for head in ("ArcFace", "CosFace") for k in range(5)
    )
    plain, private = pick(models, "rgb", head="arcface"), pick(models, "paper", eps=0.5, head="arcface")
    found = _values(measure, plain, private)
    if found is None:
        return Claim(text, "Tab. 1", UNMEASURED, f"The paper's largest drop in accuracy is {largest:.2f} points.")
    one, other, drop = found
    figures = (
        f"RGB {rate(one)}, DCTDP {rate(other)}: {points_of(drop)}. "
        f"Small means at most {100 * _CLOSE:g} points; the paper's largest is {largest:.2f}."
    )
    if drop.low is None or drop.high is None:
        return Claim(text, "Tab. 1", UNDECIDED, figures)
    return Claim(text, "Tab. 1", HOLDS if drop.high <= _CLOSE else FAILS if drop.low > _CLOSE else UNDECIDED, figures)


def _baselines(models: Sequence[Model], measure: Measure | None) -> Claim:
    text = "DCTDP at mean budget 0.5 is more accurate than PEEP, Cloak and InstaHide."
    private = pick(models, "paper", eps=0.5, head="arcface")
    others = [m for m in models if m.kind in {"peep", "cloak", "instahide"}]
    found = [(m, values) for m in others if (values := _values(measure, private, m)) is not None]
    if not found:
        return Claim(text, "Tab. 1", UNMEASURED, "")
    outcomes = [_above(gap) for _, (_, _, gap) in found]
    missing = [k for k in ("peep", "cloak", "instahide") if k not in {m.kind for m, _ in found}]
    worst = FAILS if FAILS in outcomes else UNDECIDED if UNDECIDED in outcomes or missing else HOLDS
    said = f"DCTDP {rate(found[0][1][0])}; "
    said += "; ".join(f"{m.title} {rate(value)}, {points_of(gap)}" for m, (_, value, gap) in found) + "."
    return Claim(text, "Tab. 1", worst, said + (f" Not measured: {', '.join(missing)}." if missing else ""))


def _irreversible(models: Sequence[Model]) -> Claim:
    text = "Dropping DC makes the face practically irreversible, even without noise."
    return _not_seen(text, "text, white box", pick(models, "clean"), ("lsq", "integrate", "idct-zero", "unet"))


def _budget_100(models: Sequence[Model]) -> Claim:
    text = "The white-box inverse shows nothing even at mean budget 100."
    model = next((m for m in models if m.variant == "paper" and m.eps is not None and m.eps >= 100), None)
    return _not_seen(text, "Fig. 5", model, ("idct-zero", "idct-zero-nlm", "lsq"))


def _denoising(models: Sequence[Model]) -> Claim:
    text = "Denoising the inverse at mean budget 0.5 does not bring the face back."
    return _not_seen(text, "Fig. 5", pick(models, "paper", eps=0.5), ("idct-zero-nlm",))


def _right_dc(models: Sequence[Model]) -> Claim:
    text = "At mean budget 0.5 even the right person's DC does not bring the face back."
    return _not_seen(text, "Fig. 5", pick(models, "paper", eps=0.5), ("idct-right",))


def _black_box(models: Sequence[Model]) -> Claim:
    text = "A trained U-Net does not bring the face back at mean budget 0.5."
    return _not_seen(text, "Fig. 7", pick(models, "paper", eps=0.5), ("unet",))


def _not_seen(text: str, where: str, model: Model | None, names: Sequence[str]) -> Claim:
    attacks = [] if model is None else [a for name in names if (a := model.attack(name)) is not None]
    floor = None if model is None else model.floor()
    pairs = [(a, psnr) for a in attacks if (psnr := interval_of(a.get("psnr"))) is not None]
    if model is None or floor is None or not pairs:
        return Claim(text, where, UNMEASURED, "")
    # A claim is about what is seen, whatever its attacker holds; the verdict leaves such attackers out.
    shown = [reason for attack in attacks if (reason := seen_by({**attack, "holds": ""}, floor))]
    if shown:
        return Claim(text, where, FAILS, f"{model.title}. {'; '.join(shown)}.")
    said = "; ".join(f"{attack['title']} {decibel(psnr)}" for attack, psnr in pairs)
    settled = floor.high is not None and all(psnr.low is not None for _, psnr in pairs)
    return Claim(
        text,
        where,
        HOLDS if settled else UNDECIDED,
        f"{model.title}. {said}; constant image {decibel(floor)}. By these attacks only.",
    )


def _learned(models: Sequence[Model], measure: Measure | None) -> Claim:
    text = "Learned budgets keep more accuracy than equal ones, both trained under noise."
    return _compare(text, "Tab. 3", measure, _same_eps(models, "paper", "equal"), ("learned", "equal"))


def _transform(models: Sequence[Model], measure: Measure | None) -> Claim:
    text = "Without the frequency transform the same budget costs much more accuracy."
    return _compare(text, "Tab. 3", measure, _same_eps(models, "paper", "pixels"), ("frequency", "RGB"))


def _more_budget(models: Sequence[Model], measure: Measure | None) -> Claim:
    text = "A larger budget keeps more accuracy."
    found = _by_budget(models, measure)
    if len(found) < 2:
        return Claim(text, "Fig. 8", UNMEASURED, "")
    (_, least), (_, most) = found[0], found[-1]
    values = _values(measure, most, least)
    if measure is None or values is None:
        return Claim(text, "Fig. 8", UNMEASURED, "")
    said = "; ".join(f"budget {eps:g}: {rate(value)}" for eps, model in found if (value := measure.of(model))) + "."
    said += f" The ends of the sweep decide: {points_of(values[2])}."
    return Claim(text, "Fig. 8", _above(values[2]), said)


def _by_budget(models: Sequence[Model], measure: Measure | None) -> list[tuple[float, Model]]:
    """Return the sweep of one recipe: models that went on from others' weights are in it only if there is no other sweep."""
    found: dict[float, Model] = {}
    fresh = [m for m in models if not m.continued]
    if len({m.eps for m in fresh if m.variant == "paper"}) > 1:
        models = fresh
    for model in models:
        value = None if measure is None else measure.of(model)
        if model.variant == "paper" and model.head == "arcface" and model.eps is not None and value is not None:
            found.setdefault(model.eps, model)
    return sorted(found.items(), key=lambda pair: pair[0])


def _formal(models: Sequence[Model]) -> Claim:
    text = "The release gives a meaningful guarantee of local differential privacy."
    model = pick(models, "paper", eps=0.5) or pick(models, "paper")
    account = None if model is None else model.data.get("account")
    if model is None or not account or account.get("eps_total") is None:
        return Claim(text, "Lemma 1", UNMEASURED, "")
    total = float(account["eps_total"])
    said = f"{model.title}: the budgets sum to {total:,.0f}. "
    return Claim(
        text,
        "Lemma 1",
        FAILS if total > 20 else HOLDS,
        said
        + (
            "A bound of exp of that excludes nothing." if total > 20 else "A bound of exp of that still says something."
        ),
    )


def _independent(models: Sequence[Model]) -> Claim:
    text = "The published code draws noise for each image anew, so that a batch hides what one image hides."
    model = pick(models, "official")
    attack = None if model is None else model.attack("difference")
    psnr = None if attack is None else interval_of(attack.get("psnr"))
    if model is None or attack is None or psnr is None:
        return Claim(text, "method, code", UNMEASURED, "One draw is shared by the batch in the published code.")
    said = f"One draw is shared by the batch. {model.title}: differences inside a batch reach {decibel(psnr)}"
    floor = model.floor()
    said += "." if floor is None else f", a constant image {decibel(floor)}."
    return Claim(text, "method, code", FAILS if seen_by(attack, floor) else UNDECIDED, said)


def _compare(
    text: str,
    where: str,
    measure: Measure | None,
    pairs: Sequence[tuple[Model, Model]],
    words: tuple[str, str],
) -> Claim:
    found = [(pair[0], values) for pair in pairs if (values := _values(measure, *pair)) is not None]
    if not found:
        return Claim(text, where, UNMEASURED, "")
    outcomes = [_above(gap) for _, (_, _, gap) in found]
    said = "; ".join(
        f"mean budget {model.eps:g}: {words[0]} {rate(one)}, {words[1]} {rate(other)}, {points_of(gap)}"
        for model, (one, other, gap) in found
    )
    return Claim(text, where, next((o for o in (FAILS, HOLDS) if o in outcomes), UNDECIDED), f"{said}.")


def _same_eps(models: Sequence[Model], first: str, second: str) -> list[tuple[Model, Model]]:
    """Return a pair of two variants for each budget and head that both were trained with."""
    found: dict[tuple[float | None, str, bool], tuple[Model, Model]] = {}
    for model in models:
        # Who was trained longer, from another model's weights, is compared with one that was too.
        like = [m for m in models if m.continued == model.continued]
        other = pick(like, second, eps=model.eps, head=model.head) if model.variant == first else None
        if other is not None:
            found.setdefault((model.eps, model.head, model.continued), (model, other))
    return list(found.values())


def _values(
    measure: Measure | None, first: Model | None, second: Model | None
) -> tuple[Interval, Interval, Difference] | None:
    if measure is None or first is None or second is None:
        return None
    one, other, gap = measure.of(first), measure.of(second), measure.difference(first, second)
    return None if one is None or other is None or gap is None else (one, other, gap)


def _above(gap: Difference) -> str:
    if gap.low is None or gap.high is None:
        return UNDECIDED
    return HOLDS if gap.low > 0 else FAILS if gap.high < 0 else UNDECIDED
