"""``faceblind audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from faceblind.cli import columns as c


def audit(
    table: c.Table,
    /,
    *,
    output: Annotated[
        Path, Parameter(name=["--output", "-o"], help="Folder for audit.json, report.html and split.csv.")
    ],
    identity: c.Identity = "identity",
    sample: c.Sample = "sample",
    embedding: c.Embedding = "embedding",
    metadata: c.Metadata = None,
    projector: Annotated[
        Path | None, Parameter(help="Audit this projector file instead of fitting an eraser on the fit people.")
    ] = None,
    rank: Annotated[
        int | None,
        Parameter(
            help="Dimensions to remove; default 192 (leace: all it can), or half the dimensions or the most the fit people support, if less."
        ),
    ] = None,
    eraser: c.Eraser = "isp",
    compare: c.Compare = "",
    attackers: c.Attackers = "default",
    fars: c.Fars = "1e-2,1e-3,1e-4",
    extrapolate: c.Extrapolate = None,
    ks: Annotated[str, Parameter(help="Images per training identity of the probes, and per template.")] = "1,4,16",
    split: c.Split = None,
    shares: c.Shares = None,
    seed: c.Seed = 0,
    attacker_seeds: Annotated[int, Parameter(help="Repetitions of each probe with other images.")] = 5,
    draws: Annotated[int, Parameter(help="Bootstrap draws of people.")] = 1000,
    images: Annotated[
        Path | None, Parameter(help="Folder with the photographs, to show nearest neighbours in the report.")
    ] = None,
    fail_if: c.FailIf = None,
    gate_release: Annotated[
        str | None,
        Parameter(help="Release the gate judges; default raw, or the projector's when one is given."),
    ] = None,
    strict: Annotated[bool, Parameter(help="Stop with exit code 1 on findings other than notes.", negative=())] = False,
    drop_bad_rows: Annotated[
        bool, Parameter(help="Leave out rows with NaN, infinity or only zeros, and list them.", negative=())
    ] = False,
    force: c.Force = False,
) -> int:
    """Measure how much identity an attacker reads from a table of embeddings, before and after erasing.

    Findings about the data are printed first, then the verdict. Exit codes: 0 done, 1 the gate or --strict said no,
    2 usage or data error.
    """
    from faceblind._files import writable_folder
    from faceblind.audit.files import save_audit
    from faceblind.audit.plan import plan_of
    from faceblind.audit.run import run_audit
    from faceblind.cli import EXIT_DONE, EXIT_NO, console
    from faceblind.data.split import IdentitySplit
    from faceblind.data.tables import read_with_findings
    from faceblind.erase import Projector

    plan = plan_of(
        seed=seed,
        fars=fars,
        ks=ks,
        rank=rank,
        eraser=eraser,
        compare=compare,
        attackers=attackers,
        extrapolate=extrapolate,
        attacker_seeds=attacker_seeds,
        draws=draws,
        shares=shares,
        fail_if=fail_if,
        gate_release=gate_release,
    )
    writable_folder(output)
    loaded = Projector.load(projector) if projector else None
    people, noticed = read_with_findings(
        table,
        identity=identity,
        sample=sample,
        embedding=embedding,
        metadata=metadata,
        drop_bad_rows=drop_bad_rows,
    )
    given = IdentitySplit.from_csv(split, people) if split else None
    with console.staged() as progress:
        run = run_audit(
            people,
            plan=plan,
            split=given,
            projector=loaded,
            strict=strict,
            force=force,
            findings=noticed,
            name=table.name,
            on_findings=console.show_findings,
            progress=progress,
        )
        progress("report", 0, 1)
        report = save_audit(run, people, output, images=images)
    console.show_result(run.result)
    console.say(f"Report: {report}\nRecord: {output / 'audit.json'}\nSplit:  {output / 'split.csv'}")
    return EXIT_NO if run.result.gate and run.result.gate.failed else EXIT_DONE
