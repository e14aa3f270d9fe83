from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from score_oracle import smallest_threshold

from faceblind._errors import DataError
from faceblind.measure import allowed_false_accepts, grade_of, supported_far, threshold_at

BELOW, ABOVE = np.float32(-np.inf), np.float32(np.inf)


@st.composite
def score_lists(draw: st.DrawFn) -> np.ndarray:
    """Non-mated scores in descending order: a few values many times, or all over the place."""
    few = st.sampled_from([-1.0, -0.25, 0.0, 1e-40, 0.5, 1.0])
    values = draw(st.lists(st.one_of(few, st.floats(-1, 1, width=32)), min_size=1, max_size=60))
    return np.sort(np.array(values, np.float32))[::-1]


@settings(max_examples=300)
@given(score_lists(), st.data())
def test_the_threshold_is_the_smallest_float32_within_the_target(scores, data):
    n = scores.size
    allowed = data.draw(st.integers(0, n))
    threshold = threshold_at(scores, n, allowed / n)
    assert threshold == smallest_threshold(scores, allowed)
    assert np.float32(threshold) == threshold
    assert np.count_nonzero(scores >= np.float32(threshold)) <= allowed
    if allowed < n:  # one step lower is one too many
        assert np.count_nonzero(scores >= np.nextafter(np.float32(threshold), BELOW)) > allowed


@settings(max_examples=200)
@given(score_lists(), st.floats(0, 1), st.floats(0, 1))
def test_it_never_exceeds_the_target_and_falls_as_the_far_grows(scores, one, other):
    low, high = sorted((one, other))
    at_low, at_high = (threshold_at(scores, scores.size, far) for far in (low, high))
    assert at_high <= at_low
    for far, threshold in ((low, at_low), (high, at_high)):
        assert np.count_nonzero(scores >= np.float32(threshold)) <= far * scores.size * (1 + 1e-12)


def test_below_the_resolution_the_threshold_lies_just_above_the_highest_score():
    scores = np.array([0.75, 0.5, 0.25], np.float32)
    for far in (0.0, 1e-9, 1e-6, 0.33):
        assert threshold_at(scores, 3, far) == np.nextafter(np.float32(0.75), ABOVE)
    assert threshold_at(scores, 3, 1 / 3) == np.nextafter(np.float32(0.5), ABOVE)
    assert threshold_at(scores, 3, 1.0) == -1.0


def test_a_tie_is_never_split():
    scores = np.array([0.9, 0.5, 0.5, 0.5, 0.1], np.float32)
    for far in (0.2, 0.4, 0.6):
        assert threshold_at(scores, 5, far) == np.nextafter(np.float32(0.5), ABOVE)
    assert threshold_at(scores, 5, 0.8) == np.nextafter(np.float32(0.1), ABOVE)


def test_a_tail_that_is_too_short_is_refused_and_says_what_it_needs():
    with pytest.raises(DataError, match=r"FAR 0.1 needs the 11 highest of 100 scores, only 10 were kept"):
        threshold_at(np.zeros(10, np.float32), 100, 0.1)
    assert threshold_at(np.zeros(11, np.float32), 100, 0.1) > 0


@pytest.mark.parametrize("far", [-1e-9, 1.0000001, float("nan"), float("inf")])
def test_a_rate_outside_0_and_1_is_refused(far):
    with pytest.raises(DataError, match="a false accept rate lies between 0 and 1, got"):
        threshold_at(np.zeros(3, np.float32), 3, far)


@pytest.mark.parametrize(
    ("far", "nonmated", "allowed"),
    [
        (0.29, 100, 29),  # 28.999999999999996 in floating point
        (0.57, 100, 56 + 1),
        (1e-4, 640_000, 64),
        (1e-4, 1_264_000, 126),
        (1e-4, 6_400, 0),
        (1e-4, 9_999, 0),
        (1e-4, 10_000, 1),
        (1e-6, 999_999, 0),
        (0.3, 10, 3),
        (0.39999, 10, 3),
        (0.999999, 10, 9),
        (1.0, 10, 10),
        (0.0, 10, 0),
    ],
)
def test_allowed_false_accepts_at_the_edges(far, nonmated, allowed):
    assert allowed_false_accepts(far, nonmated) == allowed


@settings(max_examples=300)
@given(st.integers(0, 10**6), st.integers(0, 6), st.integers(1, 10**7))
def test_allowed_false_accepts_is_the_floor_of_the_decimal_as_written(digits, shift, nonmated):
    text = f"{digits}e-{shift + 6}"
    exact = Fraction(text) * nonmated
    if exact < 10**5:  # beyond, the guard against rounding exceeds what six digits can tell apart
        assert allowed_false_accepts(float(text), nonmated) == exact.numerator // exact.denominator


@given(st.integers(1, 10**12), st.integers(1, 10**6))
def test_k_out_of_n_allows_k(nonmated, k):
    if k <= nonmated:
        assert allowed_false_accepts(k / nonmated, nonmated) == k


@pytest.mark.parametrize(
    ("accepts", "grade"),
    [
        (31, "supported"),
        (30, "supported"),
        (29, "indicative"),
        (3, "indicative"),
        (2, "unsupported"),
        (0, "unsupported"),
    ],
)
def test_grades_change_at_30_and_at_3(accepts, grade):
    assert grade_of(accepts * 1e-5, 100_000) == grade
    if accepts:
        assert grade_of(accepts * 1e-5, 99_999) == {31: "supported", 30: "indicative", 3: "unsupported"}.get(
            accepts, grade
        )


@settings(max_examples=300)
@given(st.integers(1, 10**12), st.floats(1e-12, 1))
def test_the_supported_far_is_no_smaller_and_supported_where_30_pairs_are_there(nonmated, far):
    wide = supported_far(far, nonmated)
    assert far <= wide <= 1
    if grade_of(far, nonmated) == "unsupported" and nonmated >= 30:
        assert allowed_false_accepts(wide, nonmated) == 30
    elif nonmated >= 30:
        assert wide == far
    if nonmated < 30 and grade_of(far, nonmated) == "unsupported":
        assert wide == 1.0
