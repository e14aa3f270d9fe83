"""Tables in the paper's layouts, ours and the paper's rows apart, and every number of the page as flat rows for rows.csv."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from faceblind.audit.frequency.claims import pick
from faceblind.audit.frequency.differences import Measure, difference_of
from faceblind.audit.frequency.printed import FIG7_PSNR, FIG7_SETS, FIG7_SIMILARITY, SETS, TAB1, TAB3_EQUAL
from faceblind.audit.frequency.record import Interval, Model, interval_of
from faceblind.audit.frequency.verdict import best_attack, holds_colour, holds_photograph, verdict_of

_VARIANTS: Final = {
    "paper": "as in the paper: learned budgets, calibrated ranges",
    "equal": "equal budgets, trained under noise",
    "put-on": "noise put on a network that was not trained under it",
    "pixels": "no frequency transform: noise on RGB pixels",
    "dc": "DC kept",
    "ones": "learned budgets, all ranges taken to be one",
    "official": "the published code: ranges of one, learnt offsets, one draw a batch",
    "clean": "frequency transform without noise",
    "rgb": "RGB, nothing hidden",
}


@dataclass(frozen=True)
class Cell:
    """One cell: a number with its interval as text, or why there is none."""

    value: str
    note: str = ""
    missing: bool = False


@dataclass(frozen=True)
class Row:
    """One line of a table; `paper` marks numbers that the paper printed."""

    name: str
    cells: tuple[Cell, ...]
    paper: bool = False
    sub: str = ""


@dataclass(frozen=True)
class Table:
    """A table in the layout of the paper."""

    key: str
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


NOT_MEASURED: Final = Cell("not measured", missing=True)
_ABSENT: Final = Cell("–", missing=True)


def choose_measure(models: Sequence[Model]) -> Measure | None:
    """Return the set and protocol on which most models have an accuracy; of equals the one first measured."""
    found = Counter(
        (row["set"], row["protocol"])
        for model in models
        for row in {(r["set"], r["protocol"]): r for r in model.rows("evaluation")}.values()
        if model.accuracy(row["set"], row["protocol"]) is not None
    )
    return Measure(*found.most_common(1)[0][0]) if found else None


def cell(value: Interval | None, *, by: float = 1.0, digits: int = 2) -> Cell:
    """Write a number with its interval."""
    if value is None:
        return NOT_MEASURED
    shown = value.scaled(by)
    if shown.low is None or shown.high is None:
        return Cell(f"{shown.value:.{digits}f}", "no interval")
    return Cell(f"{shown.value:.{digits}f}", f"{shown.low:.{digits}f} to {shown.high:.{digits}f}")


def tab1(models: Sequence[Model]) -> Table:
    """Return Tab. 1: accuracy in percent, TAR at FAR 1e-4 on the IJB sets; our own sets stand in front."""
    known = {_plain(name): name for name in SETS} | {"agedb30": "AgeDB"}
    own = list(
        dict.fromkeys(
            row["set"]
            for m in models
            for row in m.rows("evaluation")
            if row["protocol"] == "tenfold" and _plain(row["set"]) not in known
        )
    )
    paper = [
        Row(name, tuple([_ABSENT] * len(own) + [Cell(f"{v:.2f}") for v in values]), paper=True)
        for name, values in TAB1.items()
    ]
    ours = []
    for model in models:
        found = dict.fromkeys((*own, *SETS), NOT_MEASURED)
        for row in model.rows("evaluation"):
            name = known.get(_plain(row["set"]), row["set"])
            value = _tab1_value(model, row)
            if name in found and value is not None and found[name].missing:
                found[name] = cell(value, by=100, digits=1)
        ours.append(Row(model.title, tuple(found.values()), sub=model.name))
    return Table(
        "tab1",
        "Table 1: accuracy",
        "Percent; accuracy in ten folds, TAR at FAR 1e-4 on IJB-B and IJB-C. Ours with 95 % intervals over people.",
        (*own, *SETS),
        (*paper, *ours),
    )


def _tab1_value(model: Model, row: Any) -> Interval | None:
    if not (row["noise"] or model.kind == "rgb" or model.variant == "clean"):
        return None
    if row["protocol"] == "tenfold":
        return interval_of(row, "accuracy")
    if row["protocol"] == "ijb" and row.get("far_target") == 1e-4:
        return interval_of(row, "tar")
    return None


def fig7(models: Sequence[Model]) -> tuple[Table, Table]:
    """Return Fig. 7 as two tables, PSNR and feature similarity of U-Net recoveries."""
    made = []
    for key, title, printed, metric, digits in (
        ("fig7-psnr", "Figure 7: PSNR of U-Net recoveries, dB", FIG7_PSNR, "psnr", 1),
        ("fig7-similarity", "Figure 7: feature similarity of U-Net recoveries", FIG7_SIMILARITY, "similarity", 3),
    ):
        paper = [
            Row(name, (_ABSENT, *(Cell(f"{v:.3f}") for v in values)), paper=True) for name, values in printed.items()
        ]
        ours = []
        blank = (_ABSENT,) * len(FIG7_SETS)
        without = []
        for model in models:
            found = interval_of((model.attack("unet") or {}).get(metric))
            if found is None:
                without.append(model.title)
            else:
                ours.append(Row(model.title, (cell(found, digits=digits), *blank), sub=model.name))
        if metric == "psnr" and (floor := next((f for m in models if (f := m.floor()) is not None), None)) is not None:
            ours.append(Row("Constant image", (cell(floor, digits=1), *blank), sub="the floor"))
        made.append(
            Table(
                key,
                title,
                "Our attacked test people, then the paper's sets; they are not the same photographs."
                + (f" Not measured: {'; '.join(without)}." if without else ""),
                ("our people", *FIG7_SETS),
                (*paper, *ours),
            )
        )
    return made[0], made[1]


def tab3(models: Sequence[Model], measure: Measure | None) -> Table:
    """Return Tab. 3: ablations with accuracy, drop of what is seen, and verdict."""
    plain = pick(models, "rgb", head="arcface")
    rows = [
        Row(
            "equal budgets of mean 0.5, noise put on a network trained without it",
            (Cell(f"{TAB3_EQUAL:.3f}", "LFW"), _ABSENT, _ABSENT, _ABSENT),
            paper=True,
        )
    ]
    for variant, words in _VARIANTS.items():
        same = [m for m in models if m.variant == variant]
        if not same:
            rows.append(Row(words, (NOT_MEASURED,) * 4))
        for model in same:
            best = best_attack(model)
            gap = None if measure is None or plain in (None, model) else measure.difference(model, plain)
            rows.append(
                Row(
                    words,
                    (
                        cell(None if measure is None else measure.of(model), by=100, digits=1),
                        _ABSENT if model is plain else cell(gap, by=100, digits=1),
                        cell(None if best is None else best[1], digits=1),
                        Cell(verdict_of(model).word),
                    ),
                    sub=model.title,
                )
            )
    what = "no accuracy was measured" if measure is None else f"accuracy on {measure.set}, {measure.protocol}"
    return Table(
        "tab3",
        "Table 3: ablations",
        f"Percent and dB; {what}; PSNR of the best attack that holds nothing of the photograph. Differences in points; people are "
        "drawn for both models at once where both were measured on the same.",
        ("accuracy", "more than RGB ArcFace", "best PSNR", "verdict"),
        tuple(rows),
    )


def attack_table(model: Model) -> tuple[dict[str, Any], ...]:
    """Return the attacks on a model: what each holds, and all numbers."""
    found = []
    for attack in model.rows("attacks"):
        reid = attack.get("reid") or {}
        found.append(
            {
                "title": attack["title"],
                "holds": attack["holds"],
                "note": "decides nothing: has the photograph already"
                if holds_photograph(attack)
                else "PSNR decides nothing: has its colour already"
                if holds_colour(attack)
                else "",
                "psnr": cell(interval_of(attack.get("psnr")), digits=1),
                "ssim": cell(interval_of(attack.get("ssim")), digits=3),
                "similarity": cell(interval_of(attack.get("similarity")), digits=3),
                "reid": cell(interval_of(reid, "tar"), by=100, digits=1),
                "null": cell(interval_of(reid.get("null"), "tar"), by=100, digits=1),
                "original": cell(interval_of(reid.get("original"), "tar"), by=100, digits=1),
                "grade": reid.get("grade") or "",
                "far": reid.get("far_target"),
                "size": f"{attack.get('images', '?')} images, {attack.get('people', '?')} people",
            }
        )
    return tuple(found)


def linkage_table(models: Sequence[Model]) -> Table:
    """Return how well two releases of one person are linked by comparing them as they are."""
    rows = [
        Row(
            model.title,
            (
                Cell(str(row["attacker"])),
                Cell(str(row["space"])),
                Cell(str(row.get("gallery") or "")),
                Cell(f"{float(row['far_target']):g}"),
                cell(interval_of(row, "tar"), by=100, digits=1),
                cell(interval_of(row.get("null"), "tar"), by=100, digits=1),
                Cell(str(row["people"])) if row.get("people") is not None else _ABSENT,
            ),
            sub=model.name,
        )
        for model in models
        for row in model.rows("linkage")
    ]
    return Table(
        "linkage",
        "Linkage of releases",
        "TAR in percent with 95 % intervals over people; the null is the same with every release given to another person. "
        "Attackers learn from releases of other people's faces. Whatever recognises people links their releases: what a "
        "recogniser's embedding gives is its use and its leak at once.",
        ("attacker", "compares", "with", "FAR", "TAR", "null", "people"),
        tuple(rows),
    )


def rows_csv(models: Sequence[Model]) -> str:
    """Return every measured number as CSV: model, part, item, protocol, metric, value, low, high, unit."""
    lines: list[tuple[Any, ...]] = []

    def add(model: Model, part: str, item: str, detail: str, metric: str, value: Interval | None, unit: str) -> None:
        if value is not None:
            ends = ["" if end is None else repr(float(end)) for end in (value.low, value.high)]
            lines.append((model.name, part, item, detail, metric, repr(value.value), *ends, unit))

    plain = pick(models, "rgb", head="arcface")
    for model in models:
        for row in model.rows("evaluation"):
            same = None if plain in (None, model) else plain.like(row)
            detail = f"{row['protocol']}, noise {'on' if row['noise'] else 'off'}"
            if row.get("far_target") is not None:
                detail += f", FAR {row['far_target']:g}"
            for metric in ("accuracy", "tar"):
                add(model, "evaluation", row["set"], detail, metric, interval_of(row, metric), "share")
                gap = difference_of(row, same, metric)
                how = "share, paired" if gap is not None and gap.paired else "share"
                add(model, "evaluation", row["set"], detail, f"{metric} more than RGB ArcFace", gap, how)
        for attack in model.rows("attacks"):
            for metric, unit in (("psnr", "dB"), ("ssim", ""), ("similarity", "cosine")):
                add(model, "attack", attack["attack"], attack["holds"], metric, interval_of(attack.get(metric)), unit)
            reid = attack.get("reid") or {}
            for name, given in (
                ("reid", reid),
                ("reid-null", reid.get("null")),
                ("reid-original", reid.get("original")),
            ):
                detail = f"FAR {reid['far_target']:g}" if reid.get("far_target") is not None else ""
                add(model, "attack", attack["attack"], detail, name, interval_of(given, "tar"), "share")
        for metric, unit in (("psnr", "dB"), ("ssim", "")):
            add(model, "floor", "constant image", "", metric, model.floor(metric), unit)
        for row in model.rows("linkage"):
            detail = f"{row['space']}, {row.get('gallery') or 'other releases'}, FAR {float(row['far_target']):g}"
            add(model, "linkage", row["attacker"], detail, "tar", interval_of(row, "tar"), "share")
            add(model, "linkage", row["attacker"], detail, "tar-null", interval_of(row.get("null"), "tar"), "share")
        for name in ("eps_total", "eps_mean", "eps_min", "eps_median", "eps_max", "effective_number"):
            number = (model.data.get("account") or {}).get(name)
            add(model, "account", name, "", name, None if number is None else Interval(float(number), None, None), "")
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("model", "part", "item", "detail", "metric", "value", "low", "high", "unit"))
    writer.writerows([[_safe(value) for value in line] for line in lines])
    return buffer.getvalue()


def _safe(value: Any) -> Any:
    """Keep a name from being read as a formula by a spreadsheet; numbers stay as they are."""
    text = str(value)
    return f"'{text}" if text[:1] in {"=", "+", "@", "\t", "\r"} or re.match(r"-(?![\d.])", text) else text


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]", "", str(name).lower())
