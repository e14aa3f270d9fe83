"""Puts tests/ on the import path, where shared generators lie, and keeps hypothesis off the clock and repeatable."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("faceblind", deadline=None, derandomize=True)
settings.load_profile("faceblind")


@pytest.fixture
def one_torch_thread():
    """Run torch on one thread: tests run side by side, and small networks are slower on several."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
