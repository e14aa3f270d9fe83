"""Fabricated audit records: realistic numbers from a closed form, no random draws.

Scores are binormal with a recognisable share: a same-person pair scores N(shift, 1) with probability `share`,
otherwise like a different-person pair, N(0, 1). TAR and FNMR follow exactly.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

NORMAL = NormalDist()
PEOPLE = 80
MATED = 15_200
NONMATED = 1_264_000
RANK = 144

# (share, shift) of each release for the cosine attacker; ridge gains with k, more so with the eraser's own people.
RELEASES = {"raw": (0.62, 1.75), "isp": (0.55, 1.2), "random": (0.6, 1.68), "pca": (0.57, 1.35), "permuted": (0.6, 1.5)}
RATES = (1e-2, 1e-3, 1e-4)


def tar_at(far: float, share: float, shift: float) -> float:
    """True accept rate at a false accept rate."""
    if far in {0.0, 1.0}:
        return far
    return share * (1 - NORMAL.cdf(NORMAL.inv_cdf(1 - far) - shift)) + (1 - share) * far


def grade_of(far: float, nonmated: int) -> str:
    allowed = math.floor(far * nonmated * (1 + 1e-12))
    return "supported" if allowed >= 30 else "indicative" if allowed >= 3 else "unsupported"


def spread(tar: float) -> tuple[float, float]:
    """A plausible 95 % interval: subjects, not pairs, decide its width."""
    half = 1.96 * math.sqrt(tar * (1 - tar) / (4 * PEOPLE)) * 0.7
    return max(0.0, tar - half), min(1.0, tar + half)


def attackers() -> list[tuple[str, str | None, int | None, float]]:
    """(name, trained_on, k, gain in shift)."""
    listed: list[tuple[str, str | None, int | None, float]] = [("cosine", None, None, 0.0)]
    for k, gain in ((1, -0.05), (4, 0.12), (16, 0.25)):
        listed += [("ridge", "attack", k, gain), ("ridge", "fit", k, gain + 0.06)]
    return listed


def make_record(
    *,
    rates: tuple[float, ...] = RATES,
    releases: tuple[str, ...] = tuple(RELEASES),
    nonmated: int = NONMATED,
    level: str = "reduced",
    synthetic: bool = False,
) -> dict[str, Any]:
    """A full record of layout faceblind.audit/1."""
    summary, rows = [], []
    for release in releases:
        share, shift = RELEASES[release]
        for name, trained_on, k, gain in attackers():
            # The eraser blinds a probe that learned from its own people: the record shows the collapse.
            here = shift - 0.9 if release == "isp" and trained_on == "fit" else shift + gain
            for calibration in ("validation", "test"):
                for far in rates:
                    achieved = far * (0.93 if calibration == "validation" else 1.0)
                    seeds = [0, 1, 2] if k else [None]
                    values = [tar_at(achieved, share, here + 0.01 * (seed or 0)) for seed in seeds]
                    tar = sum(values) / len(values)
                    low, high = spread(tar)
                    grade = grade_of(far, nonmated)
                    if grade == "unsupported":
                        low, high = 0.0, min(1.0, tar * 2 + 0.02)
                    base = {
                        "release": release,
                        "rank": 0 if release == "raw" else RANK,
                        "attacker": name,
                        "trained_on": trained_on,
                        "k": k,
                    }
                    point = {
                        "calibration": calibration,
                        "far_target": far,
                        "far_achieved": math.floor(achieved * nonmated) / nonmated,
                        "tar": tar,
                        "tar_low": low,
                        "tar_high": high,
                        "grade": grade,
                        "mated": MATED,
                        "nonmated": nonmated,
                    }
                    frozen = calibration == "validation"
                    reach = {
                        "far_low": point["far_achieved"] / 2 if frozen else None,
                        "far_high": min(1.0, point["far_achieved"] * 2) if frozen else None,
                    }
                    summary.append(
                        {**base, **point, "seeds": len(seeds), "lift": tar / far if far else 0.0, "people": PEOPLE}
                    )
                    for seed, value in zip(seeds, values, strict=True):
                        rows.append(
                            {
                                **base,
                                **point,
                                **reach,
                                "seed": seed,
                                "tar": value,
                                "false_accepts": math.floor(achieved * nonmated),
                                "true_accepts": round(value * MATED),
                                "threshold": 0.6 - 0.5 * achieved**0.1,
                                "ties": 0,
                            }
                        )
    return {
        "schema": "faceblind.audit/1",
        "synthetic": synthetic,
        "verdict": verdict(level),
        "gate": {
            "expression": "tar@1e-4 > 2%",
            "release": "isp",
            "failed": True,
            "value": 0.0412,
            "point": 0.0289,
            "attacker": "ridge",
            "message": "TAR at FAR 1e-4 on the erased vectors may be as high as 4.1 %, above the 2 % that was allowed.",
        },
        "hygiene": findings(),
        "summary": summary,
        "worst": worst(summary),
        "comparisons": comparisons(worst(summary)),
        "rows": rows,
        "curves": [
            curve(release, *attacker, nonmated)
            for release in releases
            for attacker in attackers()[::6][:2] + attackers()[5:6]
        ],
        "rank_curve": rank_curve(min(rates)) if "isp" in releases else [],
        "utility": [
            {
                "release": release,
                "rank": RANK,
                "neighbour_overlap": overlap,
                "neighbours": 10,
                "energy_kept": energy,
                "energy_kept_p05": energy - 0.11,
                "images": PEOPLE * 20,
            }
            for release, overlap, energy in (
                ("isp", 0.612, 0.427),
                ("random", 0.871, 0.719),
                ("pca", 0.487, 0.172),
                ("permuted", 0.641, 0.463),
            )
            if release in releases
        ],
        "power": power(min(rates)) if "isp" in releases else None,
        "limits": [
            "It measures the attackers that were tried. A stronger or non-linear one may read more.",
            "It holds for this encoder and its preprocessing; other weights or another crop need their own audit.",
            "It says nothing about the photographs themselves, nor about file names or other columns stored beside the vectors.",
            "A linear map removes what is linear in the means of the people it was fitted on; on others the effect is measured, not guaranteed.",
        ],
        "provenance": make_provenance(rates),
    }


def worst(summary: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The attacker with the highest upper end on each release at each rate, threshold set on test."""
    kept = ("release", "rank", "far_target", "attacker", "trained_on", "k", "tar", "tar_low", "tar_high", "grade")
    found: dict[tuple[str, float], dict[str, Any]] = {}
    for entry in summary:
        key = (entry["release"], entry["far_target"])
        if entry["calibration"] == "test" and (key not in found or entry["tar"] > found[key]["tar"]):
            found[key] = entry
    return [
        {name: entry[name] for name in kept} | {"bound": min(1.0, entry["tar_high"] * 1.08), "attackers": 7}
        for entry in found.values()
    ]


