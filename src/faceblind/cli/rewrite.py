"""``faceblind rewrite``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from faceblind.cli import columns as c

if TYPE_CHECKING:
    from faceblind.deploy.stores import RewriteReport


def rewrite(
    projector: Annotated[Path, Parameter(help="Projector file from `faceblind fit`.")],
    /,
    *,
    lancedb: Annotated[Path | None, Parameter(help="LanceDB: the folder of the database; with --table.")] = None,
    postgres: Annotated[
        str | None,
        Parameter(
            help="PostgreSQL: postgresql://user@host/database, with --table; keep the password in PGPASSWORD or ~/.pgpass."
        ),
    ] = None,
    qdrant: Annotated[
        str | None,
        Parameter(
            help="Qdrant: http://host:6333, or the folder of a local one; with --collection. An API key is read from QDRANT_API_KEY."
        ),
    ] = None,
    table: Annotated[str | None, Parameter(help="Table in LanceDB or PostgreSQL.")] = None,
    collection: Annotated[str | None, Parameter(help="Collection in Qdrant.")] = None,
    key: Annotated[str | None, Parameter(help="Column of unique keys (LanceDB, PostgreSQL); id when missing.")] = None,
    column: Annotated[
        str | None,
        Parameter(
            help="Column of raw vectors: by default vector in LanceDB, embedding in PostgreSQL, the only vector in Qdrant."
        ),
    ] = None,
    target: Annotated[
        str | None,
        Parameter(
            help="Name of the new column, table or collection; default: the old one, _clean_ and the projector's first digits."
        ),
    ] = None,
    new_table: Annotated[
        bool,
        Parameter(
            help="PostgreSQL: write a new table of key and vector, so that the raw one is not written at all.",
            negative=(),
        ),
    ] = False,
    compact: Annotated[
        bool, Parameter(help="Write d - r columns with identical cosines instead of d.", negative=())
    ] = False,
    renormalise: Annotated[bool, Parameter(help="Scale rows to unit length.")] = True,
    dtype: Annotated[
        Literal["float32", "float16"] | None, Parameter(help="Precision to store; default that of the raw vectors.")
    ] = None,
    batch_rows: Annotated[int | None, Parameter(help="Rows per batch and transaction; default 8192.")] = None,
    verify: Annotated[bool, Parameter(help="Read everything back at the end and compare.")] = True,
    take_over: Annotated[
        bool, Parameter(help="Qdrant: go on although a dead run on another machine holds the lock.", negative=())
    ] = False,
    force: c.Force = False,
) -> int:
    """Write clean vectors beside the raw ones in a vector store: a new column, table or collection; nothing is overwritten.

    Interrupted, it continues when run again; when complete, it writes what is new or changed. The switch-over is yours:
    what to do is printed at the end, and how to undo it.

    faceblind rewrite isp.safetensors --lancedb photos.lancedb --table images

    faceblind rewrite isp.safetensors --postgres postgresql://me@db/photos --table images --key id

    faceblind rewrite isp.safetensors --qdrant http://localhost:6333 --collection images
    """
    from faceblind.cli import EXIT_DONE, console
    from faceblind.deploy.stores import BATCH_ROWS, open_store
    from faceblind.deploy.stores import rewrite as rewrite_store
    from faceblind.erase import Projector

    loaded = Projector.load(projector)
    with (
        open_store(
            loaded,
            lancedb=lancedb,
            postgres=postgres,
            qdrant=qdrant,
            table=table,
            collection=collection,
            key=key,
            column=column,
            target=target,
            new_table=new_table,
            take_over=take_over,
        ) as store,
        console.counting("rewriting") as progress,
    ):
        report = rewrite_store(
            store,
            loaded,
            batch_rows=BATCH_ROWS if batch_rows is None else batch_rows,
            compact=compact,
            renormalise=renormalise,
            dtype=dtype,
            verify=verify,
            force=force,
            progress=progress,
        )
    _show(report)
    return EXIT_DONE


def _show(report: RewriteReport) -> None:
    from faceblind.cli import console

    for caution in report.cautions:
        console.warn(caution)
    how = "continued; " if report.resumed else ""
    checked = "read back and compared: they agree" if report.verified else "not verified"
    console.say(
        f"{report.source} -> {report.target}\n"
        f"{report.rows:,} clean vectors of {report.dim} columns in {report.dtype} ({how}{report.written:,} written now; "
        f"{report.formula} formula), {100 * report.energy_kept:.1f} % of the energy kept.\n"
        f"Checksum {report.checksum}, {checked}."
    )
    for title, steps in (("To switch:", report.switch), ("To undo:", report.undo)):
        console.say("\n".join([title, *(f"  {step}" for step in steps)]))
