"""The page itself: one offline HTML file with its pictures and its record inside, and rows.csv beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment

from faceblind._files import write_text
from faceblind.audit.frequency.charts import budget_chart, paper_points, recovery_chart
from faceblind.audit.frequency.claims import FAILS, HOLDS, UNDECIDED, UNMEASURED, Claim, claims, printed_claims
from faceblind.audit.frequency.record import Model, picture, read_models
from faceblind.audit.frequency.tables import attack_table, choose_measure, fig7, linkage_table, rows_csv, tab1, tab3
from faceblind.audit.frequency.verdict import MARGIN, holds_photograph, verdict_of
from faceblind.audit.report import text
from faceblind.audit.report.pages import page_css, page_environment, printable
from faceblind.audit.report.render import embed_json
from faceblind.frequency.record import SCHEMA

_CHANNELS: Final = 8
"""Channels that an account shows."""


@dataclass(frozen=True)
class Column:
    """A column of a gallery: one attack, one picture a face; None where a picture is missing."""

    title: str
    holds: str
    pictures: tuple[str | None, ...]


@dataclass(frozen=True)
class Gallery:
    """The faces of one model: original, channels of the first, each attack's recovery."""

    original: tuple[str | None, ...]
    channels: tuple[tuple[str | None, str], ...]
    attacks: tuple[Column, ...]

    @property
    def faces(self) -> int:
        """Return the number of rows."""
        return max([len(self.original), *(len(column.pictures) for column in self.attacks)])


def write_report(folders: Sequence[Path], output: Path) -> Path:
    """Write the report of model folders and, beside it, ``rows.csv`` with every measured number.

    Parameters
    ----------
    folders
        Each holds ``record.json`` (``faceblind.frequency/1``) and the pictures that it names.
    output
        An ``.html`` file, or a folder for ``report.html``.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    FormatError
        A record is missing, damaged or of another layout.
    UsageError
        No folder.
    OutputError
        The place cannot be written.
    """
    models = read_models(folders)
    page = output if output.suffix.lower() in {".html", ".htm"} else output / "report.html"
    written = render_report(models)
    write_text(page.with_name("rows.csv"), rows_csv(models))
    write_text(page, written)
    return page


def render_report(models: Sequence[Model]) -> str:
    """Return the page as text; same records and pictures, same text."""
    models = sorted(models, key=_order)
    measure = choose_measure(models)
    found = claims(models, measure)
    galleries = [(model, gallery_of(model)) for model in models]
    page = _environment().get_template("page.html.j2").render(
        models=models,
        verdicts=[(model, verdict_of(model)) for model in models],
        margin=MARGIN,
        measure=measure,
        galleries=[(model, gallery) for model, gallery in galleries if gallery is not None],
        unseen=[model for model, gallery in galleries if gallery is None],
        pictures=any(gallery is not None for _, gallery in galleries),
        budget=budget_chart(models, measure),
        recovery=recovery_chart(models, measure),
        paper_points=paper_points(),
        tables=[tab1(models), *fig7(models), tab3(models, measure)],
        accounts=[(model, account) for model in models if (account := _account(model)) is not None],
        unbudgeted=[model for model in models if _account(model) is None],
        attacks=[(model, attack_table(model)) for model in models if model.rows("attacks")],
        unattacked=[model for model in models if not model.rows("attacks")],
        floors={model.name: model.floor() for model in models},
        linkage=linkage_table(models),
        claims=found,
        tally=_tally(found),
        printed=printed_claims(),
        css=page_css("faceblind.audit.frequency", "page.css"),
        record_json=embed_json({"schema": SCHEMA, "models": [dict(model.data) for model in models]}),
    )  # fmt: skip
    return printable(page)


def gallery_of(model: Model) -> Gallery | None:
    """Return the pictures of a model; None when its record names none."""
    named: Mapping[str, Any] = model.data.get("gallery") or {}
    columns = tuple(
        Column(
            str(attack["title"]),
            "holds the photograph" if holds_photograph(attack) else "",
            tuple(picture(model, str(path)) for path in attack.get("gallery") or ()),
        )
        for attack in model.rows("attacks")
        if attack.get("gallery")
    )
    original = tuple(picture(model, str(path)) for path in named.get("original") or ())
    channels = tuple(
        (picture(model, str(pair[0])), str(pair[1])) for pair in named.get("channels") or () if len(pair) == 2
    )
    return Gallery(original, channels, columns) if original or channels or columns else None


def _order(model: Model) -> tuple[int, float, str]:
    """Put RGB first, then the paper's system by budget, its variants, and the baselines."""
    order = [
        "rgb",
        "paper",
        "equal",
        "put-on",
        "official",
        "ones",
        "dc",
        "pixels",
        "clean",
        "peep",
        "cloak",
        "instahide",
    ]
    place = order.index(model.variant) if model.variant in order else len(order)
    return place, model.eps or 0.0, model.name


def _account(model: Model) -> dict[str, Any] | None:
    given = model.data.get("account")
    if not given:
        return None
    names = (
        ("eps_total", "total budget"),
        ("eps_mean", "mean of an element"),
        ("eps_min", "smallest"),
        ("eps_median", "median"),
        ("eps_max", "largest"),
        ("effective_number", "as if spread evenly over"),
        ("elements", "elements"),
        ("outside", "values of other faces outside the ranges"),
    )
    facts = []
    for key, words in names:
        value = given.get(key)
        shown = (
            "not measured"
            if value is None
            else text.percent(value)
            if key == "outside"
            else f"{value:,.0f}"
            if value >= 1000
            else f"{value:.4g}"
        )
        facts.append((words, shown))
    channels = [c for c in given.get("channels") or () if c.get("snr") is not None]
    channels.sort(key=lambda channel: -channel["snr"])
    return {
        "facts": facts,
        "sentences": list(given.get("sentences") or ()),
        "channels": channels[:_CHANNELS],
        "more": len(channels) - _CHANNELS,
    }


def _tally(found: Sequence[Claim]) -> str:
    outcomes = [claim.outcome for claim in found]
    return ", ".join(f"{word} {outcomes.count(word)}" for word in (HOLDS, FAILS, UNDECIDED, UNMEASURED))


@cache
def _environment() -> Environment:
    environment = page_environment("faceblind.audit.frequency")
    environment.filters |= {"short": text.short, "plural": text.plural, "number": text.number}
    return environment
