"""``faceblind frequency``: recognise faces that people cannot view, and attack what is released."""

from __future__ import annotations

from cyclopts import App

from faceblind.cli.frequency.attack import attack
from faceblind.cli.frequency.evaluate import evaluate
from faceblind.cli.frequency.release import release
from faceblind.cli.frequency.report import report
from faceblind.cli.frequency.train import train

HELP = "DCTDP: noised frequency coefficients instead of faces; train, evaluate, attack, release, report."


def frequency() -> App:
    """Build the commands."""
    app = App(name="frequency", help=HELP, help_format="plaintext", result_action="return_value")
    for verb in (train, evaluate, attack, release, report):
        app.command(verb)
    return app