def comparisons(tops: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The eraser against everything else, at rates that are supported at all."""
    found = []
    for mine in tops:
        others = [t for t in tops if t["far_target"] == mine["far_target"] and t is not mine]
        for other in others if mine["release"] == "isp" and mine["grade"] != "unsupported" else ():
            difference = mine["tar"] - other["tar"]
            p = 0.001 if other["release"] == "raw" else 0.2
            found.append(
                {
                    "release": "isp",
                    "against": other["release"],
                    "rank": mine["rank"],
                    "rank_against": other["rank"],
                    "far_target": mine["far_target"],
                    "attacker": mine["attacker"],
                    "attacker_against": other["attacker"],
                    "tar": mine["tar"],
                    "tar_against": other["tar"],
                    "difference": difference,
                    "low": max(-1.0, difference - 0.02),
                    "high": min(1.0, difference + 0.02),
                    "ratio": mine["tar"] / other["tar"] if other["tar"] else None,
                    "p_value": p,
                    "p_adjusted": min(1.0, 4 * p),
                    "leaks_less": 4 * p <= 0.025,
                }
            )
    return found


def verdict(level: str) -> dict[str, Any]:
    headline = {
        "leaks": "The vectors leak identity: the worst attacker recognises 4.7 % of same-person pairs at 1 false accept in 10,000.",
        "reduced": "The eraser reduces what the worst attacker reads, and does not remove it.",
        "low": "No attacker tried reads much more than guessing would.",
        "inconclusive": "There are too few people to say.",
    }[level]
    return {
        "level": level,
        "headline": headline,
        "sentences": [
            "At 1 false accept in 10,000 the worst attacker on the erased vectors still recognises 2.9 % of same-person pairs, 289 times as often as guessing.",
            "A ridge probe trained on the eraser's own people reads almost nothing; that is the probe's blindness and not privacy.",
        ],
    }


def findings() -> list[dict[str, Any]]:
    return [
        {
            "kind": "outlier_label",
            "severity": "warning",
            "count": 7,
            "examples": ["id_0412/000031.jpg", "id_0077/000002.jpg"],
            "message": "Images unlike the others of their person; a wrong label lowers the TAR that can be seen.",
        },
        {
            "kind": "few_images",
            "severity": "note",
            "count": 12,
            "examples": ["id_0009", "id_0013", "id_0155"],
            "message": "People with fewer than four images take part in fewer same-person pairs.",
        },
    ]


def curve(release: str, name: str, trained_on: str | None, k: int | None, gain: float, nonmated: int) -> dict[str, Any]:
    share, shift = RELEASES[release]
    shift = shift - 0.9 if release == "isp" and trained_on == "fit" else shift + gain
    far = [10 ** (-6 + 6 * i / 90) for i in range(90)]
    fnmr = [1 - tar_at(f, share, shift) for f in far]
    intervals = [spread(1 - m) for m in fnmr]
    eer = min(zip(far, fnmr, strict=True), key=lambda pair: abs(pair[0] - pair[1]))[0]
    return {
        "release": release,
        "rank": 0 if release == "raw" else RANK,
        "attacker": name,
        "trained_on": trained_on,
        "k": k,
        "far": far,
        "fnmr": fnmr,
        "fnmr_low": [1 - high for _, high in intervals],
        "fnmr_high": [1 - low for low, _ in intervals],
        "eer": eer,
        "eer_low": max(0.0, eer - 0.02),
        "eer_high": min(1.0, eer + 0.021),
        "far_floor": min(1.0, 30 / nonmated),
        "separation": separation(share, shift, nonmated) if name == "cosine" else None,
    }


def separation(share: float, shift: float, nonmated: int) -> dict[str, Any]:
    pauc = sum(tar_at(1e-3 * (i + 0.5) / 50, share, shift) for i in range(50)) / 50
    low, high = spread(pauc)
    return {
        "pauc": pauc,
        "pauc_low": low,
        "pauc_high": high,
        "pauc_far": 1e-3,
        "pauc_grade": grade_of(1e-3, nonmated),
        "dsys": share * 0.4 + 0.02,
        "dsys_null": 0.02,
        "dsys_excess": share * 0.4,
        "dsys_p": 0.01,
        "extrapolated": [
            {"far_target": 1e-5, "tar": pauc / 4, "tar_low": pauc / 9, "tar_high": pauc, "refused": None},
            {
                "far_target": 1e-9,
                "tar": None,
                "tar_low": None,
                "tar_high": None,
                "refused": "the rate lies more than 100 times below what the pairs support",
            },
        ],
    }


def rank_curve(far: float) -> list[dict[str, Any]]:
    points = []
    for rank in (0, 16, 32, 48, 64, 96, 128, 144, 192, 256):
        tar = tar_at(far, 0.62 - rank / 2000, 1.95 - rank / 300)
        low, high = spread(tar)
        points.append(
            {
                "rank": rank,
                "far_target": far,
                "attacker": "ridge" if rank < 100 else "cosine",
                "trained_on": "attack" if rank < 100 else None,
                "k": 16 if rank < 100 else None,
                "tar": tar,
                "tar_low": low,
                "tar_high": high,
                "neighbour_overlap": math.exp(-rank / 300),
                "energy_kept": math.exp(-rank / 170),
            }
        )
    return points


def power(far: float) -> dict[str, Any]:
    points = []
    for strength in (0.01, 0.02, 0.05, 0.1, 0.2):
        tar = 0.029 + 3 * strength**1.5
        low, high = spread(tar)
        points.append(
            {
                "strength": strength,
                "attacker": "ridge",
                "tar": tar,
                "tar_low": low,
                "tar_high": high,
                "caught": low > 0.042,
            }
        )
    smallest = min(p["strength"] for p in points if p["caught"])
    return {
        "release": "isp",
        "far_target": far,
        "unplanted_tar": 0.029,
        "unplanted_tar_high": 0.042,
        "points": points,
        "smallest_caught": smallest,
    }


def make_provenance(rates: tuple[float, ...]) -> dict[str, Any]:
    digest = "9f2c5be1" * 8
    grid = [1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0]
    return {
        "faceblind": "0.1.0.dev0",
        "seed": 0,
        "plan": {"seed": 0, "eraser": "isp", "attackers": ["cosine", "ridge"]},
        "command": "faceblind audit portraits.parquet --projector isp-144.safetensors --fail-if 'tar@1e-4 > 2%'",
        "table": {
            "name": "portraits.parquet",
            "rows": 32_000,
            "dim": 512,
            "identities": 1600,
            "vectors_sha256": digest,
        },
        "encoder": {
            "encoder": "sscd",
            "weights_sha256": digest,
            "dim": 512,
            "pooling": "output 'embedding', l2-normalised in graph",
            "preprocessing": '[{"op":"resize","short":288},{"op":"centre_crop","size":288},{"op":"normalise","mean":[0.485,0.456,0.406]}]',
            "precision": "int8",
            "libraries": {"onnxruntime": "1.22.0", "pillow": "12.0.0"},
        },
        "table_projector": None,
        "projector": {
            "method": "isp",
            "rank": RANK,
            "digest": digest,
            "rank_rule": {"target": "tar@1e-4 <= 5%", "on": "validation"},
            "spectrum": [round(9 / (i + 1), 4) for i in range(144)],
        },
        "split": {
            "fit": {"identities": 640, "samples": 12_800},
            "attack": {"identities": 640, "samples": 12_800},
            "validation": {"identities": 240, "samples": 4800},
            "test": {"identities": PEOPLE, "samples": PEOPLE * 20},
        },
        "split_rule": "people are ordered by a keyed hash of their name and dealt out 8:8:3:1",
        "far_targets": list(rates),
        "attackers": [
            {
                "attacker": name,
                "trained_on": trained_on,
                "k": k,
                "grid": {"ridge": grid},
                "chosen": {"raw": 0.1, "isp": 1.0},
            }
            if k
            else {"attacker": name, "trained_on": None, "k": None, "grid": {}, "chosen": {}}
            for name, trained_on, k, _ in attackers()
        ],
        "bootstrap": {"draws": 1000, "unit": "identity", "method": "percentile", "level": 0.95},
        "threshold_rule": "accept iff score >= t; t is the smallest value whose false-accept count stays within the target",
        "libraries": {"numpy": "2.4.6", "scipy": "1.16.0"},
    }
