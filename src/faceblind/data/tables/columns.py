"""Columns: found by name, and labels of any stored type turned into text."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError, FormatError
from faceblind.data.findings import Finding
from faceblind.data.tables.arrow import load_arrow
from faceblind.data.tables.table import Names

DEFAULTS = Names()


def find_column(wanted: str, present: Sequence[str], what: str, path: Path) -> None:
    """Check that the column `wanted` is there once.

    Raises
    ------
    DataError
        It is missing (the message lists what is there and the nearest name) or there twice.
    """
    count = list(present).count(wanted)
    if count == 1:
        return
    if count > 1:
        raise DataError(f"{path}: column {wanted!r} is there {count} times; rename all but one")
    near = difflib.get_close_matches(wanted, present, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    columns = ", ".join(repr(name) for name in present) or "none"
    fix = f"name it with {what}=..."
    if what == "identity":
        fix += ", or pass identity=None when no identities are needed"
    raise DataError(f"{path}: no {what} column {wanted!r}{hint}; columns: {columns}; {fix}")


def find_sample(wanted: str, present: Sequence[str], path: Path) -> Finding | None:
    """Check the key column; return a finding when row numbers must stand in for it."""
    if wanted in present or wanted != DEFAULTS.sample:
        find_column(wanted, present, "sample", path)
        return None
    columns = ", ".join(repr(name) for name in present) or "none"
    return Finding(
        kind="keys_are_row_numbers",
        severity="note",
        count=1,
        examples=(str(path),),
        message=f"there is no column {wanted!r}, so rows are known by their number, which changes when the "
        f"table is reordered; name a column of unique keys with sample=... (columns: {columns})",
    )


def text_of_arrow(column: Any, what: str, path: Path, start: int) -> NDArray[np.str_]:
    """Turn an Arrow array of strings, integers or a dictionary of them into text.

    Parameters
    ----------
    column : (b,) pyarrow.Array
    start : int
        Row number of its first entry, for messages.

    Raises
    ------
    DataError
        Another type, a missing entry, or an empty identity.
    """
    pa = load_arrow("reading Parquet tables")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if not (is_text or pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise DataError(f"{path}: the {what} column holds {kind}; cast it to text or integers")
    if column.null_count:
        row = start + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise DataError(f"{path}: {what} is missing in row {row}; fill it in or drop the row")
    return _checked(column.to_numpy(zero_copy_only=False).astype(np.str_), what, path, start)


def text_of_numpy(values: NDArray[Any], what: str, path: Path, start: int = 0) -> NDArray[np.str_]:
    """Turn a (b,) numpy array of strings, UTF-8 bytes or integers into text; raises like `text_of_arrow`."""
    if values.dtype.kind not in "USiu":
        raise DataError(f"{path}: the {what} array holds {values.dtype}; save it as text or integers")
    if values.dtype.kind == "S":
        try:
            values = np.char.decode(values, "utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(f"{path}: the {what} array holds bytes that are not UTF-8: {error}") from error
    return _checked(values.astype(np.str_), what, path, start)


def row_numbers(start: int, count: int) -> NDArray[np.str_]:
    """Return `count` keys that are row numbers."""
    # numpy would set aside 21 characters for each
    return np.arange(start, start + count).astype(f"<U{len(str(start + count))}")


def _checked(text: NDArray[np.str_], what: str, path: Path, start: int) -> NDArray[np.str_]:
    # Empty labels are how CSV files say "unknown"; as one identity they would join strangers.
    if what == "identity" and not np.all(filled := text != ""):
        row = start + int(np.flatnonzero(~filled)[0])
        raise DataError(f"{path}: identity is empty in row {row}; fill it in or drop the row")
    return text
