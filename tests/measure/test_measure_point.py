from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from faceblind._errors import DataError
from faceblind.data.embeddings import unit_rows
from faceblind.measure import (
    ScoreTail,
    SubjectBootstrap,
    Threshold,
    far_interval,
    grade_of,
    mean_point,
    operating_point,
    score_tail,
    subject_interval,
    supported_far,
    threshold_at,
)
from strategies import planted


def tail_of(seed: int, people: int = 30, images: int = 5, **how: object) -> ScoreTail:
    made = planted(seed, people=people, images=images, dim=16, rank=6, noise=0.6)
    return score_tail(unit_rows(made.vectors), made.identity, far_max=0.01, **how)


@pytest.fixture(scope="module")
def validation() -> ScoreTail:
    return tail_of(1)


@pytest.fixture(scope="module")
def test_tail(validation) -> ScoreTail:
    at = [
        t
        for far in (0.01, 1e-3, 1e-5)
        for one in [Threshold.set_on(validation, far)]
        for t in (one.value, one.bound_value)
    ]
    return tail_of(2, counts_at=at)


@pytest.fixture(scope="module")
def bootstrap(test_tail) -> SubjectBootstrap:
    return SubjectBootstrap.of(test_tail.subjects, draws=400, rng=np.random.default_rng(0))


def test_a_supported_point_has_its_own_interval(validation, test_tail, bootstrap):
    assert grade_of(0.01, validation.nonmated) == "supported"
    threshold = Threshold.set_on(validation, 0.01)
    assert threshold.value == threshold.bound_value == threshold_at(validation.top, validation.nonmated, 0.01)
    frozen = operating_point(test_tail, threshold, bootstrap, frozen=True)
    np.testing.assert_array_equal(frozen.draws, bootstrap.tar_frozen(test_tail, threshold.value))
    own = operating_point(test_tail, Threshold.set_on(test_tail, 0.01), bootstrap, frozen=False)
    np.testing.assert_array_equal(own.draws, bootstrap.tar_calibrated(test_tail, 0.01))
    for point in (frozen, own):
        assert point.grade == "supported"
        assert point.base == point.tar == test_tail.tar(point.threshold.value) == point.true_accepts / point.mated
        assert (point.low, point.high) == subject_interval(point.tar, point.draws, test_tail.effective_subjects)
        assert point.far == point.false_accepts / point.nonmated
        assert point.lost_draws == 0
        assert point.people == 30
    assert own.false_accepts <= 0.01 * own.nonmated
    assert (own.far_low, own.far_high) == (None, None)  # set on test: it is what was asked for, by construction
    assert (frozen.far_low, frozen.far_high) == far_interval(test_tail, threshold.value, bootstrap)
    assert frozen.far_low < frozen.far < frozen.far_high


@pytest.mark.parametrize("frozen", [True, False])
def test_an_unsupported_point_is_bounded_at_the_smallest_supported_far(validation, test_tail, bootstrap, frozen):
    source = validation if frozen else test_tail
    threshold = Threshold.set_on(source, 1e-5)
    wide = supported_far(1e-5, source.nonmated)
    assert wide > 1e-3
    assert threshold.bound_far == wide
    point = operating_point(test_tail, threshold, bootstrap, frozen=frozen)
    assert point.grade == "unsupported"
    draws = (
        bootstrap.tar_frozen(test_tail, threshold.bound_value) if frozen else bootstrap.tar_calibrated(test_tail, wide)
    )
    np.testing.assert_array_equal(point.draws, draws)
    assert point.base == test_tail.tar(threshold.bound_value) > point.tar
    assert point.low == 0
    assert point.high == subject_interval(point.base, draws, test_tail.effective_subjects)[1]


def test_a_point_is_as_good_as_the_weaker_of_where_it_was_set_and_measured(test_tail, bootstrap):
    few = tail_of(3, people=8, images=2)
    assert grade_of(0.05, few.nonmated) == "indicative"
    assert grade_of(0.05, test_tail.nonmated) == "supported"
    threshold = Threshold.set_on(few, 0.05)
    counted = replace(test_tail, at={**test_tail.at, float(np.float32(threshold.value)): (700, 1)})
    point = operating_point(counted, threshold, bootstrap, frozen=True)
    assert point.grade == "indicative"
    assert point.far == 700 / test_tail.nonmated
    assert (point.far_low is None) == (not test_tail.reaches(threshold.value))


def test_a_mean_over_seeds_averages_within_each_draw(validation, test_tail, bootstrap):
    points = [
        operating_point(test_tail, Threshold.set_on(validation, far), bootstrap, frozen=True)
        for far in (0.01, 0.01, 1e-3)
    ]
    points[2] = replace(points[2], threshold=points[0].threshold)
    mean = mean_point(points)
    assert mean.seeds == 3
    assert mean.tar == pytest.approx(np.mean([p.tar for p in points]))
    np.testing.assert_allclose(mean.draws, np.mean([p.draws for p in points], axis=0))
    assert (mean.low, mean.high) == subject_interval(mean.base, mean.draws, points[0].effective)
    # one seed is itself
    alone = mean_point(points[:1])
    assert (alone.tar, alone.low, alone.high) == (points[0].tar, points[0].low, points[0].high)


def test_a_mean_of_unsupported_points_is_only_a_bound(validation, test_tail, bootstrap):
    points = [operating_point(test_tail, Threshold.set_on(validation, 1e-5), bootstrap, frozen=True) for _ in range(2)]
    mean = mean_point(points)
    assert mean.grade == "unsupported"
    assert mean.low == 0
    assert mean.high == points[0].high


def test_a_lost_draw_in_one_seed_is_lost_in_the_mean(validation, test_tail, bootstrap):
    point = operating_point(test_tail, Threshold.set_on(validation, 0.01), bootstrap, frozen=True)
    draws = point.draws.copy()
    draws[:40] = np.nan
    lost = replace(point, draws=draws)
    assert lost.lost_draws == 40
    assert mean_point([point, lost]).high == 1.0


def test_what_does_not_belong_together_is_refused(validation, test_tail, bootstrap):
    with pytest.raises(DataError, match="bootstrap draws 7 people and the tail has 30"):
        operating_point(
            test_tail,
            Threshold.set_on(validation, 0.01),
            SubjectBootstrap.of(7, draws=5, rng=np.random.default_rng(0)),
            frozen=True,
        )
    with pytest.raises(DataError, match="at least one operating point"):
        mean_point([])
    a, b = (
        operating_point(test_tail, Threshold.set_on(validation, far), bootstrap, frozen=True) for far in (0.01, 1e-3)
    )
    with pytest.raises(DataError, match=r"got FAR 0\.01 and 0\.001"):
        mean_point([a, b])
