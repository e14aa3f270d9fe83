"""``faceblind angles``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from faceblind.cli import columns as c


def angles(
    first: Annotated[Path, Parameter(help="Projector file.")],
    second: Annotated[Path, Parameter(help="Another projector file for the same encoder.")],
    /,
    *,
    first_table: Annotated[
        Path | None, Parameter(help="Table that the first was fitted on, for the nulls without identity.")
    ] = None,
    second_table: Annotated[Path | None, Parameter(help="Table that the second was fitted on.")] = None,
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="Also write the whole spectrum to this file (.json).")
    ] = None,
    identity: c.Identity = "identity",
    sample: c.Sample = "sample",
    embedding: c.Embedding = "embedding",
    metadata: c.Metadata = None,
    draws: Annotated[int, Parameter(help="Random subspaces drawn.")] = 200,
    permutations: Annotated[int, Parameter(help="Times the identities are shuffled.")] = 20,
    seed: c.Seed = 0,
) -> int:
    """Compare what two projectors remove by principal angles, beside random, label-free and permuted subspaces.

    A leading cosine near 1 is no evidence of a shared identity subspace: random subspaces of these sizes have it too.
    """
    import json

    from faceblind._files import writable_folder, write_text
    from faceblind.cli import EXIT_DONE, console
    from faceblind.data.tables import read_table
    from faceblind.erase import Projector, compare_projectors

    if output is not None:
        writable_folder(output.parent)
    one, two = Projector.load(first), Projector.load(second)
    sides = []
    for table in (first_table, second_table):
        read = None
        if table is not None:
            people = read_table(table, identity=identity, sample=sample, embedding=embedding, metadata=metadata)
            read = (people.unit(), people.identity)
        sides.append(read)
    with console.staged() as progress:
        progress("principal angles", 0, 1)
        found = compare_projectors(
            one,
            two,
            rng=seed,
            first_data=sides[0],
            second_data=sides[1],
            draws=draws,
            permutations=permutations,
        )
    console.say(found.sentence())
    if output is not None:
        text = {"first": one.digest, "second": two.digest, "said": found.sentence(), **found.to_dict()}
        write_text(output, json.dumps(text, indent=1) + "\n")
        console.say(f"Spectrum: {output}")
    return EXIT_DONE
