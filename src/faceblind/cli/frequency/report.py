"""``faceblind frequency report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def report(
    *models: Annotated[Path, Parameter(help="Model folders of frequency train, evaluated and attacked.")],
    output: Annotated[
        Path, Parameter(name=["--output", "-o"], help="The page; a CSV of all rows is written beside it.")
    ],
) -> int:
    """Compare models on one page: what recognises the faces, what attacks recover, and what of the paper's claims holds.

    What was not measured is said to be so. The page holds pictures of the people who were attacked.
    """
    from faceblind._errors import UsageError
    from faceblind.audit.frequency import write_report
    from faceblind.cli import EXIT_DONE, console

    if not models:
        raise UsageError("name at least one model folder")
    console.say(f"Written to {write_report(list(models), output)}")
    return EXIT_DONE
