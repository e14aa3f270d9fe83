"""``faceblind frequency evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter


def evaluate(
    model: Annotated[Path, Parameter(help="Model folder of frequency train.")],
    folder: Annotated[Path, Parameter(help="The faces it was trained with: its test people are evaluated.")],
    /,
    *,
    pairs: Annotated[
        list[str] | None,
        Parameter(
            help="NAME=PATH of a verification set: a .bin file, or the folder of LFW, CFP-FP, CALFW or CPLFW pairs."
        ),
    ] = None,
    ijb: Annotated[list[str] | None, Parameter(help="NAME=FOLDER of IJB-B or IJB-C.")] = None,
    noise: Annotated[
        bool, Parameter(help="With the noise of the mechanism; without it is for comparisons only.")
    ] = True,
    flip: Annotated[
        bool, Parameter(help="Add the mirrored face: a second release, which spends the budget twice.", negative=())
    ] = False,
    seed: Annotated[int, Parameter(help="Of noise, pairs and draws of people.")] = 0,
    device: Annotated[str, Parameter(help="cpu, cuda or cuda:N.")] = "cpu",
) -> int:
    """Measure what a network still recognises in releases: exact TAR at FAR over people, and the usual protocols."""
    from faceblind.cli import EXIT_DONE, console
    from faceblind.encoders.device import import_extra

    import_extra("torch", "the frequency commands", extra="frequency")
    from faceblind.frequency.workflow import evaluate_model, named_paths

    with console.staged() as progress:
        rows = evaluate_model(
            model,
            folder,
            pairs=named_paths(pairs or [], "--pairs"),
            ijb=named_paths(ijb or [], "--ijb"),
            noise=noise,
            flip=flip,
            seed=seed,
            device=device,
            progress=progress,
        )
    for row in rows:
        console.say(line(row))
    console.say(f"Written to {model / 'evaluation.json'}")
    return EXIT_DONE


def line(row: dict[str, Any]) -> str:
    """Say one row of an evaluation."""
    noise = "noise on" if row["noise"] else "NOISE OFF"
    value = row["accuracy"] if row["protocol"] == "tenfold" else row["tar"]
    what = (
        "10-fold accuracy"
        if row["protocol"] == "tenfold"
        else f"TAR at FAR {row['far_target']:g} ({row.get('grade', '')})"
    )
    known = row.get("low") is not None
    between = f" ({row['low']:.2%} to {row['high']:.2%})" if known else ""
    return f"{row['set']}, {noise}: {what} {value:.2%}{between}"
