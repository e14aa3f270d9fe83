"""``faceblind frequency release``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def release(
    model: Annotated[Path, Parameter(help="Model folder of frequency train.")],
    folder: Annotated[Path, Parameter(help="Aligned faces to release.")],
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Folder for the releases.")],
    seed: Annotated[
        int | None,
        Parameter(
            help="Repeats a run, for trials: whoever guesses it can take the noise off. Default: the system's entropy."
        ),
    ] = None,
    shard: Annotated[int, Parameter(help="Faces in a file.")] = 64,
) -> int:
    """Write what leaves the camera instead of faces: one tensor a face, in safetensors files, with a manifest.

    Finished files are kept: a run that was stopped goes on where it was.
    """
    from faceblind.cli import EXIT_DONE, console
    from faceblind.encoders.device import import_extra

    import_extra("torch", "the frequency commands", extra="frequency")
    from faceblind.frequency.workflow import release_faces

    with console.staged() as progress:
        count = release_faces(model, folder, output, seed=seed, shard=shard, progress=progress)
    console.say(f"{count:,} faces released.\nWritten to {output}")
    return EXIT_DONE
