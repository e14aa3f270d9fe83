"""Differences inside a batch: the published code draws one noise for all its faces, and it cancels."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from faceblind._errors import UsageError
from faceblind.frequency.attacks.base import Progress, Public, View
from faceblind.frequency.attacks.common import in_frequency, own_faces, prior_of, sigma_of, signal_of, transform_of
from faceblind.frequency.attacks.wiener import Wiener
from faceblind.frequency.batches import images_of, tensor_of
from faceblind.frequency.releases.base import Release


class BatchDifference:
    """Take from each release what all of its batch have in common, then solve as for a clean one.

    Parameters
    ----------
    known
        The first face of the batch is the attacker's own: its noise is then known, and with it everybody's. Otherwise the
        mean of the batch is taken off, and the mean of public faces put in its place.
    """

    def __init__(self, *, known: bool = False) -> None:
        self.known = known
        self._release: Release | None = None

    @property
    def name(self) -> str:
        """Short name."""
        return "difference" + ("-known" if self.known else "")

    @property
    def title(self) -> str:
        """Name in reports."""
        return "Differences inside the batch" + (", one face of it known" if self.known else "")

    @property
    def holds(self) -> str:
        """What the attacker must hold."""
        return "the mechanism, faces of other people, " + ("one face of the batch" if self.known else "a whole batch")

    def fits(self, release: Release) -> bool:
        """Coefficients of a block DCT with noise."""
        return in_frequency(release) and release.budget is not None

    def prepare(self, release: Release, public: Public, *, seed: int, progress: Progress | None = None) -> None:
        """Learn the prior and the mean of public faces."""
        pixels, transform = own_faces(public, seed), transform_of(release)
        self._release, self._mean = release, transform(pixels).mean(dim=0)
        shared = in_frequency(release) and release.budget is not None and not release.budget.per_sample
        # Against noise of each face's own, two draws are left where the attacker hoped for none.
        sigma = torch.zeros(release.shape) if shared else sigma_of(release) * 2**0.5
        self._solver = Wiener(transform, sigma, prior_of(release, pixels), signal=signal_of(release, pixels))

    def recover(self, view: View) -> NDArray[np.float32]:
        """Difference, then solve.

        Raises
        ------
        UsageError
            A batch of one face: there is nothing to take it from.
        """
        if self._release is None:
            raise UsageError("prepare(...) the attack first")
        if len(view.released) < 2:
            raise UsageError("differences inside a batch need a batch of at least two faces")
        transform = transform_of(self._release)
        if self.known:
            noise = view.released[:1] - transform(tensor_of(view.right[:1]))
            clean = view.released - noise
        else:
            clean = view.released - view.released.mean(dim=0) + self._mean
        return images_of(transform.pixels(self._solver.estimate(clean)).float())
