"""Engines: the same records wherever tasks run, and a clear end whatever happens to a worker."""

from __future__ import annotations

import os
import pickle
import re

import pytest
from engine_jobs import Fails, Square, Threads, Waits

import faceblind as fb
from faceblind._engine import Engine
from faceblind._errors import FaceblindError, MissingExtraError, OutputError, UsageError
from faceblind._local_engine import THREADS, LocalEngine
from faceblind._processors import processors
from faceblind.deploy import engine_named


def test_one_worker_is_this_process():
    job = Square()
    records = list(LocalEngine(1).map(job, [3, 1, 2]))
    assert records == [(9, os.getpid(), 1), (1, os.getpid(), 1), (4, os.getpid(), 1)]


def test_several_workers_do_every_task_once_and_open_once_each():
    records = list(LocalEngine(2).map(Square(), range(7)))
    assert sorted(square for square, _, _ in records) == [i * i for i in range(7)]
    assert len({pid for _, pid, _ in records}) <= 2
    assert os.getpid() not in {pid for _, pid, _ in records}
    assert {opened for _, _, opened in records} == {1}


@pytest.mark.parametrize("workers", [1, 3])
def test_without_tasks_nothing_is_opened(workers):
    assert list(LocalEngine(workers).map(Fails("open"), [])) == []


def test_workers_share_the_cores():
    assert LocalEngine(1).threads == processors()
    assert LocalEngine(10_000).threads == 1
    before = {name: os.environ.get(name) for name in THREADS}
    engine = LocalEngine(2)
    for counts, variable in engine.map(Threads(), range(2)):
        assert set(counts) == {engine.threads}
        assert variable == str(engine.threads)
    assert {name: os.environ.get(name) for name in THREADS} == before


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [
        ("data", fb.DataError, "^row 17 holds NaN$"),
        ("missing", MissingExtraError, r"^writing needs pyarrow; install it with: pip install 'faceblind\[parquet\]'$"),
        ("output", OutputError, "^the disk is full$"),
        ("os", FileNotFoundError, "No such file or directory: 'somewhere'"),
        ("open", fb.DataError, "^cannot get ready$"),
    ],
)
def test_errors_of_a_job_arrive_as_they_are(workers, how, kind, message):
    with pytest.raises(kind) as caught:
        list(LocalEngine(workers).map(Fails(how), range(6)))
    assert re.search(message, str(caught.value))
    if workers == 2:
        assert "engine_jobs.py" in caught.value.__notes__[0]


def test_an_error_that_cannot_travel_is_told_in_words():
    with pytest.raises(FaceblindError, match="_Odd: cannot travel"):
        list(LocalEngine(2).map(Fails("odd"), range(6)))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("kill", r"worker process \d+ was ended by signal 9 \(SIGKILL\); perhaps memory ran out during 2; .*run again"),
        ("exit", r"worker process \d+ ended with exit code 3 \(does the script .*__main__"),
    ],
)
def test_a_worker_that_dies_is_named_with_its_task(how, message):
    with pytest.raises(FaceblindError, match=message):
        list(LocalEngine(2).map(Fails(how), range(6)))


def test_who_stops_asking_ends_the_workers(tmp_path):
    records = LocalEngine(2).map(Waits(tmp_path), range(3))
    assert next(records) == 0
    records.close()
    (pid,) = (int(path.name) for path in tmp_path.iterdir())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("workers", [0, -1])
def test_a_number_of_workers_that_is_none(workers):
    with pytest.raises(UsageError, match=f"workers must be at least 1, got {workers}"):
        LocalEngine(workers)


def test_engines_by_name():
    engine: Engine = engine_named("local", 3)
    assert engine == LocalEngine(3)
    assert pickle.loads(pickle.dumps(engine)) == engine
    with pytest.raises(UsageError, match="no engine 'spark'; choose from local, ray"):
        engine_named("spark", 1)
