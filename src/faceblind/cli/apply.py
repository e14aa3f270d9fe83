"""``faceblind apply``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from faceblind.cli import columns as c

if TYPE_CHECKING:
    from faceblind.deploy import ApplyReport
    from faceblind.erase import Projector


def apply(
    projector: Annotated[Path, Parameter(help="Projector file from `faceblind fit`.")],
    table: c.Table,
    /,
    *,
    output: Annotated[
        Path,
        Parameter(
            name=["--output", "-o"],
            help="Table to write; the format follows its suffix. A name without suffix is a folder of Parquet shards, "
            "written by several processes if you like and resumed after an interruption.",
        ),
    ],
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
    workers: Annotated[int, Parameter(help="Processes that write shards; for a folder.")] = 1,
    shard_rows: Annotated[
        int | None, Parameter(help="Rows per shard, a multiple of 4096; for a folder; default 262144.")
    ] = None,
    engine: Annotated[Literal["local", "ray"], Parameter(help="Where shards are written; for a folder.")] = "local",
    force: c.Force = False,
) -> int:
    """Remove identity from a table: streams batches in constant memory.

    All other columns are carried along. The cheapest exact formula is picked; rows with nothing left become zeros and
    are counted, never divided by zero. A file is written in one piece. A folder is written shard by shard: finished shards
    survive any interruption, and the same command goes on from them and ends with the same bytes.
    """
    from faceblind._errors import UsageError
    from faceblind.cli import EXIT_DONE, console
    from faceblind.data.tables import open_table
    from faceblind.deploy import apply_sharded, apply_table, engine_named
    from faceblind.erase import Projector

    loaded = Projector.load(projector)
    who = identity or _identity_column(table, output, sample, embedding, metadata)
    source = open_table(table, identity=who, sample=sample, embedding=embedding, metadata=metadata)
    names = {"sample": sample, "embedding": embedding} | ({"identity": who} if who else {})
    common: dict[str, Any] = {
        "compact": compact,
        "renormalise": renormalise,
        "dtype": dtype,
        "force": force,
        "names": names,
    }
    with console.counting("applying") as progress:
        if not output.suffix:
            if shard_rows is not None:
                common["shard_rows"] = shard_rows
            place = engine_named(engine, workers)
            report = apply_sharded(loaded, source, output, engine=place, progress=progress, **common)
        elif workers != 1 or shard_rows is not None or engine != "local":
            raise UsageError(
                f"--workers, --shard-rows and --engine are for a folder of shards; {output} is a single file: name a "
                "folder, without a suffix"
            )
        else:
            report = apply_table(loaded, source, output, progress=progress, **common)
    _tell(report, loaded, output)
    return EXIT_DONE


def _tell(report: ApplyReport, projector: Projector, output: Path) -> None:
    from faceblind.cli import console

    for said in (*report.cautions, *report.notes):
        console.warn(said)
    if report.emptied:
        examples = ", ".join(report.emptied_examples)
        console.warn(f"{report.emptied:,} rows had nothing left and are all zeros, among them {examples}")
    console.say(
        f"{report.rows:,} rows, {projector.dim} -> {report.dim} columns ({report.formula} formula), "
        f"{100 * report.energy_kept:.1f} % of the energy kept.\nWritten to {output}"
    )


def _identity_column(table: Path, output: Path, sample: str, embedding: str, metadata: Path | None) -> str | None:
    """Return the identity column to carry, if there is one; from Parquet to Parquet it travels like any other column."""
    from faceblind._errors import DataError
    from faceblind.data.tables import open_table

    if output.suffix in {"", ".parquet"} and _is_parquet(table):
        return None
    try:
        open_table(table, identity="identity", sample=sample, embedding=embedding, metadata=metadata)
    except DataError:
        return None  # no such column; what else may be wrong with the table is said when it is opened
    return "identity"


def _is_parquet(table: Path) -> bool:
    return table.suffix == ".parquet" or (table.is_dir() and any(table.glob("*.parquet")))
