"""The torch modules themselves; imported only once torch is known to be there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from faceblind._errors import DataError
from faceblind.deploy.export.steps import TOO_SHORT, Steps


class ErasedVectors(nn.Module):
    """A projector as a module: (..., d) vectors in, clean vectors out, in the number type that came in.

    The arrays are buffers, so they move with ``.to()`` and are saved with the state, but no optimiser touches them.
    float16 and bfloat16 are computed in float32, under autocast as well, and a module put to half precision keeps
    float32 buffers: a basis rounded to half precision would leave about 5e-4 of what it is to remove.
    """

    __constants__ = ("gone_ratio", "has_offset", "has_second", "renormalise", "residual", "too_short", "unit_first")

    if TYPE_CHECKING:  # TorchScript reads annotations, but not as text
        first: Tensor
        second: Tensor
        offset: Tensor

    def __init__(self, steps: Steps, *, digest: str, encoder: str) -> None:
        super().__init__()
        self.digest = digest
        """Digest of the projector."""
        self.encoder_fingerprint = encoder
        """The encoder it is for, as JSON; ``null`` when unknown."""
        self.unit_first = steps.unit_first
        self.renormalise = steps.renormalise
        self.residual = steps.residual
        self.has_second = steps.second is not None
        self.has_offset = steps.offset is not None
        self.gone_ratio = steps.gone_ratio
        self.too_short = TOO_SHORT
        arrays = steps.arrays
        for name in ("first", "second", "offset"):
            array = arrays.get(name)
            self.register_buffer(name, torch.empty(0) if array is None else torch.from_numpy(array.copy()))

    def forward(self, vectors: Tensor) -> Tensor:
        """Return the clean vectors; rows with nothing left are zeros, rows with NaN or infinity are NaN."""
        if self.first.dtype != torch.float32 and self.first.dtype != torch.float64:
            raise RuntimeError(
                "a projector is kept in float32 or float64: half precision leaves part of what it removes"
            )
        x = vectors.to(self.first.dtype)
        size, units = self._length(x)
        lost = size == 0
        if self.unit_first:
            zeros = torch.zeros_like(x)
            x = torch.where(size == 0, zeros, x / torch.where(size == 0, torch.ones_like(size), size) / units)
            size, units = torch.ones_like(size), torch.ones_like(units)
        y = self._multiplied(x)
        left, left_units = self._length(y)
        # ratios first: lengths themselves may not fit into float32
        share = left / torch.where(size == 0, torch.ones_like(size), size) * (left_units / units)
        gone = lost | (share < self.gone_ratio) | (left * left_units < self.too_short)
        if self.renormalise:
            y = y / torch.where(left == 0, torch.ones_like(left), left) / left_units
        return torch.where(gone, torch.zeros_like(y), y).to(vectors.dtype)

    def _multiplied(self, x: Tensor) -> Tensor:
        # Autocast does products in half precision, but not those in place, and TorchScript cannot be told otherwise.
        rows = x.reshape(-1, x.shape[-1])
        y = rows.new_zeros(rows.shape[0], self.first.shape[1]).addmm_(rows, self.first)
        if self.has_second:
            start = rows.clone() if self.residual else rows.new_zeros(rows.shape[0], self.second.shape[1])
            y = start.addmm_(y, self.second)
        y = y.reshape(x.shape[:-1] + y.shape[-1:])
        if self.has_offset:
            y = y + self.offset
        return y

    def _length(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the largest entry of every row and the row's length in units of it, at least 1."""
        largest = x.abs().amax(dim=-1, keepdim=True)
        scaled = x / torch.where(largest == 0, torch.ones_like(largest), largest)
        squares = (scaled * scaled).sum(dim=-1, keepdim=True)
        return largest, torch.where(largest == 0, torch.ones_like(squares), squares.sqrt())

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ErasedVectors:
        kept = dict(self.named_buffers(recurse=False))
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, buffer in kept.items():
            moved = getattr(self, name)
            if moved.is_floating_point() and torch.finfo(moved.dtype).bits < torch.finfo(torch.float32).bits:
                setattr(self, name, buffer.to(moved.device))
        return self

    def extra_repr(self) -> str:
        """Return what `print` shows."""
        out = self.second.shape[1] if self.has_second else self.first.shape[1]
        return f"{self.first.shape[0]} -> {out}, projector {self.digest[:12]}"


class Behind(nn.Module):
    """An encoder with a projector behind it: only clean vectors come out."""

    def __init__(self, encoder: nn.Module, erase: ErasedVectors, select: Callable[[Any], Tensor] | None) -> None:
        super().__init__()
        self.encoder = encoder
        self.erase = erase
        self._select = select

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Run the encoder on whatever it takes and return (b, d) clean vectors."""
        found = self.encoder(*args, **kwargs)
        vectors = found if self._select is None else self._select(found)
        if not isinstance(vectors, Tensor):
            raise DataError(
                f"the encoder gives a {type(vectors).__name__}, not a tensor of vectors: "
                "say which part to take, e.g. select=lambda out: out.pooler_output"
            )
        width = self.erase.first.shape[0]
        if vectors.ndim != 2 or vectors.shape[1] != width:
            raise DataError(
                f"the projector is for (batch, {width}) vectors, the encoder gives shape {tuple(vectors.shape)}: "
                "pool first, with select=..."
            )
        cleaned: Tensor = self.erase(vectors)
        return cleaned
