"""``faceblind embed`` and ``faceblind encoders``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter


def embed(
    folder: Annotated[Path, Parameter(help="Folder of photographs, one sub-folder per identity.")],
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Table to write (.parquet, .npz or .npy).")],
    encoder: Annotated[
        str, Parameter(help="Encoder name (see `faceblind encoders`), hf:REPOSITORY or onnx:FILE.")
    ] = "sscd",
    weights: Annotated[
        Path | None, Parameter(help="Your folder or file of weights, in place of where they are found otherwise.")
    ] = None,
    device: Annotated[str, Parameter(help="cpu, cuda or cuda:N.")] = "cpu",
    precision: Annotated[
        Literal["float32", "bfloat16", "float16"], Parameter(help="Arithmetic of encoders that torch runs.")
    ] = "float32",
    detector: Annotated[
        str | None, Parameter(help="Face recognition encoders: what finds faces, or `aligned` for chips.")
    ] = None,
    face: Annotated[str | None, Parameter(help="Face recognition encoders: which of several faces.")] = None,
    labels: Annotated[
        Path | None, Parameter(help="CSV with columns path, identity instead of a folder per identity.")
    ] = None,
    dtype: Annotated[Literal["float32", "float16"], Parameter(help="Precision to store.")] = "float32",
    batch_size: Annotated[int, Parameter(help="Photographs per call of the encoder.")] = 16,
    workers: Annotated[int, Parameter(help="Threads that decode photographs.")] = 2,
    threads: Annotated[
        int | None, Parameter(help="Threads of the encoder; default all cores, or each process its share.")
    ] = None,
    processes: Annotated[
        int, Parameter(help="Processes that embed, each with an encoder and decoding threads of its own.")
    ] = 1,
    engine: Annotated[
        Literal["local", "ray"], Parameter(help="Where they run: on this machine, or on a Ray cluster (RAY_ADDRESS).")
    ] = "local",
) -> int:
    """Turn a folder of photographs into a table of embeddings.

    Photographs that cannot be read are skipped, printed and listed in a file beside the table. A run that was stopped
    goes on where it was when it is started again.
    """
    from faceblind.cli import EXIT_DONE, console
    from faceblind.deploy import engine_named
    from faceblind.encoders import embed_folder, open_encoder

    place = None if (engine, processes) == ("local", 1) else engine_named(engine, processes)
    if place is not None and threads is None:
        threads = getattr(place, "threads", 1)
    opened = open_encoder(
        encoder,
        threads=threads,
        device=device,
        precision=precision,
        weights=weights,
        detector=detector,
        face=face,
    )
    with console.counting("embedding") as progress:
        result = embed_folder(
            folder,
            opened,
            output,
            labels_csv=labels,
            batch_size=batch_size,
            workers=workers,
            dtype=dtype,
            progress=progress,
            engine=place,
        )
    for note in result.notes:
        console.warn(note.message)
    for skip in result.skipped:
        console.warn(f"skipped {skip.sample}: {skip.reason}")
    console.say(
        f"{result.embedded:,} photographs embedded, {len(result.skipped):,} skipped.\nWritten to {result.output}"
    )
    if result.skip_list_path is not None:
        console.say(f"Skipped photographs are listed in {result.skip_list_path}")
    return EXIT_DONE


def encoders() -> int:
    """List the encoders, their licences and how to get their weights."""
    from faceblind.cli import EXIT_DONE, console
    from faceblind.encoders import encoders as known
    from faceblind.encoders.listing import list_encoders

    console.say(list_encoders(known()))
    return EXIT_DONE
