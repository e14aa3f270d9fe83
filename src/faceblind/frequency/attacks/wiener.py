"""The face behind noised coefficients: least squares over overlapping blocks, with what public faces look like as prior.

Enlarging makes neighbouring blocks share pixels, so the coefficients of an image are many linear equations in few pixels.
Dropping DC takes one unknown per plane out of their reach, the mean; everything else is still determined.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from faceblind.frequency.bands import bands, dct_matrix
from faceblind.frequency.torch_bdct import BlockDCT

LEAST_SIGMA = 0.05
"""Deviation that coefficients are given at least: they are computed in float32."""


@dataclass(frozen=True, eq=False)
class FacePrior:
    """Mean and variance of public faces, in a basis where their values hardly depend on each other.

    Attributes
    ----------
    mean : (3, H, W) float64
        Mean planes.
    variance : (3, H, W) float64
        Of the two-dimensional DCT of the planes about their mean; entry (0, 0) is that of the overall brightness.
    """

    mean: Tensor
    variance: Tensor

    @classmethod
    def of(cls, planes: Tensor) -> FacePrior:
        """Estimate from the planes of public faces, (n, 3, H, W)."""
        mean = planes.mean(dim=0)
        found = whole_dct(planes - mean).square().mean(dim=0)
        return cls(mean, found.clamp_min(float(found.max()) * 1e-9))


def whole_dct(planes: Tensor) -> Tensor:
    """Take the orthonormal DCT of whole planes (..., H, W)."""
    rows, columns = _basis(planes)
    return rows @ planes @ columns.T


def whole_inverse(values: Tensor) -> Tensor:
    """Undo `whole_dct`."""
    rows, columns = _basis(values)
    return rows.T @ values @ columns


def _basis(planes: Tensor) -> tuple[Tensor, Tensor]:
    height, width = planes.shape[-2:]
    rows, columns = (torch.from_numpy(dct_matrix(n)).to(planes) for n in (height, width))
    return rows, columns


class Wiener:
    """Estimate planes from coefficients with noise of known deviation: the mean of the posterior under a Gaussian prior.

    Parameters
    ----------
    transform
        The block DCT that was released.
    sigma : (C, m, n)
        Deviation of the noise of each coefficient.
    prior
        Of the faces.
    signal : (C,), optional
        Spread of each channel over faces. Channels whose noise hides it at every place tell nothing and are left out.
    """

    def __init__(self, transform: BlockDCT, sigma: Tensor, prior: FacePrior, *, signal: Tensor | None = None) -> None:
        block = transform.block
        rows, columns = (bands(n, block, transform.up) for n in transform.size)
        per = block * block
        grid = torch.full((3, per, *transform.blocks), torch.inf, dtype=torch.float64)
        grid[:, 0 if transform.keep_dc else 1 :] = sigma.double().view(3, -1, *transform.blocks)
        weight = 1 / grid.clamp_min(LEAST_SIGMA).square()
        if signal is not None:
            # Channels whose best place has a thousandth of the noise's power in signal are left out: they cost time.
            power = torch.zeros((3, per), dtype=torch.float64)
            power[:, 0 if transform.keep_dc else 1 :] = signal.double().square().view(3, -1)
            weight[(weight.amax(dim=(2, 3)) * power) < 1e-3] = 0
        self.weight = weight.view(3, block, block, *transform.blocks)
        useful = self.weight.amax(dim=(0, 3, 4)) > 0
        last = tuple(int(useful.any(dim=1 - axis).nonzero().max()) + 1 if useful.any() else 1 for axis in (0, 1))
        self.last = (last[0], last[1])
        self.weight = self.weight[:, : last[0], : last[1]].contiguous()
        self._weight = self._turned(self.weight[None])
        matrices = [
            band.matrix[:count].reshape(-1, band.matrix.shape[2])
            for band, count in zip((rows, columns), last, strict=True)
        ]
        self._down, self._across = (sparse.csr_array(matrix) for matrix in matrices)
        self._up, self._back = self._down.T.tocsr(), self._across.T.tocsr()
        cut = [slice(u * rows.blocks, (u + 1) * rows.blocks) for u in range(last[0])]
        turned = self._weight.numpy().reshape(last[0], rows.blocks, -1)
        self._each = [(self._down[some], self._up[:, some], turned[u]) for u, some in enumerate(cut)]
        self.transform, self.prior = transform, prior
        self._diagonal = self._approximate_diagonal()

    @staticmethod
    def _turned(values: Tensor) -> Tensor:
        """Bring (b, 3, u, v, m, n) into the order of the sparse products, (u, m, v, n, b, 3)."""
        return values.permute(2, 4, 3, 5, 0, 1).contiguous()

    def _apply(self, planes: Tensor) -> Tensor:
        """Send planes (b, 3, H, W) to coefficients (u, m, v, n, b, 3)."""
        count, _, height, width = planes.shape
        lines = self._across @ planes.permute(3, 2, 0, 1).reshape(width, -1).numpy()
        turned = lines.reshape(-1, height, 3 * count).swapaxes(0, 1).reshape(height, -1)
        (u, v), (m, n) = self.last, self.transform.blocks
        return torch.from_numpy(self._down @ turned).view(u, m, v, n, count, 3)

    def _adjoint(self, values: Tensor) -> Tensor:
        """Send coefficients (u, m, v, n, b, 3) back to planes (b, 3, H, W) by the transpose."""
        u, m, v, n, count, _ = values.shape
        lines = self._up @ values.reshape(u * m, -1).numpy()
        turned = lines.reshape(-1, v * n, 3 * count).swapaxes(0, 1).reshape(v * n, -1)
        height, width = self.transform.size
        return torch.from_numpy(self._back @ turned).view(width, height, count, 3).permute(2, 3, 1, 0)

    def _normal(self, unknown: Tensor) -> Tensor:
        """Apply the matrix of the normal equations, prior included, to values in the basis of the prior."""
        return whole_dct(self._weighed(whole_inverse(unknown))) + unknown / self.prior.variance

    def _weighed(self, planes: Tensor) -> Tensor:
        """Return ``_adjoint(weight * _apply(planes))``, one face and vertical frequency at a time: that stays in the cache."""
        height, width = self.transform.size
        found = np.empty((len(planes), width, height, 3))
        for face, out in zip(planes.permute(0, 3, 2, 1).numpy(), found, strict=True):
            lines = self._across @ face.reshape(width, -1)
            turned = lines.reshape(-1, height, 3).swapaxes(0, 1).reshape(height, -1)
            total = np.zeros_like(turned)
            for down, up, weight in self._each:
                values = down @ turned
                values *= weight
                total += up @ values
            lines = total.reshape(height, -1, 3).swapaxes(0, 1).reshape(-1, 3 * height)
            out[:] = (self._back @ lines).reshape(out.shape)
        return torch.from_numpy(found).permute(0, 3, 2, 1)

    def _approximate_diagonal(self) -> Tensor:
        """Return the diagonal of the normal equations if every channel had its mean weight everywhere."""
        height, width = self.transform.size
        a, b = (
            torch.from_numpy((matrix @ dct_matrix(side).T).reshape(count, -1, side)).square().sum(dim=1)
            for matrix, side, count in zip((self._down, self._across), (height, width), self.last, strict=True)
        )
        return torch.einsum("puv,uk,vl->pkl", self.weight.mean(dim=(3, 4)), a, b) + 1 / self.prior.variance

    def estimate(
        self,
        coefficients: Tensor,
        *,
        brightness: Tensor | None = None,
        steps: int = 150,
        tolerance: float | None = None,
    ) -> Tensor:
        """Return planes (b, 3, H, W) for coefficients (b, C, m, n), by conjugate gradients.

        Parameters
        ----------
        brightness : (b, 3), optional
            The mean of each plane, where it is known; public faces stand in for it otherwise.
        tolerance
            Of the residual; by default far below what noise leaves uncertain.
        """
        block, start = self.transform.block, 0 if self.transform.keep_dc else 1
        count = coefficients.shape[0]
        full = torch.zeros((count, 3, block * block, *self.transform.blocks), dtype=torch.float64)
        full[:, :, start:] = coefficients.double().view(count, 3, -1, *self.transform.blocks)
        grid = full.view(count, 3, block, block, *self.transform.blocks)
        observed = self._turned(grid[:, :, : self.last[0], : self.last[1]])
        mean = self.prior.mean.double()[None]
        right = whole_dct(self._adjoint(self._weight * (observed - self._apply(mean))))
        found = torch.zeros_like(right)
        rest = right.clone()
        step = rest / self._diagonal
        product = (rest * step).sum(dim=(1, 2, 3), keepdim=True)
        if tolerance is None:
            tolerance = 1e-6 if float(self.weight.max()) >= 1 else 2e-2
        goal = product * tolerance**2
        for _ in range(steps):
            turned = self._normal(step)
            length = product / (step * turned).sum(dim=(1, 2, 3), keepdim=True).clamp_min(1e-300)
            found += length * step
            rest -= length * turned
            prepared = rest / self._diagonal
            fresh = (rest * prepared).sum(dim=(1, 2, 3), keepdim=True)
            if (fresh <= goal).all():
                break
            step = prepared + fresh / product.clamp_min(1e-300) * step
            product = fresh
        planes = mean + whole_inverse(found)
        if brightness is not None:
            planes = planes + (brightness.double() - planes.mean(dim=(2, 3)))[:, :, None, None]
        return planes
