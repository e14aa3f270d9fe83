"""The main job on real faces: what ISP does to SSCD embeddings of LFW and CelebA-20, and a face-recognition control.

Runs on the folder that FACEBLIND_DATA names (LFW with the people who have at least four photographs, CelebA-20,
object photographs, EdgeFace weights; see docs/benchmarks.md). Embeddings are kept in --work and reused. Figures go
between the markers of benchmarks/RESULTS.md.

    FACEBLIND_DATA=/data python benchmarks/faces.py --work out/faces
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

import faceblind as fb
from align import align_folder
from faceblind.audit.files import save_audit
from faceblind.audit.plan import AuditPlan
from faceblind.audit.run import AuditRun, run_audit
from faceblind.audit.verdict import worst_of
from faceblind.encoders import embed_folder, open_encoder
from faceblind.measure import pairs_above
from faceblind.utility import neighbour_overlap
from recording import record

FARS = (1e-2, 1e-3, 1e-4)
SHOWN = (
    ("cosine", None, None), ("ridge", "attack", 16), ("ridge", "fit", 16), ("wccn", "attack", None), ("wccn", "fit", None),
)  # fmt: skip
RANKS = {("lfw", "edgeface-xxs"): 100}  # its vectors span about 170 of 512 dimensions: the default would leave nothing
EDGEFACE = {
    "resize": "squash", "size": 112, "interpolation": "bilinear", "channels": "RGB", "layout": "NCHW", "dtype": "float32", "scale": "1/255", "mean": [0.5] * 3,
    "std": [0.5] * 3, "normalise": True,
}  # fmt: skip


@dataclass(frozen=True)
class Trial:
    dataset: str
    encoder: str
    run: AuditRun
    people: fb.EmbeddingSet


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--work", type=Path, default=Path("out/faces"), help="where embeddings and reports are kept")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--encoders", default="sscd,sscd-distilled,edgeface-xxs")
    arguments.add_argument("--record", action="store_true", help="write the figures into RESULTS.md")
    options = arguments.parse_args()
    data = os.environ.get("FACEBLIND_DATA")
    if not data or not Path(data).is_dir():
        print("FACEBLIND_DATA must name the folder with lfw/, celeba20/, objects/ and models/", file=sys.stderr)
        return 2
    started = time.time()
    sections = []
    for encoder in options.encoders.split(","):
        trials = [one(Path(data), name, encoder, options.work, options.seed) for name in ("lfw", "celeba20")]
        objects = table(Path(data), "objects", encoder, options.work) if encoder != "edgeface-xxs" else None
        sections.append(section(encoder, trials, objects, options))
        print(sections[-1], flush=True)
    command = "FACEBLIND_DATA=... python benchmarks/faces.py" + (" --record" if options.record else "")
    head = (
        f"{date.today().isoformat()}, {os.cpu_count()} cores, faceblind {fb_version()}, seed {options.seed}, "
        f"`{command}`; {time.time() - started:.0f} s with embeddings at hand.\n"
    )
    if options.record:
        record("faces", head + "\n" + "\n".join(sections))
    return 0


def table(data: Path, name: str, encoder: str, work: Path) -> fb.EmbeddingSet:
    """Embed a folder once; read it ever after."""
    path = work / f"{name}-{encoder}.parquet"
    if not path.exists():
        work.mkdir(parents=True, exist_ok=True)
        labels = None
        source = data / name
        if name == "objects":  # one photograph of each class: a label per file, so that it reads as a table
            labels = work / "objects.csv"
            rows = [f"{p.name},{p.stem}" for p in sorted(source.iterdir()) if p.suffix == ".jpg"]
            labels.write_text("path,identity\n" + "\n".join(rows) + "\n")
        if encoder == "edgeface-xxs":
            source = work / f"{name}-aligned"
            made, missed = align_folder(data / name, source, data / "models" / "scrfd_2.5g_bnkps.onnx")
            print(f"aligned {made} of {name}, {missed} without a face", flush=True)
        opened = open_encoder(spelled(encoder, data, work))
        result = embed_folder(source, opened, path, labels_csv=labels)
        print(f"embedded {result.embedded} of {name} with {encoder}, skipped {len(result.skipped)}", flush=True)
    return without_duplicates(fb.read_table(path), name)


def without_duplicates(people: fb.EmbeddingSet, name: str) -> fb.EmbeddingSet:
    """Drop both rows of every photograph that stands under two names: nobody can say which name is right."""
    identity = people.require_identity()
    pairs, _, count = pairs_above(people.unit(), 1 - 1e-6, labels=identity)
    if count:
        print(f"{name}: {count} photographs stand under two names and are left out", flush=True)
    return people.take(np.setdiff1d(np.arange(len(people)), pairs))


def spelled(encoder: str, data: Path, work: Path) -> str:
    if encoder != "edgeface-xxs":
        return encoder
    spec = work / "edgeface.json"
    spec.write_text(json.dumps(EDGEFACE))
    return f"onnx:{data / 'models' / 'edgeface_xxs_q_fp32.onnx'}?spec={spec}"


def one(data: Path, dataset: str, encoder: str, work: Path, seed: int) -> Trial:
    people = table(data, dataset, encoder, work)
    split = lfw_split(people, seed) if dataset == "lfw" else fb.IdentitySplit.draw(people, seed=seed)
    run = run_audit(
        people,
        plan=AuditPlan(seed=seed, fars=FARS, rank=RANKS.get((dataset, encoder))),
        split=split,
        name=f"{dataset} {encoder}",
        progress=lambda what, done, of: print(
            f"\r{dataset} {encoder}: {what} ({done}/{of})\x1b[K", end="", file=sys.stderr
        ),
    )
    print(file=sys.stderr)
    save_audit(run, people, work / f"{dataset}-{encoder}-audit")
    return Trial(dataset, encoder, run, people)


def lfw_split(people: fb.EmbeddingSet, seed: int) -> fb.IdentitySplit:
    """Test on the people with 20 photographs; fit, attack and validate (2 : 2 : 1) on all others."""
    identity = people.require_identity()
    names, counts = np.unique(identity, return_counts=True)
    others = np.random.default_rng([seed, 0x1F3]).permutation(names[counts < 20])
    two_fifths = round(0.4 * others.size)
    where = dict.fromkeys(names[counts >= 20].tolist(), "test")
    where |= dict.fromkeys(others[:two_fifths].tolist(), "fit")
    where |= dict.fromkeys(others[two_fifths : 2 * two_fifths].tolist(), "attack")
    where |= dict.fromkeys(others[2 * two_fifths :].tolist(), "validation")
    rule = "test: the people with 20 photographs; the others 2 : 2 : 1 to fit, attack and validation"
    return fb.IdentitySplit(np.array([where[str(name)] for name in identity]), rule)


def section(encoder: str, trials: list[Trial], objects: fb.EmbeddingSet | None, options: argparse.Namespace) -> str:
    lines = [f"### {encoder}\n"]
    for trial, other in zip(trials, reversed(trials), strict=True):
        lines += [f"**{trial.dataset}**: {split_words(trial.run)}\n", *own_table(trial), ""]
        lines += [verdict_words(trial.run), ""]
        if encoder != "edgeface-xxs":
            lines += [*cross_table(trial, other, options.seed), ""]
    if objects is not None:
        lines += [*objects_table(trials, objects), ""]
    return "\n".join(lines)


def split_words(run: AuditRun) -> str:
    split = run.result.provenance["split"]
    sizes = ", ".join(f"{name} {part['identities']} people / {part['samples']} photos" for name, part in split.items())
    test = run.result.summary[0]
    return f"{sizes}; {test.mated:,} mated and {test.nonmated:,} non-mated test pairs"


def verdict_words(run: AuditRun) -> str:
    said = run.result.verdict
    findings = "; ".join(f"{f.severity} {f.kind} ({f.count})" for f in run.result.hygiene) or "none"
    extra = [s for s in said.sentences if "blindness" in s or "control" in s.lower() or "caught" in s or "missed" in s]
    return f"Verdict ({said.level}): {said.headline} {' '.join(extra)} Findings: {findings}."


def own_table(trial: Trial) -> list[str]:
    """TAR in % of every attacker of note, and the cost, per release; thresholds set on test."""
    lines = [
        "| release | attacker | "
        + " | ".join(f"TAR at FAR {far:g} (95 % interval)" for far in FARS)
        + " | overlap@10 | energy |",
        "|---|---|" + "---|" * len(FARS) + "---|---|",
    ]
    for utility in trial.run.result.utility:
        for attacker, trained_on, k in SHOWN:
            cells = [cell(trial.run, utility.release, attacker, trained_on, k, far) for far in FARS]
            name = " ".join(filter(None, (attacker, k and f"k={k}", trained_on and f"on {trained_on} people")))
            cost = f"{utility.neighbour_overlap:.3f} | {utility.energy_kept:.3f}" if trained_on is None else " | "
            lines.append(f"| {utility.release} r={utility.rank} | {name} | " + " | ".join(cells) + f" | {cost} |")
    return lines


def cell(run: AuditRun, release: str, attacker: str, trained_on: str | None, k: int | None, far: float) -> str:
    (point,) = [
        s for s in run.result.summary
        if (s.release, s.attacker, s.trained_on, s.k, s.far_target, s.calibration)
        == (release, attacker, trained_on, k, far, "test")
    ]  # fmt: skip
    if point.grade == "unsupported":
        return f"<= {100 * point.tar_high:.2f}"
    mark = "" if point.grade == "supported" else " *"
    return f"{100 * point.tar:.2f} ({100 * point.tar_low:.2f} to {100 * point.tar_high:.2f}){mark}"


def cross_table(trial: Trial, other: Trial, seed: int) -> list[str]:
    """The projector fitted on the other data set, audited on this one's test people."""
    run = run_audit(
        trial.people,
        plan=AuditPlan(seed=seed, fars=FARS, controls=(), planted=(), attacker_seeds=5),
        split=trial.run.split,
        projector=other.run.projector,
        name=f"{trial.dataset} through {other.dataset}",
    )
    name = other.run.projector.method
    lines = [f"Through the projector fitted on {other.dataset} (r={other.run.projector.rank}):\n"]
    lines += own_table(Trial(trial.dataset, trial.encoder, run, trial.people))[:2]
    lines += [
        line for line in own_table(Trial(trial.dataset, trial.encoder, run, trial.people))[2:] if f"| {name} " in line
    ]
    worst = worst_of(run.result.summary, name, 1e-4)
    if worst is not None:
        lines.append(
            f"\nWorst attacker at FAR 1e-4: {worst.attacker}, {100 * worst.tar:.2f} % ({worst.lift:,.0f} times chance)."
        )
    return lines


def objects_table(trials: list[Trial], objects: fb.EmbeddingSet) -> list[str]:
    """Cost on photographs of objects, where no face is."""
    raw = objects.unit()
    lines = [f"Neighbour overlap@10 on {len(objects):,} object photographs:", ""]
    for trial in trials:
        projector = trial.run.projector
        overlap, _ = neighbour_overlap(raw, projector.apply(raw).vectors)
        kept = float(projector.apply(raw).energy_kept.mean())
        lines.append(f"- ISP from {trial.dataset}, r={projector.rank}: {overlap:.3f}, energy kept {kept:.3f}")
    return lines


def fb_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("faceblind")
    except PackageNotFoundError:
        return "(source)"


if __name__ == "__main__":
    raise SystemExit(main())
