"""The verdict says what the intervals show, and no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faceblind import Finding
from faceblind.audit.entries import Comparison, PlantedPoint, Power, Summary, Utility, Worst
from faceblind.audit.verdict import LIMITS, bounding, deciding, give_verdict, reference_point, worst_of

RAW = Summary(
    release="raw", rank=0, attacker="ridge", trained_on="attack", k=16, seeds=5, calibration="test",
    far_target=1e-3, far_achieved=1e-3, tar=0.30, tar_low=0.25, tar_high=0.35, lift=300.0, grade="supported",
    people=60, mated=1000, nonmated=1_000_000,
)  # fmt: skip
ISP = replace(RAW, release="isp", rank=64, tar=0.1, tar_low=0.08, tar_high=0.12, lift=100.0)
FOUND = Power(
    release="isp", far_target=1e-3, unplanted_tar=0.1, unplanted_tar_high=0.12, smallest_caught=0.02,
    points=(PlantedPoint(strength=0.02, attacker="ridge", tar=0.5, tar_low=0.4, tar_high=0.6, caught=True),),
)  # fmt: skip
COST = Utility(
    release="isp", rank=64, neighbour_overlap=0.4, neighbours=10, energy_kept=0.7, energy_kept_p05=0.5, images=100
)


def bound(point, **changed):
    fields = ("release", "rank", "far_target", "attacker", "trained_on", "k", "tar", "tar_low", "tar_high", "grade")
    return Worst(
        **{name: getattr(point, name) for name in fields},
        **({"bound": point.tar_high + 0.001, "attackers": 22} | changed),
    )


def against(release, other, *, less):
    p = 0.001 if less else 0.3
    return Comparison(
        release=release.release, against=other.release, rank=release.rank, rank_against=other.rank,
        far_target=release.far_target, attacker=release.attacker, attacker_against=other.attacker, tar=release.tar,
        tar_against=other.tar, difference=release.tar - other.tar, low=-0.2, high=0.1, ratio=None, p_value=p,
        p_adjusted=p, leaks_less=less,
    )  # fmt: skip


def verdict(*points, hygiene=(), power=FOUND, erased="isp", less=None):
    """The verdict on points; `less` names the releases that ISP is shown to leak less than (by default: by intervals)."""
    tests = [p for p in points if p.calibration == "test"]
    releases = dict.fromkeys(p.release for p in tests)
    tops = {r: worst_of(tests, r, 1e-3) for r in releases}
    mine = tops.get(erased)
    pairs = []
    if mine is not None:
        for name, other in tops.items():
            if name != erased and other is not None:
                shown = mine.tar_high < other.tar_low if less is None else name in less
                pairs.append(against(mine, other, less=shown))
    worst = [bound(p) for p in tops.values() if p is not None]
    return give_verdict(points, worst, pairs, hygiene, power, [COST], erased)


def test_reduced_needs_a_difference_that_is_shown():
    assert verdict(RAW, ISP, less=["raw"]).level == "reduced"
    assert verdict(RAW, ISP, less=[]).level == "leaks"
    assert "a reduction is not shown" in verdict(RAW, ISP, less=[]).headline


def test_the_bound_for_all_attacks_is_said_and_decides():
    point = replace(ISP, tar=0.005, tar_low=0.002, tar_high=0.009)
    assert verdict(RAW, point).level == "low"
    alone = give_verdict([RAW, point], [bound(RAW), bound(point, bound=0.011)], [], [], FOUND, [COST], "isp")
    assert alone.level == "leaks"  # 11 times chance for all attacks together
    assert any("for all 22 attacks together" in sentence for sentence in alone.sentences)


def test_attacks_without_enough_comparisons_do_not_decide():
    template = replace(RAW, attacker="class-mean", grade="unsupported", tar=1.0, tar_low=0.0, tar_high=1.0)
    assert deciding([RAW, template], "raw", 1e-3) == [RAW]
    assert deciding([template], "raw", 1e-3) == [template]
    assert worst_of([RAW, template], "raw", 1e-3) is RAW


def test_the_best_supported_attack_that_reads_most_decides_and_a_loose_one_is_named():
    loose = replace(ISP, attacker="class-mean", grade="indicative", tar=0.2, tar_low=0.02, tar_high=0.5)
    weaker = replace(ISP, attacker="cosine", tar=0.05, tar_low=0.0, tar_high=0.3)  # reaches higher, reads less
    points = [ISP, loose, weaker]
    assert bounding(points, "isp", 1e-3) == points
    assert deciding(points, "isp", 1e-3) == [ISP, weaker]
    assert worst_of(points, "isp", 1e-3) is ISP
    assert worst_of([loose], "isp", 1e-3) is loose
    said = verdict(RAW, *points, less=["raw"])
    assert "10.0 %" in said.headline
    assert any("(class-mean, k=16, trained on attack people) may read more: 20.0 %" in s for s in said.sentences)
    assert not any("may read more" in s for s in verdict(RAW, ISP, weaker).sentences)


def test_of_bounds_alone_the_highest_decides():
    low = replace(ISP, grade="unsupported", tar=0.1, tar_low=0.0, tar_high=0.3)
    high = replace(low, attacker="wccn", tar=0.0, tar_high=0.4)
    assert worst_of([low, high], "isp", 1e-3) is high


def test_other_erasers_are_named_with_what_is_shown():
    leace = replace(ISP, release="leace", tar=0.2)
    said = " ".join(verdict(RAW, ISP, leace, less=["raw"]).sentences)
    assert "leace 20.0 %: none of the differences is shown" in said
    said = " ".join(verdict(RAW, ISP, leace, less=["raw", "leace"]).sentences)
    assert "leace 20.0 %: less than leace" in said


def test_low_is_a_matter_of_lift_over_chance_and_not_of_five_percent():
    assert verdict(RAW, replace(ISP, tar=0.005, tar_low=0.001, tar_high=0.009)).level == "low"
    assert verdict(RAW, replace(ISP, tar=0.02, tar_low=0.01, tar_high=0.03)).level == "reduced"  # 20 times chance


def test_low_without_power_is_no_conclusion():
    blind = replace(FOUND, smallest_caught=None)
    assert verdict(RAW, replace(ISP, tar=0.0, tar_low=0, tar_high=0.001), power=blind).level == "inconclusive"


def test_errors_in_the_data_forbid_a_conclusion():
    duplicate = Finding(kind="duplicate_across_identities", severity="error", count=1, message="one vector, two names")
    said = verdict(RAW, replace(ISP, tar=0, tar_low=0, tar_high=0.001), hygiene=[duplicate])
    assert said.level == "inconclusive"
    assert "one vector, two names" in said.headline


def test_unsupported_points_only_bound():
    low = replace(RAW, grade="unsupported", tar=0.0, tar_low=0.0, tar_high=0.2)
    said = verdict(low, replace(low, release="isp"))
    assert said.level == "inconclusive"
    assert "at most 20.1 %" in said.headline


def test_it_speaks_about_the_smallest_supported_far():
    other = replace(RAW, far_target=1e-4, grade="indicative")
    assert reference_point([RAW, other]) == 1e-3
    assert reference_point([replace(RAW, grade="indicative"), other]) == 1e-4


def test_the_collapse_of_a_probe_trained_on_the_erasers_people_is_called_blindness():
    own = replace(ISP, trained_on="fit", tar=0.001, tar_low=0, tar_high=0.002)
    assert any("blindness" in sentence for sentence in verdict(RAW, ISP, own).sentences)
    assert not any("blindness" in sentence for sentence in verdict(RAW, ISP, replace(own, tar=0.09)).sentences)


def test_controls_that_do_as_well_are_not_hidden():
    random = replace(ISP, release="random", rank=64)
    assert any("is not shown" in sentence for sentence in verdict(RAW, ISP, random).sentences)
    better = replace(random, tar=0.3, tar_low=0.25, tar_high=0.35)
    assert any("not just variance" in sentence for sentence in verdict(RAW, ISP, better).sentences)


def test_words_that_must_never_be_said():
    text = " ".join([*LIMITS, verdict(RAW, ISP).headline, *verdict(RAW, ISP).sentences]).lower()
    for word in ("anonym", "gdpr", "compliant", "safe"):
        assert word not in text


def test_raw_alone():
    said = verdict(RAW, erased=None)
    assert said.level == "leaks"
    assert said.headline.startswith("These vectors leak identity: 30.0 %")


def test_an_audit_without_raw_is_a_mistake_of_ours():
    with pytest.raises(ValueError, match="raw"):
        verdict(ISP)


def test_a_leak_that_is_neither_shown_nor_ruled_out_is_no_conclusion():
    few = replace(RAW, tar=0.0, tar_low=0.0, tar_high=0.137, lift=0.0, people=25)
    said = verdict(few, replace(few, release="isp"))
    assert said.level == "inconclusive"
    assert "up to 13.8 % cannot be ruled out" in said.headline
    assert verdict(RAW, replace(few, release="isp")).level == "reduced"  # at least it is less than it was


def test_only_rates_that_the_test_people_cannot_support_are_called_bounds():
    frozen = replace(RAW, calibration="validation", far_target=1e-4, grade="unsupported")
    assert not any("upper bound" in sentence for sentence in verdict(RAW, ISP, frozen).sentences)
    bound = replace(frozen, calibration="test")
    assert any("At FAR 0.0001" in sentence for sentence in verdict(RAW, ISP, bound).sentences)
