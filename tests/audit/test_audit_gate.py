"""The gate is judged by the bound that holds for all attackers, and by the interval's worse end for an EER."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faceblind import UsageError
from faceblind.audit.entries import Curve, Worst
from faceblind.audit.gate import judge
from faceblind.audit.plan import AuditPlan, parse_fars, parse_gate, parse_ks

POINT = Worst(
    release="raw", rank=0, attacker="cosine", trained_on=None, k=None, far_target=1e-4, tar=0.03, tar_low=0.01,
    tar_high=0.035, bound=0.04, attackers=22, grade="supported",
)  # fmt: skip
CURVE = Curve(
    release="raw", rank=0, attacker="cosine", trained_on=None, k=None, far=(0.1,), fnmr=(0.5,), fnmr_low=(0.4,),
    fnmr_high=(0.6,), eer=0.35, eer_low=0.31, eer_high=0.39, far_floor=1e-4,
)  # fmt: skip


@pytest.mark.parametrize(
    ("low", "tar", "high", "failed"),
    [
        (0.01, 0.03, 0.04, False),
        (0.01, 0.03, 0.05, False),  # "more than 5 %" is not shown to be false above, but is here: 5 % is not more
        (0.01, 0.03, 0.0501, True),  # the point is fine and the interval is not
        (0.06, 0.08, 0.10, True),
    ],
)
def test_the_upper_end_decides(low, tar, high, failed):
    point = replace(POINT, tar_low=low, tar=tar, tar_high=(tar + high) / 2, bound=high)
    result = judge(parse_gate("TAR@FAR(1e-4) > 5%"), "raw", [point], [])
    assert result.failed is failed
    assert result.value == high
    assert ("FAILED" in result.message) is failed
    assert ("more test people" in result.message) is (failed and tar <= 0.05)


def test_who_the_worst_attacker_is_is_said():
    worse = replace(POINT, attacker="ridge", trained_on="attack", k=16, bound=0.2)
    result = judge(parse_gate("TAR@FAR(1e-4) > 5%"), "raw", [worse], [])
    assert result.failed
    assert result.attacker == "ridge"
    assert "trained on attack people" in result.message
    assert "all 22 attacks" in result.message


def test_other_releases_do_not_count():
    other = replace(POINT, release="isp", bound=0.9)
    assert not judge(parse_gate("TAR@FAR(1e-4) > 5%"), "raw", [POINT, other], []).failed
    assert judge(parse_gate("TAR@FAR(1e-4) > 5%"), "isp", [POINT, other], []).failed


def test_an_unsupported_point_fails_by_its_bound_and_says_so():
    point = replace(POINT, grade="unsupported", tar=0.0, tar_low=0.0, tar_high=0.2, bound=0.2)
    result = judge(parse_gate("TAR@FAR(1e-4) > 5%"), "raw", [point], [])
    assert result.failed
    assert "not supported" in result.message


@pytest.mark.parametrize(("text", "failed"), [("EER < 30%", False), ("EER < 0.32", True), ("EER <= 31%", True)])
def test_eer_is_judged_by_its_lower_end(text, failed):
    assert judge(parse_gate(text), "raw", [POINT], [CURVE]).failed is failed


@pytest.mark.parametrize("text", ["TAR@FAR(1e-4) < 5%", "EER > 30%"])
def test_a_gate_that_fails_on_a_small_leak_is_a_mistake(text):
    with pytest.raises(UsageError, match="fails when too much leaks"):
        judge(parse_gate(text), "raw", [POINT], [CURVE])


def test_what_was_not_measured_is_named():
    with pytest.raises(UsageError, match=r"'clean'.*measured releases are raw"):
        judge(parse_gate("TAR@FAR(1e-4) > 5%"), "clean", [POINT], [])
    with pytest.raises(UsageError, match="EER"):
        judge(parse_gate("EER < 30%"), "raw", [POINT], [])


def test_a_gate_adds_its_far_to_the_plan():
    plan = AuditPlan(fars=(1e-2,), fail_if=parse_gate("TAR@FAR(3e-3) > 5%"))
    assert plan.fars == (1e-2, 3e-3)


@pytest.mark.parametrize("text", ["", "1e-2,x", "0", "2", "1e-2,-1"])
def test_bad_false_accept_rates_are_refused(text):
    with pytest.raises(UsageError, match="false accept rates"):
        parse_fars(text)


def test_ks_are_read_sorted_and_checked():
    assert parse_ks("16,1,4,4") == (1, 4, 16)
    with pytest.raises(UsageError, match="images per identity"):
        parse_ks("1,two")
    with pytest.raises(UsageError, match="at least 1"):
        AuditPlan(ks=(0,))
