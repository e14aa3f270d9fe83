"""``faceblind fit``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from faceblind.cli import columns as c
from faceblind.cli.columns import Columns

if TYPE_CHECKING:
    from faceblind.erase import Projector


def fit(
    table: c.Table,
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Projector file to write (.safetensors).")],
    identity: c.Identity = "identity",
    sample: c.Sample = "sample",
    embedding: c.Embedding = "embedding",
    metadata: c.Metadata = None,
    eraser: c.Eraser = "isp",
    rank: Annotated[
        int | None,
        Parameter(
            help="Dimensions to remove; default 192 (leace: all it can), or half the dimensions or the most the identities support, if less."
        ),
    ] = None,
    target: Annotated[
        str | None,
        Parameter(
            help="Choose the smallest rank whose upper 95 % bound on validation people meets this, e.g. 'TAR@FAR(1e-4)<=5%'."
        ),
    ] = None,
    attackers: c.Attackers = "default",
    split: c.Split = None,
    shares: c.Shares = None,
    seed: c.Seed = 0,
    workers: Annotated[int, Parameter(help="Processes that read the table; not with --target.")] = 1,
    engine: Annotated[
        Literal["local", "ray"], Parameter(help="Where they run: on this machine, or on a Ray cluster (RAY_ADDRESS).")
    ] = "local",
) -> int:
    """Fit an eraser and write its projector.

    With --rank (or neither option) one pass over all identities of the table, or over the fit part of --split. With
    --target the identities are split as `audit` splits them with the same seed; the projector is fitted on the fit
    people, the rank chosen on validation people for the worst of all attackers asked for, and test people stay untouched.
    """
    from faceblind._errors import UsageError
    from faceblind.cli import EXIT_DONE, console
    from faceblind.data.tables import open_table
    from faceblind.deploy import engine_named, fit_table

    if rank is not None and target is not None:
        raise UsageError("give --rank or --target, not both")
    place = None if (engine, workers) == ("local", 1) else engine_named(engine, workers)
    if target is not None and place is not None:
        raise UsageError("--workers and --engine share out one pass over a table; --target works on it in memory")
    names = Columns(identity=identity, sample=sample, embedding=embedding)
    if target is not None:
        projector = _for_target(table, names, metadata, target, split, shares, seed, eraser, attackers)
        note = f"rank {projector.rank}, the smallest tried that shows {projector.choice.target} on validation people"
    else:
        samples = _fit_samples(split) if split else None
        with console.counting("fitting") as progress:
            fitted = fit_table(
                open_table(table, **names, metadata=metadata),
                method=eraser,
                rank=rank,
                samples=samples,
                progress=progress,
                engine=place,
            )
        projector, note = fitted.projector, fitted.note
    projector.save(output)
    if projector.choice.curve:
        console.say("Validation curve (worst attacker):")
        for r, point, low, high in projector.choice.curve:
            console.say(f"  rank {r:>4}: {100 * point:.2f} % (95 % interval {100 * low:.2f} to {100 * high:.2f} %)")
    synthetic = " from SYNTHETIC people" if projector.synthetic else ""
    console.say(
        f"Projector{synthetic}: {note}.\nWritten to {output} (d={projector.dim}, digest {projector.digest[:12]})"
    )
    return EXIT_DONE


def _for_target(
    table: Path,
    names: Columns,
    metadata: Path | None,
    target: str,
    split: Path | None,
    shares: str | None,
    seed: int,
    eraser: str,
    attackers: str,
) -> Projector:
    from faceblind.audit.plan import AuditPlan, parse_attackers, parse_gate
    from faceblind.audit.ranks import choose_rank
    from faceblind.cli import console
    from faceblind.data.hygiene import check_hygiene
    from faceblind.data.split import DEFAULT_SHARES, IdentitySplit, parse_shares
    from faceblind.data.tables import read_with_findings

    condition = parse_gate(target)
    people, noticed = read_with_findings(table, **names, metadata=metadata)
    drawn = parse_shares(shares) if shares else DEFAULT_SHARES
    parts = IdentitySplit.from_csv(split, people) if split else IdentitySplit.draw(people, seed=seed, shares=drawn)
    console.show_findings((*noticed, *check_hygiene(people, split=parts)))
    plan = AuditPlan(
        seed=seed,
        fars=(getattr(condition.metric, "far", 1e-4),),
        eraser=eraser,
        attackers=parse_attackers(attackers),
    )
    with console.staged() as progress:
        return choose_rank(people, parts, condition, plan, progress=progress)


def _fit_samples(split: Path) -> list[str]:
    from faceblind._errors import SplitError
    from faceblind.data.split import read_manifest

    samples = [sample for sample, _, part in read_manifest(split) if part == "fit"]
    if not samples:
        raise SplitError(f"{split} has no rows in the fit part")
    return samples
