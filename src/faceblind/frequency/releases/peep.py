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


class Peep(Release):
    """Release the face drawn by noisy eigenface coefficients.

    Parameters
    ----------
    eps
        Budget of one image (5 in the seed paper), shared out evenly over the coefficients; or of each coefficient with
        ``per="component"``. The paper does not say which.
    components
        Eigenfaces, at most.
    per : "image" or "component"
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
        """Find eigenfaces from every second image of each person (up to `MOST`), then the ranges of coefficients over all.

        Two passes; what is in memory is the images that the eigenfaces come from.

        Raises
        ------
        DataError
            Fewer faces than two.
        """
        rows: list[Tensor] = []
        seen: dict[str, int] = {}
        for pixels, identity in batches():
            for image, person in zip(scaled(pixels, self.size), identity, strict=True):
                seen[person] = seen.get(person, 0) + 1
                if seen[person] % 2 and len(rows) < MOST:
                    rows.append(image.flatten().cpu())
            if len(rows) >= MOST:
                break
        if len(rows) < 2:
            raise DataError(f"eigenfaces need at least two faces, got {len(rows)}")
        matrix = torch.stack(rows).double()
        mean = matrix.mean(dim=0)
        matrix -= mean
        values, vectors = torch.linalg.eigh(matrix @ matrix.T)
        # The last value is the mean's: centred rows are dependent.
        keep = min(self.components, len(rows) - 1)
        order = torch.argsort(values, descending=True)[:keep]
        basis = (matrix.T @ vectors[:, order] / values[order].clamp_min(1e-12).sqrt()).T
        self.basis.zero_()
        self.basis[:keep] = basis.float()
        self.mean.copy_(mean.float())
        low, high = torch.full((self.components,), torch.inf), torch.full((self.components,), -torch.inf)
        count = 0
        for pixels, _ in batches():
            found = self._coefficients(pixels)
            low, high = torch.minimum(low, found.amin(dim=0)), torch.maximum(high, found.amax(dim=0))
            count += pixels.shape[0]
            if progress is not None:
                progress(count, 0)
        self.low.copy_(low)
        self.high.copy_(high)
        self.images.fill_(count)

    def _coefficients(self, pixels: Tensor) -> Tensor:
        return (scaled(pixels, self.size).flatten(1) - self.mean) @ self.basis.T

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
        if not self.calibrated:
            raise UsageError("PEEP has no eigenfaces yet: call calibrate(...) with public faces")
        found = self._coefficients(pixels)
        if noise:
            drawn = unit_laplace(tuple(found.shape), generator, device=found.device)
            found = torch.clamp(found, self.low, self.high) + self.scale() * drawn
        return Released((self.mean + found @ self.basis).view(-1, *self.shape))

    def picture(self, tensor: Tensor) -> Tensor:
        """Show the face that was drawn."""
        return unscaled(tensor)

    def account(self) -> dict[str, Any]:
        """Return totals over the coefficients."""
        shape = (self.components, 1, 1)
        each = self.eps / self.components if self.per == "image" else self.eps
        ranges = (self.high - self.low).cpu().numpy().reshape(shape)
        return BudgetAccount.of(np.full(shape, each), ranges).to_dict()
