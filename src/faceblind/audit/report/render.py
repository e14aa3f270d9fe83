"""`render_html`: one offline HTML file from the record of an audit.

The page needs no network and runs no script; a content policy in its head forbids both. The record itself travels
inside it as JSON, so that the page and the numbers behind it cannot be parted.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment
from markupsafe import Markup

from faceblind._errors import FormatError
from faceblind.audit.report import panels, text
from faceblind.audit.report.extras import Picture, ReportExtras
from faceblind.audit.report.figures import key_figures
from faceblind.audit.report.pages import page_environment, printable
from faceblind.audit.report.powerplot import power_figure
from faceblind.audit.report.provenance import provenance
from faceblind.audit.report.sides import apart, sides
from faceblind.audit.report.styles import look, release_explanation, release_name, release_order
from faceblind.audit.report.table import tables
from faceblind.audit.result import SCHEMA
from faceblind.data.findings import SEVERITIES

_REQUIRED: Final = (
    "synthetic",
    "verdict",
    "gate",
    "hygiene",
    "summary",
    "worst",
    "comparisons",
    "rows",
    "curves",
    "rank_curve",
    "utility",
    "power",
    "limits",
    "provenance",
)


def render_html(record: Mapping[str, Any], extras: ReportExtras | None = None) -> str:
    """Return the report of an audit as one self-contained HTML file.

    Parameters
    ----------
    record
        An audit record of layout ``faceblind.audit/1``, as `AuditResult.to_dict` gives it or as read from JSON.
    extras
        Maps and neighbours from `build_extras`. They show identities and photographs.

    Returns
    -------
    str
        HTML text, to be written as UTF-8. Same input, same text.

    Raises
    ------
    FormatError
        Not a record of this layout, a part is missing, or a number is NaN or infinite.
    """
    _check(record)
    try:
        page = _environment().get_template("report.html.j2").render(_context(record, extras))
    except KeyError as error:
        raise FormatError(f"the audit record lacks {error}: it does not follow {SCHEMA}") from error
    return printable(page)


def embed_json(record: Mapping[str, Any]) -> Markup:
    r"""Return the record as JSON that no string inside can end early: ``<``, ``>`` and ``&`` become ``\u003c`` etc.

    Raises
    ------
    FormatError
        A number is NaN or infinite, or a value is not plain JSON.
    """
    try:
        written = json.dumps(record, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    except (TypeError, ValueError) as error:
        raise FormatError(f"the audit record cannot be written as JSON: {error}") from error
    for character in "<>&":
        written = written.replace(character, f"\\u{ord(character):04x}")
    return Markup(written)


def _check(record: Mapping[str, Any]) -> None:
    found = record.get("schema")
    if found != SCHEMA:
        raise FormatError(f"the report is made from a record of layout {SCHEMA!r}, got {found!r}")
    missing = [key for key in _REQUIRED if key not in record]
    if missing:
        raise FormatError(f"the audit record lacks {', '.join(missing)}: it does not follow {SCHEMA}")


def _context(record: Mapping[str, Any], extras: ReportExtras | None) -> dict[str, Any]:
    extras = extras or ReportExtras()
    maps, map_legend = panels.map_panels(extras)
    power = record["power"]
    hygiene = sorted(record["hygiene"], key=lambda f: SEVERITIES.index(f["severity"]))
    utility_order = release_order(u["release"] for u in record["utility"])
    return {
        "record": record,
        "record_json": embed_json(dict(record)),
        "css": _css(),
        "figures": key_figures(record),
        "tables": tables(record),
        "sides": sides(record),
        "apart": apart(record["curves"]),
        "det": panels.det_panels(record),
        "rank": panels.rank_panel(record),
        "maps": maps,
        "map_legend": map_legend,
        "extras": extras,
        "tally": _tally(extras),
        "hygiene": hygiene,
        "alarms": [f for f in hygiene if f["severity"] != "note"],
        "power": power,
        "power_plot": power_figure(power, key="power") if power and power["points"] else None,
        "utility": sorted(record["utility"], key=lambda u: (utility_order.index(u["release"]), u["rank"])),
        "provenance": provenance(record),
        "personal": _personal(extras, record),
        "sections": _sections(record, extras),
    }


def _sections(record: Mapping[str, Any], extras: ReportExtras) -> list[tuple[str, str]]:
    """Return identifier and title of the sections that this report has, in order."""
    every = [
        ("figures", "Key figures", True),
        ("sides", "Releases side by side", True),
        ("comparison", "All attackers, all releases", True),
        ("det", "Error trade-off curves", True),
        ("rank", "Rank, leakage and what is kept", True),
        ("maps", "Maps of the vectors", bool(extras.maps)),
        ("neighbours", "Nearest neighbours", bool(extras.neighbours)),
        ("hygiene", "What was noticed about the data", True),
        ("power", "What this audit would have caught", True),
        ("utility", "What is still of use", True),
        ("limits", "What is not promised", True),
        ("reading", "How to read this report", True),
        ("provenance", "Provenance", True),
    ]
    return [(key, title) for key, title, present in every if present]


def _tally(extras: ReportExtras) -> dict[str, tuple[int, int]]:
    """Count same-person neighbours over all queries, before and after."""
    counted = {}
    for name in ("before", "after"):
        found = [n for row in extras.neighbours for n in getattr(row, name) or ()]
        counted[name] = (sum(n.same_person for n in found), len(found))
    return counted


def _personal(extras: ReportExtras, record: Mapping[str, Any]) -> dict[str, int | bool]:
    """Say what in this file points at people: names (maps, neighbours, examples) and photographs."""
    pictures = {
        p.sample
        for row in extras.neighbours
        for p in (row.query, *(n.picture for n in (*row.before, *(row.after or ()))))
        if p.jpeg is not None
    }
    names = bool(extras.maps or extras.neighbours or any(f["examples"] for f in record["hygiene"]))
    return {"names": names, "pictures": len(pictures)}


@cache
def _environment() -> Environment:
    environment = page_environment("faceblind.audit.report")
    environment.filters |= {
        "whole": lambda said: str(said).replace(" %", f"{text.NBSP}%"),  # a number keeps its sign
        "percent": text.percent,
        "bound": text.percent_bound,
        "rate": text.rate,
        "one_in": text.one_in,
        "accepts_in": text.accepts_in,
        "count": text.count,
        "plural": text.plural,
        "short": text.short,
        "name": _name,
        "release": release_name,
        "look": _look_class,
        "attacker": text.attacker_line,
        "data_uri": _data_uri,
    }
    environment.globals |= {"interval": text.interval, "explain": release_explanation}
    return environment


@cache
def _css() -> Markup:
    written = files("faceblind.audit.report").joinpath("templates/style.css").read_text(encoding="utf-8")
    return Markup(written)


def _name(value: str, limit: int = 40) -> Markup:
    """Set a name from the data apart: cut when long, whole in the tooltip, unable to turn the text around it."""
    cut = text.short(value, limit)
    title = Markup(' title="{}"').format(value) if cut != value else Markup("")
    return Markup("<bdi{}>{}</bdi>").format(title, cut)


def _data_uri(picture: Picture) -> str:
    return "data:image/jpeg;base64," + base64.b64encode(picture.jpeg or b"").decode("ascii")


def _look_class(release: str) -> str:
    return look(release).css
