"""Draw docs/frequency.png: what attacks recover of rendered people, who are nobody, under budgets shared out equally.

python benchmarks/frequency_gallery.py
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from faceblind.faces.align import align
from faceblind.faces.synthetic import SyntheticPeople
from faceblind.frequency.attacks.base import Public, View
from faceblind.frequency.attacks.inverse import InverseDct
from faceblind.frequency.attacks.least_squares import LeastSquares
from faceblind.frequency.batches import generator_of, tensor_of
from faceblind.frequency.quality import constant_floor, psnr
from faceblind.frequency.releases.dctdp import DctDp
from recording import record

PICTURE = Path(__file__).parent.parent / "docs" / "frequency.png"
SIDE, OWN, SEED = 112, 256, 7
VARIANTS = (
    ("no noise", {"noise": False}),
    ("published code, 0.5", {"official": True, "eps_mean": 0.5}),
    ("calibrated, 100", {"eps_mean": 100.0}),
    ("calibrated, 4", {"eps_mean": 4.0}),
    ("calibrated, 0.5", {"eps_mean": 0.5}),
)
ATTACKS = (
    ("inverse DCT, DC zero\n(the paper's attack)", InverseDct(dc="zero")),
    ("least squares", LeastSquares()),
    ("least squares,\nmean colour known", LeastSquares(brightness=True)),
    ("least squares,\n16 releases", LeastSquares(repeats=16)),
)


def chips(people: SyntheticPeople, numbers: range) -> np.ndarray:
    """Align one portrait of each person; its landmarks count from the corner of the first pixel."""
    return np.stack([align(people.portrait(n, 0).image, people.landmarks(n, 0) - 0.5, size=SIDE) for n in numbers])


def main() -> None:
    """Attack and draw."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    people = SyntheticPeople(OWN + 2, 1, seed=SEED)
    faces = chips(people, range(len(people)))
    right, own = faces[:2], faces[2:]
    public = Public(own, np.array([f"p{n}" for n in range(OWN)]))
    pixels = tensor_of(own)
    found: dict[tuple[int, int], np.ndarray] = {}
    lines = [
        "| release | " + " | ".join(title.replace("\n", " ") for title, _ in ATTACKS) + " |",
        "|---|" + "---|" * len(ATTACKS),
    ]
    for row, (name, options) in enumerate(VARIANTS):
        release = DctDp((SIDE, SIDE), budgets="uniform", **options)
        release.calibrate(lambda: iter([(part, [""] * len(part)) for part in torch.split(pixels, 32)]))
        release.eval()
        view = View.of(release, right, own[:2], generator_of(SEED, row))
        cells = [name]
        for column, (_, attack) in enumerate(ATTACKS):
            attack.prepare(release, public, seed=SEED)
            found[row, column] = attack.recover(view)
            cells.append(f"{psnr(found[row, column], right).mean():.1f}")
        lines.append("| " + " | ".join(cells) + " |")
    floor = psnr(constant_floor(own, right), right).mean()
    lines += [
        "",
        f"PSNR in dB, mean of two faces of {SIDE} x {SIDE}; a constant picture reaches {floor:.1f}. Seed {SEED}, budgets shared equally.",
    ]
    record("Gallery of rendered people", "\n".join(lines))
    draw(right, found)


def draw(right: np.ndarray, found: dict[tuple[int, int], np.ndarray]) -> None:
    """Put pictures on a sheet: a row for each release, two people in each cell."""
    font, pad, left, top = ImageFont.load_default(15), 8, 150, 58
    wide = 2 * SIDE + 2 * pad
    sheet = Image.new("RGB", (left + wide * (len(ATTACKS) + 1), top + (SIDE + pad) * len(VARIANTS)), "white")
    pen = ImageDraw.Draw(sheet)
    for column, title in enumerate(["the faces", *(title for title, _ in ATTACKS)]):
        pen.multiline_text((left + column * wide, 10), title, fill="#222222", font=font)
        for row, (name, _) in enumerate(VARIANTS):
            y = top + row * (SIDE + pad)
            if column == 0:
                pen.text((10, y + SIDE // 2 - 8), name, fill="#222222", font=font)
            shown = right if column == 0 else found[row, column - 1]
            for i, image in enumerate(shown):
                chip = Image.fromarray(np.clip(np.rint(image), 0, 255).astype(np.uint8))
                sheet.paste(chip, (left + column * wide + i * (SIDE + 2), y))
    sheet.quantize(256).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
