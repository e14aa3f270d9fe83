"""Vectors in ``.npy`` files: one alone, one with a Parquet file beside it, or a clip-retrieval folder.

All three are a list of shards, each a ``.npy`` file and perhaps a Parquet file with one metadata row per
vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError, FormatError
from faceblind.data.findings import Finding
from faceblind.data.meta import TableMeta
from faceblind.data.tables.alignment import metadata_order, row_column
from faceblind.data.tables.arrow import (
    meta_of,
    open_parquet,
    overlap,
    parse_meta,
    reading_parquet,
    row_range,
)
from faceblind.data.tables.columns import find_column, find_sample, row_numbers, text_of_arrow
from faceblind.data.tables.inspection import SHOWN, dtype_findings
from faceblind.data.tables.npy import NpyVectors, native, open_npy
from faceblind.data.tables.parquet import carried_of, carried_schema, same_meta
from faceblind.data.tables.table import BATCH_ROWS, Batch, Names, Piece, check_range, check_size

if TYPE_CHECKING:
    import pyarrow as pa

Pair = tuple[Path, Path | None]
"""A ``.npy`` file and its metadata."""


@dataclass(frozen=True)
class _Shard:
    vectors: NpyVectors
    metadata: Path | None
    order: NDArray[np.intp] | None
    """The metadata rows in the order of the vectors, when that is not the order of the file."""
    start: int


@dataclass(frozen=True)
class NpyTable:
    """Opened ``.npy`` files; see `EmbeddingTable`. Open them with `open_npy_table`."""

    path: Path
    rows: int
    dim: int
    dtype: np.dtype[Any]
    meta: TableMeta
    findings: tuple[Finding, ...]
    carried_schema: pa.Schema | None
    _shards: tuple[_Shard, ...]
    _names: Names
    _columns: tuple[str, ...]
    """Metadata columns to read; empty when the vectors are all there is to read."""

    def batches(self, size: int = BATCH_ROWS, *, start: int = 0, stop: int | None = None) -> Iterator[Batch]:
        """Yield rows in order; see `EmbeddingTable.batches`. Vectors are read through a memory map."""
        check_size(size)
        for shard, part in self._parts(start, stop):
            vectors = shard.vectors.map()
            done = part.start
            for count, metadata in self._metadata(shard, size, part):
                rows = native(vectors[done : done + count])
                yield self._batch(rows, metadata, shard, shard.start + done)
                done += count

    def pieces(self, start: int = 0, stop: int | None = None) -> tuple[Piece, ...]:
        """Return the files that rows are read from; see `EmbeddingTable.pieces`."""
        return tuple(
            Piece(path, part.start, part.stop)
            for shard, part in self._parts(start, stop)
            for path in (shard.vectors.path, shard.metadata)
            if path is not None
        )

    def _parts(self, start: int, stop: int | None) -> Iterator[tuple[_Shard, range]]:
        wanted = check_range(start, stop, self.rows)
        for shard in self._shards:
            if part := overlap(wanted, shard.start, shard.vectors.rows):
                yield shard, part

    def _metadata(self, shard: _Shard, size: int, part: range) -> Iterator[tuple[int, Any]]:
        if shard.metadata is None or not self._columns:
            for first in range(part.start, part.stop, size):
                yield min(size, part.stop - first), None
            return
        file = open_parquet(shard.metadata)
        columns = list(self._columns)
        if shard.order is None:
            batches = row_range(file, shard.metadata, columns, size, part)
        else:
            with reading_parquet(shard.metadata):
                table = file.read(columns).take(shard.order[part.start : part.stop]).combine_chunks()
            batches = iter(table.to_batches(max_chunksize=size))
        for batch in batches:
            if batch.num_rows:
                yield batch.num_rows, batch

    def _batch(self, vectors: NDArray[Any], metadata: Any, shard: _Shard, start: int) -> Batch:
        names = self._names
        path = shard.metadata or shard.vectors.path
        identity = None
        if names.identity is not None:
            identity = text_of_arrow(metadata.column(names.identity), "identity", path, start)
        if names.sample in self._columns:
            sample = text_of_arrow(metadata.column(names.sample), "sample", path, start)
        else:
            sample = row_numbers(start, vectors.shape[0])
        return Batch(start, vectors, identity, sample, carried_of(metadata, self.carried_schema, path))


def open_npy_table(path: Path, pairs: Sequence[Pair], names: Names, findings: Sequence[Finding] = ()) -> NpyTable:
    """Inspect headers and footers of `pairs`, which make up the table at `path`, and align their rows.

    Raises
    ------
    FormatError, DataError
        A file is damaged; row counts, lengths, precisions, columns or provenance disagree (both files are
        named); a column is missing; row numbers in the metadata are no permutation; there are no rows.
    """
    found = list(findings)
    vectors = [open_npy(npy) for npy, _ in pairs]
    _same_type(vectors)
    files = [None if metadata is None else open_parquet(metadata) for _, metadata in pairs]
    shards: list[_Shard] = []
    shuffled: list[Path] = []
    row_names: dict[str | None, Path] = {}
    start = 0
    for array, (_, metadata), file in zip(vectors, pairs, files, strict=True):
        order = None
        if metadata is not None and file is not None:
            _same_rows(array, metadata, file.metadata.num_rows)
            column = row_column(file.schema_arrow, metadata)
            row_names.setdefault(column, metadata)
            if column is not None:
                order = metadata_order(file, column, metadata, start)
        if order is not None and metadata is not None:
            shuffled.append(metadata)
        shards.append(_Shard(array, metadata, order, start))
        start += array.rows
    if start == 0:
        raise DataError(f"{path}: the table has no rows")
    if len(row_names) > 1:
        one, other = list(row_names.values())[:2]
        raise DataError(f"{one} and {other} number their vectors differently ({list(row_names)}); make them alike")
    schemas = [(shard.metadata, file.schema_arrow) for shard, file in zip(shards, files, strict=True) if file]
    meta, columns, carried, note = _metadata_columns(path, schemas, names, row_names.keys())
    header = vectors[0].header
    found += dtype_findings(header.dtype, str(path))
    if fortran := [array.path for array in vectors if array.header.fortran]:
        found.append(_fortran(fortran))
    if shuffled:
        found.append(_mixed(shuffled))
    if note:
        found.append(note)
    dtype = header.dtype.newbyteorder("=")
    return NpyTable(path, start, header.shape[1], dtype, meta, tuple(found), carried, tuple(shards), names, columns)


def sidecar(npy: Path) -> Path:
    """Where provenance is kept for a ``.npy`` file without metadata."""
    return npy.with_name(npy.name + ".json")


def _metadata_columns(
    path: Path, schemas: Sequence[tuple[Any, Any]], names: Names, row_names: Set[str | None]
) -> tuple[TableMeta, tuple[str, ...], pa.Schema | None, Finding | None]:
    if not schemas:
        if names.identity is not None:
            raise DataError(
                f"{path} has no metadata, so no identities; pass metadata=... (a Parquet file with one row "
                "per vector), or identity=None when no identities are needed"
            )
        beside = sidecar(path)
        meta = parse_meta(beside.read_bytes(), beside) if beside.is_file() else TableMeta()
        return meta, (), None, find_sample(names.sample, (), path)
    first, schema = schemas[0]
    if names.identity is not None:
        find_column(names.identity, schema.names, "identity", first)
    note = find_sample(names.sample, schema.names, first)
    meta = meta_of(schema, first)
    for other, theirs in schemas[1:]:
        if sorted(theirs.names) != sorted(schema.names):
            odd = ", ".join(sorted(set(theirs.names) ^ set(schema.names)))
            raise DataError(f"{other} and {first} have different columns ({odd}); shards must have the same ones")
        same_meta(meta, meta_of(theirs, other), first, other)
    # Row numbers are used up by the alignment: after a rewrite they would be wrong.
    carried = carried_schema(schemas, {names.identity, names.sample} | row_names)
    columns = [name for name in (names.identity, names.sample) if name is not None and name in schema.names]
    columns += carried.names if carried is not None else []
    return meta, tuple(dict.fromkeys(columns)), carried, note


def _same_rows(array: NpyVectors, metadata: Path, rows: int) -> None:
    if array.rows != rows:
        raise FormatError(
            f"{array.path} holds {array.rows} vectors but {metadata} has {rows} rows; they do not belong "
            "together or one is incomplete (metadata=... names another file)"
        )


def _same_type(arrays: Sequence[NpyVectors]) -> None:
    first = arrays[0]
    for array in arrays[1:]:
        if (array.header.shape[1], array.header.dtype) != (first.header.shape[1], first.header.dtype):
            raise DataError(
                f"{array.path} holds {array.header.dtype} vectors of length {array.header.shape[1]}, "
                f"{first.path} holds {first.header.dtype} of length {first.header.shape[1]}; all shards must "
                "come from one encoder and one export"
            )


def _fortran(paths: Sequence[Path]) -> Finding:
    return Finding(
        kind="fortran_order",
        severity="note",
        count=len(paths),
        examples=tuple(str(path) for path in paths[:SHOWN]),
        message="vectors are stored column by column (Fortran order), so reading a batch touches the whole "
        "file; save numpy.ascontiguousarray(X) to read faster",
    )


def _mixed(paths: Sequence[Path]) -> Finding:
    return Finding(
        kind="mixed_row_order",
        severity="note",
        count=len(paths),
        examples=tuple(str(path) for path in paths[:SHOWN]),
        message="the metadata rows are in another order than the vectors; they were matched by the column "
        "of row numbers, never by position",
    )
