"""The only door to pyarrow: imported when needed, its errors turned into ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from faceblind._errors import DataError, FormatError, MissingExtraError
from faceblind.data.meta import METADATA_KEY, TableMeta

_UNEVEN = "Expected all lists to be of size"


def overlap(wanted: range, first: int, count: int) -> range:
    """Return which of `count` rows are wanted, counted from 0 among them; the first is number `first`."""
    low = max(wanted.start, first)
    return range(low - first, max(low, min(wanted.stop, first + count)) - first)


def load_arrow(purpose: str) -> Any:
    """Return the `pyarrow` module with `pyarrow.parquet` loaded.

    Raises
    ------
    MissingExtraError
        It is not installed; `purpose` begins the message.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("pyarrow", "parquet", purpose) from error
    _load_pandas()
    return pyarrow


@cache
def _load_pandas() -> None:
    # pyarrow looks for pandas in the middle of its first conversion and swallows what happens there, Ctrl-C included.
    # Once: a package that is not there is searched for each time, and this door is opened for every batch.
    with suppress(ImportError):
        import_module("pandas")


@contextmanager
def reading_parquet(path: Path) -> Iterator[Any]:
    """Yield `pyarrow`; what it raises about `path` becomes `FormatError` or `DataError`."""
    pa = load_arrow("reading Parquet tables")
    try:
        yield pa
    except pa.ArrowException as error:
        if _UNEVEN in str(error):  # how some versions put a missing vector in a column of one length
            raise DataError(
                f"{path}: the vector of a row is missing or has another length ({error}); fill it in or drop that row"
            ) from error
        raise FormatError(_damaged(path, error)) from error
    except PermissionError as error:
        raise DataError(f"cannot read {path}: {error.strerror}; check its permissions") from error
    except (DataError, FileNotFoundError):
        raise
    except OSError as error:  # pyarrow reports a damaged footer or page as OSError
        raise FormatError(_damaged(path, error)) from error


def open_parquet(path: Path) -> Any:
    """Open a Parquet file so that batches are decoded page by page, and return the `ParquetFile`."""
    with reading_parquet(path) as pa:
        # Without these two a whole row group is fetched at once, and files with one row group are common.
        return pa.parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)


def record_batches(
    file: Any, path: Path, columns: list[str], size: int, row_groups: list[int] | None = None
) -> Iterator[Any]:
    """Yield record batches of at most `size` rows of the named columns, of all row groups or of some."""
    with reading_parquet(path):
        iterator = file.iter_batches(batch_size=size, columns=columns, row_groups=row_groups)
    while True:
        with reading_parquet(path):
            batch = next(iterator, None)
        if batch is None:
            return
        yield batch


def row_range(file: Any, path: Path, columns: list[str], size: int, rows: range) -> Iterator[Any]:
    """Yield record batches of some rows of a file; of what lies before them only the first row group is decoded."""
    groups: list[int] = []
    first = skip = 0
    for group in range(file.metadata.num_row_groups):
        count = file.metadata.row_group(group).num_rows
        if overlap(rows, first, count):
            skip = skip if groups else rows.start - first
            groups.append(group)
        first += count
    left = len(rows)
    for batch in record_batches(file, path, columns, size, groups):
        part = batch.slice(skip, left)
        skip = max(0, skip - batch.num_rows)
        left -= part.num_rows
        if part.num_rows:
            yield part
        if not left:
            return


def meta_of(schema: Any, path: Path) -> TableMeta:
    """Read `TableMeta` from the metadata of an Arrow schema; empty when there is none."""
    raw = (schema.metadata or {}).get(METADATA_KEY.encode())
    return TableMeta() if raw is None else parse_meta(raw, path)


def parse_meta(raw: bytes | str, path: Path) -> TableMeta:
    """Read `TableMeta` from JSON found in `path`."""
    try:
        return TableMeta.from_json(raw.decode() if isinstance(raw, bytes) else raw)
    except (FormatError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: {error}") from error


def _damaged(path: Path, error: Exception) -> str:
    return f"{path} is not a readable Parquet file (truncated, damaged or another format): {error}"
