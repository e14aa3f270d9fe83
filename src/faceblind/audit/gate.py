"""The gate that a build can stop on.

``--fail-if "TAR@FAR(1e-4) > 5%"`` fails unless the data show the opposite: the end of the 95 % interval that is worse
for privacy is compared, for the attacker that reads most. Too little data therefore fails a gate, and
the message says how much would be needed to pass it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from faceblind._errors import UsageError
from faceblind.audit.result import Curve, GateResult, Summary
from faceblind.audit.verdict import worst_of
from faceblind.measure import TAR, Condition


def judge(condition: Condition, release: str, summary: Sequence[Summary], curves: Sequence[Curve]) -> GateResult:
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
        measured = [s.far_target for s in summary if s.release == release and math.isclose(s.far_target, far)]
        worst = worst_of(summary, release, measured[0]) if measured else None
        if worst is None:
            known = ", ".join(sorted({s.release for s in summary}))
            raise UsageError(
                f"the gate asks for {condition.metric} of release {release!r}; measured releases are {known}"
            )
        failed = condition.allowed_by(worst.tar_low, worst.tar_high)
        trained = f" trained on {worst.trained_on} people" if worst.trained_on else ""
        found = f"worst attacker {worst.attacker}{trained}: {100 * worst.tar:.2f} % (95 % interval up to {100 * worst.tar_high:.2f} %)"
        if worst.grade == "unsupported":
            found = f"worst attacker {worst.attacker}{trained}: at most {100 * worst.tar_high:.2f} % can be said (the FAR is not supported by {worst.nonmated:,} pairs)"
        message = f"{'FAILED' if failed else 'passed'}: {condition} on {release}; {found}"
        if failed and not condition.compare(worst.tar):
            message += "; the point is within the limit but the data cannot show it: audit more test people"
        return GateResult(
            expression=str(condition),
            release=release,
            failed=failed,
            value=worst.tar_high,
            point=worst.tar,
            attacker=worst.attacker,
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
