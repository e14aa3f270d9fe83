"""``faceblind apply``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from faceblind.cli import columns as c


def apply(
    projector: Annotated[Path, Parameter(help="Projector file from `faceblind fit`.")],
    table: c.Table,
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Table to write; the format follows its suffix.")],
    identity: Annotated[
        str | None, Parameter(help="Identity column, if it is not called identity; it is carried along.")
    ] = None,
    sample: c.Sample = "sample",
    embedding: c.Embedding = "embedding",
    metadata: c.Metadata = None,
    compact: Annotated[
        bool, Parameter(help="Write d - r columns with identical cosines instead of d.", negative=())
    ] = False,
    renormalise: Annotated[bool, Parameter(help="Scale rows to unit length.")] = True,
    dtype: Annotated[
        Literal["float32", "float16"] | None, Parameter(help="Precision to store; default that of the table.")
    ] = None,
    force: c.Force = False,
) -> int:
    """Remove identity from a table: streams batches in constant memory and writes the result in one piece.

    All other columns are carried along. The cheapest exact formula is picked; rows with nothing left become zeros and
    are counted, never divided by zero.
    """
    from faceblind.cli import EXIT_DONE, console
    from faceblind.data.tables import open_table
    from faceblind.deploy import apply_table
    from faceblind.erase import Projector

    loaded = Projector.load(projector)
    who = identity or _identity_column(table, output, sample, embedding, metadata)
    source = open_table(table, identity=who, sample=sample, embedding=embedding, metadata=metadata)
    names = {"sample": sample, "embedding": embedding} | ({"identity": who} if who else {})
    with console.counting("applying") as progress:
        report = apply_table(
            loaded,
            source,
            output,
            compact=compact,
            renormalise=renormalise,
            dtype=dtype,
            force=force,
            names=names,
            progress=progress,
        )
    for caution in report.cautions:
        console.warn(caution)
    if report.emptied:
        examples = ", ".join(report.emptied_examples)
        console.warn(f"{report.emptied:,} rows had nothing left and are all zeros, among them {examples}")
    console.say(
        f"{report.rows:,} rows, {loaded.dim} -> {report.dim} columns ({report.formula} formula), "
        f"{100 * report.energy_kept:.1f} % of the energy kept.\nWritten to {output}"
    )
    return EXIT_DONE


def _identity_column(table: Path, output: Path, sample: str, embedding: str, metadata: Path | None) -> str | None:
    """Return the identity column to carry, if there is one; from Parquet to Parquet it travels like any other column."""
    from faceblind._errors import DataError
    from faceblind.data.tables import open_table

    if table.suffix == output.suffix == ".parquet":
        return None
    try:
        open_table(table, identity="identity", sample=sample, embedding=embedding, metadata=metadata)
    except DataError:
        return None  # no such column; what else may be wrong with the table is said when it is opened
    return "identity"
