"""The block DCT in its separable form against the direct one, through the enlarged image: time and peak memory, side by side.

python benchmarks/frequency_speed.py
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import torch

from faceblind.frequency.bands import dct_matrix
from faceblind.frequency.bdct import bdct, bdct_direct
from faceblind.frequency.torch_bdct import BlockDCT
from recording import record, times

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
    measured = times(one, other, ROUNDS)
    a, b = zip(*measured, strict=True)
    return statistics.median(a), statistics.median(b), statistics.median(x / y for x, y in measured)


def peak_numpy(function, images) -> float:
    """Return the peak of what is allocated beside the result, in MiB."""
    tracemalloc.start()
    found = function(images)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (peak - found.nbytes) / 2**20


def status(name: str) -> int:
    """Return a line of the process status in KiB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])


def peak_torch(form: str, count: int) -> float:
    """Return the peak of a fresh process over what it held before and the result, in MiB."""
    argv = [sys.executable, __file__, "--peak", form, str(count)]
    return json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)


def child(form: str, count: int) -> None:
    """Print what `peak_torch` asks for: allocations of torch are not seen by tracemalloc."""
    torch.set_num_threads(1)
    module = BlockDCT((SIDE, SIDE))
    function = partial(torch_direct, module) if form == "direct" else module
    small = BlockDCT((8, 8))
    torch_direct(small, torch.zeros(1, 3, 8, 8)), small(torch.zeros(1, 3, 8, 8))
    pixels = torch.rand(count, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0)) * 255
    before = status("VmRSS")
    found = function(pixels)
    sys.stdout.write(json.dumps((status("VmHWM") - before) / 2**10 - found.nbytes / 2**20))


def main() -> None:
    """Measure and record."""
    torch.set_num_threads(1)
    lines = [
        "| form | faces | direct ms a face | separable ms a face | writing constants ms a face | direct / separable |",
        "|---|---|---|---|---|---|",
    ]
    for count in (1, 8):
        images = np.random.default_rng(0).integers(0, 256, (count, SIDE, SIDE, 3), dtype=np.uint8)
        pixels = torch.from_numpy(images.transpose(0, 3, 1, 2).astype(np.float32))
        module = BlockDCT((SIDE, SIDE))
        assert torch.allclose(torch_direct(module, pixels), module(pixels), atol=1e-2)
        forms = {
            "numpy, float64": (partial(bdct_direct, images), partial(bdct, images)),
            "torch, float32": (partial(torch_direct, module, pixels), partial(module, pixels)),
        }
        # What no form can do without: new memory for the result, written once.
        floors = {
            "numpy, float64": lambda n=count: np.empty((n, 189, SIDE, SIDE)).fill(1),
            "torch, float32": lambda n=count: torch.empty((n, 189, SIDE, SIDE)).fill_(1),
        }
        for form, (direct, separable) in forms.items():
            a, b, ratio = paired(direct, separable)
            floor = paired(separable, floors[form])[1]
            cells = [form, count, *(f"{seconds / count * 1e3:.1f}" for seconds in (a, b, floor)), f"{ratio:.1f}"]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += ["", "| form | faces | direct MiB | separable MiB | direct / separable |", "|---|---|---|---|---|"]
    for count in (1, 8):
        images = np.random.default_rng(0).integers(0, 256, (count, SIDE, SIDE, 3), dtype=np.uint8)
        peaks = {
            "numpy, float64": (peak_numpy(bdct_direct, images), peak_numpy(bdct, images)),
            "torch, float32": (peak_torch("direct", count), peak_torch("separable", count)),
        }
        for form, (more, less) in peaks.items():
            lines.append(f"| {form} | {count} | {more:.1f} | {less:.1f} | {more / less:.1f} |")
    lines += [
        "",
        "Writing constants: memory for a result of that size, filled once. Memory is the peak beside what goes in and comes out: "
        "of numpy by tracemalloc, of torch by the high-water mark of a process of its own.",
    ]
    record("The block DCT", "\n".join(lines))
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak"]:
        child(sys.argv[2], int(sys.argv[3]))
    else:
        main()
