"""Writing files so that a reader never sees half of one.

Everything is written under a temporary name in the same folder, flushed to disk and renamed. When anything
goes wrong, Ctrl-C included, the temporary file is removed and the earlier file, if any, is left as it was.
"""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from faceblind._errors import OutputError

_WRITE_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO}
LOCK = ".lock"
"""Name of the file in a working folder by which `locked` holds it."""


@contextmanager
def atomic_path(target: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `target`; on success it replaces `target`, on failure it is removed.

    Works for a file or for a folder that the caller creates at the yielded path; a folder replaces the
    earlier folder whole, whatever was in it. Parent folders are made. A file keeps the permissions of the one
    it replaces. When the caller creates nothing at the yielded path, `target` stays as it was.

    Raises
    ------
    OutputError
        The place cannot be written, the disk is full, or `target` is a device or pipe, which a rename would
        destroy; the message names the path.
    """
    target = Path(target)
    if target.name in {"", ".."}:
        raise OutputError(f"cannot write {str(target)!r}: name a file or folder to make, not an existing place")
    # The token keeps threads apart, and processes that share a number (in containers it is often 1).
    token = f"{os.getpid()}.{secrets.token_hex(4)}"
    temporary = target.with_name(f".{target.name}.{token}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if _is_special(target):
            raise OutputError(f"cannot write {target}: it is a device or pipe; name a regular file")
        yield temporary
        _replace(temporary, target, target.with_name(f".{target.name}.{token}.old"))
    except OSError as error:
        if isinstance(error, OutputError) or not _is_about_writing(error, temporary):
            raise
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # the first error is the one to tell
            remove(temporary)


def write_text(target: str | Path, text: str) -> None:
    """Write `text` as UTF-8 to `target` atomically; line ends are kept as they are on every system."""
    write_bytes(target, text.encode())


def write_bytes(target: str | Path, data: bytes) -> None:
    """Write `data` to `target` atomically."""
    with atomic_path(target) as temporary:
        temporary.write_bytes(data)


def write_csv(target: str | Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file atomically: UTF-8, commas, one line feed a row."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(target, buffer.getvalue())


def writable_folder(folder: str | Path) -> Path:
    """Make a folder and check that files can be written there, before long work begins.

    Raises
    ------
    OutputError
        It cannot be made or written.
    """
    folder = Path(folder)
    with atomic_path(folder / ".writable") as probe:
        probe.touch()
        probe.unlink()
    return folder


@contextmanager
def locked(folder: str | Path, output: str | Path) -> Iterator[None]:
    """Hold a working folder for this process alone; it is made when it is missing.

    The lock is a file ``.lock`` in the folder that the kernel releases when the process ends, `kill -9` included, so no
    lock is ever left over. When the body leaves nothing else in the folder, the folder is removed with it. On file
    systems that cannot lock (some network ones) there is no protection, and the body runs all the same.

    Parameters
    ----------
    output : path
        What the folder is for; the message names it.

    Raises
    ------
    OutputError
        Another run holds the folder (the message says which process), or it cannot be made.
    """
    folder = Path(folder)
    stream = _take(folder, Path(output))
    try:
        yield
    finally:
        # The lock goes last and while it is held, so that a run that waits at the door finds none or a new one.
        with suppress(OSError):
            if [entry.name for entry in folder.iterdir()] == [LOCK]:
                (folder / LOCK).unlink()
                folder.rmdir()
        stream.close()


def replace_folder(made: Path, target: Path) -> None:
    """Put a finished folder in the place of an earlier one, if there is one; both are on one file system.

    The earlier folder is gone only when the new one is there. A run that was killed between the two renames is put
    right by `restore_folder`.
    """
    aside = _aside(target)
    if target.exists():
        target.rename(aside)
    made.rename(target)
    _flush_folder(target.parent)
    remove(aside)


def restore_folder(target: Path) -> None:
    """Finish or take back what a `replace_folder` that was killed had begun."""
    aside = _aside(target)
    if not aside.exists():
        return
    if target.exists():
        remove(aside)
    else:
        aside.rename(target)


def remove(path: Path) -> None:
    """Remove a file or folder tree if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def sha256_file(path: str | Path) -> str:
    """Hex SHA-256 of a file, read in blocks."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _aside(target: Path) -> Path:
    return target.with_name(f".{target.name}.replaced")


def _take(folder: Path, output: Path) -> IO[str]:
    """Lock a folder and return the open lock file."""
    path = folder / LOCK
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stream = path.open("a+", encoding="utf-8")
        except FileNotFoundError:  # the run that had it removed the folder just now
            continue
        except OSError as error:
            raise OutputError(f"cannot write {output}: {folder} cannot be made: {error.strerror or error}") from error
        if not _lock(stream):
            stream.seek(0)
            holder = stream.read().strip() or "unknown"
            stream.close()
            raise OutputError(
                f"cannot write {output}: another run is writing it (process {holder}); wait for it or end it, or name "
                "another output"
            )
        if _is_at(stream, path):  # and not one that was removed between opening and locking it
            stream.truncate(0)
            stream.write(str(os.getpid()))
            stream.flush()
            return stream
        stream.close()


def _is_at(stream: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _lock(stream: IO[str]) -> bool:
        # Windows keeps others from reading locked bytes, so one far behind the process number is locked.
        stream.seek(1 << 20)
        try:
            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _lock(stream: IO[str]) -> bool:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # this file system has no locks
            return True
        return True


def _flush_folder(folder: Path) -> None:
    """Make renames in a folder last through a power failure, where the system can."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _is_special(target: Path) -> bool:
    try:
        mode = target.stat().st_mode
    except OSError:  # not there, or not to be looked at: writing will tell
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _replace(temporary: Path, target: Path, aside: Path) -> None:
    if not temporary.exists():
        return
    if temporary.is_file():
        _flush(temporary)
        if target.is_file():
            temporary.chmod(target.stat().st_mode & 0o7777)
        temporary.replace(target)
        return
    for path in sorted(temporary.rglob("*")):
        if path.is_file():
            _flush(path)
    if not target.is_dir():
        temporary.replace(target)
        return
    # A folder cannot be renamed over one that is not empty: set the old one aside, put it back if need be.
    target.rename(aside)
    try:
        temporary.rename(target)
    finally:
        if target.exists():
            remove(aside)
        else:
            aside.rename(target)


def _flush(path: Path) -> None:
    with path.open("r+b") as stream:  # Windows flushes only what is open for writing
        os.fsync(stream.fileno())


def _is_about_writing(error: OSError, temporary: Path) -> bool:
    if error.errno in _WRITE_ERRNOS:
        return True
    named = error.filename
    if not isinstance(named, str | bytes | os.PathLike):
        return False
    parent = temporary.parent
    path = Path(os.fsdecode(named))
    return path in {temporary, parent} or temporary in path.parents or path in parent.parents
