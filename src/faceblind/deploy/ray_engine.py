"""Tasks on a Ray cluster, or in a small one on this machine, through Ray Data.

Each worker is an actor that gets the job once, opens it once and then takes one task after another. Tasks leave their
result on a file system that all nodes share, or in their record; Ray moves nothing but tasks and records, so its object
store can be small. A task whose worker died is done again by another worker.
"""

from __future__ import annotations

import logging
import math
import os
import pickle
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faceblind import _errors
from faceblind._engine import Job
from faceblind._errors import FaceblindError, MissingExtraError, UsageError
from faceblind._processors import processors

_STORE = 100 << 20
"""Bytes of the object store of a Ray that is started here; Ray wants 75 MiB at least."""
_BLOCKS = 4_096
"""Tasks travel one by one up to this number, and then in as many parcels."""
_DEADLY = (
    "worker processes died again and again on one task (most often for want of memory: take fewer workers, or smaller "
    "batches); what was finished is kept, run again"
)
_MESSAGE, _RECORD = "error", "record"


@dataclass(frozen=True, kw_only=True)
class RayEngine:
    """An `Engine` on Ray Data.

    An existing connection (`ray.init` was called) is used and left as it is. Otherwise Ray is connected to `address`, or
    started on this machine, for as long as the tasks run.

    Attributes
    ----------
    workers : int, optional
        Actors that work at a time; the processors of this machine when missing.
    address : str, optional
        Of a running cluster: ``"auto"`` on one of its nodes, or ``"HOST:PORT"``; when missing, that in the environment
        variable ``RAY_ADDRESS``, or a Ray that is started on this machine. faceblind must be installed on all nodes.
    cpus, gpus : float
        What each worker takes of a node, in units of Ray's own bookkeeping.
    threads : int
        Threads of linear algebra of each worker.
    attempts : int
        How often a task is begun whose worker dies, before it is given up.
    """

    workers: int | None = None
    address: str | None = None
    cpus: float = 1.0
    gpus: float = 0.0
    threads: int = 1
    attempts: int = 4

    def __post_init__(self) -> None:
        for name, least in (("workers", 1), ("threads", 1), ("attempts", 1), ("cpus", 0), ("gpus", 0)):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise UsageError(f"{name} must be at least {least}, got {value!r}")

    def map(self, job: Job[Any, Any], tasks: Sequence[Any]) -> Iterator[Any]:
        """Yield the record of every task as it is done; see `Engine.map`.

        Raises
        ------
        FaceblindError
            As the job raised it; also when the worker of one task died again and again.
        MissingExtraError
            Ray or what Ray Data needs is not installed.
        UsageError
            No cluster answers at the address.
        """
        if not tasks:
            return
        ray = _load_ray()
        payload = ray.cloudpickle.dumps(job)  # unlike pickle it takes classes of the script that is running
        parcels = [{"number": i, "task": ray.cloudpickle.dumps(task)} for i, task in enumerate(tasks)]
        workers = min(self.workers or processors(), len(tasks))
        with ExitStack() as stack:
            stack.enter_context(self._connected(ray, workers, len(payload)))
            stack.enter_context(_quiet(ray))
            attempts = stack.enter_context(_counting_attempts(ray, self.attempts))
            answers = ray.data.from_items(parcels, override_num_blocks=min(len(parcels), _BLOCKS)).map_batches(
                _worker_class(payload, attempts, str(Path.cwd()), self.threads),
                batch_size=1,
                batch_format="pyarrow",
                compute=ray.data.ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=2),
                num_cpus=self.cpus,
                num_gpus=self.gpus or None,
            )
            # Closed before Ray is: a run that is cut short otherwise goes on in threads of its own.
            for row in stack.enter_context(closing(iter(answers.iter_rows()))):
                answer = pickle.loads(row["answer"])
                if _MESSAGE in answer:
                    raise _rebuilt(*answer[_MESSAGE])
                yield answer[_RECORD]

    @contextmanager
    def _connected(self, ray: Any, workers: int, job_bytes: int) -> Iterator[None]:
        if ray.is_initialized():
            yield
            return
        address = self.address or os.environ.get("RAY_ADDRESS")
        _check_answers(address)
        options: dict[str, Any] = {"address": address or "local"}
        if not address:
            options["num_cpus"] = max(1, math.ceil(workers * self.cpus))
            options["object_store_memory"] = _STORE + 2 * job_bytes
            options["include_dashboard"] = False
        try:
            with _environment(RAY_USAGE_STATS_ENABLED="0", RAY_BACKEND_LOG_LEVEL="fatal"):
                ray.init(**options, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            where = f"no Ray cluster at {address!r}" if address else "Ray cannot be started here"
            raise UsageError(f"{where}: {' '.join(str(error).split())}") from error
        try:
            if not address and ray.cluster_resources().get("GPU", 0) < self.gpus:
                raise UsageError(f"a worker is to have {self.gpus:g} GPU, but Ray finds too few on this machine")
            yield
        finally:
            ray.shutdown()


def _worker_class(job: bytes, attempts: Any, folder: str, threads: int) -> type:
    """Return the class of an actor; made here, so that what it holds travels with it."""

    class Worker:
        def __init__(self) -> None:
            self._job: Any = None

        def __call__(self, batch: Any) -> Any:
            import pyarrow as pa

            answers = [self._answer(**parcel) for parcel in batch.to_pylist()]
            return pa.table({"answer": pa.array(answers, pa.binary())})

        def _answer(self, number: int, task: bytes) -> bytes:
            import ray

            try:
                _begin(ray, attempts, number)
                if self._job is None:
                    self._job = _opened(job, folder, threads)
                answer = {_RECORD: self._job.run(pickle.loads(task))}
            except FaceblindError as error:  # Ray would wrap it in a traceback of its own
                answer = {_MESSAGE: (type(error).__name__, str(error))}
            return pickle.dumps(answer)

    return Worker


def _begin(ray: Any, attempts: Any, number: int) -> None:
    if not ray.get(attempts.begin.remote(number)):
        raise FaceblindError(_DEADLY)


def _opened(job: bytes, folder: str, threads: int) -> Any:
    """Unpack and open the job in a worker process."""
    from threadpoolctl import threadpool_limits

    with suppress(OSError):  # not there on this node: then only absolute paths mean anything
        os.chdir(folder)
    unpacked = pickle.loads(job)
    unpacked.open()
    threadpool_limits(limits=threads)  # for good, and once the job's libraries are loaded
    return unpacked


@contextmanager
def _counting_attempts(ray: Any, most: int) -> Iterator[Any]:
    """Yield an actor that counts how often each task was begun: Ray itself would repeat a deadly one without end."""

    class Attempts:
        def __init__(self) -> None:
            self._begun: Counter[int] = Counter()

        def begin(self, task: int) -> bool:
            self._begun[task] += 1
            return self._begun[task] <= most

    counter = ray.remote(num_cpus=0)(Attempts).remote()
    try:
        yield counter
    finally:
        ray.kill(counter)


def _rebuilt(kind: str, message: str) -> FaceblindError:
    """Make an error again from its name and text; constructors differ, and some would add to the text."""
    known = getattr(_errors, kind, FaceblindError)
    error: FaceblindError = known.__new__(known)
    error.args = (message,)
    return error


def _load_ray() -> Any:
    try:
        import ray
        import ray.cloudpickle
        import ray.data
    except ImportError as error:
        raise MissingExtraError("ray[data]", "ray", "running on Ray") from error
    return ray


def _check_answers(address: str | None) -> None:
    """Raise `UsageError` when nothing answers at HOST:PORT; Ray would try for minutes and then end this process."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"no Ray cluster at {address!r}: {error}; give the address that `ray start --head` printed"
        ) from error


@contextmanager
def _quiet(ray: Any) -> Iterator[None]:
    """Keep Ray Data's log of every run off the terminal, and put its settings back afterwards."""
    context, logger = ray.data.DataContext.get_current(), logging.getLogger("ray.data")
    bars, level = context.enable_progress_bars, logger.level
    context.enable_progress_bars = False
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        context.enable_progress_bars = bars
        logger.setLevel(level)


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Set environment variables that are not set, for a while."""
    added = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
