from __future__ import annotations

import errno
import os
import resource
import stat
import threading
from pathlib import Path

import pytest

from faceblind import _files
from faceblind._errors import OutputError
from faceblind._files import atomic_path, remove, sha256_file, writable_folder, write_bytes, write_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_file_replaces_earlier_one_and_leaves_nothing_else(tmp_path):
    target = tmp_path / "a" / "b" / "out.txt"
    write_text(target, "one")
    write_text(target, "zwölf\n")
    assert target.read_bytes() == "zwölf\n".encode()
    assert names(target.parent) == ["out.txt"]


def test_text_keeps_its_line_ends(tmp_path):
    write_text(tmp_path / "x", "a\r\nb\n")
    assert (tmp_path / "x").read_bytes() == b"a\r\nb\n"


@pytest.mark.parametrize("error", [RuntimeError("stop"), KeyboardInterrupt()])
def test_failure_keeps_the_earlier_file(tmp_path, error):
    target = tmp_path / "out.txt"
    target.write_text("before")

    def stop():
        with atomic_path(target) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(type(error)):
        stop()
    assert target.read_text() == "before"
    assert names(tmp_path) == ["out.txt"]


def test_nothing_created_leaves_target_alone(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("before")
    with atomic_path(target):
        pass
    assert target.read_text() == "before"


def test_folder_replaces_folder_whole(tmp_path):
    target = tmp_path / "table"
    target.mkdir()
    (target / "old").write_text("old")
    with atomic_path(target) as temporary:
        (temporary / "sub").mkdir(parents=True)
        (temporary / "sub" / "new").write_text("new")
    assert [str(path.relative_to(target)) for path in sorted(target.rglob("*"))] == ["sub", "sub/new"]
    assert names(tmp_path) == ["table"]


def test_failed_folder_is_removed_and_the_old_one_stays(tmp_path):
    target = tmp_path / "table"
    target.mkdir()
    (target / "old").write_text("old")

    def stop():
        with atomic_path(target) as temporary:
            temporary.mkdir()
            (temporary / "new").write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert names(tmp_path) == ["table"]
    assert names(target) == ["old"]


def test_folder_comes_back_when_the_second_rename_fails(tmp_path, monkeypatch):
    target = tmp_path / "table"
    target.mkdir()
    (target / "old").write_text("old")
    rename = Path.rename

    def fail(self, new):
        if self.name.endswith(".part"):
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, new)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OutputError, match=r"write .*table: Input/output error"), atomic_path(target) as temporary:
        temporary.mkdir()
    assert names(tmp_path) == ["table"]
    assert names(target) == ["old"]


def test_link_to_a_folder_is_replaced_and_its_folder_kept(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with atomic_path(tmp_path / "link") as temporary:
        temporary.mkdir()
    assert names(tmp_path / "elsewhere") == ["precious"]
    assert names(tmp_path / "link") == []


def test_permissions_of_the_replaced_file_are_kept(tmp_path):
    target = tmp_path / "secret"
    target.write_text("a")
    target.chmod(0o600)
    write_text(target, "b")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


@pytest.mark.parametrize("below", ["file/out.txt", "file/deeper/out.txt"])
def test_parent_that_is_a_file(tmp_path, below):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match=rf"cannot write {tmp_path}/{below}: "):
        write_text(tmp_path / below, "y")


def test_name_too_long(tmp_path):
    with pytest.raises(OutputError, match=r"cannot write .*: File name too long"):
        write_text(tmp_path / ("x" * 300), "y")


@pytest.mark.parametrize("name", ["", ".", "..", "/"])
def test_places_that_have_no_name(name):
    with pytest.raises(OutputError, match="name a file or folder to make"):
        write_text(name, "x")


def test_devices_and_pipes_are_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OutputError, match="it is a device or pipe"):
        write_text(pipe, "x")
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_file_does_not_replace_a_folder(tmp_path):
    (tmp_path / "there").mkdir()
    with pytest.raises(OutputError, match=r"cannot write .*there: Is a directory"):
        write_text(tmp_path / "there", "x")
    assert names(tmp_path) == ["there"]


def test_full_disk_is_named(tmp_path):
    target = tmp_path / "big"
    target.write_text("before")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with pytest.raises(OutputError, match=rf"cannot write {target}: File too large"):
            write_bytes(target, bytes(1 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert target.read_text() == "before"
    assert names(tmp_path) == ["big"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_write_errors_without_a_name_are_about_the_target(tmp_path, number):
    with pytest.raises(OutputError, match=os.strerror(number)), atomic_path(tmp_path / "x"):
        raise OSError(number, os.strerror(number))


def test_unwritable_folder(tmp_path, monkeypatch):
    def refuse(self, *args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(OutputError, match=rf"cannot write {tmp_path}/x: Permission denied"):
        write_bytes(tmp_path / "x", b"")


def test_writable_folder(tmp_path):
    assert writable_folder(str(tmp_path / "a" / "b")) == tmp_path / "a" / "b"
    assert names(tmp_path / "a" / "b") == []
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match=rf"cannot write {tmp_path}/file/"):
        writable_folder(tmp_path / "file")


def test_errors_of_reading_are_left_alone(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_path(tmp_path / "x"):
        (tmp_path / "missing").read_text()
    with pytest.raises(OSError, match="by descriptor"), atomic_path(tmp_path / "x"):
        raise OSError(errno.EBADF, "by descriptor", 7)


def test_threads_do_not_share_a_temporary(tmp_path):
    target = tmp_path / "x"
    seen: list[Path] = []
    barrier = threading.Barrier(2)

    def work(text: str) -> None:
        with atomic_path(target) as temporary:
            temporary.write_text(text * 1000)
            seen.append(temporary)
            barrier.wait()

    threads = [threading.Thread(target=work, args=(text,)) for text in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 2
    assert target.read_text() in {"a" * 1000, "b" * 1000}
    assert names(tmp_path) == ["x"]


def test_files_are_flushed_before_the_rename(tmp_path, monkeypatch):
    flushed: list[int] = []
    monkeypatch.setattr(_files.os, "fsync", flushed.append)
    write_text(tmp_path / "x", "y")
    assert len(flushed) == 1
    with atomic_path(tmp_path / "folder") as temporary:
        temporary.mkdir()
        for name in "ab":
            (temporary / name).write_text(name)
    assert len(flushed) == 3


def test_remove_takes_files_folders_links_and_nothing(tmp_path):
    (tmp_path / "folder" / "in").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    (tmp_path / "file").write_text("x")
    for name in ("link", "file", "missing"):
        remove(tmp_path / name)
    assert names(tmp_path) == ["folder"]
    remove(tmp_path / "folder")
    assert names(tmp_path) == []


def test_sha256(tmp_path):
    (tmp_path / "x").write_bytes(b"abc")
    assert sha256_file(tmp_path / "x") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
