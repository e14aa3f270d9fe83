"""Rows of a LanceDB table in the order of a key column."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.data.tables.arrow import load_arrow
from faceblind.data.tables.vectors import matrix_of_arrow, vector_type
from faceblind.deploy.stores.base import Key, Rows

if TYPE_CHECKING:
    import pyarrow as pa


class Snapshot:
    """One version of a table with all its keys in memory, sorted: 16 bytes a row for integers.

    Lance finds rows by their number fast but orders by a key only by sorting the whole column, so it is sorted once.
    """

    def __init__(self, table: Any, key: str, where: str) -> None:
        load_arrow("reading a LanceDB table")
        import pyarrow.compute as pc

        self._table = table
        self._where = where
        self._key = key
        found = table.search().select([key]).with_row_id(True).to_batches().read_all()
        column = found[key].combine_chunks()
        if column.null_count:
            raise DataError(f"{where}: {column.null_count:,} rows have no {key!r}: every row needs a key")
        order = pc.sort_indices(column)
        column = column.take(order)
        self._ids: NDArray[np.uint64] = found["_rowid"].to_numpy()[order.to_numpy()]
        self._keys: Sequence[Any] = _keys_of(column, key, where)
        self._refuse_repeated(column)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def last(self) -> Key | None:
        """The greatest key."""
        return _key(self._keys[-1]) if len(self._keys) else None

    def rows(self, column: str, dim: int | None, after: Key | None, upto: Key | None, limit: int | None) -> Rows:
        """Read the rows between two keys, with vectors apart from the other columns."""
        start = 0 if after is None else bisect_right(self._keys, after)
        stop = len(self._keys) if upto is None else bisect_right(self._keys, upto)
        if limit is not None:
            stop = min(stop, start + limit)
        if start >= stop:
            return Rows([], np.empty((0, dim or 0), np.float32))
        keys = [_key(key) for key in self._keys[start:stop]]
        table = self._table.take_row_ids(self._ids[start:stop].tolist()).to_arrow()
        found = [_key(key) for key in table[self._key].to_pylist()]
        if found != keys:  # not every version returns them in the order asked for
            place = {key: i for i, key in enumerate(found)}
            table = table.take([place[key] for key in keys])
        vectors = table[column].combine_chunks()
        empty: tuple[Key, ...] = ()
        last = keys[-1]
        if vectors.null_count:
            there = vectors.is_valid().to_numpy(zero_copy_only=False)
            empty = tuple(key for key, is_there in zip(keys, there, strict=True) if not is_there)
            keys = [key for key, is_there in zip(keys, there, strict=True) if is_there]
            table = table.filter(vectors.is_valid())
            vectors = table[column].combine_chunks()
        matrix = self._matrix(vectors, keys, dim)
        return Rows(keys, matrix, empty=empty, last=last, carried=table.drop_columns([column]))

    def _matrix(self, vectors: pa.Array, keys: Sequence[Key], dim: int | None) -> NDArray[Any]:
        import pyarrow.compute as pc

        if not len(vectors):
            return np.empty((0, dim or 0), np.float32)
        lengths = pc.list_value_length(vectors).to_numpy()
        wrong = np.flatnonzero(lengths != (dim if dim is not None else lengths[0]))
        if wrong.size:
            raise DataError(
                f"{self._where}: the vector of row {keys[wrong[0]]} has {lengths[wrong[0]]} values where {dim} are expected"
            )
        flat = vectors.flatten()
        if flat.null_count:
            row = int(np.flatnonzero(flat.is_null().to_numpy(zero_copy_only=False))[0]) // int(lengths[0])
            raise DataError(f"{self._where}: the vector of row {keys[row]} has a missing value: re-embed that image")
        from pathlib import Path

        return matrix_of_arrow(vectors, int(lengths[0]), Path(self._where), 0)

    def _refuse_repeated(self, column: pa.Array) -> None:
        import pyarrow.compute as pc

        if len(column) < 2:
            return
        same = pc.equal(column.slice(1), column.slice(0, len(column) - 1)).to_numpy(zero_copy_only=False)
        if same.any():
            names = ", ".join(str(column[int(i)].as_py()) for i in np.flatnonzero(same)[:5])
            raise DataError(f"{self._where}: the key {self._key!r} is not unique; repeated are {names}")


def length_of(table: Any, column: str, where: str) -> tuple[int, str]:
    """Return length and precision of a column of vectors; raises `DataError` when it holds none."""
    from pathlib import Path

    schema = table.schema
    if column not in schema.names:
        raise DataError(f"{where} has no column {column!r}; it has {', '.join(schema.names)}")
    dim, dtype = vector_type(schema.field(column).type, column, Path(where))
    if dim is None:
        first = table.search().select([column]).where(f"`{column}` IS NOT NULL").limit(1).to_arrow()[column]
        if not len(first):
            raise DataError(f"{where}: the column {column!r} holds no vectors: there is nothing to rewrite")
        dim = len(first[0])
    return dim, "float16" if dtype == np.float16 else "float32"


def _keys_of(column: pa.Array, key: str, where: str) -> Sequence[Any]:
    pa = load_arrow("reading a LanceDB table")
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64()).to_numpy()  # type: ignore[no-any-return]
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column.to_pylist()  # type: ignore[no-any-return]
    raise DataError(f"{where}: the key {key!r} is {column.type}; it must be a column of integers or text")


def _key(value: Any) -> Key:
    return value if isinstance(value, str) else int(value)
