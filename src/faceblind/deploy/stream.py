"""Rows of a table through a projector and into a writer, in blocks of fixed size.

The last bits of a matrix product depend on how many rows it has and on how many threads share it. Blocks therefore begin
at fixed rows, whatever pieces the table gives, and each is computed by one thread: the bytes written do not depend on the
number of threads, and cores are kept busy by several blocks at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from faceblind.data.tables import Batch, EmbeddingTable, TableWriter
from faceblind.erase import Projector

BLOCK = 4096
"""Rows per block: in float32 and at d = 768 it is 12 MiB, and the products run as fast as with more."""
SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What went through."""

    rows: int = 0
    energy: float = 0.0
    """Sum over rows of the share of squared length that is left."""
    emptied: int = 0
    examples: tuple[str, ...] = ()
    """Keys of the first emptied rows."""

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            rows=self.rows + other.rows,
            energy=self.energy + other.energy,
            emptied=self.emptied + other.emptied,
            examples=(self.examples + other.examples)[:SHOWN],
        )


@dataclass(frozen=True, eq=False)
class _Done:
    batch: Batch
    vectors: NDArray[Any]
    tally: Tally


def stream(
    projector: Projector,
    table: EmbeddingTable,
    writer: TableWriter,
    *,
    start: int = 0,
    stop: int | None = None,
    compact: bool = False,
    renormalise: bool = True,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Tally:
    """Write the images of rows `start` to `stop`, with their labels and other columns.

    Parameters
    ----------
    threads : int
        1 does everything in this thread. More compute blocks side by side, while one more reads ahead and one writes.
    progress : callable, optional
        Called from this thread with the number of rows done.

    Raises
    ------
    DataError
        A row with NaN or infinity, named by its number in the table; what `EmbeddingTable.batches` raises.
    OutputError
        The disk is full.
    """

    def compute(batch: Batch) -> _Done:
        applied = projector.apply(batch.vectors, compact=compact, renormalise=renormalise, first_row=batch.start)
        tally = Tally(
            rows=len(batch),
            energy=float(applied.energy_kept.sum()),
            emptied=applied.emptied.size,
            examples=tuple(batch.sample[applied.emptied[:SHOWN]].tolist()),
        )
        return _Done(batch, applied.vectors, tally)

    def write(done: _Done) -> None:
        writer.write(done.vectors, done.batch.identity, done.batch.sample, done.batch.carried)

    # What the projector works out once is worked out here, and not in several threads at a time.
    projector.apply(np.zeros((1, projector.dim), np.float32), compact=compact)
    total = Tally()
    with threadpool_limits(limits=1, user_api="blas"):
        for tally in _stages(blocks(table, start=start, stop=stop), compute, write, threads):
            total += tally
            if progress is not None:
                progress(total.rows)
    return total


def blocks(
    table: EmbeddingTable, *, start: int = 0, stop: int | None = None, size: int = BLOCK
) -> Generator[Batch, None, None]:
    """Yield rows `start` to `stop` in batches of exactly `size` rows, but for the last, whatever files they come from."""
    held: list[Batch] = []
    count = 0
    for batch in table.batches(size, start=start, stop=stop):
        done = 0
        while done < len(batch):
            part = _rows(batch, done, min(len(batch), done + size - count))
            held.append(part)
            done += len(part)
            count += len(part)
            if count == size:
                yield _joined(held)
                held, count = [], 0
    if held:
        yield _joined(held)


def _stages(
    source: Generator[Batch, None, None],
    compute: Callable[[Batch], _Done],
    write: Callable[[_Done], None],
    threads: int,
) -> Iterator[Tally]:
    """Read, compute and write; yield what was written, in order."""
    if threads == 1:
        for batch in source:
            done = compute(batch)
            write(done)
            yield done.tally
        return
    # One thread each reads and writes, so rows stay in order; few blocks are on their way, so memory stays small.
    reader, crew, scribe = (ThreadPoolExecutor(n) for n in (1, threads, 1))
    reads: deque[Future[Batch | None]] = deque()
    computed: deque[Future[_Done]] = deque()
    written: deque[tuple[Future[None], Tally]] = deque()
    more = True
    try:
        reads.extend(reader.submit(next, source, None) for _ in range(2))
        while more or computed or written:
            if more and len(computed) <= threads:
                block = reads.popleft().result()
                more = block is not None
                if block is not None:
                    reads.append(reader.submit(next, source, None))
                    computed.append(crew.submit(compute, block))
                    continue
            if computed:
                done = computed.popleft().result()
                written.append((scribe.submit(write, done), done.tally))
            if written and (len(written) > 2 or not computed):
                finished, tally = written.popleft()
                finished.result()
                yield tally
    finally:
        for pool in (reader, crew, scribe):
            pool.shutdown(cancel_futures=True)
        source.close()


def _rows(batch: Batch, start: int, stop: int) -> Batch:
    if (start, stop) == (0, len(batch)):
        return batch
    return Batch(
        batch.start + start,
        batch.vectors[start:stop],
        None if batch.identity is None else batch.identity[start:stop],
        batch.sample[start:stop],
        None if batch.carried is None else batch.carried.slice(start, stop - start),
    )


def _joined(parts: list[Batch]) -> Batch:
    first = parts[0]
    if len(parts) == 1:
        return first
    carried: Any = None
    if first.carried is not None:
        import pyarrow as pa

        carried = pa.Table.from_batches([part.carried for part in parts])
    return Batch(
        first.start,
        np.concatenate([part.vectors for part in parts]),
        None
        if first.identity is None
        else np.concatenate([part.identity for part in parts if part.identity is not None]),
        np.concatenate([part.sample for part in parts]),
        carried,
    )
