"""What a privacy budget comes to, against closed forms; and what is said about it."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faceblind import DataError
from faceblind.frequency.accounting import BudgetAccount, pair_eps

SHAPE = (3, 4, 5)


def test_accounts_of_equal_and_of_concentrated_budgets():
    equal = BudgetAccount.of(
        np.full(SHAPE, 0.5), np.ones(SHAPE), signal_std=np.array([1.0, 10, 100]), names=["a", "b", "c"]
    )
    assert (equal.eps_total, equal.eps_mean) == (30, 0.5)
    assert equal.effective_number == pytest.approx(60)
    assert [c.scale for c in equal.channels] == [2, 2, 2]
    assert [c.snr for c in equal.channels] == pytest.approx([1 / 8, 100 / 8, 10_000 / 8])
    one = np.full(SHAPE, 1e-9)
    one[0, 0, 0] = 30
    assert BudgetAccount.of(one, np.ones(SHAPE)).effective_number == pytest.approx(1, abs=1e-4)
    said = equal.to_dict()
    json.dumps(said, allow_nan=False)
    assert [c["channel"] for c in said["channels"]] == ["c", "b", "a"]


def test_the_paper_budget_is_said_as_a_sum():
    said = " ".join(BudgetAccount.of(np.full((189, 112, 112), 0.5), np.ones((189, 112, 112))).sentences())
    assert "1,185,408" in said
    assert "excludes nothing" in said
    official = BudgetAccount.of(np.ones(SHAPE), np.ones(SHAPE), official=True)
    assert "No formal guarantee" in " ".join(official.sentences())
    small = BudgetAccount.of(np.full(SHAPE, 0.01), np.ones(SHAPE), outside=0.25)
    assert "25.00%" in " ".join(small.sentences())
    assert "excludes nothing" not in " ".join(small.sentences())
    assert "up to 1.82" in " ".join(small.sentences())  # exp(0.6)


@given(seed=st.integers(0, 500), spread=st.floats(0, 4))
@settings(deadline=None, max_examples=40)
def test_the_spread_of_budgets_against_numpy(seed, spread):
    eps = np.exp(np.random.default_rng(seed).normal(0, spread, SHAPE))
    found = BudgetAccount.of(eps, np.ones(SHAPE))
    assert found.eps_total == pytest.approx(eps.sum())
    assert (found.eps_min, found.eps_max) == (eps.min(), eps.max())
    assert found.eps_median == pytest.approx(np.median(eps))
    levels, values = zip(*found.eps_quantiles, strict=True)
    assert list(values) == sorted(values)
    np.testing.assert_allclose(values, np.quantile(eps, levels))
    # Entropy is at most that of equal shares, and at least that of the largest share alone.
    assert eps.sum() / eps.max() * (1 - 1e-9) <= found.effective_number <= 60 * (1 + 1e-9)
    assert set(found.to_dict()["eps_quantiles"]) == {"0.01", "0.05", "0.25", "0.75", "0.95", "0.99"}


def test_places_that_never_change_do_not_stand_for_their_channel():
    ranges = np.ones(SHAPE)
    ranges[0, :, :4] = 0  # most of the channel
    ranges[1] = 0  # all of it; rounding leaves a spread that is no signal
    found = BudgetAccount.of(np.full(SHAPE, 0.5), ranges, signal_std=np.array([4.0, 1e-5, 4.0]), names="abc")
    assert [c.snr for c in found.channels] == [2, 0, 2]
    assert [c.scale for c in found.channels] == [2, 0, 2]
    assert found.constant == 36
    json.dumps(found.to_dict(), allow_nan=False)


def test_every_departure_is_named_and_ends_the_guarantee():
    for option, word in (
        ({"ones": True}, "taken to be one"),
        ({"clipped": False}, "not clipped"),
        ({"shared": True}, "batch"),
    ):
        said = " ".join(BudgetAccount.of(np.ones(SHAPE), np.ones(SHAPE), **option).sentences())
        assert "No formal guarantee" in said
        assert word in said
        assert "The guarantee bounds" not in said
    official = BudgetAccount.of(np.ones(SHAPE), np.ones(SHAPE), official=True)
    assert (official.ones, official.shared, official.clipped) == (True, True, False)
    for word in ("taken to be one", "not clipped", "batch", "offsets"):
        assert word in " ".join(official.sentences())
    kept = " ".join(BudgetAccount.of(np.ones(SHAPE), np.ones(SHAPE)).sentences())
    for word in (
        "The guarantee bounds",
        "only because values are clipped",
        "m times the budget",
        "Mironov",
        "2.72 at the median",
    ):
        assert word in kept


def test_a_pair_spends_by_element_what_it_differs_there():
    eps, low, high = np.full((1, 1, 4), 2.0), np.zeros((1, 1, 4)), np.array([[[1.0, 4, 1, 0]]])
    a, b = np.array([[[0.5, 1, 9, 3.0]]]), np.array([[[0.25, 3, -9, -3.0]]])
    # A quarter, a half, all of a clipped range, and a constant.
    np.testing.assert_allclose(pair_eps(a, b, eps=eps, low=low, high=high), [[[0.5, 1, 2, 0]]])
    with pytest.raises(DataError, match="one shape"):
        pair_eps(a, b[..., :3], eps=eps, low=low[..., :1], high=high[..., :1])


def test_bad_budgets():
    for wrong in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(DataError, match="positive and finite"):
            BudgetAccount.of(np.full(SHAPE, wrong), np.ones(SHAPE))
    with pytest.raises(DataError, match="must be one"):
        BudgetAccount.of(np.ones(SHAPE), np.ones((3, 4)))
