"""``faceblind certify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from faceblind.cli import columns as c


def certify(
    projector: Annotated[Path, Parameter(help="Projector file to certify (.safetensors).")],
    table: c.Table,
    /,
    *,
    output: Annotated[
        Path,
        Parameter(name=["--output", "-o"], help="File to write, ending in .json; the page goes beside it as .html."),
    ],
    identity: c.Identity = "identity",
    sample: c.Sample = "sample",
    embedding: c.Embedding = "embedding",
    metadata: c.Metadata = None,
    split: c.Split = None,
    shares: c.Shares = None,
    seed: c.Seed = 0,
    fars: c.Fars = "1e-2,1e-3,1e-4",
    ks: Annotated[str, Parameter(help="Images per identity of the attackers.")] = "1,4,16",
    attackers: c.Attackers = "default",
    attacker_seeds: Annotated[int, Parameter(help="Repetitions of each attacker with other images.")] = 5,
    draws: Annotated[int, Parameter(help="Bootstrap draws of people.")] = 1000,
    compare: c.Compare = "",
    extrapolate: c.Extrapolate = None,
    fail_if: c.FailIf = None,
    sign: Annotated[
        Path | None, Parameter(help="Ed25519 private key (PEM) to sign with: openssl genpkey -algorithm ed25519.")
    ] = None,
    valid_days: Annotated[int, Parameter(help="Days until the certificate expires, 1 to 3650.")] = 365,
    note: Annotated[str, Parameter(help="A note of yours, for example on what the data may be used for.")] = "",
    drop_bad_rows: Annotated[
        bool, Parameter(help="Leave out rows with NaN, infinity or only zeros, and list them.", negative=())
    ] = False,
) -> int:
    """Audit a projector on a table again and write one evidence file that anyone with both can verify.

    Give the split whose fit people the projector was fitted on. Exit codes: 0 done, 1 written, but the data allow no
    conclusion or the gate said no, 2 usage or data error.
    """
    from faceblind._files import writable_folder
    from faceblind.audit.certificate.certificate import pair_of
    from faceblind.audit.certificate.issue import certify as issue
    from faceblind.audit.plan import plan_of
    from faceblind.cli import EXIT_DONE, EXIT_NO, console
    from faceblind.cli.evidence import command_of, show_certificate
    from faceblind.data.split import IdentitySplit
    from faceblind.data.tables import read_with_findings

    plan = plan_of(
        seed=seed,
        fars=fars,
        ks=ks,
        attackers=attackers,
        attacker_seeds=attacker_seeds,
        draws=draws,
        compare=compare,
        extrapolate=extrapolate,
        shares=shares,
        fail_if=fail_if,
    )
    record, _ = pair_of(output)
    writable_folder(record.parent)
    people, noticed = read_with_findings(
        table, identity=identity, sample=sample, embedding=embedding, metadata=metadata, drop_bad_rows=drop_bad_rows
    )
    given = IdentitySplit.from_csv(split, people) if split else None
    settings = {
        "--split": split and "a file",
        "--shares": shares,
        "--drop-bad-rows": drop_bad_rows,
        "--sign": sign and "a key",
    }
    with console.staged() as progress:
        made = issue(
            people,
            projector,
            plan=plan,
            split=given,
            key=sign,
            valid_days=valid_days,
            note=note,
            name=table.name,
            findings=noticed,
            command=command_of("certify", settings),
            on_findings=console.show_findings,
            progress=progress,
        )
        progress("page", 0, 1)
        record, page = made.save(record)
    show_certificate(made)
    console.say(
        f"Certificate: {record}\nPage:        {page}\nVerify:      faceblind verify {record.name} --projector ... --table ..."
    )
    return EXIT_DONE if made.conclusion["reached"] and not made.conclusion["gate_failed"] else EXIT_NO
