"""The app: which verbs there are."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from cyclopts import App

from faceblind.cli.align import align
from faceblind.cli.angles import angles
from faceblind.cli.apply import apply
from faceblind.cli.audit import audit
from faceblind.cli.certify import certify
from faceblind.cli.dataset import dataset
from faceblind.cli.demo import demo
from faceblind.cli.embed import embed, encoders
from faceblind.cli.export import export
from faceblind.cli.fit import fit
from faceblind.cli.frequency import frequency
from faceblind.cli.hygiene import hygiene
from faceblind.cli.reproduce import reproduce
from faceblind.cli.rewrite import rewrite
from faceblind.cli.verify import verify

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
    for verb in (
        dataset,
        align,
        embed,
        hygiene,
        audit,
        fit,
        apply,
        export,
        rewrite,
        certify,
        verify,
        angles,
        reproduce,
        demo,
        encoders,
    ):
        app.command(verb)
    app.command(frequency())
    return app
