"""Least squares over overlapping blocks: what the paper calls irreversible."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from faceblind._errors import UsageError
from faceblind.frequency.attacks.base import Progress, Public, View
from faceblind.frequency.attacks.common import (
    in_frequency,
    own_faces,
    prior_of,
    sigma_of,
    signal_of,
    transform_of,
    without_offsets,
)
from faceblind.frequency.attacks.wiener import Wiener
from faceblind.frequency.batches import images_of, tensor_of
from faceblind.frequency.releases.base import Release


class LeastSquares:
    """Solve for the pixels, weighting every coefficient by its noise, with public faces as prior.

    Parameters
    ----------
    repeats
        Releases of the same faces that are averaged first: noise falls with the square root of their number.
    brightness
        Hand the attacker the mean of each plane of the true face: the one thing that dropping DC hides.
    """

    def __init__(self, *, repeats: int = 1, brightness: bool = False) -> None:
        if repeats < 1:
            raise UsageError(f"repeats must be at least 1, got {repeats}")
        self.repeats, self.brightness = repeats, brightness
        self._release: Release | None = None

    @property
    def name(self) -> str:
        """Short name."""
        return "lsq" + ("-mean" if self.brightness else "") + (f"-average-{self.repeats}" if self.repeats > 1 else "")

    @property
    def title(self) -> str:
        """Name in reports."""
        what = "Least squares over blocks"
        if self.repeats > 1:
            what += f", mean of {self.repeats} releases"
        return what + (", brightness known" if self.brightness else "")

    @property
    def holds(self) -> str:
        """What the attacker must hold."""
        parts = ["the mechanism", "faces of other people"]
        if self.repeats > 1:
            parts.append(f"{self.repeats} releases of the same photograph")
        if self.brightness:
            parts.append("the mean colour of the true photograph")
        return ", ".join(parts)

    def fits(self, release: Release) -> bool:
        """Coefficients of a block DCT."""
        return in_frequency(release)

    def prepare(self, release: Release, public: Public, *, seed: int, progress: Progress | None = None) -> None:
        """Learn the prior; set up the equations."""
        pixels = own_faces(public, seed)
        self._release = release
        prior, sigma = prior_of(release, pixels), sigma_of(release) / self.repeats**0.5
        self._solver = Wiener(transform_of(release), sigma, prior, signal=signal_of(release, pixels))

    def recover(self, view: View) -> NDArray[np.float32]:
        """Solve for every face."""
        if self._release is None:
            raise UsageError("prepare(...) the attack first")
        transform = transform_of(self._release)
        tensor = without_offsets(self._release, mean_release(view, self.repeats))
        known = None
        if self.brightness:
            known = transform.planes(tensor_of(view.right).double()).mean(dim=(2, 3))
        return images_of(transform.pixels(self._solver.estimate(tensor, brightness=known)).float())


def mean_release(view: View, repeats: int) -> Tensor:
    """Average releases of the same faces, one at a time."""
    total = view.released.double()
    for _ in range(repeats - 1):
        total = total + view.again(1)[0].double()
    return (total / repeats).float()
