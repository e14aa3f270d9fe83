"""Where work runs: a job over tasks, in this process, in several, or on a cluster.

Embedding, applying and fitting are the same shape: a list of independent tasks (shards), each of which leaves its result
in a place of its own and answers with a small record. A job says how a task is done; an engine says where. Results never
depend on the engine, only on the tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

T = TypeVar("T", contravariant=True)
R = TypeVar("R", covariant=True)


class Job(Protocol[T, R]):
    """How a task is done. It travels to worker processes by pickle, so it holds paths and settings, not open files."""

    def open(self) -> None:
        """Get ready (load an encoder, a projector); called once in each process, before its first task."""

    def run(self, task: T) -> R:
        """Do one task and return its record, which is small and travels back by pickle.

        A task that was done twice must leave what one leaves: engines repeat tasks whose worker died.
        """


class Engine(Protocol):
    """Where tasks run."""

    def map(self, job: Job[Any, Any], tasks: Sequence[Any]) -> Iterator[Any]:
        """Yield the record of every task as it is done, in any order.

        An error raised by the job is raised here, and no further task is begun.
        """


@contextmanager
def answers(engine: Engine, job: Job[Any, Any], tasks: Sequence[Any]) -> Iterator[Iterator[Any]]:
    """Yield the records of an engine, and end its work when they are no longer wanted."""
    records = engine.map(job, tasks)
    try:
        yield records
    finally:
        getattr(records, "close", lambda: None)()
