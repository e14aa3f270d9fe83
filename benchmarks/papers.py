"""The paper's tables (arXiv 2604.05296) on other embeddings, with its sampled impostors beside all pairs.

Three runs: (a) the embedding tables that `benchmarks/faces.py` keeps in its --work folder (LFW and CelebA-20 through SSCD);
(b) *simulated vectors*, no photographs and no encoder: people of the paper's size, 320/80/80 of 20 images each and 2,000 to
fit on, whose embeddings are drawn from a model with a planted identity subspace, so that the truth is known; (c) *rendered
people* of the same size, 480 with 20 portraits each, through a real encoder (half an hour on two cores the first time).

    python benchmarks/papers.py --tables out/faces --work out/papers --record
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
from scipy import linalg

import faceblind as fb
from faceblind.audit.papers import Protocol, Reproduced, check_printed, records, reproduce, save_tables
from faceblind.audit.papers.protocol import parse_numbers, parse_people, parse_tables
from faceblind.audit.report import text
from recording import record

REAL = ("celeba20", "lfw")
CONTROLS = ("edgeface-xxs", "arcface", "adaface")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument(
        "--tables", type=Path, help="folder of celeba20-ENCODER and lfw-ENCODER tables; left out, only (b) runs"
    )
    arguments.add_argument(
        "--work", type=Path, default=Path("out/papers"), help="where simulated tables and results are kept"
    )
    arguments.add_argument("--encoders", default="sscd,sscd-distilled,edgeface-xxs", help="of the tables in --tables")
    arguments.add_argument("--real", default="1,4,5,6,8,9", help="the paper's tables to make of --tables, or none")
    arguments.add_argument(
        "--simulated", default="1,4,5,6,8,9", help="the paper's tables to make of simulated vectors, or none"
    )
    arguments.add_argument(
        "--rendered", default="none", help="the paper's tables to make of rendered people, e.g. 1,4,5,8, or none"
    )
    arguments.add_argument("--encoder", default="sscd-distilled", help="of the rendered people")
    arguments.add_argument("--people", default="320,80,80")
    arguments.add_argument("--fit-people", default="320,640,1280,2000")
    arguments.add_argument("--dim", type=int, default=512)
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--draws", type=int, default=1000)
    arguments.add_argument("--resamplings", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--record", action="store_true", help="write the figures into RESULTS.md")
    options = arguments.parse_args()
    protocol = Protocol(
        seed=options.seed, people=parse_people(options.people), seeds=options.seeds, draws=options.draws, as_printed=True,
        resamplings=options.resamplings, fit_people=parse_numbers(options.fit_people, "fit people", "320,640"),
    )  # fmt: skip
    started, sections = time.time(), []
    if options.tables and options.real != "none":
        folder = listed(options.tables, options.encoders.split(","), options.work / "real")
        made = run("real", folder, parse_tables(options.real), protocol, options.work)
        sections.append("### LFW and CelebA-20\n\n" + section(made))
    if options.simulated != "none":
        folder = simulate(options.work / "simulated", protocol, options.dim)
        made = run("simulated", folder, parse_tables(options.simulated), protocol, options.work)
        sections.append(f"### Simulated vectors\n\n{SIMULATED}\n\n" + section(made))
    if options.rendered != "none":
        folder = render(options.work / "rendered", protocol, options.encoder)
        alone = replace(protocol, cross=False)
        made = run("rendered", folder, parse_tables(options.rendered), alone, options.work)
        sections.append(f"### Rendered people\n\n{RENDERED}\n\n" + section(made))
    sections.append(printed_section())
    print("\n".join(sections))
    if options.record:
        head = (
            f"{date.today().isoformat()}, {os.cpu_count()} cores, seed {options.seed}, `python benchmarks/papers.py {words(options)}`; "
            f"{time.time() - started:.0f} s (finished cells of an earlier run are reused).\n"
        )
        record("papers", head + "\n" + "\n".join(sections))
    return 0


def words(options: argparse.Namespace) -> str:
    """Say which options shaped the figures; paths are left out."""
    given = {
        name: getattr(options, name)
        for name in ("encoders", "real", "simulated", "rendered", "people", "seeds", "draws")
    }
    return " ".join(
        ["--tables ..." if options.tables else "", *(f"--{k} {v}" for k, v in given.items()), "--record"]
    ).strip()


def run(name: str, folder: Path, tables: Sequence[str], protocol: Protocol, work: Path) -> tuple[Reproduced, ...]:
    out = work / f"{name}-tables"
    made = reproduce(
        folder, tables, protocol=protocol, cache=out / "cells.json",
        progress=lambda what, done, of: print(f"\r{what} ({done}/{of})\x1b[K", end="", flush=True),
    )  # fmt: skip
    print()
    for path in save_tables(made, out):
        print(path)
    return made


def listed(tables: Path, encoders: Sequence[str], folder: Path) -> Path:
    """Write a tables.csv that names what there is of the two data sets and the encoders."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "tables.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["path", "dataset", "encoder", "control"])
        for dataset in REAL:
            for encoder in encoders:
                path = (tables / f"{dataset}-{encoder}.parquet").resolve()
                if path.exists():
                    writer.writerow([path, dataset, encoder, "yes" if encoder in CONTROLS else "no"])
    return folder


