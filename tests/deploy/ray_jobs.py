"""Jobs for tests of engines: they travel to worker processes, so they live in a module that those can import."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from faceblind._errors import MissingExtraError, OutputError
from faceblind.data.meta import Fingerprint
from faceblind.encoders import Encoder


@dataclass(frozen=True)
class Echo:
    """Returns the task and says where it ran; at task 3 it does what its `trouble` says."""

    trouble: str = ""
    mark: str = ""

    def open(self) -> None:
        if self.trouble == "open":
            raise MissingExtraError("torch", "torch", "opening this encoder")

    def run(self, task: int) -> dict[str, Any]:
        from threadpoolctl import threadpool_info

        if task == 3:
            if self.trouble == "error":
                raise OutputError("cannot write /somewhere: disk full")
            if self.trouble == "bug":
                raise ZeroDivisionError("a bug")
            if self.trouble == "deadly":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.trouble == "once" and not Path(self.mark).exists():
                Path(self.mark).touch()
                os.kill(os.getpid(), signal.SIGKILL)
        np.ones((2, 2)) @ np.ones((2, 2))
        threads = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
        return {"task": task, "pid": os.getpid(), "folder": str(Path.cwd()), "threads": threads}


class Meter(Encoder):
    """Mean colour of a photograph; in the process of number `odd_outside` and in no other it is the first version."""

    def __init__(self, home: int | None = None) -> None:
        self._home = home

    @property
    def fingerprint(self) -> Fingerprint:
        weights = "0" if self._home in {None, os.getpid()} else "1"
        return Fingerprint(
            encoder="meter", weights_sha256=weights * 64, dim=3, pooling="mean", preprocessing="{}", precision="float64"
        )

    def run(self, prepared: Any) -> Any:
        return np.array([image.mean(axis=(0, 1)) / 255 for image in prepared], dtype=np.float32)
