"""The tables of the trial of DCTDP on real faces, from the model folders that it left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from faceblind.frequency.evaluation.draws import Draws, compared, paired
from faceblind.measure import holm
from faceblind.measure.paired import PairedDifference

IN_FULL = ("dctdp-0.5", "dctdp-official-0.5")
"""Variants whose attacks are all listed."""
QUESTIONS = (
    ("dct-clean", "rgb-arcface", "the transform without noise"),
    ("dctdp-20", "dct-clean", "noise, budget 20"),
    ("dctdp-20", "dctdp-uniform-20", "learned budgets, not equal ones"),
    ("dctdp-20-again", "dctdp-uniform-20-again", "the same, trained again"),
    ("dctdp-20 and again", "dctdp-uniform-20 and again", "the same, mean of both"),
    ("dctdp-20", "dctdp-20-again", "nothing: trained again"),
    ("dctdp-uniform-20", "clean-uniform-20", "training under the noise, not noise put on afterwards"),
    ("dctdp-20", "dctdp-dc-20", "DC dropped, not kept"),
    ("warm-4", "rgb-arcface", "DCTDP at 4, trained in two steps"),
    ("warm-4", "dctdp-20", "budget 4, not 20; trained longer"),
    ("warm-4", "clean-uniform-4", "learned under the noise, not equal and put on afterwards"),
    ("dctdp-official-0.5", "rgb-arcface", "the published code"),
    ("dctdp-0.5", "rgb-arcface", "DCTDP at 0.5"),
    ("dctdp-0.5", "dctdp-uniform-0.5", "learned budgets, not equal ones"),
    ("dctdp-0.5", "peep-5", "DCTDP or PEEP"),
    ("dctdp-0.5", "cloak-100", "DCTDP or Cloak"),
    ("dctdp-0.5", "instahide-2", "DCTDP or InstaHide"),
    ("rgb-cosface", "rgb-arcface", "CosFace, not ArcFace"),
    ("rgb-noise-0.5", "dctdp-0.5", "noise on pixels, not on frequencies"),
)
"""Two variants each, and what tells them apart."""
RECOVERED = (
    ("dctdp-20", "warm-4", "lsq"),
    ("warm-4", "clean-uniform-4", "lsq"),
    ("warm-4", "clean-uniform-4", "unet"),
    ("warm-4", "dctdp-0.5", "lsq"),
    ("dctdp-0.5", "dctdp-uniform-0.5", "lsq-average-16"),
    ("dctdp-official-0.5", "dctdp-0.5", "lsq"),
    ("dctdp-official-0.5", "dctdp-0.5", "unet"),
)
"""Two variants each, and an attack on both."""


def tables(out: Path, names: list[str]) -> str:
    """Return what was measured as Markdown."""
    found = {}
    for name in names:
        path = out / name / "record.json"
        if path.exists():
            found[name] = json.loads(path.read_text())["models"][0]
    lines = [
        f"{len(found)} variants; noise on; 95 % intervals draw people. TAR is of the test people, re-identification of recovered faces (EdgeFace-XS) at FAR 1e-2.",
        "",
        "| variant | training accuracy | 10-fold accuracy | TAR at FAR 1e-2 | clearest attack by PSNR | dB | floor dB | re-identified by the best attack | true photographs |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, model in found.items():
        log = json.loads((out / name / "training.json").read_text())["log"]
        ten, tar = row_of(model, "tenfold", None), row_of(model, "people", 1e-2)
        attacks = [a for a in model.get("attacks", []) if "true photograph" not in a["holds"]]
        best = max(attacks, key=lambda a: a["psnr"]["mean"], default=None)
        reid = max((a for a in attacks if a["reid"]), key=lambda a: a["reid"]["tar"], default=None)
        cells = [
            name,
            f"{log[-1]['accuracy']:.1%}" if log else "not trained",
            interval(ten, "accuracy") if ten else "not measured",
            interval(tar, "tar") if tar else "not measured",
            best["attack"] if best else "not measured",
            decibels(best["psnr"]) if best else "",
            f"{model['floor']['psnr']['mean']:.1f}" if best else "",
            f"{interval(reid['reid'], 'tar')} ({reid['attack']}; chance {reid['reid']['null']['tar']:.1%})"
            if reid
            else "",
            interval(reid["reid"]["original"], "tar") if reid else "",
        ]
        lines.append(line(*cells))
    lines += ["", *difference_lines(found)]
    lines += ["", *recovered_lines(found)]
    lines += ["", *linkage_lines(found)]
    lines += ["", *attack_lines(found)]
    for name, model in found.items():
        if not model.get("attacks") or name not in IN_FULL:
            continue
        lines += [
            "",
            f"{name}:",
            "",
            "| attack | PSNR | SSIM | similarity | re-identified at FAR 1e-2 |",
            "|---|---|---|---|---|",
        ]
        for a in model["attacks"]:
            quality = (f"{a[metric]['mean']:.2f}" for metric in ("ssim", "similarity"))
            lines.append(line(a["title"], decibels(a["psnr"]), *quality, interval(a["reid"], "tar")))
    return "\n".join(lines)


def difference_lines(found: dict[str, dict]) -> list[str]:
    """Return how variants differ on the same people, draw by draw; p-values two-sided, Holm's correction over the table."""
    made, p_values = [], []
    for first, second, what in QUESTIONS:
        tens = [mean_of(found, name, "tenfold", None) for name in (first, second)]
        rates = [mean_of(found, name, "people", 1e-2) for name in (first, second)]
        if None in (*tens, *rates):
            continue
        accuracy, tar, turned = paired(*tens), paired(*rates), paired(*rates[::-1])
        made.append((what, first, second, points(accuracy), points(tar)))
        p_values.append(min(1.0, 2 * min(tar.p_value, turned.p_value)))
    adjusted = holm(p_values).adjusted if made else ()
    lines = [
        "Differences in paired draws of the same people, in points; p of the TAR, Holm's correction over the table:",
        "",
        "| what differs | first | second | 10-fold accuracy | TAR at FAR 1e-2 | p |",
        "|---|---|---|---|---|---|",
    ]
    return lines + [line(*cells, f"{p:.3f}") for cells, p in zip(made, adjusted, strict=True)]


