"""Writing files so that a reader never sees half of one.

Everything is written under a temporary name in the same folder, flushed to disk and renamed. When anything
goes wrong, Ctrl-C included, the temporary file is removed and the earlier file, if any, is left as it was.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from faceblind._errors import OutputError

_WRITE_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO}


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
