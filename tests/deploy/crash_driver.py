"""Runs applications that are killed, for test_deploy_crash: each in a fork of this process, which stays single-threaded.

Usage: python crash_driver.py SOURCE FOLDER PLAN, where PLAN is JSON; prints JSON.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from sharded_samples import SMALL, projector, small_row_groups, source

from faceblind._errors import FaceblindError
from faceblind._local_engine import LocalEngine
from faceblind.data.tables import write_parquet
from faceblind.deploy import apply_sharded
from faceblind.deploy.shard_folder import ShardFolder


class Countdown:
    """Calls `act` at the k-th event."""

    def __init__(self, k: int, act) -> None:
        self.left, self.act = k, act

    def __call__(self, event: str) -> None:
        self.left -= 1
        if self.left == 0:
            self.act(event)


def die(_event: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def disk_full(_event: str) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def watch(events: str, count: Countdown) -> None:
    """Make renames and flushes, or writes, count; a rename is counted before and after it happens."""
    if events == "writes":
        write = write_parquet._Stream.write

        def counted_write(self, data):
            count("write")
            return write(self, data)

        write_parquet._Stream.write = counted_write
        return

    def both(function):
        def counted(*arguments, **options):
            count("before")
            answer = function(*arguments, **options)
            count("after")
            return answer

        return counted

    for name in ("rename", "replace", "fsync", "unlink", "rmdir"):
        setattr(os, name, both(getattr(os, name)))


class Hooked:
    """A job that is watched in the process where it runs, if there is a k."""

    def __init__(self, job, events: str, k: int | None) -> None:
        self.job, self.events, self.k = job, events, k

    def open(self) -> None:
        small_row_groups()
        if self.k is not None:
            watch(self.events, Countdown(self.k, die))
        self.job.open()

    def run(self, task):
        return self.job.run(task)


class HookedEngine:
    """Two worker processes whose k-th events, if there is a k, are their last."""

    def __init__(self, events: str, k: int | None) -> None:
        self.events, self.k = events, k

    def map(self, job, tasks):
        return LocalEngine(2).map(Hooked(job, self.events, self.k), tasks)


def log_shards(path: Path) -> None:
    """Append the number of every shard whose record was written."""
    finish = ShardFolder.finish

    def finish_and_tell(self, record):
        finish(self, record)
        with path.open("a") as stream:
            stream.write(f"{record.index}\n")

    ShardFolder.finish = finish_and_tell


def run(path: str, output: Path, plan: dict) -> int:
    """One run in this process: 0 done, 2 refused with a message; it may also be killed."""
    small_row_groups()
    k = plan.get("k")
    in_worker = plan.get("where") == "worker"
    engine = HookedEngine(plan["events"], k if in_worker else None) if "where" in plan else None
    if k is not None and not in_worker:
        watch(plan["events"], Countdown(k, disk_full if plan.get("act") == "full" else die))
    if "log" in plan:
        log_shards(Path(plan["log"]))
    try:
        report = apply_sharded(projector(), source(path), output, engine=engine, shard_rows=SMALL)
    except FaceblindError as error:
        (output.parent / "said").write_text(str(error))
        return 2
    (output.parent / "said").write_text(json.dumps({"resumed": report.resumed, "notes": report.notes}))
    return 0


def forked(path: str, output: Path, plan: dict) -> int:
    """Run in a fork; return its exit code, negative for a signal."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            code = run(path, output, plan)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    path, folder, plans = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    answers = []
    for plan in plans:
        output = folder / plan["output"] / "clean"
        output.parent.mkdir(parents=True, exist_ok=True)
        code = forked(path, output, plan)
        said = output.parent / "said"
        answers.append([code, said.read_text() if said.exists() else ""])
        said.unlink(missing_ok=True)
    print(json.dumps(answers))  # noqa: T201


if __name__ == "__main__":
    main()
