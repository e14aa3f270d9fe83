from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from faceblind.erase import IdentityMoments
from faceblind.erase.threads import one_thread
from strategies import planted


def threads() -> set[int]:
    np.eye(2) @ np.eye(2)
    # Those that compute for us; other packages may have brought their own since.
    found = [library for library in threadpool_info() if library["user_api"] == "blas"]
    own = [library for library in found if "numpy" in library["filepath"] or "scipy" in library["filepath"]]
    return {library["num_threads"] for library in own or found}


def test_one_thread_inside_and_what_there_was_afterwards():
    with threadpool_limits(2, user_api="blas"):
        with one_thread(512):
            assert threads() == {1}
            with one_thread():
                assert threads() == {1}
            assert threads() == {1}
        assert threads() == {2}
        with one_thread(5_000):
            assert threads() == {2}
        with pytest.raises(KeyError), one_thread():
            raise KeyError
        assert threads() == {2}


def test_collecting_scatter_leaves_the_setting_as_it_was():
    made = planted(0, people=4, images=3, dim=5)
    with threadpool_limits(2, user_api="blas"):
        IdentityMoments(scatter=True).partial_fit(made.vectors, made.identity)
        assert threads() == {2}
