"""How well encoders separate the synthetic people: AUC, and TAR of plain cosine at FAR 1e-2.

python benchmarks/synthetic.py --record
"""

from __future__ import annotations

import argparse
import time
from datetime import date

import numpy as np
from scipy.stats import rankdata

from faceblind.encoders import open_encoder
from faceblind.faces.synthetic import SyntheticPeople
from recording import record


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--people", type=int, default=40)
    arguments.add_argument("--images", type=int, default=8)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--record", action="store_true", help="write the figures into RESULTS.md")
    options = arguments.parse_args()
    start = time.process_time()
    portraits = list(SyntheticPeople(options.people, options.images, seed=options.seed))
    each = (time.process_time() - start) / len(portraits)
    identity = np.array([p.identity for p in portraits])
    scene = np.array([p.background for p in portraits])
    upper = np.triu(np.ones((identity.size, identity.size), bool), 1)
    same = identity[:, None] == identity[None, :]
    same_scene = scene[:, None] == scene[None, :]
    rows = [
        "| encoder | AUC same / different person | mean cosine same / different | TAR at FAR 1e-2 | "
        "AUC same person, other scene / other person, same scene |",
        "|---|---|---|---|---|",
    ]
    for name in ("sscd", "sscd-distilled"):
        vectors = open_encoder(name).embed([p.image for p in portraits]).astype(np.float64)
        scores = vectors @ vectors.T
        mated, other = scores[upper & same], scores[upper & ~same]
        tar = float((mated > np.quantile(other, 0.99)).mean())
        context = auc(scores[upper & same & ~same_scene], scores[upper & ~same & same_scene])
        rows.append(
            f"| {name} | {auc(mated, other):.3f} | {mated.mean():.3f} / {other.mean():.3f} | {100 * tar:.1f} % | {context:.3f} |"
        )
    text = "\n".join(
        [
            f"{date.today().isoformat()}, 2 cores, `python benchmarks/synthetic.py --record`, {options.people} people x "
            f"{options.images} images, seed {options.seed}; {1000 * each:.0f} ms of one core per 256 x 256 portrait.\n",
            *rows,
        ]
    )
    print(text)
    if options.record:
        record("synthetic", text)
    return 0


def auc(high: np.ndarray, low: np.ndarray) -> float:
    """Return the chance that a score of the first kind exceeds one of the second, ties one half."""
    ranks = rankdata(np.concatenate([high, low]))
    return float((ranks[: high.size].sum() - high.size * (high.size + 1) / 2) / (high.size * low.size))


if __name__ == "__main__":
    raise SystemExit(main())
