"""DCTDP, its ablations and its baselines on real faces: train each, see what it recognises, attack it.

    faceblind align $FACEBLIND_DATA/lfw -o DIR/faces
    FACEBLIND_DATA=... python benchmarks/frequency.py train|measure|record [--out DIR] [--variant NAME ...]

Faces are LFW; the judge of recovered faces is EdgeFace-XS from FACEBLIND_DATA. All variants have the same people, order of images, recipe and
budget; accuracy of networks trained on so few faces is low, and the comparison is the point. Finished variants are kept.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from frequency_tables import tables
from recording import record

OUT = Path("frequency-out")
EACH, EPOCHS, SEED = 8, 8, 1337
PEOPLE, PUBLIC = 40, 400
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
    # The same with other weights to begin with, another order of faces and other noise; the people are the same.
    "dctdp-20-again": ("dctdp", {"eps_mean": 20.0}, {"seed": 2}),
    "dctdp-uniform-20-again": ("dctdp-uniform", {"eps_mean": 20.0}, {"seed": 2}),
    "dctdp-1": ("dctdp", {"eps_mean": 1.0}, {}),
    "dctdp-2": ("dctdp", {"eps_mean": 2.0}, {}),
    "dctdp-uniform-100": ("dctdp-uniform", {"eps_mean": 100.0}, {}),
    # The paper's own ablation: equal noise on a network that never saw noise. It is not trained any further.
    "clean-uniform-0.5": ("dctdp-uniform", {"eps_mean": 0.5}, {"epochs": 0}),
    "clean-uniform-4": ("dctdp-uniform", {"eps_mean": 4.0}, {"epochs": 0}),
    "clean-uniform-20": ("dctdp-uniform", {"eps_mean": 20.0}, {"epochs": 0}),
    "clean-uniform-100": ("dctdp-uniform", {"eps_mean": 100.0}, {"epochs": 0}),
    # Noise that a new network learns nothing under, on one that has learnt under less.
    "warm-4": ("dctdp", {"eps_mean": 4.0}, {}),
    "warm-0.5": ("dctdp", {"eps_mean": 0.5}, {}),
    "warm-uniform-4": ("dctdp-uniform", {"eps_mean": 4.0}, {}),
    "warm-uniform-0.5": ("dctdp-uniform", {"eps_mean": 0.5}, {}),
}
START = {name: "dct-clean" for name in VARIANTS if name.startswith("clean-")} | {
    "warm-4": "dctdp-20",
    "warm-0.5": "warm-4",
    "warm-uniform-4": "dctdp-uniform-20",
    "warm-uniform-0.5": "warm-uniform-4",
}
"""What a variant's training starts from; it is listed, and so trained, before."""
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
    common = {"epochs": EPOCHS, "lr_steps": (5, 7), "seed": SEED}
    return replace(SMALL, release=kind, config=config | options, **(common | changed))


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
    train(recipe_of(name), source, rows, out / name, start_from=out / START[name] if name in START else None)
    save_split(split, out / name / "split.csv", source)


def measure_one(name: str, out: Path) -> None:
    """Evaluate and attack one variant."""
    import torch

    from faceblind.frequency.attacks.judge import open_judge
    from faceblind.frequency.workflow import attack_model, evaluate_model

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    judge = open_judge(
        "edgeface-xs", weights=Path(os.environ["FACEBLIND_DATA"]) / "models/edgeface_xs_q_fp32.onnx", threads=1
    )
    evaluate_model(out / name, out / "faces")
    attack_model(out / name, out / "faces", judge=judge, people=PEOPLE, each=2, public=PUBLIC)


def main() -> None:
    """Run a stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage", choices=("train", "one", "measure", "measure-one", "record"))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--variant", action="append", default=[])
    given = parser.parse_args()
    names = given.variant or list(VARIANTS)
    if given.stage == "one":
        for name in names:
            train_one(name, given.out)
        return
    if given.stage == "measure-one":
        for name in names:
            measure_one(name, given.out)
        return
    if given.stage == "record":
        record(
            "DCTDP on real faces",
            f"IR-18 of width 16 on 64 x 64 faces, {EPOCHS} epochs, seed {SEED} (2 where it is trained again).\n\n{tables(given.out, list(VARIANTS))}",
        )
        return
    step, made = ("one", "training.json") if given.stage == "train" else ("measure-one", "attacks.json")
    todo = [name for name in names if not (given.out / name / made).exists()]

    running: dict[str, Future[None]] = {}

    def run(name: str) -> None:
        if given.stage == "train" and START.get(name) in running:
            running[START[name]].result()
        command = [sys.executable, __file__, step, "--out", str(given.out), "--variant", name]
        subprocess.run(command, env=os.environ | KEEP, check=True)
        sys.stderr.write(f"{given.stage}: {name}\n")

    with ThreadPoolExecutor(2) as pool:
        for name in todo:
            running[name] = pool.submit(run, name)
        for future in running.values():
            future.result()


if __name__ == "__main__":
    main()
