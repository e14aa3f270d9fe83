"""DCTDP, its ablations and its baselines on real faces: train each, see what it recognises, attack it.

    FACEBLIND_DATA=... python benchmarks/frequency.py train|evaluate [--out DIR]

Faces are LFW, aligned with ``faceblind align`` into DIR/faces. All variants have the same people, order of images, recipe and
budget; accuracy of networks trained on so few faces is low, and the comparison is the point. Finished variants are kept.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

OUT = Path("frequency-out")
EACH, EPOCHS, SEED = 8, 8, 1337
VARIANTS: dict[str, tuple[str, dict[str, object], dict[str, object]]] = {
    "dctdp-0.5": ("dctdp", {"eps_mean": 0.5}, {}),
    "dctdp-uniform-0.5": ("dctdp-uniform", {"eps_mean": 0.5}, {}),
    "dctdp-official-0.5": ("dctdp-official", {"eps_mean": 0.5}, {}),
    "dct-clean": ("dct-clean", {}, {}),
    "rgb-arcface": ("rgb", {}, {}),
    "rgb-cosface": ("rgb", {}, {"head": "cosface"}),
    "rgb-noise-0.5": ("rgb-noise", {"eps_mean": 0.5}, {}),
    "peep-5": ("peep", {"eps": 5.0}, {}),
    "cloak-100": ("cloak", {"weight": 100.0}, {}),
    "instahide-2": ("instahide", {"k": 2}, {}),
    "dctdp-4": ("dctdp", {"eps_mean": 4.0}, {}),
    "dctdp-100": ("dctdp", {"eps_mean": 100.0}, {}),
    "dctdp-dc-20": ("dctdp-dc", {"eps_mean": 20.0}, {}),
    "dctdp-20": ("dctdp", {"eps_mean": 20.0}, {}),
    "dctdp-uniform-20": ("dctdp-uniform", {"eps_mean": 20.0}, {}),
    "dctdp-1": ("dctdp", {"eps_mean": 1.0}, {}),
    "dctdp-2": ("dctdp", {"eps_mean": 2.0}, {}),
}
# The allocator returns large blocks to the system after each step and pays for every page again: keep them.
KEEP = {
    "MALLOC_MMAP_THRESHOLD_": str(8 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(32 << 30),
    "MALLOC_TOP_PAD_": str(256 << 20),
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def recipe_of(name: str):
    """Return the recipe of a variant."""
    from faceblind.frequency.recipe import SMALL
    from faceblind.frequency.releases.registry import preset

    release, options, changed = VARIANTS[name]
    kind, config = preset(release)
    return replace(SMALL, release=kind, config=config | options, epochs=EPOCHS, lr_steps=(5, 7), seed=SEED, **changed)


def faces(out: Path):
    """Return the source, its split, and the rows that are trained on."""
    from faceblind.frequency.faces import open_faces
    from faceblind.frequency.people import split_people

    source = open_faces(out / "faces", 64)
    split = split_people(source, seed=SEED)
    rows = split.rows("fit")
    rng = np.random.default_rng(SEED)
    order = rng.permutation(rows)
    seen: dict[str, int] = {}
    kept = []
    for row in order:
        person = str(source.identity[row])
        seen[person] = seen.get(person, 0) + 1
        if seen[person] <= EACH:
            kept.append(int(row))
    return source, split, np.sort(np.array(kept))


def train_one(name: str, out: Path) -> None:
    """Train one variant, or go on with it."""
    import torch

    from faceblind.frequency.people import save_split
    from faceblind.frequency.training import train

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    source, split, rows = faces(out)
    train(recipe_of(name), source, rows, out / name)
    save_split(split, out / name / "split.csv", source)


def main() -> None:
    """Run a stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage", choices=("train", "one"))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--variant", action="append", default=[])
    given = parser.parse_args()
    names = given.variant or list(VARIANTS)
    if given.stage == "one":
        for name in names:
            train_one(name, given.out)
        return
    todo = [name for name in names if not (given.out / name / "training.json").exists()]

    def run(name: str) -> None:
        command = [sys.executable, __file__, "one", "--out", str(given.out), "--variant", name]
        subprocess.run(command, env=os.environ | KEEP, check=True)
        sys.stderr.write(f"trained {name}\n")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, todo))


if __name__ == "__main__":
    main()
