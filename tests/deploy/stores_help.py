"""What the tests of vector stores share: people, a projector, a store in memory, and a run that dies.

As a script it is such a run: ``python stores_help.py STORE SETTINGS OPERATION SEED`` begins a rewrite and kills itself at a
random instant after the given operation on the store has begun (never, for a negative one).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import faceblind as fb
from faceblind.data.meta import TableMeta
from faceblind.deploy.stores import Rows, Source, StoreGoneError, rewrite
from faceblind.erase import Projector
from strategies import fingerprint, planted

DIM, RANK = 24, 4
KILLED = -signal.SIGKILL
OPERATIONS = ("create", "read", "read_back", "write", "save", "count")


def vectors_of(n: int, seed: int = 1) -> np.ndarray:
    """(n, DIM) float32 vectors of planted people."""
    return planted(seed, people=-(-n // 5), images=5, dim=DIM, rank=RANK).vectors[:n]


def projector_of(**changes: Any) -> Projector:
    """A projector fitted on other people, with an encoder."""
    made = planted(9, people=40, images=5, dim=DIM, rank=RANK)
    moments = fb.IdentityMoments().partial_fit(made.vectors, made.identity)
    return fb.ISP(RANK).fit_moments(moments, **({"encoder": fingerprint(dim=DIM)} | changes)).projector_


class MemoryStore:
    """Raw vectors in one dictionary, clean ones in another; fails before or after any operation it is told to."""

    shares_rows = False

    def __init__(self, raw: dict[Any, Any], **source: Any) -> None:
        self.raw, self.clean, self.text, self.source = raw, {}, None, source
        self.fail_at: tuple[int, bool] | None = None
        self.operations = 0

    def _operate(self, change: Callable[[], Any] = lambda: None) -> Any:
        self.operations += 1
        fails, after = self.fail_at or (0, False)
        if self.operations == fails and not after:
            raise StoreGoneError("gone")
        done = change()
        if self.operations == fails and after:
            raise StoreGoneError("gone")
        return done

    def describe(self) -> Source:
        known = {"name": "memory", "target": "memory_clean", "rows": len(self.raw), "dim": DIM, "dtype": "float32"}
        return Source(**known | self.source)

    def locked(self) -> Any:
        return contextlib.nullcontext()

    def record(self) -> str | None:
        return self.text

    def create(self, *, dim: int, dtype: str, record: str) -> None:
        self._operate(lambda: setattr(self, "text", record))

    def _rows(self, held: dict[Any, Any], after: Any, upto: Any, rows: int | None) -> Rows:
        keys = [k for k in sorted(held) if (after is None or k > after) and (upto is None or k <= upto)][:rows]
        full = [k for k in keys if held[k] is not None]
        vectors = np.array([held[k] for k in full]) if full else np.empty((0, DIM), np.float32)
        return Rows(
            full, vectors, empty=tuple(k for k in keys if held[k] is None), last=keys[-1] if keys else None,
            carried=[f"of {k}" for k in full],
        )  # fmt: skip

    def read(self, after: Any, rows: int) -> Rows:
        return self._operate(lambda: self._rows(self.raw, after, None, rows))

    def read_back(self, after: Any, upto: Any) -> Rows:
        return self._operate(lambda: self._rows(self.clean, after, upto, None))

    def write(self, rows: Rows, record: Callable[[Any], str]) -> None:
        assert rows.carried == [f"of {k}" for k in rows.keys]
        self._operate(lambda: self.clean.update(zip(rows.keys, rows.vectors, strict=True)))  # rows before the record,
        self._operate(lambda: setattr(self, "text", record(rows.vectors)))  # as in stores without transactions

    def remove(self, keys: Sequence[Any]) -> None:
        self._operate(lambda: [self.clean.pop(key, None) for key in keys])

    def save(self, record: str) -> None:
        self._operate(lambda: setattr(self, "text", record))

    def count(self) -> int:
        return self._operate(lambda: len(self.clean))

    def switch(self) -> tuple[str, ...]:
        return ("look into .clean",)

    def undo(self) -> tuple[str, ...]:
        return ("forget .clean",)


def meta(**changes: Any) -> TableMeta:
    """Metadata of vectors of the test encoder."""
    return TableMeta(**{"encoder": fingerprint(dim=DIM)} | changes)


def run_and_die(store: str, settings: dict[str, Any], operation: int, seed: int) -> int:
    """Begin a rewrite in another process, which kills itself; return its exit status."""
    command = [sys.executable, __file__, store, json.dumps(settings), str(operation), str(seed)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in {0, KILLED}, done.stderr
    return done.returncode


def _die(store_name: str, settings: dict[str, Any], operation: int, seed: int) -> None:
    from faceblind.deploy import stores

    place = settings.pop("place")
    batch_rows = settings.pop("batch_rows")
    projector = projector_of()
    store = getattr(stores, store_name).open(place, projector, **settings)
    seen = 0

    def counted(name: str) -> Callable[..., Any]:
        inner = getattr(store, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal seen
            seen += 1
            if seen == operation:
                delay = random.Random(seed).random() * 0.02
                threading.Timer(delay, os.kill, [os.getpid(), signal.SIGKILL]).start()
            return inner(*args, **kwargs)

        return call

    for name in OPERATIONS:
        setattr(store, name, counted(name))
    rewrite(store, projector, batch_rows=batch_rows)
    if operation > 0:
        threading.Event().wait(5)  # the timer ends this
    store.close()


if __name__ == "__main__":
    _die(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
