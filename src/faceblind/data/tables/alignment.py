"""Which metadata row describes which vector, when a metadata file says so in a column of row numbers.

Exports that were shuffled, merged or filtered by parallel workers carry such a column. Read by position they
would give vectors the identity of someone else, and every number computed from them would look like privacy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.data.tables.arrow import load_arrow, record_batches

ROW_COLUMNS = ("embedding_row", "row")
"""Integer columns with these names hold the number of the vector that the metadata row describes."""


def row_column(schema: Any, path: Path) -> str | None:
    """Return the name of the integer column that numbers the vectors, or None.

    Raises
    ------
    DataError
        There are two.
    """
    pa = load_arrow("reading Parquet tables")
    found = [name for name in ROW_COLUMNS if name in schema.names and pa.types.is_integer(schema.field(name).type)]
    if len(found) > 1:
        raise DataError(f"{path}: both {found[0]!r} and {found[1]!r} number the vectors; drop one")
    return found[0] if found else None


def metadata_order(file: Any, column: str, path: Path, start: int) -> NDArray[np.intp] | None:
    """Return the order of the metadata rows that matches the vectors; None when it is as stored.

    Parameters
    ----------
    file : pyarrow.parquet.ParquetFile
    column : str
        Integer column of row numbers, counted from 0 in this file or from `start`, the first row of this
        shard in the whole table.

    Raises
    ------
    DataError
        The column is not a permutation of the row numbers.
    """
    rows = file.metadata.num_rows
    parts = []
    for batch in record_batches(file, path, [column], 1 << 20):
        values = batch.column(column)
        if values.null_count:
            raise _not_a_permutation(column, path, rows, "some are missing")
        parts.append(values.to_numpy().astype(np.int64))
    numbers = np.concatenate(parts) if parts else np.empty(0, np.int64)
    expected = np.arange(rows)
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    if not (np.array_equal(ordered, expected) or np.array_equal(ordered, expected + start)):
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        detail = f"{repeated[0]} is there twice" if repeated.size else f"they run from {ordered[0]} to {ordered[-1]}"
        raise _not_a_permutation(column, path, rows, detail)
    return None if np.array_equal(order, expected) else order


def _not_a_permutation(column: str, path: Path, rows: int, detail: str) -> DataError:
    return DataError(
        f"{path}: column {column!r} should give each of the {rows} vectors one metadata row (0 to {rows - 1} "
        f"in any order), but {detail}; repair it, or rename it when it means something else"
    )
