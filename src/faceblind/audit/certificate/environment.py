"""Where the figures were computed, without paths or names of machines; and whether two such places compute alike."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from faceblind.audit.provenance import library_versions

_SAME = ("libraries", "platform")
_OWN = {"numpy", "scipy"}  # folders with the libraries of their wheels: numpy.libs, scipy/.dylibs


def environment(*, command: str | None = None) -> dict[str, Any]:
    """Return library versions, platform and linear algebra libraries.

    Parameters
    ----------
    command : str, optional
        The command with its settings and without paths, for the record.
    """
    import scipy.linalg  # noqa: F401 (loads the linear algebra library that is to be named)
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    # Other packages bring a library of their own, which computes nothing here; one of the system serves all.
    own = [pool for pool in pools if _OWN & {part.partition(".")[0] for part in Path(pool["filepath"]).parts}]
    blas = {
        (str(pool["internal_api"]), str(pool["version"]), str(pool.get("architecture", "unknown")))
        for pool in own or pools
    }
    return {
        "libraries": library_versions(),
        "platform": {
            "system": platform.system(),
            "machine": platform.machine(),
            "implementation": platform.python_implementation(),
        },
        "linear_algebra": [{"library": n, "version": v, "architecture": a} for n, v, a in sorted(blas)],
        "command": command,
    }


def computes_alike(recorded: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    """Tell whether numbers must agree to the last bit: same versions, platform and linear algebra libraries.

    Another library that happens to be loaded here as well does not matter.
    """
    loaded = here["linear_algebra"]
    return all(recorded[key] == here[key] for key in _SAME) and all(x in loaded for x in recorded["linear_algebra"])


def differences_of(recorded: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Say in what two environments differ, for messages."""
    found = []
    for key in _SAME:
        names = sorted(recorded[key].keys() | here[key].keys())
        found += [
            f"{name} {recorded[key].get(name, 'none')} there, {here[key].get(name, 'none')} here"
            for name in names
            if recorded[key].get(name) != here[key].get(name)
        ]
    for item in recorded["linear_algebra"]:
        if item not in here["linear_algebra"]:
            found.append(f"{item['library']} {item['version']} for {item['architecture']} there, not here")
    return "; ".join(found)
