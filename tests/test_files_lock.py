"""One run at a time in a working folder, and a folder that takes the place of another."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from faceblind._errors import OutputError
from faceblind._files import locked, replace_folder, restore_folder

HOLD = """
import os, signal, sys
from pathlib import Path
from faceblind._files import locked
with locked(sys.argv[1], "clean"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_run_is_told_who_holds_the_folder(tmp_path):
    with locked(tmp_path / "deep" / "work", tmp_path / "clean"):
        with (
            pytest.raises(
                OutputError, match=rf"clean: another run is writing it \(process {os.getpid()}\); wait for it"
            ),
            locked(tmp_path / "deep" / "work", tmp_path / "clean"),
        ):
            pass
        assert (tmp_path / "deep" / "work" / ".lock").read_text() == str(os.getpid())
    with locked(tmp_path / "deep" / "work", tmp_path / "clean"):
        pass


def test_an_empty_working_folder_goes_with_its_lock(tmp_path):
    with locked(tmp_path / "work", "clean"):
        assert (tmp_path / "work" / ".lock").is_file()
    assert not (tmp_path / "work").exists()

    def interrupted():
        with locked(tmp_path / "work", "clean"):
            (tmp_path / "work" / "shard").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (tmp_path / "work" / "shard").exists()


def test_the_body_may_remove_the_folder(tmp_path):
    with locked(tmp_path / "work", "clean"):
        (tmp_path / "work" / ".lock").unlink()
        (tmp_path / "work").rmdir()
    assert not (tmp_path / "work").exists()


def test_the_kernel_releases_the_lock_of_a_killed_run(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "work")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(OutputError, match=rf"process {holder.pid}"), locked(tmp_path / "work", "clean"):
            pass
        holder.kill()
        holder.wait()
        assert (tmp_path / "work" / ".lock").exists()
        with locked(tmp_path / "work", "clean"):
            assert (tmp_path / "work" / ".lock").read_text() == str(os.getpid())


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "work").write_text("mine")
    with pytest.raises(OutputError, match="work cannot be made"), locked(tmp_path / "work", "clean"):
        pass


def folder(path, text):
    path.mkdir()
    (path / "t").write_text(text)
    return path


def test_a_folder_takes_the_place_of_another(tmp_path):
    folder(tmp_path / "clean", "old")
    replace_folder(folder(tmp_path / "made", "new"), tmp_path / "clean")
    assert (tmp_path / "clean" / "t").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["clean"]


@pytest.mark.parametrize("there", [True, False])
def test_a_replacement_that_was_killed_is_put_right(tmp_path, there):
    folder(tmp_path / ".clean.replaced", "old")
    if there:
        folder(tmp_path / "clean", "new")
    restore_folder(tmp_path / "clean")
    assert (tmp_path / "clean" / "t").read_text() == ("new" if there else "old")
    assert [path.name for path in tmp_path.iterdir()] == ["clean"]
    restore_folder(tmp_path / "clean")
