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

ON_REQUEST = ("unet-lsq",)
"""Attacks that run only when named: they take as long as all others together, and have not read more so far."""


def attacks_on(release: Release, names: Sequence[str] | None = None) -> list[Attack]:
    """Return the attacks that apply to a release: all but those `ON_REQUEST`, or the named ones; `LINKAGE` may be among them.

    Raises
    ------
    UsageError
        A name that no attack has.
    """
    every = _every()
    if names is not None:
        known = [*(attack.name for attack in every), LINKAGE]
        if unknown := [name for name in names if name not in known]:
            raise UsageError(f"unknown attack {', '.join(unknown)}; there are {', '.join(known)}")
    wanted = [attack.name for attack in every if attack.name not in ON_REQUEST] if names is None else names
    every = [attack for attack in every if attack.name in wanted]
    return [attack for attack in every if attack.fits(release)]


def attack_names() -> list[str]:
    """Return the names of all attacks, in the order of reports."""
    return [attack.name for attack in _every()]


def _every() -> list[Attack]:
    return [
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
