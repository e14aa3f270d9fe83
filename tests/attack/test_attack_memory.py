from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np

from faceblind.attack.memory import Memory


class Counted:
    def __init__(self) -> None:
        self.calls: list[float] = []

    def __call__(self, X: np.ndarray) -> float:
        self.calls.append(float(X.sum()))
        return self.calls[-1]


def rows(value: float) -> np.ndarray:
    return np.full((3, 2), value, np.float32)


def test_equal_arrays_are_computed_once_and_changed_ones_anew():
    counted = Counted()
    memory = Memory(counted, 2)
    X = rows(1)
    assert memory(X) == memory(X.copy()) == 6
    X[0, 0] = 2
    assert memory(X) == 7
    assert memory(rows(1)) == 6
    assert counted.calls == [6, 7]


def test_shape_and_dtype_count():
    counted = Counted()
    memory = Memory(counted, 5)
    for X in (rows(1), rows(1)[:2], rows(1).T, rows(1).astype(np.float64)):
        memory(X)
    assert len(counted.calls) == 4


def test_the_array_that_was_not_asked_for_longest_is_forgotten():
    counted = Counted()
    memory = Memory(counted, 2)
    for value in (1, 2, 1, 3, 1, 2):
        memory(rows(value))
    assert counted.calls == [6, 12, 18, 12]


def test_threads_wait_for_what_another_computes():
    counted, start = Counted(), Barrier(8)
    memory = Memory(counted, 2)

    def ask(turn: int) -> float:
        start.wait()
        return memory(rows(turn % 2))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == [0, 6] * 4
    assert sorted(counted.calls) == [0, 6]
