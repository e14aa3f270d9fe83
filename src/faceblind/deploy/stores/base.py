"""What a vector store must be able to do to have clean vectors written beside its raw ones.

A store here is one column or collection of raw vectors, read in the order of its keys, and one target next to it: a new
column, table or collection that nothing else uses. `rewrite` needs the few methods of `Store` and nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import OutputError
from faceblind.data.meta import TableMeta

Key = int | str
"""How rows are named; a UUID is its text."""


class StoreGoneError(OutputError):
    """A store that went away, refused or is locked while it was in use; what was written before is kept."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """What a store says about the raw vectors."""

    name: str
    """What the user calls it, without passwords."""
    target: str
    """Name of the new column, table or collection."""
    rows: int
    """Rows with or without a vector."""
    dim: int
    dtype: str
    """Precision of a stored number, ``"float32"`` or ``"float16"``: that of the target unless another is asked for."""
    metric: str | None = None
    """Distance that its index or collection uses, in the words of the store; None when nothing says."""
    scales: bool = False
    """Whether the store scales vectors to unit length by itself."""
    exact: bool = True
    """Whether a vector is read back with the same bits every time. A local Qdrant scales anew whenever it is opened."""
    meta: TableMeta = field(default_factory=TableMeta)
    """What was recorded about the vectors; empty when nothing was."""
    cautions: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Rows:
    """Consecutive rows in key order.

    Attributes
    ----------
    keys : (n,) sequence of int or str
    vectors : (n, d) float16, float32 or float64
        In native byte order.
    empty : tuple of keys
        Rows in the same range that have no vector (NULL); they are not among `keys`.
    last : key or None
        Where the next batch begins: the last key of this one, with or without a vector. None when there were no rows.
    carried : pyarrow.Table or list, optional
        What else a store copies with each row.
    """

    keys: Sequence[Key]
    vectors: NDArray[Any]
    empty: tuple[Key, ...] = ()
    last: Key | None = None
    carried: Any = None

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, index: NDArray[np.intp], vectors: NDArray[Any]) -> Rows:
        """Return the rows at `index` with other vectors."""
        carried = self.carried
        if isinstance(carried, list):
            carried = [carried[i] for i in index]
        elif carried is not None:
            carried = carried.take(index)
        return replace(self, keys=[self.keys[i] for i in index], vectors=vectors, empty=(), carried=carried)


class Store(Protocol):
    """A column or collection of raw vectors, and the target beside it.

    Every method may raise `StoreGoneError` (gone, refused, locked) or `DataError` (a row that cannot be used, named by
    its key). `record` texts are JSON; the store keeps one for the target and never looks inside.
    """

    shares_rows: bool
    """Whether clean vectors are in the raw rows, so that a row that is deleted takes its clean vector along."""

    def describe(self) -> Source:
        """Say what is there. Raises `DataError` when the column is missing, is no vector or its keys are not unique."""

    def locked(self) -> AbstractContextManager[None]:
        """Keep other runs off the target; raises `StoreGoneError` when one is at work."""

    def record(self) -> str | None:
        """Return the record of the target, None when there is no target. `OutputError`: a target that is not ours."""

    def create(self, *, dim: int, dtype: str, record: str) -> None:
        """Make the empty target."""

    def read(self, after: Key | None, rows: int) -> Rows:
        """Return the first `rows` raw rows whose key comes after `after`, in key order."""

    def read_back(self, after: Key | None, upto: Key | None) -> Rows:
        """Return what the target holds after one key up to and with another; None is an open end."""

    def write(self, rows: Rows, record: Callable[[NDArray[Any]], str]) -> None:
        """Put clean rows into the target, over those of the same keys; then keep ``record(vectors as stored)``.

        A store may round or scale what it is given, so the record is made from what it holds. The rows are durable
        before the record is, or together with it.
        """

    def remove(self, keys: Sequence[Key]) -> None:
        """Take rows out of the target; keys that are not there are no error."""

    def save(self, record: str) -> None:
        """Keep a new record for the target."""

    def count(self) -> int:
        """Return the number of clean vectors in the target."""

    def switch(self) -> tuple[str, ...]:
        """Say how to use the target instead of the raw vectors, one line a step."""

    def undo(self) -> tuple[str, ...]:
        """Say how to get rid of the target."""


def digits(projector: str) -> str:
    """Return the eight digits of a projector's digest that versions a target's name."""
    return projector[:8]
