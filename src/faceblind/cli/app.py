"""The app: which verbs there are."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from cyclopts import App

from faceblind.cli.apply import apply
from faceblind.cli.audit import audit
from faceblind.cli.demo import demo
from faceblind.cli.embed import embed, encoders
from faceblind.cli.fit import fit

HELP = """Measure, remove and account for face identity in image embeddings.

A first look, on rendered people: faceblind demo
"""


def build() -> App:
    """Build the command line."""
    try:
        number = version("faceblind")
    except PackageNotFoundError:
        number = "unknown (not installed)"
    app = App(
        name="faceblind",
        help=HELP,
        version=number,
        help_format="plaintext",
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    for verb in (embed, audit, fit, apply, demo, encoders):
        app.command(verb)
    return app
