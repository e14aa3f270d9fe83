"""Independent pieces of an audit on all processors.

Pieces are small linear algebra: a product on one thread each beats one product on all threads, and its rounding does
not depend on how many processors a machine has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_limits

from faceblind._processors import processors

T = TypeVar("T")
R = TypeVar("R")


def each(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Apply a function to every item, several at a time, and return the results in order."""
    todo = list(items)
    workers = min(len(todo), processors())
    with threadpool_limits(limits=1, user_api="blas"):
        if workers <= 1:
            return [function(item) for item in todo]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(function, todo))
