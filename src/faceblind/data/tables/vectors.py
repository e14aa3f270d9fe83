"""Arrow columns of vectors to numpy matrices without a copy.

The values of a list column lie in one flat buffer, so a matrix is a view of it. Arrow's own conversions go
through Python objects for lists and are missing for some half-float types. Three things can go wrong with a
raw buffer and are handled here: slices (offsets), missing entries (whose slots hold anything) and rows of
unequal length.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.data.tables.arrow import load_arrow

FLOATS = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))


def vector_type(column_type: Any, name: str, path: Path) -> tuple[int | None, np.dtype[Any]]:
    """Return length (None for a list column, whose type does not say) and precision of a vector column.

    Raises
    ------
    DataError
        Not a list of float16, float32 or float64.
    """
    pa = load_arrow("reading Parquet tables")
    stored = _storage_type(pa, column_type)
    widths: dict[Any, np.dtype[Any]] = {
        pa.float16(): FLOATS[0],
        pa.float32(): FLOATS[1],
        pa.float64(): FLOATS[2],
    }
    fixed = pa.types.is_fixed_size_list(stored)
    if not (fixed or pa.types.is_list(stored) or pa.types.is_large_list(stored)) or stored.value_type not in widths:
        raise DataError(
            f"{path}: the embedding column {name!r} holds {column_type}; it must be a list of float16, "
            "float32 or float64, of fixed size or not"
        )
    if fixed and stored.list_size == 0:
        raise DataError(f"{path}: the vectors of {name!r} have length 0")
    return (stored.list_size if fixed else None), widths[stored.value_type]


def matrix_of_arrow(column: Any, dim: int | None, path: Path, start: int) -> NDArray[Any]:
    """View a list column as a matrix.

    Parameters
    ----------
    column : (b,) pyarrow.Array or ChunkedArray of lists
        May be a slice. Several chunks are joined, which copies.
    dim : int or None
        The length that every row must have; None takes the first row's.
    start : int
        Row number of the first entry, for messages.

    Returns
    -------
    (b, dim) array, read-only, sharing memory with `column`.

    Raises
    ------
    DataError
        A missing vector, a missing value inside one, or a vector of another length; the row is named.
    """
    pa = load_arrow("reading Parquet tables")
    if isinstance(column, pa.ChunkedArray):
        return _joined(column, dim, path, start)
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if column.null_count:
        raise DataError(f"{path}: the vector of row {start + _first(column.is_null())} is missing; drop the row")
    rows = len(column)
    if pa.types.is_fixed_size_list(column.type):
        width = column.type.list_size
        lengths = np.full(rows, width)
        begin = column.offset * width
    else:
        # Offsets respect a slice, `values` does not.
        edges = column.offsets.to_numpy()
        lengths = np.diff(edges)
        begin = int(edges[0]) if rows else 0
    if dim is None:
        dim = int(lengths[0]) if rows else 0
    if (lengths != dim).any():
        row = int(np.flatnonzero(lengths != dim)[0])
        raise DataError(
            f"{path}: the vector of row {start + row} has {lengths[row]} values where {dim} are expected; "
            "all vectors need the same length"
        )
    values = column.values.slice(begin, rows * dim)
    if values.null_count:
        row = start + _first(values.is_null()) // dim
        raise DataError(f"{path}: the vector of row {row} has a missing value; re-embed that image or drop the row")
    return _flat(pa, values).reshape(rows, dim)


def to_stored(vectors: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Bring (b, d) vectors to the precision of a table, in C order; what does not fit becomes infinite.

    float32 becomes float16 by Arrow where it is installed: the same bits as numpy's in half the time.
    """
    if vectors.dtype == np.float32 and dtype == np.float16 and vectors.size:
        try:
            import pyarrow as pa
            import pyarrow.compute
        except ImportError:
            pass
        else:
            flat = pa.array(np.ascontiguousarray(vectors).reshape(-1))
            halves: NDArray[Any] = pyarrow.compute.cast(flat, pa.float16()).to_numpy()
            return halves.reshape(vectors.shape)
    with np.errstate(over="ignore"):
        return vectors.astype(dtype, order="C", copy=False)


def all_finite(vectors: NDArray[Any]) -> bool:
    """Whether no value is NaN or infinite."""
    if vectors.dtype == np.float16 and vectors.dtype.isnative:  # those have all bits of the exponent set
        bits = np.ascontiguousarray(vectors).view(np.uint16)
        return not bits.size or int((bits & 0x7FFF).max()) < 0x7C00
    return bool(np.isfinite(vectors).all())


def _joined(column: Any, dim: int | None, path: Path, start: int) -> NDArray[Any]:
    parts = []
    for chunk in (chunk for chunk in column.chunks if len(chunk)):
        parts.append(matrix_of_arrow(chunk, dim, path, start))
        start += len(chunk)
        dim = parts[0].shape[1]
    if not parts:
        fixed, dtype = vector_type(column.type, "embedding", path)
        return np.empty((0, dim or fixed or 0), dtype)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _storage_type(pa: Any, column_type: Any) -> Any:
    # e.g. arrow.fixed_shape_tensor
    return column_type.storage_type if isinstance(column_type, pa.BaseExtensionType) else column_type


def _flat(pa: Any, values: Any) -> NDArray[Any]:
    dtype = np.dtype(f"f{values.type.bit_width // 8}")
    buffer = values.buffers()[1]
    if buffer is None or not len(values):
        return np.empty(0, dtype)
    end = values.offset + len(values)
    flat = np.frombuffer(buffer, dtype, count=end)[values.offset :]
    flat.setflags(write=False)
    return flat


def _first(mask: Any) -> int:
    return int(np.flatnonzero(mask.to_numpy(zero_copy_only=False))[0])
