"""Work on photographs in threads, ahead of whoever takes the results, within a window."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def worked_ahead(
    work: Callable[[T], R], items: Iterable[T], *, workers: int, window: int, name: str
) -> Iterator[Iterator[R]]:
    """Yield the results of ``work(item)``, in the order of the items.

    Parameters
    ----------
    workers
        Threads.
    window
        Items in flight at most, done ones that were not taken yet included.
    name
        Of the threads.
    """
    pool = ThreadPoolExecutor(workers, thread_name_prefix=name)

    def results() -> Iterator[R]:
        pending: deque[Future[R]] = deque()
        for item in items:
            pending.append(pool.submit(work, item))
            if len(pending) >= window:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"PIL\.")  # Pillow's remarks; its failures are errors
            yield results()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
