"""The gate that a build can stop on.

``--fail-if "TAR@FAR(1e-4) > 5%"`` fails unless the data show the opposite: what is compared is the bound that holds, with
95 % confidence, for all attackers together (the worse end of the interval for an EER). Too little data therefore fails a gate, and
the message says how much would be needed to pass it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from faceblind._errors import UsageError
from faceblind.audit.entries import Curve, GateResult, Worst
from faceblind.measure import TAR, Condition


def judge(condition: Condition, release: str, worst: Sequence[Worst], curves: Sequence[Curve]) -> GateResult:
    """Judge a fail-if condition on a release.

    Raises
    ------
    UsageError
        The release or the operating point was not measured, or the condition fails on a *small* leak.
    """
    wants_high = isinstance(condition.metric, TAR)
    if condition.is_upper == wants_high:
        better = "TAR@FAR(1e-4) > 5%" if wants_high else "EER < 30%"
        raise UsageError(f"the gate fails when too much leaks: write for example {better!r}, got {condition}")
    if isinstance(condition.metric, TAR):
        far = condition.metric.far
        found = [w for w in worst if w.release == release and math.isclose(w.far_target, far)]
        if not found:
            known = ", ".join(sorted({w.release for w in worst}))
            raise UsageError(
                f"the gate asks for {condition.metric} of release {release!r}; measured releases are {known}"
            )
        top = found[0]
        failed = condition.allowed_by(top.tar_low, top.bound)
        trained = f" trained on {top.trained_on} people" if top.trained_on else ""
        said = f"worst attacker {top.attacker}{trained}: {100 * top.tar:.2f} % (at most {100 * top.bound:.2f} % for all {top.attackers} attacks, 95 %)"
        if top.grade == "unsupported":
            said = f"worst attacker {top.attacker}{trained}: at most {100 * top.bound:.2f} % can be said (the FAR is not supported by so few pairs)"
        message = f"{'FAILED' if failed else 'passed'}: {condition} on {release}; {said}"
        if failed and not condition.compare(top.tar):
            message += "; the point is within the limit but the data cannot show it: audit more test people"
        return GateResult(
            expression=str(condition),
            release=release,
            failed=failed,
            value=top.bound,
            point=top.tar,
            attacker=top.attacker,
            message=message,
        )
    drawn = [c for c in curves if c.release == release]
    if not drawn:
        raise UsageError(f"the gate asks for the EER of release {release!r}, which was not measured")
    lowest = min(drawn, key=lambda c: (c.eer_low, c.eer))
    failed = condition.allowed_by(lowest.eer_low, lowest.eer_high)
    message = (
        f"{'FAILED' if failed else 'passed'}: {condition} on {release}; worst attacker {lowest.attacker}: "
        f"{100 * lowest.eer:.2f} % (95 % interval from {100 * lowest.eer_low:.2f} %)"
    )
    return GateResult(
        expression=str(condition),
        release=release,
        failed=failed,
        value=lowest.eer_low,
        point=lowest.eer,
        attacker=lowest.attacker,
        message=message,
    )
