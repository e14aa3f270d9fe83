"""``faceblind demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def demo(
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Folder for everything the demo makes.")] = Path(
        "demo-out"
    ),
    people: Annotated[int, Parameter(help="Synthetic people to render.")] = 100,
    images_per_person: Annotated[int, Parameter(help="Portraits of each.")] = 10,
    encoder: Annotated[str, Parameter(help="sscd, sscd-distilled (six times faster) or onnx:FILE.")] = "sscd",
    seed: Annotated[int, Parameter(help="Seed of everything drawn.")] = 0,
    show: Annotated[bool, Parameter(help="Open the report in a browser when there is one.")] = False,
) -> int:
    """Render synthetic people, embed them, audit, fit a projector, apply it and audit again.

    Nothing is downloaded and no photograph of a person is used.
    """
    from faceblind._files import writable_folder
    from faceblind.cli import EXIT_DONE, console
    from faceblind.deploy.demo import run_demo

    writable_folder(output)
    with console.staged() as progress:
        made = run_demo(
            output,
            people=people,
            images_per_person=images_per_person,
            encoder=encoder,
            seed=seed,
            progress=progress,
        )
    console.show_findings(made.after.hygiene)
    console.show_result(made.after)
    console.say(f"Projector: rank {made.projector.rank} ({made.rank_note})")
    console.say(f"Erased table: {made.clean} ({made.applied.rows:,} rows)")
    console.say(f"Report before: {output / 'before' / 'report.html'}")
    console.say(f"Report after:  {made.report}")
    if show:
        import webbrowser

        webbrowser.open(made.report.resolve().as_uri())
    return EXIT_DONE
