"""Write Parquet in row groups of a fixed size, so that the bytes do not depend on how rows arrive."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.data.meta import METADATA_KEY
from faceblind.data.tables.arrow import load_arrow
from faceblind.data.tables.sink import Block, Layout

ROW_GROUP = 16384
"""Rows per row group."""


class ParquetSink:
    """A Parquet file of keys, identities, vectors (unless told otherwise) and carried columns.

    Raises
    ------
    MissingExtraError
        pyarrow is not installed.
    """

    def __init__(self, path: Path, layout: Layout, *, with_vectors: bool = True) -> None:
        self._pa = load_arrow("writing Parquet tables")
        self._layout = layout
        self._with_vectors = with_vectors
        self._stream: IO[bytes] = path.open("wb")
        self._writer: Any = None
        self._waiting: list[Any] = []
        self._waiting_rows = 0

    def append(self, block: Block) -> None:
        """Add rows; full row groups go to disk."""
        table = self._table(block)
        if self._writer is None:
            self._writer = self._open(table.schema)
        self._waiting.append(table)
        self._waiting_rows += len(block)
        if self._waiting_rows >= ROW_GROUP:
            self._flush(self._waiting_rows // ROW_GROUP * ROW_GROUP)

    def finish(self) -> None:
        """Write the last rows and the footer."""
        if self._waiting_rows:
            self._flush(self._waiting_rows)
        if self._writer is not None:
            self._writer.close()
        self._stream.close()

    def close(self) -> None:
        """Let go of the file; an unfinished one is not completed."""
        # The footer cannot be written on a full disk, and that is not the error to tell.
        with suppress(OSError, self._pa.ArrowException):
            if self._writer is not None:
                self._writer.close()
        with suppress(OSError):
            self._stream.close()

    def _table(self, block: Block) -> Any:
        pa, layout = self._pa, self._layout
        columns = {layout.sample: self._text(block.sample, "sample")}
        if block.identity is not None:
            columns[layout.identity] = self._text(block.identity, "identity")
        if self._with_vectors:
            # A copy: the caller may use the array again before the row group is full.
            flat = pa.array(np.array(block.vectors).reshape(-1))
            columns[layout.embedding] = pa.FixedSizeListArray.from_arrays(flat, layout.dim)
        table = pa.table(columns)
        if block.carried is not None:
            for field, column in zip(block.carried.schema, block.carried.columns, strict=True):
                table = table.append_column(field, column)
        return table

    def _text(self, values: NDArray[np.str_], what: str) -> Any:
        try:
            return self._pa.array(values, self._pa.string())
        except UnicodeError as error:
            bad = next(text for text in values.tolist() if not _is_unicode(text))
            raise DataError(f"{what} {bad!a} is not valid Unicode (a file name in another encoding?)") from error

    def _open(self, schema: Any) -> Any:
        labels = [name for name in schema.names if name != self._layout.embedding]
        return self._pa.parquet.ParquetWriter(
            self._stream,
            schema.with_metadata({METADATA_KEY: self._layout.meta.to_json()}),
            compression="zstd",
            use_dictionary=labels,
            write_statistics=labels,
        )

    def _flush(self, rows: int) -> None:
        # One chunk per column, whatever pieces the rows came in: pages then break at the same rows.
        table = self._pa.concat_tables(self._waiting).combine_chunks()
        self._writer.write_table(table.slice(0, rows), row_group_size=ROW_GROUP)
        self._waiting_rows -= rows
        self._waiting = [table.slice(rows)] if self._waiting_rows else []


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
