"""Jobs for the tests of engines; in a module of their own because worker processes import them."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faceblind._errors import DataError, MissingExtraError, OutputError


@dataclass
class Square:
    """Squares numbers; counts how often it was opened."""

    opened: int = field(default=0)

    def open(self) -> None:
        self.opened += 1

    def run(self, task: int) -> tuple[int, int, int]:
        return task * task, os.getpid(), self.opened


class Threads:
    """Says how many threads linear algebra has."""

    def open(self) -> None:
        pass

    def run(self, _task: int) -> tuple[list[int], str]:
        import numpy  # noqa: F401
        from threadpoolctl import threadpool_info

        return [pool["num_threads"] for pool in threadpool_info()], os.environ["OPENBLAS_NUM_THREADS"]


@dataclass
class Fails:
    """Fails at task 2 in a given way."""

    how: str

    def open(self) -> None:
        if self.how == "open":
            raise DataError("cannot get ready")

    def run(self, task: int) -> int:
        if task != 2:
            return task
        if self.how == "data":
            raise DataError("row 17 holds NaN")
        if self.how == "missing":
            raise MissingExtraError("pyarrow", "parquet", "writing")
        if self.how == "output":
            raise OutputError("the disk is full")
        if self.how == "os":
            raise FileNotFoundError(2, "No such file or directory", "somewhere")
        if self.how == "odd":
            raise _Odd(lambda: 1)
        if self.how == "exit":
            os._exit(3)
        os.kill(os.getpid(), signal.SIGKILL)
        return task


class _Odd(Exception):  # noqa: N818
    def __init__(self, what: Any) -> None:
        super().__init__(what)

    def __str__(self) -> str:
        return "cannot travel"


@dataclass
class Waits:
    """Task 0 answers; the others leave a file and wait for what never comes."""

    folder: Path

    def open(self) -> None:
        pass

    def run(self, task: int) -> int:
        if task:
            (self.folder / f"{os.getpid()}").touch()
            time.sleep(3600)
        while not list(self.folder.iterdir()):
            time.sleep(0.01)
        return task
