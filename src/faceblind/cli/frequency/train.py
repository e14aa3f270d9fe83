"""``faceblind frequency train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

_LEARNT = 3
"""Training accuracy below so many times chance says that nothing was learnt."""


def train(
    folder: Annotated[
        Path, Parameter(help="Aligned faces: a folder per person (see faceblind align), or a RecordIO folder.")
    ],
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Folder for the model.")],
    recipe: Annotated[str, Parameter(help="paper, official, small, or your own JSON file.")] = "paper",
    release: Annotated[
        str | None,
        Parameter(
            help="dctdp, dctdp-uniform, dctdp-official, dctdp-ones, dctdp-dc, dct-clean, rgb-noise, rgb, peep, cloak or instahide; "
            "default as in the recipe."
        ),
    ] = None,
    eps: Annotated[
        float | None, Parameter(help="Mean budget of an element (dctdp); budget of an image (peep).")
    ] = None,
    head: Annotated[Literal["arcface", "cosface"] | None, Parameter(help="Loss.")] = None,
    backbone: Annotated[Literal["ir18", "ir50", "resnet50"] | None, Parameter(help="Network.")] = None,
    width: Annotated[int | None, Parameter(help="Channels of the first stage.")] = None,
    size: Annotated[int | None, Parameter(help="Side of the faces in pixels.")] = None,
    epochs: Annotated[
        int | None, Parameter(help="Passes over the faces; 0 keeps a network as it is (with --start-from).")
    ] = None,
    batch: Annotated[int | None, Parameter(help="Faces in a step.")] = None,
    precision: Annotated[Literal["float32", "bfloat16", "float16"] | None, Parameter(help="Arithmetic.")] = None,
    seed: Annotated[int | None, Parameter(help="Of everything random.")] = None,
    split: Annotated[
        Path | None, Parameter(help="CSV with columns sample, identity, split instead of a drawn one.")
    ] = None,
    start_from: Annotated[Path | None, Parameter(help="Model folder whose network to begin with.")] = None,
    device: Annotated[str, Parameter(help="cpu, cuda or cuda:N.")] = "cpu",
) -> int:
    """Calibrate a release and train a network to recognise people in it.

    Trains on the fit people of an identity-disjoint split. A run that was stopped goes on where it was when it is started again.
    """
    from faceblind._errors import UsageError
    from faceblind.cli import EXIT_DONE, console
    from faceblind.encoders.device import import_extra

    import_extra("torch", "the frequency commands", extra="frequency")
    from faceblind.frequency.recipe import RECIPES, Recipe
    from faceblind.frequency.record import read_json
    from faceblind.frequency.releases.registry import preset
    from faceblind.frequency.workflow import recipe_from, train_folder

    if recipe in RECIPES:
        base = RECIPES[recipe]
    elif Path(recipe).suffix == ".json":
        base = Recipe.from_dict(read_json(Path(recipe), "name paper, official, small or a JSON file"))
    else:
        raise UsageError(f"recipe {recipe!r} is none of {', '.join(RECIPES)}, and no .json file")
    made = recipe_from(
        base,
        release=None if release is None else preset(release),
        eps=eps,
        head=head,
        backbone=backbone,
        width=width,
        height=size,
        width_px=size,
        epochs=epochs,
        batch=batch,
        precision=precision,
        seed=seed,
    )
    with console.staged() as progress:
        result = train_folder(
            folder, output, made, split=split, device=device, start_from=start_from, progress=progress
        )
    console.say(f"Trained on {result.people:,} people, {result.images:,} faces.")
    if result.log:
        last = result.log[-1]
        console.say(f"Last epoch: loss {last['loss']:.3f}, training accuracy {last['accuracy']:.1%}")
        if last["accuracy"] < _LEARNT / result.people:
            console.say(
                f"The network has learnt hardly anything (chance is {1 / result.people:.1%}). Train longer, or under less noise "
                "first and go on from there: --start-from."
            )
    for sentence in (result.model.release.account() or {}).get("sentences", ()):
        console.say(sentence)
    console.say(f"Written to {output}")
    return EXIT_DONE