def runs_of(name: str) -> list[str]:
    """Return the variants behind a name: ``X and again`` is two runs of X."""
    one, again, _ = name.partition(" and again")
    return [one, f"{one}-again"] if again else [name]


def mean_of(found: dict[str, dict], name: str, protocol: str, far: float | None) -> Draws | None:
    """Return the mean of a name's runs within each draw of people; None where one was not measured."""
    rows = [row_of(found.get(run, {"evaluation": []}), protocol, far) for run in runs_of(name)]
    if not all(row and row.get("draws") for row in rows):
        return None
    draws = [Draws.from_dict(row["draws"]) for row in rows]
    return Draws(
        float(np.mean([d.base for d in draws])),
        min(d.people for d in draws),
        np.mean([d.values for d in draws], axis=0),
        draws[0].of,
    )


def recovered_lines(found: dict[str, dict]) -> list[str]:
    """Return by how much recovered faces of one variant are re-identified more often than those of another."""
    lines = [
        "Re-identification at FAR 1e-2, differences in paired draws of the attacked people, in points:",
        "",
        "| attack | first | second | difference |",
        "|---|---|---|---|",
    ]
    for first, second, attack in RECOVERED:
        rows = [
            next((a["reid"] for a in found.get(name, {}).get("attacks") or [] if a["attack"] == attack), None)
            for name in (first, second)
        ]
        gap = compared(*rows) if None not in rows else None
        if gap is not None:
            lines.append(line(attack, first, second, points(gap)))
    return lines


def row_of(model: dict, protocol: str, far: float | None) -> dict[str, Any] | None:
    """Return what was measured of the test people by a protocol at a FAR."""
    return next((r for r in model["evaluation"] if (r["protocol"], r.get("far_target")) == (protocol, far)), None)


def attack_lines(found: dict[str, dict]) -> list[str]:
    """Return what the main attacks reach on every variant."""
    shown = {
        "idct-zero": "inverse DCT, DC zero",
        "look": "looking at it",
        "lsq": "least squares",
        "lsq-average-16": "least squares, 16 releases",
        "unet": "U-Net",
        "unet-lsq": "U-Net behind least squares",
    }
    lines = [
        "Attacks: PSNR in dB, and re-identification at FAR 1e-2 of what they recover.",
        "",
        "| variant | " + " | ".join(shown.values()) + " |",
        "|---|" + "---|" * len(shown),
    ]
    for name, model in found.items():
        by_name = {attack["attack"]: attack for attack in model.get("attacks") or []}
        cells = [name]
        for attack in shown:
            row = by_name.get(attack)
            cells.append(f"{row['psnr']['mean']:.1f}; {interval(row['reid'], 'tar')}" if row else "")
        if by_name:
            lines.append(line(*cells))
    return lines


def linkage_lines(found: dict[str, dict]) -> list[str]:
    """Return how well releases are linked: by the best attacker in each space and gallery, chosen by what it reaches."""
    lines = [
        "Linkage of releases, TAR at FAR 1e-2 of the best of cosine, ridge, LDA and WCCN (chance beside it):",
        "",
        "| variant | released tensor, other releases | released tensor, photographs | embedding, other releases | embedding, photographs |",
        "|---|---|---|---|---|",
    ]
    for name, model in found.items():
        rows = model.get("linkage") or []
        cells = [name]
        for space in ("released tensor", "the recogniser's embedding"):
            for gallery in ("other releases", "photographs, without noise"):
                some = [row for row in rows if (row["space"], row["gallery"]) == (space, gallery)]
                best = max(some, key=lambda row: row["tar"], default=None)
                cells.append(
                    f"{interval(best, 'tar')} ({best['attacker']}; {best['null']['tar']:.1%})" if best else "no noise"
                )
        if rows:
            lines.append(line(*cells))
    return lines


def interval(row, key: str) -> str:
    """Say a rate with its interval."""
    return f"{row[key]:.1%} ({row['low']:.1%} to {row['high']:.1%})"


def decibels(row: dict[str, float]) -> str:
    """Say a PSNR with its interval."""
    return f"{row['mean']:.1f} ({row['low']:.1f} to {row['high']:.1f})"


def points(gap: PairedDifference) -> str:
    """Say a difference of two rates with its interval, in points."""
    return f"{100 * gap.difference:+.1f} ({100 * gap.low:+.1f} to {100 * gap.high:+.1f})"


def line(*cells: str) -> str:
    """Return a line of a table."""
    return "| " + " | ".join(cells) + " |"
