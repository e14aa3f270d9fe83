"""Puts tests/ on the import path, where shared generators lie, and keeps hypothesis off the clock and repeatable."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("faceblind", deadline=None, derandomize=True)
settings.load_profile("faceblind")
