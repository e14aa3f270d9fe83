"""The block DCT on tensors: batched, on any device, without the enlarged image."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from faceblind._errors import DataError
from faceblind.frequency.bands import bands
from faceblind.frequency.bdct import check_coefficients, flip_signs
from faceblind.frequency.planes import FROM_RGB, OFFSET, TO_RGB
from faceblind.frequency.separable import separable


class BlockDCT(nn.Module):
    """Send pixels to coefficients and back, as `faceblind.frequency.bdct` does.

    Operators are buffers that are not saved: they follow from the sizes.

    Parameters
    ----------
    size
        Height and width of the images.
    block, up, keep_dc
        As in `faceblind.frequency.bdct.bdct`.
    dtype
        Of the operators. With float64, float64 pixels give what the arrays of `bdct` hold, to its last digits.

    Raises
    ------
    DataError
        The enlarged image is not a whole number of blocks.
    """

    row_weight: Tensor
    column_weight: Tensor
    row_index: Tensor
    column_index: Tensor
    row_back: Tensor
    column_back: Tensor
    from_rgb: Tensor
    to_rgb: Tensor
    offset: Tensor

    def __init__(
        self,
        size: tuple[int, int],
        *,
        block: int = 8,
        up: int = 8,
        keep_dc: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.size, self.block, self.up, self.keep_dc = size, block, up, keep_dc
        rows, columns = bands(size[0], block, up), bands(size[1], block, up)
        self.blocks = (rows.blocks, columns.blocks)
        for name, value in (
            ("row_weight", rows.weight),
            ("column_weight", columns.weight),
            ("row_back", rows.back),
            ("column_back", columns.back),
            ("from_rgb", FROM_RGB),
            ("to_rgb", TO_RGB),
            ("offset", OFFSET[:, None, None]),
        ):
            self.register_buffer(name, torch.from_numpy(np.array(value)).to(dtype), persistent=False)
        for name, index in (("row_index", rows.index), ("column_index", columns.index)):
            self.register_buffer(name, torch.from_numpy(index.T.copy()), persistent=False)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns of blocks."""
        return 3 * (self.block**2 - (not self.keep_dc)), *self.blocks

    def planes(self, pixels: Tensor) -> Tensor:
        """Turn RGB pixels (b, 3, H, W) in 0..255 into planes (b, 3, H, W) around zero.

        Raises
        ------
        DataError
            Another shape or type.
        """
        if pixels.ndim != 4 or tuple(pixels.shape[1:]) != (3, *self.size) or not pixels.is_floating_point():
            raise DataError(
                f"pixels must be floats (images, 3, {self.size[0]}, {self.size[1]}) in 0..255, "
                f"got {pixels.dtype} {tuple(pixels.shape)}"
            )
        return torch.einsum("pc,bchw->bphw", self.from_rgb.to(pixels.dtype), pixels) - self.offset.to(pixels.dtype)

    def pixels(self, planes: Tensor) -> Tensor:
        """Turn planes (b, 3, H, W) around zero into RGB pixels (b, 3, H, W), clipped to 0..255."""
        shifted = planes + self.offset.to(planes.dtype)
        return torch.einsum("cp,bphw->bchw", self.to_rgb.to(planes.dtype), shifted).clamp(0, 255)

    @torch.no_grad()
    def forward(self, pixels: Tensor) -> Tensor:
        """Transform pixels (b, 3, H, W), RGB in 0..255, into coefficients (b, C, m, n); no gradient goes to pixels."""
        planes = self.planes(pixels).flatten(0, 1)
        if planes.device.type == "cpu" and planes.dtype in (torch.float32, torch.float64):
            name = str(planes.dtype).removeprefix("torch.")
            operator = separable(self.size, self.block, self.up, self.keep_dc, name)
            return torch.from_numpy(operator(planes.numpy())).view(pixels.shape[0], *self.shape)
        return self._gathered(planes).view(pixels.shape[0], *self.shape)

    def _gathered(self, planes: Tensor) -> Tensor:
        """Transform planes (k, H, W) anywhere: an accelerator has no fast product with small sparse matrices."""
        start = 0 if self.keep_dc else 1
        found = planes.new_empty((planes.shape[0], self.block**2 - start, *self.blocks))
        across = self.column_weight.to(planes.dtype)[:, None]  # (v, 1, n, s)
        down = self.row_weight.to(planes.dtype)[:, :, None]  # (u, m, 1, s)
        lines = _sum(across, _neighbours(planes[:, None], self.column_index, axis=-1))
        near = _neighbours(lines, self.row_index, axis=-2)  # each (k, v, m, n)
        for u in range(self.block):
            first = start if u == 0 else 0
            place = u * self.block - start
            _sum(down[u], [x[:, first:] for x in near], out=found[:, place + first : place + self.block])
        return found

    def inverse(self, coefficients: Tensor, dc: Tensor | None = None) -> Tensor:
        """Go back to RGB pixels (b, 3, H, W), clipped to 0..255; `dc` (b, 3, m, n) stands in for what was dropped.

        Raises
        ------
        DataError
            Shapes that do not go together.
        """
        check_coefficients(tuple(coefficients.shape), self.blocks, self.block)
        count, per = coefficients.shape[0], self.block**2
        full = coefficients.reshape(count, 3, -1, *self.blocks)
        if full.shape[2] == per - 1:
            means = full.new_zeros((count, 3, *self.blocks)) if dc is None else dc
            if means.shape != (count, 3, *self.blocks):
                raise DataError(f"dc must be {(count, 3, *self.blocks)}, got {tuple(means.shape)}")
            full = torch.cat([means[:, :, None].to(full.dtype), full], dim=2)
        grid = full.reshape(count, 3, self.block, self.block, *self.blocks)
        half = torch.einsum("bpuvmn,wvn->bpumw", grid, self.column_back.to(full.dtype))
        return self.pixels(torch.einsum("bpumw,hum->bphw", half, self.row_back.to(full.dtype)))

    @torch.no_grad()
    def dc(self, pixels: Tensor) -> Tensor:
        """Return the means of the blocks of other faces, (b, 3, m, n), to guess what was dropped."""
        planes = self.planes(pixels)
        across, down = self.column_weight[0].to(planes.dtype), self.row_weight[0].to(planes.dtype)[:, None]
        lines = _sum(across, _neighbours(planes, self.column_index, axis=-1))
        return _sum(down, _neighbours(lines, self.row_index, axis=-2))

    def flip(self, coefficients: Tensor) -> Tensor:
        """Return the coefficients of the image mirrored left to right, as `faceblind.frequency.bdct.flip_coefficients`.

        Raises
        ------
        DataError
            Another shape.
        """
        check_coefficients(tuple(coefficients.shape), self.blocks, self.block)
        signs = torch.from_numpy(flip_signs(coefficients.shape[1], self.block)).to(coefficients)
        return coefficients.flip(-1) * signs[:, None, None]


def _neighbours(values: Tensor, index: Tensor, *, axis: int) -> list[Tensor]:
    """Gather the first, second, ... pixel that each block reads along an axis."""
    return [values.index_select(axis, places) for places in index]


def _sum(weight: Tensor, neighbours: list[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Add up ``weight[..., s]`` times the s-th neighbours."""
    total = torch.mul(weight[..., 0], neighbours[0], out=out)
    for s in range(1, len(neighbours)):
        total.addcmul_(weight[..., s], neighbours[s])
    return total
