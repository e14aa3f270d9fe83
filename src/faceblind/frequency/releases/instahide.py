"""InstaHide: every picture mixed with others of the same private set, and the signs of its pixels flipped at random.

Source: "InstaHide: Instance-hiding Schemes for Private Distributed Learning" (Huang et al., ICML 2020), inside-dataset mixing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from faceblind._errors import DataError, UsageError
from faceblind.frequency.releases.base import Batches, Release, Released
from faceblind.frequency.releases.rgb import scaled, unscaled

POOL = 256
_LEAST = 0.01  # share of draws that must be within `most`: below it the draws would hardly ever end


class InstaHide(Release):
    """Release ``sign * sum_j w_j * image_j``: k pictures mixed with random weights, a fresh random sign for each value.

    Where it is trained, the other pictures are those of the batch. Where it is used they come from a pool of private
    pictures (`set_pool`, or the first ones of `calibrate`), which is not saved with the model: they are faces.

    Parameters
    ----------
    k
        Pictures in each mix; 1 leaves only the signs.
    most
        Largest weight of a picture; 0.65 in the source.
    signs
        ``False`` leaves the signs alone.

    Raises
    ------
    UsageError
        No picture in a mix, or a bound on weights that none, or hardly any, meet.
    """

    kind = "instahide"
    title = "InstaHide"

    def __init__(self, size: tuple[int, int], *, k: int = 2, most: float = 0.65, signs: bool = True) -> None:
        super().__init__(size)
        if k < 1 or not (k == 1 or 1 / k < most <= 1):
            raise UsageError(f"k must be at least 1 and most in (1/k, 1], got k={k}, most={most}")
        if k > 1 and (share := _within(k, most)) < _LEAST:
            raise UsageError(
                f"only {share:.1g} of the weights of k={k} pictures are all below most={most}: raise most or lower k"
            )
        self.k, self.most, self.signs = k, most, signs
        self.register_buffer("pool", torch.zeros((0, 3, *size)), persistent=False)
        self.pool: Tensor

    @property
    def shape(self) -> tuple[int, int, int]:
        """Three channels of the size of the image."""
        return 3, *self.size

    def config(self) -> dict[str, Any]:
        """Return the options."""
        return {"k": self.k, "most": self.most, "signs": self.signs}

    @property
    def calibrated(self) -> bool:
        """Whether there is a pool to mix with."""
        return self.k == 1 or self.pool.shape[0] >= self.k

    def set_pool(self, pixels: Tensor) -> None:
        """Take private pictures (n, 3, H, W) in 0..255 to mix with where the network is used.

        Raises
        ------
        DataError
            Fewer than k, or another shape.
        """
        if pixels.shape[0] < self.k:
            raise DataError(f"a mix of {self.k} needs a pool of at least as many pictures, got {pixels.shape[0]}")
        self.pool = scaled(pixels.float(), self.size).to(self.pool.device)

    def calibrate(self, batches: Batches, progress: Callable[[int, int], None] | None = None) -> None:
        """Take the first pictures as the pool."""
        taken: list[Tensor] = []
        for pixels, _ in batches():
            taken.append(pixels.cpu())
            if sum(len(t) for t in taken) >= POOL:
                break
        self.set_pool(torch.cat(taken)[:POOL] if taken else torch.zeros((0, 3, *self.size)))

    def forward(self, pixels: Tensor, generator: torch.Generator | None = None, *, noise: bool = True) -> Released:
        """Mix and flip; with ``noise=False`` release the pictures as they are.

        Raises
        ------
        UsageError
            The network is in use (``eval()``) and there is no pool.
        DataError
            In training, a batch of one: it has nothing to mix with.
        """
        images = scaled(pixels, self.size)
        if not noise:
            return Released(images)
        count = images.shape[0]
        place = "cpu" if generator is None else generator.device
        weights = self._weights(count, generator).to(images.device)
        partners = None
        if self.k == 1:
            mixed = images
        elif self.training:
            if count < 2:
                raise DataError(
                    f"InstaHide mixes the faces of a batch where it is trained; a batch of {count} has none to mix"
                )
            # Others of the batch by the ranks of random numbers, itself last; each once, where the batch is large enough.
            rank = torch.rand((count, count), generator=generator, device=place).fill_diagonal_(2).argsort(dim=1)
            others = rank[:, torch.arange(self.k - 1, device=place) % (count - 1)]
            partners = torch.cat([torch.arange(count, device=place)[:, None], others], dim=1).to(images.device)
            mixed = torch.einsum("bk,bkchw->bchw", weights, images[partners])
        else:
            if not self.calibrated:
                raise UsageError(
                    "InstaHide mixes with private pictures: give it some with set_pool(...) or calibrate(...)"
                )
            # Distinct members for each face, by the ranks of random numbers.
            draw = torch.rand((count, self.pool.shape[0]), generator=generator, device=place).argsort(dim=1)[
                :, : self.k - 1
            ]
            others_of = self.pool[draw.to(images.device)]
            mixed = weights[:, 0, None, None, None] * images
            mixed = mixed + torch.einsum("bk,bkchw->bchw", weights[:, 1:], others_of)
        if self.signs:
            flip = torch.randint(0, 2, mixed.shape, generator=generator, dtype=torch.int8, device=place).to(
                mixed.device
            )
            mixed = mixed * (2 * flip - 1)
        return Released(mixed, partners, weights if partners is not None else None)

    def _weights(self, count: int, generator: torch.Generator | None) -> Tensor:
        """Draw from the simplex, evenly among the points where no weight is above `most`."""
        if self.k == 1:
            return torch.ones((count, 1))
        place = "cpu" if generator is None else generator.device
        found = torch.empty((count, self.k), device=place)
        left = torch.ones(count, dtype=torch.bool, device=place)
        while left.any():
            drawn = -torch.log1p(-torch.rand((count, self.k), generator=generator, device=place))
            drawn = drawn / drawn.sum(dim=1, keepdim=True)
            good = left & (drawn.max(dim=1).values <= self.most)
            found[good] = drawn[good]
            left &= ~good
        return found

    def picture(self, tensor: Tensor) -> Tensor:
        """Show absolute values: what a person sees when the signs are undone as far as they can be."""
        return unscaled(tensor.abs() * 2 - 1) if self.signs else unscaled(tensor)


def _within(k: int, most: float) -> float:
    """Return the share of the simplex of k weights where none is above `most` (inclusion and exclusion)."""
    terms = ((-1) ** j * math.comb(k, j) * (1 - j * most) ** (k - 1) for j in range(k + 1) if j * most < 1)
    return math.fsum(terms)
