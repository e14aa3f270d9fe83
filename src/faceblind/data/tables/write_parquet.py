"""Write Parquet in row groups of a fixed size, so that the bytes do not depend on how rows arrive.

Labels and carried columns are compressed. Vectors are not: they are noise to a compressor, which takes a tenth off their
size for half the speed. They are declared as never missing, which spares readers and writers a level per number.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.data.meta import METADATA_KEY
from faceblind.data.tables.arrow import load_arrow
from faceblind.data.tables.sink import Block, Layout

ROW_GROUP = 4096
"""Rows per row group. Writing one takes ten times its memory: levels for every number, and its pages."""
_CACHED = 1 << 24


class ParquetSink:
    """A Parquet file of keys, identities, vectors (unless told otherwise) and carried columns.

    Parameters
    ----------
    tee : callable, optional
        Given all bytes of the file in order.

    Raises
    ------
    MissingExtraError
        pyarrow is not installed.
    """

    def __init__(
        self,
        path: Path,
        layout: Layout,
        *,
        with_vectors: bool = True,
        tee: Callable[[Any], object] | None = None,
    ) -> None:
        self._pa = load_arrow("writing Parquet tables")
        self._layout = layout
        self._with_vectors = with_vectors
        self._stream = _Stream(path, tee)
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
        fields = [pa.field(layout.sample, pa.string())]
        columns = [self._text(block.sample, "sample")]
        if block.identity is not None:
            fields.append(pa.field(layout.identity, pa.string()))
            columns.append(self._text(block.identity, "identity"))
        if self._with_vectors:
            # A copy: the caller may use the array again before the row group is full.
            flat = pa.array(np.array(block.vectors).reshape(-1))
            kind = pa.list_(pa.field("element", flat.type, nullable=False), layout.dim)
            fields.append(pa.field(layout.embedding, kind, nullable=False))
            columns.append(pa.FixedSizeListArray.from_arrays(flat, type=kind))
        table = pa.Table.from_arrays(columns, schema=pa.schema(fields))
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
            compression={path: "NONE" if self._is_vectors(path) else "ZSTD" for path in self._leaves(schema)},
            use_dictionary=labels,
            write_statistics=labels,
        )

    def _leaves(self, schema: Any) -> list[str]:
        """Return the paths of the Parquet columns, as a file without rows names them: codecs go by them."""
        parquet, empty = self._pa.parquet, io.BytesIO()
        parquet.write_table(schema.empty_table(), empty)
        columns = parquet.ParquetFile(empty).schema
        return [columns.column(number).path for number in range(len(columns))]

    def _is_vectors(self, path: str) -> bool:
        return path == f"{self._layout.embedding}.list.element"

    def _flush(self, rows: int) -> None:
        # One chunk per column, whatever pieces the rows came in: pages then break at the same rows.
        table = self._pa.concat_tables(self._waiting).combine_chunks()
        self._writer.write_table(table.slice(0, rows), row_group_size=ROW_GROUP)
        self._waiting_rows -= rows
        self._waiting = [table.slice(rows)] if self._waiting_rows else []


class _Stream(io.RawIOBase):
    """A new file that shows what is written to it, and leaves the system's cache to those who will read something again."""

    def __init__(self, path: Path, tee: Callable[[Any], object] | None) -> None:
        super().__init__()
        self._file = path.open("wb", buffering=0)
        self._tee = tee
        self._cached = 0

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        super().close()
        self._file.close()

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if self._tee is not None:
            self._tee(view)
        done = 0
        while done < len(view):  # a write may take less than it is given
            done += self._file.write(view[done:]) or 0
        self._cached += done
        if self._cached >= _CACHED and hasattr(os, "posix_fadvise"):
            os.fdatasync(self._file.fileno())
            os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            self._cached = 0
        return done


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
