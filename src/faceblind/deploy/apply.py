"""Apply a projector to a table of any size: batches in, batches out, constant memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from faceblind._errors import ProjectorError
from faceblind.data.meta import TableMeta
from faceblind.data.tables import EmbeddingTable, open_writer
from faceblind.erase import Projector

_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class ApplyReport:
    """What `apply_table` did."""

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
    cautions = [said for said in [projector.check_encoder(table.meta.encoder, force=force)] if said]
    before = table.meta.projector
    if before is not None:
        what = "this projector" if before == projector.digest else f"another projector ({before[:12]})"
        if not force:
            raise ProjectorError(
                f"{table.path} was already put through {what}; apply to the original table, or pass --force"
            )
        cautions.append(f"the table was already put through {what}; forced")
    if table.dim != projector.dim:
        raise ProjectorError(f"the projector is for vectors of {projector.dim} features, {table.path} has {table.dim}")
    stored = dtype or ("float16" if table.dtype == np.float16 else "float32")
    dim = projector.compact_dim if compact else projector.dim
    meta = TableMeta(encoder=table.meta.encoder, synthetic=table.meta.synthetic, projector=projector.digest)
    emptied: list[str] = []
    count = 0
    kept = 0.0
    done = 0
    writer_options: dict[str, Any] = names or {}
    with open_writer(
        output, meta=meta, dim=dim, dtype=stored, carried_schema=table.carried_schema, **writer_options
    ) as writer:
        for batch in table.batches():
            applied = projector.apply(batch.vectors, compact=compact, renormalise=renormalise, first_row=batch.start)
            writer.write(applied.vectors, batch.identity, batch.sample, batch.carried)
            count += applied.emptied.size
            emptied += batch.sample[applied.emptied[: max(0, _SHOWN - len(emptied))]].tolist()
            kept += float(applied.energy_kept.sum())
            done += len(batch)
            if progress is not None:
                progress(done, table.rows)
    return ApplyReport(
        rows=done,
        dim=dim,
        formula=projector.formula(compact=compact),
        energy_kept=kept / done,
        emptied=count,
        emptied_examples=tuple(emptied),
        cautions=tuple(cautions),
    )
