"""Reading small lists of files and labels: CSV files, and columns separated by spaces."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from faceblind._errors import DataError, FormatError


def read_csv(
    path: Path, columns: Sequence[str], *, optional: Sequence[str] = (), called: str | None = None
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield line number and cells (stripped) of each row of a CSV file with a header; blank lines are passed over.

    Parameters
    ----------
    called : str, optional
        The columns as messages name them.

    Raises
    ------
    FormatError
        Missing or repeated columns, a row of another length, not UTF-8; names the line.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            header = [name.strip() for name in next(reader, [])]
            absent = [name for name in columns if header.count(name) != 1]
            if absent:
                raise FormatError(
                    f"{path} must have the columns {called or ', '.join(columns)}, once each, separated by commas; "
                    f"its first line reads {','.join(header)[:200]!r}"
                )
            at = {name: header.index(name) for name in (*columns, *optional) if name in header}
            for row in reader:
                if row and len(row) != len(header):
                    raise FormatError(
                        f"{path}, line {reader.line_num}: {len(row)} cells where the header has {len(header)}; "
                        "quote cells that hold a comma"
                    )
                if row:
                    yield reader.line_num, {name: row[place].strip() for name, place in at.items()}
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"{path} is not a UTF-8 CSV file: {error}") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def read_pairs(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line number and the two cells of each line, separated by a comma or by spaces; the second may be empty.

    Raises
    ------
    FormatError
        A line without two cells, or not UTF-8; names the line.
    """
    try:
        with path.open(encoding="utf-8-sig") as stream:
            for number, line in enumerate(stream, start=1):
                text = line.strip()
                if not text:
                    continue
                cells = [cell.strip() for cell in text.split(",")] if "," in text else text.split()
                if len(cells) != 2 or not cells[0]:
                    raise FormatError(f"{path}, line {number}: expected two cells, got {text[:80]!r}")
                yield number, cells[0], cells[1]
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not a UTF-8 text file: {error}") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
