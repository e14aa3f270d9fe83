"""Manifests of working folders: what an interrupted run was about."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faceblind._errors import OutputError


def read_manifest(
    folder: Path, name: str, layout: str, *, is_leftover: Callable[[Path], bool]
) -> dict[str, Any] | None:
    """Return the manifest of an earlier run in a folder; None when there is no folder or only leftovers are in it.

    Raises
    ------
    OutputError
        The folder holds something else.
    """
    if not folder.exists() or (folder.is_dir() and all(is_leftover(entry) for entry in folder.iterdir())):
        return None
    try:
        manifest = json.loads((folder / name).read_text(encoding="utf-8"))
        if manifest["format"] == layout:
            return dict(manifest)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise OutputError(
        f"{folder} is needed as a working folder but holds something else: move it away, or choose another output"
    )
