"""What every table of embeddings looks like from outside, whatever file it is in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import UsageError
from faceblind.data.findings import Finding
from faceblind.data.meta import TableMeta

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 16384
"""Rows per batch unless the caller says otherwise: 48 MiB at d = 768 in float32."""

FORMATS = (
    "a .parquet file, a folder of .parquet shards, a clip-retrieval folder (img_emb/ and metadata/), a .npy "
    "file (with a .parquet of the same name beside it), or an .npz file"
)
"""The formats that are read, for messages."""


@dataclass(frozen=True)
class Names:
    """Which column holds what."""

    identity: str | None = "identity"
    """None when no identities are wanted; the column then travels with the other ones."""
    sample: str = "sample"
    embedding: str = "embedding"


@dataclass(frozen=True, eq=False)
class Batch:
    """Consecutive rows of a table.

    Attributes
    ----------
    start : int
        Row number of the first row in the whole table.
    vectors : (b, d) float16, float32 or float64
        As stored, in native byte order and C order; a read-only view where the format allows.
    identity : (b,) str or None
        None when the table was opened with ``identity=None``.
    sample : (b,) str
        Keys.
    carried : pyarrow.RecordBatch or None
        The other columns.
    """

    start: int
    vectors: NDArray[Any]
    identity: NDArray[np.str_] | None
    sample: NDArray[np.str_]
    carried: pa.RecordBatch | None = None

    def __len__(self) -> int:
        return int(self.vectors.shape[0])


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of one of the files that a table consists of."""

    path: Path
    start: int
    stop: int
    """Rows ``start`` to ``stop`` of that file, counted from 0 in it."""


def check_size(size: int) -> None:
    """Raise `UsageError` unless `size` is a usable number of rows per batch."""
    if size < 1:
        raise UsageError(f"a batch needs at least one row, got size={size}")


def check_range(start: int, stop: int | None, rows: int) -> range:
    """Return the row numbers from `start` up to `stop` (the end when None); raises `UsageError` unless they are there."""
    end = rows if stop is None else stop
    if not 0 <= start <= end <= rows:
        raise UsageError(f"rows {start} to {end} were asked for, but the table has rows 0 to {rows}")
    return range(start, end)


class EmbeddingTable(Protocol):
    """A table that was opened and inspected but not loaded."""

    @property
    def path(self) -> Path:
        """File or folder."""

    @property
    def rows(self) -> int:
        """Number of rows, at least one."""

    @property
    def dim(self) -> int:
        """Length of a vector."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Stored precision: float16, float32 or float64."""

    @property
    def meta(self) -> TableMeta:
        """Provenance found in the file; empty when it has none."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What opening noticed, before any vector was read."""

    @property
    def carried_schema(self) -> pa.Schema | None:
        """Schema of `Batch.carried`; None when there are no other columns."""

    def batches(self, size: int = BATCH_ROWS, *, start: int = 0, stop: int | None = None) -> Iterator[Batch]:
        """Yield rows in order, at most `size` at a time, without loading the table.

        Parameters
        ----------
        start, stop : int
            Only rows `start` up to but not including `stop`; to the end when None. What lies before them is not
            decoded, but for the beginning of the Parquet row group, or of the compressed archive, in which they begin.

        Raises
        ------
        DataError
            A missing vector, identity or key, or a vector of another length; the row is named.
        FormatError
            The file is damaged further in.
        UsageError
            Rows that are not there.
        """

    def pieces(self, start: int = 0, stop: int | None = None) -> tuple[Piece, ...]:
        """Return which rows of which files rows `start` to `stop` are read from; metadata files count as well."""
