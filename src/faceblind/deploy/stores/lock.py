"""A lock file that says who holds it, for stores that have no locks of their own."""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faceblind._errors import OutputError
from faceblind.deploy.stores.base import StoreGoneError


def holder() -> dict[str, Any]:
    """Return what a lock says about this process."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "token": secrets.token_hex(8)}


def is_dead(held: Mapping[str, Any]) -> bool:
    """Whether the holder certainly ended: a process of this machine that is not there any more."""
    if held.get("host") != socket.gethostname():
        return False
    try:
        os.kill(int(held["pid"]), 0)
    except (ProcessLookupError, KeyError, ValueError, TypeError):
        return True
    except PermissionError:
        return False
    return False


def refusal(target: str, held: Mapping[str, Any], how: str) -> StoreGoneError:
    """Return the error that tells a second run who is at work."""
    return StoreGoneError(
        f"another run is writing {target} (process {held.get('pid')} on {held.get('host')}): wait for it; if it is dead, {how}"
    )


@contextmanager
def file_lock(path: Path, target: str) -> Iterator[None]:
    """Hold a lock file; one whose process died is taken over.

    Raises
    ------
    StoreGoneError
        Another process holds it.
    OutputError
        The folder cannot be written.
    """
    mine = holder()
    # Linked into place whole, so that nobody reads half of it.
    draft = path.with_name(f"{path.name}.{mine['token']}")
    try:
        draft.write_text(json.dumps(mine), encoding="utf-8")
        for _ in range(2):
            try:
                path.hardlink_to(draft)
                break
            except FileExistsError:
                held = _read(path)
                if not is_dead(held):
                    raise refusal(target, held, f"delete {path}") from None
                path.unlink(missing_ok=True)
        else:
            raise refusal(target, _read(path), f"delete {path}")
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)
    try:
        yield
    finally:
        if _read(path).get("token") == mine["token"]:
            path.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any]:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return held if isinstance(held, dict) else {}