SIMULATED = (
    "**Simulated vectors, not photographs**: two data sets through one made-up encoder, drawn from a model in the embedding domain "
    "(identity in a planted 256-dimensional subspace with falling strength, an anisotropic nuisance per image that overlaps it, people "
    "who differ in how recognisable they are, a common mean; the second data set has another nuisance and another mean). They show what the "
    "protocols do when the truth is known, and nothing about real encoders."
)


def simulate(folder: Path, protocol: Protocol, dim: int) -> Path:
    """Write two tables of simulated embeddings, enough people for the largest fit."""
    count = max(protocol.fit_people) + sum(protocol.people[1:])
    for index, dataset in enumerate(("first", "second")):
        path = folder / f"{dataset}-simulated-{protocol.seed}-{count}x{protocol.images}x{dim}.npz"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            people = simulated_people(count, protocol.images, dim, dataset=index, seed=protocol.seed)
            fb.write_table(path, people)
    # tables of other sizes in the folder are left where they are
    with (folder / "tables.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["path", "dataset", "encoder"])
        for dataset in ("first", "second"):
            writer.writerow(
                [f"{dataset}-simulated-{protocol.seed}-{count}x{protocol.images}x{dim}.npz", dataset, "simulated"]
            )
    return folder


def simulated_people(
    people: int, images: int, dim: int, *, dataset: int, seed: int, planted: int = 256, strength: float = 0.05
) -> fb.EmbeddingSet:
    """Draw embeddings z = mean + a_p A s_p + nuisance: A (dim, planted) is shared by all data sets of the encoder.

    a_p differs between people (log-normal), the variance of s_p falls along the planted directions as that of the nuisance
    does along its own (power laws), and half of the nuisance is one of a few scenes that several people share.
    """
    planted = min(planted, dim // 2)
    encoder, own = np.random.default_rng([seed, 0x51A]), np.random.default_rng([seed, 0x51B, dataset])
    directions = (
        linalg.qr(encoder.standard_normal((dim, planted)), mode="economic")[0] * np.arange(1, planted + 1) ** -0.25
    )
    axes = linalg.qr(own.standard_normal((dim, dim)))[0] * np.arange(1, dim + 1) ** -0.5
    who = np.repeat(np.arange(people), images)
    traits = own.standard_normal((people, planted)) * own.lognormal(0, 0.35, (people, 1))
    scenes = own.standard_normal((max(2, people // 4), dim))
    nuisance = own.standard_normal((who.size, dim), dtype=np.float32)
    nuisance += scenes[own.integers(0, len(scenes), who.size)].astype(np.float32)
    mean = 2.0 * own.standard_normal(dim) / np.sqrt(dim)
    vectors = mean + strength * (traits @ directions.T)[who] + 0.5 * nuisance @ axes.T.astype(np.float32)
    names = np.array([f"{dataset}-{i:05d}" for i in range(people)])
    from faceblind.data.meta import TableMeta

    return fb.EmbeddingSet.of(vectors.astype(np.float32), names[who], meta=TableMeta(synthetic=True))


RENDERED = (
    "**Synthetic people, rendered by software**: one data set of the paper's size through a real encoder; there is no second one to fit "
    "on, so no ISP-X. The figures describe how the encoder treats rendered faces, and say nothing certain about real ones."
)


def render(folder: Path, protocol: Protocol, encoder: str) -> Path:
    """Render as many people as the protocol has, and embed them; what is there is not made again."""
    from faceblind.encoders import embed_folder, open_encoder
    from faceblind.faces.synthetic import render_folder

    table = folder / "tables" / f"rendered-{encoder}.parquet"
    if not table.exists():
        table.parent.mkdir(parents=True, exist_ok=True)
        photos = folder / "photos"
        render_folder(photos, sum(protocol.people), protocol.images, seed=protocol.seed, workers=os.cpu_count() or 1)
        embed_folder(photos, open_encoder(encoder), table)
    return table.parent


def section(made: Sequence[Reproduced]) -> str:
    lines = []
    for table in made:
        lines += [f"**Table {table.layout.table}. {table.layout.title}**, in percent (95 % interval over people)\n"]
        lines += [
            "| data set, encoder | column | paper's probe | frozen on validation | worst attacker | random / PCA | as printed, one sample (95 % of samples) | true FAR of its threshold, or the other count |",
            "|---|---|---|---|---|---|---|---|",
        ]
        lines += [row(r) for r in records(table) if r["value"] is not None]
        lines += ["", *(f"- {note}" for note in table.notes), ""]
    return "\n".join(lines)


def row(r: dict[str, object]) -> str:
    frozen = "" if r["frozen"] is None else f"{share(r['frozen'])} at FAR {text.rate(r['frozen_far'])}"
    nulls = "" if r["random"] is None else f"{share(r['random'])} / {share(r['pca'])}"
    printed = f"{share(r['printed_value_first'])} ({share(r['printed_value_low'])} to {share(r['printed_value_high'])})"
    far = ""
    if r["printed_far_mean"] is not None:
        far = f"{text.rate(r['printed_far_mean'])} ({text.rate(r['printed_far_low'])} to {text.rate(r['printed_far_high'])})"
    else:
        low, high = share(r["printed_variant_low"]), share(r["printed_variant_high"])
        far = f"with the mated pairs among the impostors {share(r['printed_variant_first'])} ({low} to {high})"
    worst = f"{point(r, 'worst')}, {r['worst_attacker']}"
    cells = (f"{r['dataset']}, {r['encoder']}", r["column"], point(r, "value"), frozen, worst, nulls, printed, far)
    return "| " + " | ".join(map(str, cells)) + " |"


def point(r: dict[str, object], name: str) -> str:
    low, high = ("low", "high") if name == "value" else (f"{name}_low", f"{name}_high")
    grade = r["grade"] if name == "value" else r["worst_grade"]
    if grade == "unsupported":
        return f"<= {share(r[high])}"
    return f"{share(r[name])} ({share(r[low])} to {share(r[high])})" + (" *" if grade == "indicative" else "")


def share(value: object) -> str:
    return f"{100 * float(value):.2f}"  # type: ignore[arg-type]


def printed_section() -> str:
    lines = [
        "### What arithmetic finds in the printed tables\n",
        "`faceblind reproduce --check-printed`; no data are involved.\n",
    ]
    return "\n".join(lines + [f"- `{slip.rule}` {slip.sentence}" for slip in check_printed()]) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
