"""The block DCT in its separable form against the direct one, through the enlarged image: time and peak memory, side by side.

python benchmarks/frequency_speed.py
"""

from __future__ import annotations

import statistics
import sys
import time
import tracemalloc
from functools import partial

import numpy as np
import torch

from faceblind.frequency.bands import dct_matrix
from faceblind.frequency.bdct import bdct, bdct_direct
from faceblind.frequency.torch_bdct import BlockDCT
from recording import record

ROUNDS, SIDE = 9, 112


def torch_direct(module: BlockDCT, pixels: torch.Tensor) -> torch.Tensor:
    """Enlarge, cut and transform, as the published code does."""
    planes = module.planes(pixels)
    large = torch.nn.functional.interpolate(planes, scale_factor=8, mode="bilinear", align_corners=True)
    count, side = len(pixels), large.shape[-1] // 8
    cut = large.view(count, 3, side, 8, side, 8)
    dct = torch.from_numpy(dct_matrix(8)).float()
    found = torch.einsum("ux,vy,bpmxny->bpuvmn", dct, dct, cut).reshape(count, 3, 64, side, side)
    return found[:, :, 1:].reshape(count, 189, side, side)


def paired(one, other) -> tuple[float, float, float]:
    """Return median seconds of both and the median of the ratios of neighbours in time."""
    one(), other()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        one()
        middle = time.perf_counter()
        other()
        times.append((middle - start, time.perf_counter() - middle))
    a, b = zip(*times, strict=True)
    return statistics.median(a), statistics.median(b), statistics.median(x / y for x, y in times)


def peak_numpy(function, images) -> float:
    """Return the peak of what is allocated beside the result, in MiB."""
    tracemalloc.start()
    found = function(images)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (peak - found.nbytes) / 2**20


def main() -> None:
    """Measure and record."""
    torch.set_num_threads(1)
    lines = ["| form | faces | direct ms a face | separable ms a face | direct / separable |", "|---|---|---|---|---|"]
    for count in (1, 8):
        images = np.random.default_rng(0).integers(0, 256, (count, SIDE, SIDE, 3), dtype=np.uint8)
        pixels = torch.from_numpy(images.transpose(0, 3, 1, 2).astype(np.float32))
        module = BlockDCT((SIDE, SIDE))
        assert torch.allclose(torch_direct(module, pixels), module(pixels), atol=1e-2)
        forms = {
            "numpy, float64": (partial(bdct_direct, images), partial(bdct, images)),
            "torch, float32": (partial(torch_direct, module, pixels), partial(module, pixels)),
        }
        for form, (direct, separable) in forms.items():
            a, b, ratio = paired(direct, separable)
            lines.append(f"| {form} | {count} | {a / count * 1e3:.1f} | {b / count * 1e3:.1f} | {ratio:.1f} |")
    one = np.random.default_rng(0).integers(0, 256, (1, SIDE, SIDE, 3), dtype=np.uint8)
    more, less = peak_numpy(bdct_direct, one), peak_numpy(bdct, one)
    lines += [
        "",
        f"Working memory of numpy beside the result of one face: direct {more:.1f} MiB, separable {less:.1f} MiB ({more / less:.1f} times).",
    ]
    record("The block DCT", "\n".join(lines))
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
