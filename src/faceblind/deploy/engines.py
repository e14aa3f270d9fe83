"""Engines by name, as the command line takes them."""

from __future__ import annotations

from faceblind._engine import Engine
from faceblind._errors import UsageError
from faceblind._local_engine import LocalEngine

ENGINES = ("local", "ray")


def engine_named(name: str, workers: int) -> Engine:
    """Return the engine called `name` with a number of workers.

    Raises
    ------
    UsageError
        There is no such engine, or the number is less than 1.
    MissingExtraError
        Its package is not installed.
    """
    if name == "local":
        return LocalEngine(workers)
    if name == "ray":
        from faceblind.deploy.ray_engine import RayEngine

        return RayEngine(workers=workers)
    raise UsageError(f"there is no engine {name!r}; choose from {', '.join(ENGINES)}")
