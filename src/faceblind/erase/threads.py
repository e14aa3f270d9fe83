"""Linear algebra on one thread.

A factorisation of a few hundred dimensions gains little from a second thread, and on a machine that is busy, or lends a
container less than all its processors, it can take a hundred times longer: threads spin while they wait for each
other. On one thread its rounding does not depend on how many processors there are, either.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_LARGE = 1_024
"""In more dimensions, factorisations take as many threads as there are."""


def one_thread(dim: int = 0) -> AbstractContextManager[Any]:
    """Return a context in which linear algebra on up to 1,024 dimensions takes one thread."""
    return nullcontext() if dim > _LARGE else _libraries().limit(limits=1, user_api="blas")


@cache
def _libraries() -> ThreadpoolController:
    """Look for them once: a search takes as long as the scatter of a small batch."""
    return ThreadpoolController()
