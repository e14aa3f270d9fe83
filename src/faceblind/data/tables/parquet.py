"""Parquet tables: one file, or a folder of shards in the order of the numbers in their names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from faceblind._errors import DataError, FormatError
from faceblind.data.findings import Finding
from faceblind.data.meta import TableMeta
from faceblind.data.tables.arrow import (
    load_arrow,
    meta_of,
    open_parquet,
    overlap,
    record_batches,
    row_range,
)
from faceblind.data.tables.columns import find_column, find_sample, row_numbers, text_of_arrow
from faceblind.data.tables.inspection import dtype_findings
from faceblind.data.tables.table import BATCH_ROWS, Batch, Names, Piece, check_range, check_size
from faceblind.data.tables.vectors import matrix_of_arrow, vector_type

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class ParquetTable:
    """An opened Parquet table; see `EmbeddingTable`. Open it with `open_parquet_table`."""

    path: Path
    rows: int
    dim: int
    dtype: np.dtype[Any]
    meta: TableMeta
    findings: tuple[Finding, ...]
    carried_schema: pa.Schema | None
    _shards: tuple[tuple[Path, int], ...]
    """Files and their rows."""
    _names: Names

    def batches(self, size: int = BATCH_ROWS, *, start: int = 0, stop: int | None = None) -> Iterator[Batch]:
        """Yield rows in order; see `EmbeddingTable.batches`."""
        names = self._names
        check_size(size)
        for shard, first, part in self._parts(start, stop):
            file = open_parquet(shard)
            present = file.schema_arrow.names
            wanted = [names.embedding, names.sample, names.identity]
            columns = [name for name in wanted if name is not None and name in present]
            columns += self.carried_schema.names if self.carried_schema is not None else []
            done = first + part.start
            for batch in row_range(file, shard, list(dict.fromkeys(columns)), size, part):
                yield self._batch(batch, shard, done)
                done += batch.num_rows
            if done != first + part.stop:
                raise FormatError(f"{shard} has fewer rows than it had when it was opened: it was changed meanwhile")

    def pieces(self, start: int = 0, stop: int | None = None) -> tuple[Piece, ...]:
        """Return the files that rows are read from; see `EmbeddingTable.pieces`."""
        return tuple(Piece(shard, part.start, part.stop) for shard, _, part in self._parts(start, stop))

    def _parts(self, start: int, stop: int | None) -> Iterator[tuple[Path, int, range]]:
        """Yield the files with rows in a range: path, number of its first row in the table, wanted rows of the file."""
        wanted = check_range(start, stop, self.rows)
        first = 0
        for shard, rows in self._shards:
            if part := overlap(wanted, first, rows):
                yield shard, first, part
            first += rows

    def _batch(self, batch: Any, shard: Path, start: int) -> Batch:
        names = self._names
        # Rows are numbered over the whole table, which is how the caller knows them.
        vectors = matrix_of_arrow(batch.column(names.embedding), self.dim, shard, start)
        if names.sample in batch.schema.names:
            sample = text_of_arrow(batch.column(names.sample), "sample", shard, start)
        else:
            sample = row_numbers(start, batch.num_rows)
        identity = None
        if names.identity is not None:
            identity = text_of_arrow(batch.column(names.identity), "identity", shard, start)
        return Batch(start, vectors, identity, sample, carried_of(batch, self.carried_schema, shard))


def open_parquet_table(path: Path, shards: Sequence[Path], names: Names) -> ParquetTable:
    """Inspect the footers of `shards`, which make up the table at `path`.

    Raises
    ------
    FormatError, DataError
        A shard is damaged or differs from the first in length, precision, columns or provenance; a column is
        missing; there are no rows.
    """
    opened = [(shard, open_parquet(shard)) for shard in shards]
    first, first_file = opened[0]
    first_schema = first_file.schema_arrow
    find_column(names.embedding, first_schema.names, "embedding", first)
    if names.identity is not None:
        find_column(names.identity, first_schema.names, "identity", first)
    note = find_sample(names.sample, first_schema.names, first)
    meta = meta_of(first_schema, first)
    dim: int | None = None
    dtype: np.dtype[Any] | None = None
    rows = 0
    for shard, file in opened:
        schema = file.schema_arrow
        if sorted(schema.names) != sorted(first_schema.names):
            odd = ", ".join(sorted(set(schema.names) ^ set(first_schema.names)))
            raise DataError(f"{shard} and {first} have different columns ({odd}); shards must have the same ones")
        length, precision = vector_type(schema.field(names.embedding).type, names.embedding, shard)
        rows_here = file.metadata.num_rows
        rows += rows_here
        if length is None and rows_here:
            length = _first_length(file, shard, names.embedding)
        dim, dtype = (length if dim is None else dim), dtype or precision
        if length is not None and (length, precision) != (dim, dtype):
            raise DataError(
                f"{shard} holds {precision} vectors of length {length}, {first} holds {dtype} of length "
                f"{dim}; all shards must come from one encoder and one export"
            )
        same_meta(meta, meta_of(schema, shard), first, shard)
    if rows == 0 or dim is None or dtype is None:
        raise DataError(f"{path}: the table has no rows")
    used = {names.embedding, names.identity, names.sample}
    carried = carried_schema([(shard, file.schema_arrow) for shard, file in opened], used)
    findings = (*dtype_findings(dtype, str(path)), *([note] if note else []))
    held = tuple((shard, int(file.metadata.num_rows)) for shard, file in opened)
    return ParquetTable(path, rows, dim, dtype, meta, findings, carried, held, names)


def find_shards(folder: Path) -> list[Path]:
    """List the Parquet files directly in `folder`, `part-10` after `part-9`; hidden files are left out."""
    found = [
        entry
        for entry in folder.iterdir()
        if entry.suffix.lower() == ".parquet" and not entry.name.startswith((".", "_")) and entry.is_file()
    ]
    return sorted(found, key=lambda path: (_natural(path.name), path.name))


def carried_schema(schemas: Sequence[tuple[Path, Any]], used: set[str | None]) -> pa.Schema | None:
    """Return the common schema of the columns that are not in `used`; None when there are none.

    Raises
    ------
    DataError
        A column has types in two shards that have no common type.
    """
    pa = load_arrow("reading Parquet tables")
    order = [name for name in schemas[0][1].names if name not in used]
    for name in order:
        find_column(name, schemas[0][1].names, "other", schemas[0][0])
    if not order:
        return None
    parts = [pa.schema([schema.field(name) for name in order]).remove_metadata() for _, schema in schemas]
    try:
        return pa.unify_schemas(parts, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(
            f"{schemas[0][0].parent}: a column has types that do not go together in different shards: {error}"
        ) from error


def carried_of(batch: Any, schema: pa.Schema | None, path: Path) -> pa.RecordBatch | None:
    """Select the carried columns of a record batch and cast them to the common schema."""
    if schema is None:
        return None
    pa = load_arrow("reading Parquet tables")
    try:
        columns = [batch.column(field.name) for field in schema]
        columns = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(columns, schema, strict=True)
        ]
    except pa.ArrowException as error:
        raise FormatError(f"{path}: a column cannot be cast to the type it has in other shards: {error}") from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def same_meta(ours: TableMeta, theirs: TableMeta, our_path: Path, their_path: Path) -> None:
    """Raise `DataError` when two shards say that they come from different encoders or projectors."""
    differences = [
        f"{name}: {getattr(ours, name)} != {getattr(theirs, name)}"
        for name in ("projector", "synthetic")
        if getattr(ours, name) != getattr(theirs, name)
    ]
    if ours.encoder is None or theirs.encoder is None:
        if ours.encoder is not theirs.encoder:
            differences.append("only one names its encoder")
    else:
        differences += ours.encoder.differs_from(theirs.encoder)
    if differences:
        raise DataError(
            f"{our_path} and {their_path} differ in provenance ({'; '.join(differences)}), so their vectors "
            "are not comparable: export them again with one encoder and one projector"
        )


def _first_length(file: Any, path: Path, embedding: str) -> int:
    batch = next(record_batches(file, path, [embedding], 1))
    length = int(matrix_of_arrow(batch.column(embedding), None, path, 0).shape[1])
    if length == 0:
        raise DataError(f"{path}: the vector of row 0 has length 0")
    return length


def _natural(name: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", name)
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts if part]
