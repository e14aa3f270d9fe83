"""Tasks on this machine: in this process, or in several that share its cores without fighting for them."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from typing import Any

from faceblind._engine import Job
from faceblind._errors import FaceblindError, UsageError
from faceblind._processors import processors

THREADS = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
"""Environment variables that say how many threads linear algebra may use, each read when a library is loaded."""

_DONE, _ERROR = "done", "error"
_GRACE = 5.0  # seconds for a worker to go before it is killed


@dataclass(frozen=True)
class LocalEngine:
    """An `Engine` on this machine.

    One worker is this process. Several are processes of their own, each with its share of the cores, so a script that
    asks for several must have its work under ``if __name__ == "__main__":``, as everywhere in Python.
    """

    workers: int = 1

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise UsageError(f"workers must be at least 1, got {self.workers}")

    @property
    def threads(self) -> int:
        """Threads for each worker: its share of the cores."""
        return max(1, processors() // self.workers)

    def map(self, job: Job[Any, Any], tasks: Sequence[Any]) -> Iterator[Any]:
        """Yield the record of every task as it is done; see `Engine.map`.

        Raises
        ------
        FaceblindError
            A worker process died; the message says of what. Errors of the job are raised as they are.
        """
        workers = min(self.workers, len(tasks))
        if workers > 1:
            yield from _in_processes(job, tasks, workers, self.threads)
        elif tasks:
            job.open()
            for task in tasks:
                yield job.run(task)


class _Worker:
    """A process with a pipe to it; a pipe each, because a process killed while it held a shared queue would lock it."""

    def __init__(self, payload: bytes, threads: int) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, payload, threads), daemon=True)
        self.process.start()
        theirs.close()
        self.task: Any = None

    def give(self, task: Any) -> None:
        self.task = task
        with suppress(OSError):  # it died: its sentinel will tell
            self.pipe.send(task)

    def end(self) -> None:
        self.pipe.close()
        self.process.terminate()
        self.process.join(_GRACE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


def _in_processes(job: Job[Any, Any], tasks: Sequence[Any], workers: int, threads: int) -> Iterator[Any]:
    payload = pickle.dumps(job)
    waiting = iter(tasks)
    crew: list[_Worker] = []
    try:
        with _for_children(threads):
            crew += [_Worker(payload, threads) for _ in range(workers)]
        for worker in crew:
            worker.give(next(waiting))
        busy = {worker.pipe: worker for worker in crew}
        while busy:
            for pipe in connection.wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]  # what went in comes out
                record = _answer(worker)
                try:
                    worker.give(next(waiting))
                except StopIteration:
                    del busy[worker.pipe]
                yield record
    finally:
        for worker in crew:
            worker.end()


def _answer(worker: _Worker) -> Any:
    try:
        kind, content = worker.pipe.recv()
    except (EOFError, OSError) as error:
        raise _death(worker) from error
    if kind == _ERROR:
        raise _rebuilt(*content)
    return content


def _death(worker: _Worker) -> FaceblindError:
    worker.process.join(_GRACE)
    code = worker.process.exitcode
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else "unknown"
        how = f"was ended by signal {-code} ({name})" + ("; perhaps memory ran out" if name == "SIGKILL" else "")
    else:
        how = (
            f"ended with exit code {code} (does the script that started it guard its work with __name__ == '__main__'?)"
        )
    return FaceblindError(
        f"worker process {worker.process.pid} {how} during {worker.task}; what is finished stays: run again"
    )


def _work(pipe: connection.Connection, payload: bytes, threads: int) -> None:
    """Life of a worker process: tasks in, records out, until the pipe closes."""
    with suppress(ValueError, AttributeError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the parent decides
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_die_with_parent, daemon=True).start()
    from threadpoolctl import threadpool_limits

    try:
        job = pickle.loads(payload)
        with threadpool_limits(limits=threads):
            job.open()
            while True:
                task = pipe.recv()
                pipe.send((_DONE, job.run(task)))
    except EOFError:
        return
    except BaseException as error:  # noqa: BLE001 (whatever it is, it is raised again on the other side)
        with suppress(OSError):
            pipe.send((_ERROR, _portable(error)))


def _die_with_parent() -> None:
    """End this process when its parent is gone, so that none goes on writing where the next run begins."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _portable(error: BaseException) -> tuple[type[BaseException], tuple[Any, ...], str]:
    """Return what rebuilds an error elsewhere: its type, its arguments and where it was raised."""
    where = "".join(traceback.format_exception(error))
    arguments = error.args
    if isinstance(error, OSError) and error.errno is not None:
        arguments = (error.errno, error.strerror, error.filename)
    try:
        pickle.dumps((type(error), arguments))
    except (pickle.PicklingError, TypeError, AttributeError):
        return FaceblindError, (f"{type(error).__name__}: {error}",), where
    return type(error), arguments, where


def _rebuilt(kind: type[BaseException], arguments: tuple[Any, ...], where: str) -> BaseException:
    # Not kind(*arguments): a type may take other arguments than those it keeps.
    error = kind.__new__(kind, *arguments)
    error.args = arguments[:2] if isinstance(error, OSError) else arguments
    error.add_note(f"raised in a worker process:\n{where}")
    return error


@contextmanager
def _for_children(threads: int) -> Iterator[None]:
    """Set what processes started here inherit: threads of linear algebra, and no Ctrl-C until they are ready for it."""
    before = {name: os.environ.get(name) for name in THREADS}
    block = hasattr(signal, "pthread_sigmask")
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if block else set()
    os.environ.update(dict.fromkeys(THREADS, str(threads)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if block:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
