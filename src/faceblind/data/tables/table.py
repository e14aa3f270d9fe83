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


def check_size(size: int) -> None:
    """Raise `UsageError` unless `size` is a usable number of rows per batch."""
    if size < 1:
        raise UsageError(f"a batch needs at least one row, got size={size}")


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

    def batches(self, size: int = BATCH_ROWS) -> Iterator[Batch]:
        """Yield all rows in order, at most `size` at a time, without loading the table.

        Raises
        ------
        DataError
            A missing vector, identity or key, or a vector of another length; the row is named.
        FormatError
            The file is damaged further in.
        """
