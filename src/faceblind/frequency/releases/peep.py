"""PEEP: eigenface coefficients with Laplace noise.

Source: "Privacy Preserving Face Recognition Utilizing Differential Privacy" (Chamikara et al., Computers & Security 2020). A
face is projected on eigenfaces, each coefficient gets Laplace noise of its range over the budget, and what is released is the
face that the noisy coefficients draw.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from faceblind._errors import DataError, UsageError
from faceblind.frequency.accounting import BudgetAccount
from faceblind.frequency.noise import unit_laplace
from faceblind.frequency.releases.base import Batches, Release, Released
from faceblind.frequency.releases.rgb import scaled, unscaled

MOST = 1024
"""Faces that eigenfaces are computed from, at most: their Gram matrix is what is decomposed."""
_SEED = 0x9EE9
_RANK = 1e-10  # of the largest eigenvalue: what is below is rounding, and its eigenfaces would not be orthonormal


class Peep(Release):
    """Release the face drawn by noisy eigenface coefficients.

    Parameters
    ----------
    eps
        Budget of one image (5 in the seed paper), shared out evenly over the coefficients; or of each coefficient with
        ``per="component"``. The paper does not say which.
    components
        Eigenfaces, at most. Where calibration finds fewer, the others are zero and their share of the budget is not spent.
    per : "image" or "component"

    Raises
    ------
    UsageError
        An option out of range.
    """

    kind = "peep"
    title = "PEEP"

    basis: Tensor
    mean: Tensor
    low: Tensor
    high: Tensor
    images: Tensor

    def __init__(self, size: tuple[int, int], *, eps: float = 5.0, components: int = 128, per: str = "image") -> None:
        super().__init__(size)
        if not (np.isfinite(eps) and eps > 0) or components < 1 or per not in ("image", "component"):
            raise UsageError(
                f"eps must be positive, components at least 1 and per one of image, component; got {eps}, {components}, {per!r}"
            )
        self.eps, self.components, self.per = float(eps), components, per
        values = 3 * size[0] * size[1]
        self.register_buffer("basis", torch.zeros((components, values)))
        self.register_buffer("mean", torch.zeros(values))
        self.register_buffer("low", torch.zeros(components))
        self.register_buffer("high", torch.zeros(components))
        self.register_buffer("images", torch.zeros((), dtype=torch.int64))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Three channels of the size of the image."""
        return 3, *self.size

    def config(self) -> dict[str, Any]:
        """Return the options."""
        return {"eps": self.eps, "components": self.components, "per": self.per}

    @property
    def calibrated(self) -> bool:
        """Whether there are eigenfaces."""
        return int(self.images) > 0

    def calibrate(self, batches: Batches, progress: Callable[[int, int], None] | None = None) -> None:
        """Find eigenfaces from every second image of each person, then the ranges of coefficients over all images.

        Two passes. Of more than `MOST` such images an even sample is taken (a reservoir with a fixed seed): it depends on the
        order of the images, not on how they are cut into batches, and is all that is held in memory.

        Raises
        ------
        DataError
            Faces of which no two differ.
        """
        mean, basis = _eigenfaces(self._sample(batches, progress), self.components)
        self.basis.zero_()
        self.basis[: len(basis)] = basis.float()
        self.mean.copy_(mean.float())
        low, high = torch.full_like(self.low, torch.inf), torch.full_like(self.high, -torch.inf)
        count = 0
        for pixels, _ in batches():
            found = self._coefficients(pixels.to(self.mean.device))
            low, high = torch.minimum(low, found.amin(dim=0)), torch.maximum(high, found.amax(dim=0))
            count += pixels.shape[0]
            if progress is not None:
                progress(count, 0)
        self.low.copy_(low)
        self.high.copy_(high)
        self.images.fill_(count)

    def _sample(self, batches: Batches, progress: Callable[[int, int], None] | None) -> Tensor:
        rng = np.random.default_rng(_SEED)
        rows: list[Tensor] = []
        seen: dict[str, int] = {}
        half = count = 0
        for pixels, identity in batches():
            for image, person in zip(scaled(pixels, self.size), identity, strict=True):
                seen[person] = seen.get(person, 0) + 1
                if seen[person] % 2 == 0:
                    continue
                half += 1
                place = len(rows) if half <= MOST else int(rng.integers(half))
                if place < MOST:
                    # A copy: a view would hold its whole batch in memory.
                    rows[place : place + 1] = [image.flatten().cpu().clone()]
            count += pixels.shape[0]
            if progress is not None:
                progress(count, 0)
        if len(rows) < 2:
            raise DataError(f"eigenfaces need at least two faces, got {len(rows)}; every second one of a person counts")
        return torch.stack(rows).double()

    def _coefficients(self, pixels: Tensor) -> Tensor:
        return (scaled(pixels, self.size).to(self.mean.dtype).flatten(1) - self.mean) @ self.basis.T

    def scale(self) -> Tensor:
        """Return the scale of the noise of each coefficient."""
        share = self.components if self.per == "image" else 1
        return (self.high - self.low) * share / self.eps

    def forward(self, pixels: Tensor, generator: torch.Generator | None = None, *, noise: bool = True) -> Released:
        """Project, clip, add noise and draw; with ``noise=False`` the projection.

        Raises
        ------
        UsageError
            There are no eigenfaces yet.
        """
        self._ready()
        found = self._coefficients(pixels)
        if noise:
            drawn = unit_laplace(tuple(found.shape), generator, device=found.device)
            found = torch.clamp(found, self.low, self.high) + self.scale() * drawn
        return Released((self.mean + found @ self.basis).view(-1, *self.shape))

    def _ready(self) -> None:
        if not self.calibrated:
            raise UsageError("PEEP has no eigenfaces yet: call calibrate(...) with public faces")

    def picture(self, tensor: Tensor) -> Tensor:
        """Show the face that was drawn."""
        return unscaled(tensor)

    def account(self) -> dict[str, Any]:
        """Return totals over the coefficients.

        Raises
        ------
        UsageError
            There are no eigenfaces, and so no ranges, yet.
        """
        self._ready()
        shape = (self.components, 1, 1)
        each = self.eps / self.components if self.per == "image" else self.eps
        ranges = (self.high - self.low).cpu().numpy().reshape(shape)
        return BudgetAccount.of(np.full(shape, each), ranges).to_dict()


def _eigenfaces(matrix: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return the mean and orthonormal eigenfaces (k, values), k <= most, of float64 faces (n, values), by their Gram matrix."""
    mean = matrix.mean(dim=0)
    matrix -= mean
    values, vectors = torch.linalg.eigh(matrix @ matrix.T)
    order = torch.argsort(values, descending=True)[:most]
    # Centred faces are dependent, and so are copies of one photograph.
    order = order[values[order] > _RANK * float(values.max())]
    if not len(order):
        raise DataError(f"eigenfaces need faces that differ; all {len(matrix)} are the same")
    return mean, (matrix.T @ vectors[:, order] / values[order].sqrt()).T
