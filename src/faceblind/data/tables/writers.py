"""Stream rows into a new table; nothing appears at the path until all of them are there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faceblind._errors import DataError, FormatError, OutputError, UsageError
from faceblind._files import atomic_path, remove
from faceblind.data.embeddings import as_text
from faceblind.data.meta import TableMeta
from faceblind.data.tables.arrow import load_arrow
from faceblind.data.tables.clip_retrieval import is_clip_retrieval
from faceblind.data.tables.columns import row_numbers
from faceblind.data.tables.npy_layout import sidecar
from faceblind.data.tables.npz import META_ARRAY
from faceblind.data.tables.sink import Block, Layout, Sink
from faceblind.data.tables.vectors import all_finite, to_stored
from faceblind.data.tables.write_npy import ClipRetrievalSink, NpySink
from faceblind.data.tables.write_npz import NpzSink
from faceblind.data.tables.write_parquet import ParquetSink

if TYPE_CHECKING:
    import pyarrow as pa

_STORED = ("float16", "float32")
_SUFFIXES = (".parquet", ".npz", ".npy")


class TableWriter:
    """Takes the rows of a table in order; `open_writer` makes one."""

    def __init__(self, path: Path, sink: Sink, layout: Layout) -> None:
        self.path = path
        """Where the table will be."""
        self.rows = 0
        """Rows written so far."""
        self._sink = sink
        self._layout = layout
        self._given: tuple[bool, bool] | None = None

    def write(
        self,
        vectors: ArrayLike,
        identity: ArrayLike | None = None,
        sample: ArrayLike | None = None,
        carried: pa.RecordBatch | pa.Table | None = None,
    ) -> None:
        """Append rows.

        Parameters
        ----------
        vectors : (b, d) real array-like
            Finite; cast to the precision of the table. Rows of zeros are written as they are.
        identity : (b,) array-like, optional
            For all rows of the table or for none.
        sample : (b,) array-like, optional
            Unique keys (not checked here), for all rows or for none; row numbers when missing.
        carried : pyarrow.RecordBatch or Table, optional
            The columns of ``carried_schema``, in any order.

        Raises
        ------
        DataError
            Wrong shape, values that are not finite or do not fit float16 (the row is named), labels missing
            or empty, columns missing or of another type.
        OutputError
            The disk is full.
        """
        layout = self._layout
        array = self._cast(vectors)
        rows = array.shape[0]
        given = (identity is not None, sample is not None)
        if self._given not in {None, given}:
            raise DataError(f"{self.path}: identities and keys must be given for all rows or for none")
        labels = None if identity is None else self._labels(identity, rows)
        keys = row_numbers(self.rows, rows) if sample is None else as_text(sample, rows, "sample")
        other = _carried(carried, layout.carried_schema, rows, self.path)
        if rows == 0:
            return
        self._given = given
        self._sink.append(Block(array, labels, keys, other))
        self.rows += rows

    def _labels(self, identity: ArrayLike, rows: int) -> NDArray[np.str_]:
        layout = self._layout
        if layout.carried_schema is not None and layout.identity in layout.carried_schema.names:
            raise UsageError(f"{self.path}: column {layout.identity!r} is carried and cannot also hold the identities")
        labels = as_text(identity, rows, "identity")
        empty = np.flatnonzero(labels == "")
        if empty.size:
            raise DataError(f"{self.path}: identity is empty in row {self.rows + empty[0]}; fill it in or drop the row")
        return labels

    def _cast(self, vectors: ArrayLike) -> NDArray[Any]:
        layout = self._layout
        array = np.asarray(vectors)
        if array.dtype.kind not in "fiu" or array.ndim != 2 or array.shape[1] != layout.dim:
            raise DataError(
                f"{self.path}: write real vectors of shape (rows, {layout.dim}), got {array.dtype} of shape "
                f"{array.shape}"
            )
        cast = to_stored(array, layout.dtype)
        if not all_finite(cast):
            row = np.flatnonzero(~np.isfinite(cast).all(axis=1))[0]
            if np.isfinite(array[row]).all():
                raise DataError(
                    f"{self.path}: row {self.rows + row} has the value {np.abs(array[row]).max():.4g}, which "
                    f"does not fit {layout.dtype}; scale the vectors or write float32"
                )
            raise DataError(
                f"{self.path}: the vector of row {self.rows + row} holds NaN or infinity; leave that row out"
            )
        return cast


@contextmanager
def open_writer(
    path: str | Path,
    *,
    meta: TableMeta,
    dim: int,
    dtype: str | np.dtype[Any] = "float32",
    carried_schema: pa.Schema | None = None,
    identity: str = "identity",
    sample: str = "sample",
    embedding: str = "embedding",
    shard_rows: int = 1_000_000,
    tee: Callable[[Any], object] | None = None,
) -> Iterator[TableWriter]:
    """Open a table for writing, as a context manager that gives a `TableWriter`.

    The table appears at `path` when the context ends without an exception; otherwise what was there before
    stays, so `path` may be the very table that is being read. The same rows give the same bytes, however they
    are cut into writes. A ``.npy`` file and the file beside it are two renames, each atomic.

    Parameters
    ----------
    path : str or Path
        ``.parquet``; ``.npz`` (labels wait in memory, no carried columns); ``.npy`` (labels and carried
        columns go to a ``.parquet`` beside it; with nothing but row numbers as keys, ``.npy.json``
        keeps `meta`); or a folder name without suffix, which becomes a clip-retrieval folder.
    meta : TableMeta
        Provenance, kept in the file.
    dim : int
        Length of a vector.
    dtype : "float32" or "float16"
        Stored precision.
    carried_schema : pyarrow.Schema, optional
        Other columns that will be written.
    identity, sample, embedding : str
        Names of the columns.
    shard_rows : int
        Rows per shard of a clip-retrieval folder.
    tee : callable, optional
        Given all bytes of a ``.parquet`` file in order, e.g. ``hashlib.sha256().update``.

    Raises
    ------
    FormatError
        The suffix names no format that is written.
    OutputError
        The place cannot be written, the disk is full, or something else is in the way.
    DataError
        No rows were written.
    UsageError
        Another precision, two columns with one name, or carried columns that the format cannot hold.
    MissingExtraError
        The format needs pyarrow, which is not installed.
    """
    path = Path(path)
    layout = Layout(
        dim=dim,
        dtype=_stored(dtype),
        meta=meta,
        identity=identity,
        sample=sample,
        embedding=embedding,
        carried_schema=None if carried_schema is None else carried_schema.remove_metadata(),
    )
    suffix = _format(path)
    _check_names(layout, path, archive=suffix == ".npz")
    paired = False
    with ExitStack() as stack:
        temporary = stack.enter_context(atomic_path(path))
        sink = _open_sink(temporary, path, suffix, layout, stack, shard_rows, tee)
        try:
            writer = TableWriter(path, sink, layout)
            yield writer
            if writer.rows == 0:
                raise DataError(f"{path}: no rows were written; a table needs at least one")
            sink.finish()
            paired = isinstance(sink, NpySink) and sink.paired
        finally:
            sink.close()
    if paired:
        remove(sidecar(path))  # it described the vectors that were replaced


def _format(path: Path) -> str:
    suffix = path.suffix.lower()
    folder = (not suffix) or is_clip_retrieval(path)
    if not folder and suffix not in _SUFFIXES:
        raise FormatError(
            f"{path}: unknown format {path.suffix}; what is written: {', '.join(_SUFFIXES)}, or a folder "
            "name without a dot for the clip-retrieval layout"
        )
    if path.exists() and path.is_dir() != folder:
        raise OutputError(
            f"cannot write {path}: it is a {'file' if folder else 'folder'} already; move it, or name another place"
        )
    return "" if folder else suffix


def _open_sink(
    temporary: Path,
    path: Path,
    suffix: str,
    layout: Layout,
    stack: ExitStack,
    shard_rows: int,
    tee: Callable[[Any], object] | None,
) -> Sink:
    if suffix == ".parquet":
        return ParquetSink(temporary, layout, tee=tee)
    if suffix == ".npz":
        return NpzSink(temporary, layout)
    if suffix == ".npy":
        return NpySink(temporary, path, layout, stack)
    return ClipRetrievalSink(temporary, path, layout, shard_rows)


def _stored(dtype: str | np.dtype[Any]) -> np.dtype[Any]:
    name = str(dtype)
    if name not in _STORED:
        raise UsageError(f"vectors are stored as {' or '.join(_STORED)}, got {name}")
    return np.dtype(name)


def _check_names(layout: Layout, path: Path, *, archive: bool) -> None:
    # A column carried under the name of the identities is no clash until identities are written as well.
    schema = layout.carried_schema
    if archive and schema is not None:
        raise UsageError(
            f"{path}: an .npz archive holds no other columns ({', '.join(schema.names)}); write a .parquet table"
        )
    ours = [layout.embedding, layout.sample, *([META_ARRAY] if archive else [])]
    names = ours + (schema.names if schema is not None else [])
    twice = sorted({name for name in names if names.count(name) > 1} | ({layout.identity} & set(ours)))
    if twice:
        raise UsageError(f"{path}: two columns would be named {', '.join(twice)}; rename one")


def _carried(
    carried: pa.RecordBatch | pa.Table | None, schema: pa.Schema | None, rows: int, path: Path
) -> pa.Table | None:
    if schema is None and carried is None:
        return None
    if schema is None or carried is None:
        raise DataError(f"{path}: carried columns must be announced with carried_schema=... and given for all rows")
    pa = load_arrow("writing carried columns")
    table = pa.Table.from_batches([carried]) if isinstance(carried, pa.RecordBatch) else carried
    if sorted(table.schema.names) != sorted(schema.names) or table.num_rows != rows:
        raise DataError(
            f"{path}: carried columns {table.schema.names} with {table.num_rows} rows do not match the "
            f"announced {schema.names} with {rows} rows"
        )
    try:
        return table.select(schema.names).cast(schema)
    except pa.ArrowException as error:
        raise DataError(f"{path}: a carried column is not of the announced type: {error}") from error
