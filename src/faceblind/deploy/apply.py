"""Apply a projector to a table of any size: batches in, batches out, constant memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from faceblind._processors import processors
from faceblind.data.meta import TableMeta
from faceblind.data.tables import EmbeddingTable, open_writer
from faceblind.deploy.checks import cautions_for
from faceblind.deploy.stream import Tally, stream
from faceblind.erase import Projector


@dataclass(frozen=True, kw_only=True)
class ApplyReport:
    """What `apply_table` or `apply_sharded` did."""

    rows: int
    dim: int
    """Columns of the written vectors."""
    formula: str
    """``compact``, ``low-rank`` or ``complement``."""
    energy_kept: float
    """Mean share of squared length that is left."""
    emptied: int
    """Rows that had nothing left and were written as zeros."""
    emptied_examples: tuple[str, ...]
    cautions: tuple[str, ...]
    resumed: int = 0
    """Rows that an interrupted run, or an earlier one, had done."""
    notes: tuple[str, ...] = ()
    """What became of an earlier run."""


def apply_table(
    projector: Projector,
    table: EmbeddingTable,
    output: str | Path,
    *,
    compact: bool = False,
    renormalise: bool = True,
    dtype: str | None = None,
    force: bool = False,
    names: dict[str, str] | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ApplyReport:
    """Write a table of erased vectors; identities, keys and all other columns are carried along.

    Parameters
    ----------
    table : EmbeddingTable
        From `faceblind.data.tables.open_table`; it may hold NaN-free vectors of any scale.
    output : path
        Format by suffix, as for `open_writer`. Appears only when complete.
    compact : bool
        Write d - r columns with identical cosines.
    renormalise : bool
        Scale rows to unit length.
    dtype : {"float16", "float32"}, optional
        Precision to store; that of the table when missing. float16 leaves about 5e-5 of the removed directions as
        rounding, float32 about 1e-7.
    force : bool
        Go on although the projector was made for another encoder or the table was projected before.
    names : dict, optional
        Column names (identity, sample, embedding) to write.
    threads : int, optional
        Threads to use, all processors when missing; the result does not depend on it.

    Raises
    ------
    EncoderError
        The projector was made for another encoder.
    ProjectorError
        The table has another dimension or was projected before.
    DataError
        A row with NaN or infinity, named by its row number.
    OutputError
        The place cannot be written; nothing is left behind.
    """
    plan = plan_for(
        projector, table, compact=compact, renormalise=renormalise, dtype=dtype, force=force, names=names or {}
    )
    with open_writer(
        output, meta=plan.meta, dim=plan.dim, dtype=plan.dtype, carried_schema=table.carried_schema, **plan.names
    ) as writer:
        total = stream(
            projector,
            table,
            writer,
            compact=compact,
            renormalise=renormalise,
            threads=processors() if threads is None else threads,
            progress=None if progress is None else lambda done: progress(done, table.rows),
        )
    return report_of(projector, plan, total)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What will be written, settled before the first row is read."""

    dim: int
    dtype: str
    meta: TableMeta
    compact: bool
    renormalise: bool
    names: dict[str, Any]
    """Column names."""
    cautions: tuple[str, ...]


def plan_for(
    projector: Projector,
    table: EmbeddingTable,
    *,
    compact: bool,
    renormalise: bool,
    dtype: str | None,
    force: bool,
    names: dict[str, str],
) -> Plan:
    """Check that a projector goes with a table and settle what is written; see `apply_table`."""
    cautions = cautions_for(
        projector, table.meta, table.dim, table.path, remedy="apply to the original table", force=force
    )
    return Plan(
        dim=projector.compact_dim if compact else projector.dim,
        dtype=dtype or ("float16" if table.dtype == np.float16 else "float32"),
        meta=TableMeta(encoder=table.meta.encoder, synthetic=table.meta.synthetic, projector=projector.digest),
        compact=compact,
        renormalise=renormalise,
        names=dict(names),
        cautions=cautions,
    )


def report_of(
    projector: Projector, plan: Plan, total: Tally, *, resumed: int = 0, notes: tuple[str, ...] = ()
) -> ApplyReport:
    """Put what was planned and what went through into a report."""
    return ApplyReport(
        rows=total.rows,
        dim=plan.dim,
        formula=projector.formula(compact=plan.compact),
        energy_kept=total.energy / total.rows,
        emptied=total.emptied,
        emptied_examples=total.examples,
        cautions=plan.cautions,
        resumed=resumed,
        notes=notes,
    )
