"""What all pages share: how templates are read, the style sheet, and which characters a page may hold."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

# Lone surrogates cannot be written as UTF-8, control characters are not allowed in HTML.
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def printable(page: str) -> str:
    """Return a page with what no page may hold replaced."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", page)


def page_environment(*packages: str) -> Environment:
    """Return an environment that finds templates in the first of some packages that has them; a missing name is an error."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(package, "templates") for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def page_css(package: str, name: str) -> Markup:
    """Return the style sheet of reports followed by a page's own."""
    sheets = (("faceblind.audit.report", "style.css"), (package, name))
    return Markup(
        "".join(files(where).joinpath(f"templates/{sheet}").read_text(encoding="utf-8") for where, sheet in sheets)
    )
