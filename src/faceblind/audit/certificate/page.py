"""The certificate as one offline page: a view of the JSON, which travels inside it. No network, no script."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment
from markupsafe import Markup

from faceblind.audit.report import text
from faceblind.audit.report.figures import erased_of
from faceblind.audit.report.forest import forest_figure
from faceblind.audit.report.pages import page_environment, printable
from faceblind.audit.report.provenance import facts, say
from faceblind.audit.report.render import embed_json
from faceblind.audit.report.styles import look, release_explanation, release_name
from faceblind.data.findings import SEVERITIES

_PACKAGES: Final = ("faceblind.audit.certificate", "faceblind.audit.report")
_GRADES: Final = ("supported", "indicative", "unsupported")
_SECTIONS: Final = (
    ("worst", "The worst attacker on every release"),
    ("attackers", "Every attacker, before and after"),
    ("findings", "What was noticed about the data"),
    ("planted", "What the audit would have caught"),
    ("kept", "What is still of use"),
    ("split", "Who was tested: the split"),
    ("subject", "What was certified"),
    ("settings", "How it was measured"),
    ("ends", "What ends this certificate"),
    ("claims", "What it does not claim"),
    ("verify", "How to verify it"),
)


def render_certificate(data: Mapping[str, Any]) -> str:
    """Return the page of a certificate as HTML text, to be written as UTF-8. Same content, same text."""
    page = _environment().get_template("certificate.html.j2").render(_context(data))
    return printable(page)


def _context(data: Mapping[str, Any]) -> dict[str, Any]:
    record = data["audit"]
    rates = sorted({point["far_target"] for point in data["figures"]}, reverse=True)
    reference = _reference(record["summary"])
    points = [point for point in data["figures"] if point["far_target"] == reference]
    power = record["power"]
    return {
        "data": data,
        "record": record,
        "data_json": embed_json(data),
        "css": _css(),
        "sections": _SECTIONS,
        "rates": rates,
        "reference": reference,
        "cards": [point for point in points if point["role"] in {"raw", "erased"}],
        "plot": forest_figure(points, far=reference, key="forest") if points else None,
        "worst": _worst_lines(data["figures"], rates),
        "attackers": _attacker_lines(record["summary"], str(erased_of(record)), rates),
        "recipes": _recipes(record["provenance"]["attackers"]),
        "comparisons": [item for item in record.get("comparisons") or [] if item["far_target"] == reference],
        "bounds": {
            (item["release"], item["far_target"]): item for item in record.get("worst") or [] if "bound" in item
        },
        "hygiene": sorted(record["hygiene"], key=lambda finding: SEVERITIES.index(finding["severity"])),
        "effects": {finding["kind"]: finding["effect"] for finding in data["findings"]},
        "power": power,
        "projector": facts(data["subject"]["projector"]),
        "encoder": facts(data["subject"]["encoder"] or {}),
        "table": facts(data["subject"]["table"]),
        "plan": facts(data["plan"]),
        "environment": facts(data["environment"]),
    }


def _reference(summary: Sequence[Mapping[str, Any]]) -> float:
    """Return the FAR that the verdict speaks about: the smallest that is supported, else indicative, else the largest."""
    for grade in _GRADES[:2]:
        fars = [item["far_target"] for item in summary if item["grade"] == grade and item["calibration"] == "test"]
        if fars:
            return float(min(fars))
    return float(max((item["far_target"] for item in summary), default=0.0))


def _worst_lines(figures: Sequence[Mapping[str, Any]], rates: Sequence[float]) -> list[dict[str, Any]]:
    lines = []
    for release in dict.fromkeys(point["release"] for point in figures):
        own = {point["far_target"]: point for point in figures if point["release"] == release}
        first = next(iter(own.values()))
        lines.append({**first, "cells": [own.get(far) for far in rates]})
    return lines


def _attacker_lines(summary: Sequence[Mapping[str, Any]], erased: str, rates: Sequence[float]) -> list[dict[str, Any]]:
    """Return one line per attacker: raw and erased at every FAR, thresholds set on test."""
    at = {
        (item["attacker"], item["trained_on"], item["k"], item["release"], item["far_target"]): item
        for item in summary
        if item["calibration"] == "test"
    }
    who = dict.fromkeys((key[0], key[1], key[2]) for key in at)
    return [
        {
            "attacker": name,
            "trained_on": trained_on,
            "k": k,
            "cells": [
                (at.get((name, trained_on, k, "raw", far)), at.get((name, trained_on, k, erased, far))) for far in rates
            ],
        }
        for name, trained_on, k in who
    ]


def _recipes(attackers: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return each attacker once, with its grid and how often each setting was frozen."""
    found: dict[str, dict[str, Any]] = {}
    for item in attackers:
        entry = found.setdefault(
            str(item.get("name", "")),
            {"recipe": str(item.get("recipe", "")), "grid": item.get("grid") or {}, "chosen": [], "runs": 0},
        )
        entry["chosen"] += [setting for setting in item.get("chosen") or [] if setting]
        entry["runs"] += len(item.get("chosen") or [])
    return [
        {
            "name": name,
            "recipe": entry["recipe"],
            "grid": "; ".join(f"{key}: {say(values)}" for key, values in entry["grid"].items()) or "nothing to choose",
            "chosen": say(entry["chosen"]) if entry["chosen"] else "",
            "runs": f"{entry['runs']:,}",
        }
        for name, entry in found.items()
    ]


@cache
def _environment() -> Environment:
    environment = page_environment(*_PACKAGES)
    environment.filters |= {
        "whole": lambda said: str(said).replace(" %", f"{text.NBSP}%"),
        "percent": text.percent,
        "bound": text.percent_bound,
        "rate": text.rate,
        "times": text.times,
        "accepts_in": text.accepts_in,
        "count": text.count,
        "plural": text.plural,
        "short": text.short,
        "name": _name,
        "release": release_name,
        "look": lambda release: look(release).css,
        "attacker": text.attacker_line,
        "attacker_short": text.attacker_short,
        "day": lambda moment: str(moment)[:10],
        "groups": lambda hexadecimal: " ".join(re.findall(".{1,8}", str(hexadecimal))),
        "small": lambda value: f"{value:.1e}",
    }
    environment.globals |= {"interval": text.interval, "explain": release_explanation}
    return environment


@cache
def _css() -> Markup:
    sheets = (
        files(_PACKAGES[1]).joinpath("templates/style.css"),
        files(_PACKAGES[0]).joinpath("templates/certificate.css"),
    )
    return Markup("\n").join(Markup(sheet.read_text(encoding="utf-8")) for sheet in sheets)


def _name(value: str, limit: int = 40) -> Markup:
    """Set a name from the data apart: cut when long, whole in the tooltip, unable to turn the text around it."""
    cut = text.short(value, limit)
    title = Markup(' title="{}"').format(value) if cut != value else Markup("")
    return Markup("<bdi{}>{}</bdi>").format(title, cut)
