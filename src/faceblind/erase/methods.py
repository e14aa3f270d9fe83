"""Erasers by name: which there are, what each needs, and one way to fit any of them."""

from __future__ import annotations

from faceblind._errors import UsageError
from faceblind.erase.base import MomentEraser
from faceblind.erase.directions import Directions
from faceblind.erase.moments import IdentityMoments

MOMENT_METHODS = ("isp", "isp-fisher", "isp-ratio", "sal", "leace")
"""Fitted from sums that can be streamed and merged; one factorisation serves every rank."""
VECTOR_METHODS = ("inlp", "rlace")
"""Fitted from the vectors themselves, in rounds."""
METHODS = MOMENT_METHODS + VECTOR_METHODS


def moments_for(method: str) -> IdentityMoments:
    """Return empty sums of the kind that a moment method needs.

    Raises
    ------
    UsageError
        The method is unknown, or needs the vectors themselves.
    """
    if method not in MOMENT_METHODS:
        raise UsageError(
            f"{method!r} cannot be fitted from sums over a table; those that can are {', '.join(MOMENT_METHODS)}"
        )
    return IdentityMoments(scatter=_eraser(method).scatter)


def directions_from(method: str, moments: IdentityMoments) -> Directions:
    """Factorise the sums for a moment method."""
    return _eraser(method).directions(moments)


def _eraser(method: str) -> type[MomentEraser]:
    from faceblind.erase.fisher import FisherISP, RatioISP
    from faceblind.erase.isp import ISP
    from faceblind.erase.leace import LEACE
    from faceblind.erase.sal import SAL

    erasers: tuple[type[MomentEraser], ...] = (ISP, FisherISP, RatioISP, SAL, LEACE)
    return {eraser.method: eraser for eraser in erasers}[method]
