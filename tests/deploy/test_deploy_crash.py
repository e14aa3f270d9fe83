"""Killed at any moment, a sharded run loses no finished shard, and the next one ends with the same bytes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sharded_samples import SMALL, names, tree, write

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the driver forks")
KILLED = -9
EVENTS = 75
"""More than a run over three shards has."""
ROWS = 3 * SMALL - 5


@pytest.fixture(scope="module")
def table_path(tmp_path_factory):
    return write(tmp_path_factory.mktemp("source") / "in.parquet", ROWS)


@pytest.fixture(scope="module")
def expected(tmp_path_factory, table_path):
    folder = tmp_path_factory.mktemp("expected")
    assert drive(table_path, folder, [{"output": "x"}])[0][0] == 0
    assert len(tree(folder / "x" / "clean")) == 4
    return tree(folder / "x" / "clean")


WRITES = 18
"""Of one small shard, about."""


def drive(path, folder, plans):
    command = [
        sys.executable,
        str(Path(__file__).with_name("crash_driver.py")),
        str(path),
        str(folder),
        json.dumps(plans),
    ]
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | threads, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_twenty_kills_in_a_row_at_random_points(tmp_path):
    """Each run is killed at a random write of its own, few enough that shards come to an end only now and then."""
    shards = 24
    path = write(tmp_path / "in.parquet", shards * SMALL - 7)
    rng = np.random.default_rng(20)
    log = tmp_path / "log"
    plans = [
        {"output": "kill", "events": "writes", "k": int(k), "log": str(log)}
        for k in rng.integers(1, 2 * WRITES, size=20)
    ]
    answers = drive(path, tmp_path, [*plans, {"output": "kill", "log": str(log)}, {"output": "undisturbed"}])
    codes = [code for code, _ in answers]
    assert codes == [KILLED] * 20 + [0, 0]
    assert tree(tmp_path / "kill" / "clean") == tree(tmp_path / "undisturbed" / "clean")
    finished = Counter(log.read_text().split())
    assert finished == Counter({str(i): 1 for i in range(shards)}), "a finished shard was made again"
    report = json.loads(answers[-2][1])
    assert 0 < report["resumed"] // SMALL < shards
    assert names(tmp_path / "kill") == ["clean"]


def test_killed_at_every_rename_flush_and_removal(tmp_path, table_path, expected):
    """Each run dies one event later, until they get through; the next run ends with the same bytes."""
    ks = range(1, EVENTS)
    killed = [{"output": f"{k}", "events": "files", "k": k, "log": f"{tmp_path}/log{k}"} for k in ks]
    codes = [code for code, _ in drive(table_path, tmp_path, killed)]
    assert codes == sorted(codes)
    assert set(codes) == {KILLED, 0}
    assert codes.index(0) > 40, "a run has more events than that"
    again = [{"output": f"{k}", "log": f"{tmp_path}/log{k}"} for k in ks]
    assert {code for code, _ in drive(table_path, tmp_path, again)} == {0}
    for k in ks:
        assert tree(tmp_path / f"{k}" / "clean") == expected, k
        assert names(tmp_path / f"{k}") == ["clean"], k
        log = tmp_path / f"log{k}"
        counted = Counter(log.read_text().split() if log.exists() else ())
        # A shard is finished from the moment its record is in place, which is before it is told here.
        assert set(counted) <= {"0", "1", "2"}
        assert max(counted.values(), default=0) <= 1, "a finished shard was made again"


@pytest.mark.parametrize(("where", "ks"), [("parent", [3, 5, 9, 14]), ("worker", [1, 3, 4, 6])])
def test_with_two_workers(tmp_path, table_path, expected, where, ks):
    plans = [
        plan
        for k in ks
        for plan in (
            {"output": f"{k}", "events": "files", "k": k, "where": where},
            {"output": f"{k}"},
        )
    ]
    answers = drive(table_path, tmp_path, plans)
    for (code, said), (after, _), k in zip(answers[::2], answers[1::2], ks, strict=True):
        assert after == 0
        assert tree(tmp_path / f"{k}" / "clean") == expected
        assert names(tmp_path / f"{k}") == ["clean"]
        if where == "worker":
            assert code == 2
            assert "was ended by signal 9 (SIGKILL)" in said
            assert "during shard" in said
        else:
            assert code == KILLED


def test_a_full_disk_keeps_what_is_finished(tmp_path, table_path, expected):
    full = {"output": "full", "events": "writes", "k": WRITES + 1, "act": "full"}
    (code, said), (after, report) = drive(table_path, tmp_path, [full, {"output": "full"}])
    assert code == 2
    assert said.startswith("cannot write")
    assert "No space left on device" in said
    assert (after, json.loads(report)["resumed"]) == (0, SMALL)
    assert tree(tmp_path / "full" / "clean") == expected


def test_killed_while_an_earlier_output_is_replaced(tmp_path, table_path, expected):
    """Whatever happens, one of the two is there in full, or the next run puts it there."""
    other = write(tmp_path / "other.parquet", 2 * SMALL)
    assert drive(other, tmp_path, [{"output": "old"}])[0][0] == 0
    ks = range(37, EVENTS)
    for k in ks:
        shutil.copytree(tmp_path / "old" / "clean", tmp_path / f"{k}" / "clean")
    killed = [{"output": f"{k}", "events": "files", "k": k} for k in ks]
    codes = [code for code, _ in drive(table_path, tmp_path, killed)]
    assert codes == sorted(codes)
    assert {KILLED, 0} == set(codes)
    whole = [tree(tmp_path / "old" / "clean"), expected]
    for k in ks:
        places = [tmp_path / f"{k}" / "clean", tmp_path / f"{k}" / ".clean.replaced"]
        assert any(tree(place) in whole for place in places if place.exists())
    again = [{"output": f"{k}"} for k in ks]
    assert {code for code, _ in drive(table_path, tmp_path, again)} == {0}
    for k in ks:
        assert tree(tmp_path / f"{k}" / "clean") == expected
        assert names(tmp_path / f"{k}") == ["clean"]
