"""Seeds are averaged within each draw of people, so that what they share is not averaged away and what they do not is."""

from __future__ import annotations

import numpy as np
import pytest

from faceblind.audit.evaluate import SeedOutcome, summarise, worse_grade
from faceblind.audit.result import Row


def outcome(tar, draws, *, achieved=1e-3, grade="supported", tar_high=0.0):
    row = Row(
        release="raw", rank=0, attacker="ridge", trained_on="attack", k=4, seed=0, calibration="validation",
        far_target=1e-3, far_achieved=achieved, false_accepts=10, nonmated=10_000, true_accepts=4, mated=10, tar=tar,
        tar_low=0.0, tar_high=tar_high, threshold=0.5, ties=1, grade=grade,
    )  # fmt: skip
    return SeedOutcome((row,), (draws,), {})


def test_draws_that_cancel_leave_a_narrow_interval_and_shared_ones_do_not():
    up = np.random.default_rng(1).random(1000)
    (cancelled,) = summarise([outcome(0.4, up), outcome(0.6, 1 - up)], 5)
    assert (cancelled.tar, cancelled.tar_low, cancelled.tar_high) == pytest.approx((0.5, 0.5, 0.5))
    (shared,) = summarise([outcome(0.4, up), outcome(0.6, up)], 5)
    assert shared.tar_low == pytest.approx(np.quantile(up, 0.025))
    assert shared.tar_high == pytest.approx(np.quantile(up, 0.975))
    assert shared.seeds == 2


def test_lift_is_over_the_far_that_was_paid():
    flat = np.full(100, 0.5)
    assert summarise([outcome(0.5, flat, achieved=5e-4)], 5)[0].lift == pytest.approx(500)
    assert summarise([outcome(0.5, flat, achieved=5e-3)], 5)[0].lift == pytest.approx(100)


def test_an_unsupported_point_keeps_the_widest_bound_and_no_lower_end():
    flat = np.full(100, 0.2)
    (point,) = summarise([outcome(0.1, flat, grade="unsupported", tar_high=0.3)], 5)
    assert (point.tar_low, point.tar_high) == pytest.approx((0.0, 0.3))


def test_the_weaker_grade_counts():
    assert worse_grade("supported", "indicative") == "indicative"
    assert worse_grade("unsupported", "supported") == "unsupported"
    assert worse_grade("supported", "supported") == "supported"
