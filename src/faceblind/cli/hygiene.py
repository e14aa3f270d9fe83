"""``faceblind hygiene``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from faceblind.cli import columns as c


def hygiene(
    table: c.Table,
    /,
    *,
    other: Annotated[
        Path | None,
        Parameter(help="Second table, read with the same options: list people and photographs that both have."),
    ] = None,
    split: Annotated[Path | None, Parameter(help="split.csv: also list what its parts share.")] = None,
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="Also write the findings to this file (.json).")
    ] = None,
    identity: c.Identity = "identity",
    sample: c.Sample = "sample",
    embedding: c.Embedding = "embedding",
    metadata: c.Metadata = None,
    near: Annotated[float, Parameter(help="Cosine from which two images are called near duplicates.")] = 0.98,
    strict: Annotated[bool, Parameter(help="Exit with 1 on findings other than notes.", negative=())] = False,
    drop_bad_rows: Annotated[
        bool, Parameter(help="Leave out rows with NaN, infinity or only zeros, and list them.", negative=())
    ] = False,
) -> int:
    """List what would make the numbers of an audit wrong: duplicates, wrong or slipped labels, shared people.

    Exit codes: 0 done (whatever was found), 1 --strict said no, 2 usage or data error.
    """
    from faceblind._errors import HygieneError
    from faceblind._files import writable_folder
    from faceblind.cli import EXIT_DONE, console
    from faceblind.data.findings import worst_first
    from faceblind.data.hygiene import check_hygiene, identity_overlap, save_findings
    from faceblind.data.split import IdentitySplit
    from faceblind.data.tables import read_with_findings

    if output is not None:
        writable_folder(output.parent)
    columns = {"identity": identity, "sample": sample, "embedding": embedding}
    people, noticed = read_with_findings(table, **columns, metadata=metadata, drop_bad_rows=drop_bad_rows)
    parts = IdentitySplit.from_csv(split, people) if split else None
    with console.staged() as progress:
        found = [*noticed, *check_hygiene(people, split=parts, near=near, progress=progress)]
        if other is not None:
            others, _ = read_with_findings(other, **columns, drop_bad_rows=drop_bad_rows)
            found += identity_overlap(people, others, near=near, progress=progress)
    findings = worst_first(found)
    console.show_findings(findings)
    if output is not None:
        save_findings(output, findings, tables=[t.name for t in (table, other) if t is not None])
        console.say(f"Findings: {output}")
    serious = [finding.kind for finding in findings if finding.severity != "note"]
    if strict and serious:
        raise HygieneError(f"{len(serious)} findings do not pass --strict: {', '.join(serious)}")
    return EXIT_DONE
