"""Several attackers and several releases at once: bounds that hold together, p-values in two families."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from faceblind.audit.compare import comparisons, decisive, worst_entries
from faceblind.audit.entries import Summary
from faceblind.audit.evaluate import Averaged
from faceblind.measure import MeanPoint, holm, paired_difference

PEOPLE, DRAWS, FAR = 60, 1000, 1e-3
SUMMARY = Summary(
    release="raw", rank=0, attacker="ridge", trained_on="attack", k=16, seeds=5, calibration="test", far_target=FAR,
    far_achieved=FAR, tar=0.0, tar_low=0.0, tar_high=0.0, lift=0.0, grade="supported", people=PEOPLE, mated=1000,
    nonmated=1_000_000,
)  # fmt: skip


def averaged(release, tar, *, shared, spread=0.02, attacker="ridge", grade="supported", calibration="test", seed=0):
    draws = np.clip(tar + shared + spread * np.random.default_rng(seed).standard_normal(DRAWS), 0, 1)
    low, high = (float(q) for q in np.quantile(draws, [0.025, 0.975]))
    summary = replace(
        SUMMARY, release=release, rank=0 if release == "raw" else 64, attacker=attacker, tar=tar, tar_low=min(low, tar),
        tar_high=max(high, tar), grade=grade, calibration=calibration,
    )  # fmt: skip
    return Averaged(summary, MeanPoint(tar, low, high, FAR, grade, 5, draws, tar, PEOPLE))


@pytest.fixture
def points():
    shared = 0.05 * np.random.default_rng(99).standard_normal(DRAWS)  # who was tested moves every rate
    return [
        averaged("raw", 0.40, shared=shared, seed=1),
        averaged("raw", 0.30, shared=shared, seed=2, attacker="cosine"),
        averaged("isp", 0.20, shared=shared, seed=3),
        averaged("isp", 0.19, shared=shared, seed=4, attacker="cosine"),
        averaged("isp", 0.90, shared=shared, seed=5, attacker="class-mean", grade="indicative"),
        averaged("isp", 0.95, shared=shared, seed=6, attacker="mlp", calibration="validation"),
        averaged("pca", 0.21, shared=shared, seed=7),
        averaged("leace", 0.15, shared=shared, seed=8),
    ]


def test_the_bound_covers_every_attack_that_is_not_unsupported(points):
    worst = {w.release: w for w in worst_entries(points)}
    assert (worst["isp"].attacker, worst["isp"].tar, worst["isp"].attackers) == ("ridge", 0.20, 3)
    assert worst["isp"].bound >= 0.90  # a loose attack does not decide, but it is not forgotten
    assert worst["raw"].bound >= max(p.summary.tar_high for p in points[:2])
    assert worst["pca"].bound == pytest.approx(points[6].summary.tar_high, abs=0.03)


def test_comparisons_are_paired_and_corrected_within_their_family(points):
    found = {(c.release, c.against): c for c in comparisons(points, "isp", ["leace"])}
    assert set(found) == {("isp", "raw"), ("isp", "pca"), ("isp", "leace"), ("leace", "raw")}
    isp, raw, pca, leace = (decisive(points, name, FAR) for name in ("isp", "raw", "pca", "leace"))

    def p_value(a, b):
        return paired_difference(a.point.base, a.point.draws, b.point.base, b.point.draws, PEOPLE).p_value

    main = holm([p_value(isp, raw), p_value(isp, pca)]).adjusted
    others = holm([p_value(isp, leace), p_value(leace, raw)]).adjusted
    assert [found["isp", "raw"].p_adjusted, found["isp", "pca"].p_adjusted] == pytest.approx(main)
    assert [found["isp", "leace"].p_adjusted, found["leace", "raw"].p_adjusted] == pytest.approx(others)
    assert found["isp", "raw"].leaks_less
    assert not found["isp", "pca"].leaks_less
    assert not found["isp", "leace"].leaks_less  # it leaks more
    assert found["isp", "raw"].difference == pytest.approx(-0.2)
    assert found["isp", "raw"].low <= -0.2 <= found["isp", "raw"].high < 0


def test_looking_at_more_erasers_does_not_weaken_what_is_said_of_the_audited_one(points):
    alone = {(c.release, c.against): c for c in comparisons(points, "isp", [])}
    beside = {(c.release, c.against): c for c in comparisons(points, "isp", ["leace"])}
    assert alone["isp", "raw"] == beside["isp", "raw"]
    assert set(alone) == {("isp", "raw"), ("isp", "pca")}


def test_people_who_move_all_rates_alike_do_not_hide_a_difference(points):
    """The intervals of the two releases overlap; draw by draw the one leaks less."""
    shared = 0.1 * np.random.default_rng(5).standard_normal(DRAWS)
    a = averaged("isp", 0.40, shared=shared, spread=0.005, seed=1)
    b = averaged("raw", 0.50, shared=shared, spread=0.005, seed=2)
    assert a.summary.tar_high > b.summary.tar_low
    (found,) = comparisons([a, b], "isp", [])
    assert found.leaks_less


def test_unsupported_points_are_not_compared(points):
    loose = [replace(p, summary=replace(p.summary, grade="unsupported")) for p in points]
    assert comparisons(loose, "isp", ["leace"]) == ()
    assert {w.grade for w in worst_entries(loose)} == {"unsupported"}
