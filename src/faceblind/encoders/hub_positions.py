"""DINOv2's position embeddings, brought to the input's grid as its authors do it.

DINOv2 was released with positions for 518 pixels (37 x 37 patches); at 224 pixels they are interpolated to 16 x 16. The
authors' code passes the ratio (16 + 0.1) / 37 to the interpolation, transformers the size 16 x 16. The two sample the
positions at places up to a fifth of a cell apart. DINOv2 with registers was released without that offset and with
antialiasing, which is what transformers does for it.

Source: ``interpolate_pos_encoding`` and ``interpolate_offset`` in https://github.com/facebookresearch/dinov2.
"""

from __future__ import annotations

import math
from typing import Any

from faceblind._errors import EncoderError


def place_positions(torch: Any, model: Any, size: tuple[int, int], offset: float, source: str) -> None:
    """Replace a model's position embeddings by those of an input of `size`, so that nothing is left to interpolate.

    Raises
    ------
    EncoderError
        The input is not square, or not a whole number of patches.
    """
    embeddings = model.embeddings
    patch, has = model.config.patch_size, embeddings.position_embeddings.shape[1] - 1
    grid, left = divmod(size[0], patch)
    if size[0] != size[1] or left:
        raise EncoderError(f"{source} needs square input of a multiple of {patch} pixels, got {size[1]}x{size[0]}")
    stored = math.isqrt(has)
    if grid == stored:
        return
    positions = embeddings.position_embeddings.detach()
    cells = positions[:, 1:].float().reshape(1, stored, stored, -1).permute(0, 3, 1, 2)
    ratio = (grid + offset) / stored
    placed = torch.nn.functional.interpolate(cells, scale_factor=(ratio, ratio), mode="bicubic")
    rows = placed.permute(0, 2, 3, 1).flatten(1, 2).to(positions.dtype)
    embeddings.position_embeddings = torch.nn.Parameter(torch.cat((positions[:, :1], rows), dim=1))
