"""``faceblind align``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter


def align(
    folder: Annotated[Path, Parameter(help="Folder of photographs, one sub-folder per identity.")],
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Folder for the chips.")],
    detector: Annotated[
        str, Parameter(help="centerface, or your own file: centerface:FILE, scrfd:FILE.")
    ] = "centerface",
    face: Annotated[
        Literal["central", "largest", "score", "only"],
        Parameter(help="Which of several faces: the large one near the middle, the largest, the surest, or none."),
    ] = "central",
    labels: Annotated[
        Path | None, Parameter(help="CSV with columns path, identity instead of a folder per identity.")
    ] = None,
    size: Annotated[int, Parameter(help="Side of the chips in pixels; face recognition takes 112.")] = 112,
    workers: Annotated[int, Parameter(help="Threads.")] = 2,
) -> int:
    """Cut the aligned face out of every photograph: 112x112 chips by the five-point template of ArcFace.

    Photographs without a face are skipped, printed and listed beside the folder, as are boxes and points. A run that was
    stopped goes on where it was when it is started again.
    """
    from faceblind.cli import EXIT_DONE, console
    from faceblind.encoders.face_folder import align_folder
    from faceblind.faces.aligner import Aligner
    from faceblind.faces.detectors import open_detector

    aligner = Aligner(open_detector(detector), choice=face, size=size)
    with console.counting("aligning") as progress:
        result = align_folder(folder, output, aligner, labels_csv=labels, workers=workers, progress=progress)
    for note in result.notes:
        console.warn(note.message)
    for skip in result.skipped:
        console.warn(f"skipped {skip.sample}: {skip.reason}")
    earlier = f" ({result.kept:,} of an earlier run)" if result.kept else ""
    console.say(
        f"{result.chips:,} faces aligned{earlier}, {len(result.skipped):,} skipped.\nWritten to {result.output}"
    )
    console.say(f"Boxes and points are in {result.faces_path}")
    if result.skip_list_path is not None:
        console.say(f"Skipped photographs are listed in {result.skip_list_path}")
    return EXIT_DONE
