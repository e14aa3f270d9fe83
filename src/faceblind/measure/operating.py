"""The threshold rule and the support grade of an operating point.

Threshold rule: accept iff ``score >= t``, where t is the smallest value whose false-accept count stays within the
target. Codes that pick the nearest point of an ROC exceed the target; codes that fall back to t = 0 when the target
is below 1/n report a collapse that is not there. Here a target below the resolution puts t just above the highest
non-mated score, and the grade says so.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.measure.tail import SUPPORTED

INDICATIVE = 3
"""False accepts that must be allowed for an operating point to be called indicative (the rule of 3)."""


def allowed_false_accepts(far: float, nonmated: int) -> int:
    """Return how many false accepts a target FAR allows among `nonmated` pairs; at most, never rounded up."""
    return math.floor(far * nonmated * (1 + 1e-15))


def grade_of(far: float, nonmated: int) -> str:
    """Return ``supported`` (>= 30 false accepts allowed), ``indicative`` (>= 3) or ``unsupported``."""
    allowed = allowed_false_accepts(far, nonmated)
    if allowed >= SUPPORTED:
        return "supported"
    return "indicative" if allowed >= INDICATIVE else "unsupported"


def supported_far(far: float, nonmated: int) -> float:
    """Return `far`, or the smallest FAR that `nonmated` pairs support when `far` is below it.

    TAR grows with FAR, so the TAR there bounds the TAR at any smaller FAR from above.
    """
    return max(far, min(1.0, SUPPORTED / nonmated)) if grade_of(far, nonmated) == "unsupported" else far


def threshold_at(top: NDArray[np.float32], nonmated: int, far: float) -> float:
    """Return the smallest float32 threshold that accepts at most ``far * nonmated`` non-mated pairs.

    Parameters
    ----------
    top : (t,) float32
        The highest non-mated scores in descending order, one more than the FAR allows at least.
    nonmated : int
        Number of all non-mated pairs.

    Raises
    ------
    DataError
        `top` is too short for this FAR.
    """
    if not 0 <= far <= 1:
        raise DataError(f"a false accept rate lies between 0 and 1, got {far}")
    allowed = allowed_false_accepts(far, nonmated)
    if allowed >= nonmated:
        return float(np.float32(-1.0))
    if allowed >= top.size:
        raise DataError(f"FAR {far:g} needs the {allowed + 1} highest of {nonmated} scores, only {top.size} were kept")
    return float(np.nextafter(top[allowed], np.float32(np.inf)))
