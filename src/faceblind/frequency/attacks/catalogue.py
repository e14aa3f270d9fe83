"""All attacks, in the order of reports."""

from __future__ import annotations

from collections.abc import Sequence

from faceblind._errors import UsageError
from faceblind.frequency.attacks.base import Attack
from faceblind.frequency.attacks.difference import BatchDifference
from faceblind.frequency.attacks.inverse import GradientIntegration, InverseDct
from faceblind.frequency.attacks.least_squares import LeastSquares
from faceblind.frequency.attacks.look import Look
from faceblind.frequency.attacks.unet import UNetAttack
from faceblind.frequency.releases.base import Release

LINKAGE = "linkage"
"""What `faceblind.frequency.attacks.linkage` is called beside the attacks: it compares releases and recovers no face."""


def attacks_on(release: Release, names: Sequence[str] | None = None) -> list[Attack]:
    """Return the attacks that apply to a release, all or the named ones; `LINKAGE` may be among the names.

    Raises
    ------
    UsageError
        A name that no attack has.
    """
    every: list[Attack] = [
        Look(),
        InverseDct(dc="zero"),
        InverseDct(dc="zero", denoise=True),
        InverseDct(dc="right"),
        InverseDct(dc="wrong"),
        GradientIntegration(),
        LeastSquares(),
        LeastSquares(brightness=True),
        LeastSquares(repeats=4),
        LeastSquares(repeats=16),
        BatchDifference(),
        BatchDifference(known=True),
        UNetAttack(),
        UNetAttack(behind=LeastSquares()),
    ]
    if names is not None:
        known = [*(attack.name for attack in every), LINKAGE]
        if unknown := [name for name in names if name not in known]:
            raise UsageError(f"unknown attack {', '.join(unknown)}; there are {', '.join(known)}")
        every = [attack for attack in every if attack.name in names]
    return [attack for attack in every if attack.fits(release)]
