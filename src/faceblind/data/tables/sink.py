"""What the writers of all formats share: the rows they are given and the layout they write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from faceblind.data.meta import TableMeta

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a table will look like."""

    dim: int
    dtype: np.dtype[Any]
    meta: TableMeta
    identity: str
    sample: str
    embedding: str
    carried_schema: pa.Schema | None


@dataclass(frozen=True, eq=False)
class Block:
    """Checked rows on their way to a file."""

    vectors: NDArray[Any]
    """(b, d) in the stored precision."""
    identity: NDArray[np.str_] | None
    sample: NDArray[np.str_]
    carried: pa.Table | None

    def __len__(self) -> int:
        return int(self.vectors.shape[0])

    def rows(self, start: int, stop: int) -> Block:
        """Return some of the rows."""
        return Block(
            self.vectors[start:stop],
            None if self.identity is None else self.identity[start:stop],
            self.sample[start:stop],
            None if self.carried is None else self.carried.slice(start, stop - start),
        )


class Sink(Protocol):
    """A file or folder that takes blocks in order."""

    def append(self, block: Block) -> None:
        """Add rows, at least one."""

    def finish(self) -> None:
        """Complete the file after the last rows."""

    def close(self) -> None:
        """Let go of open files, finished or not."""
