"""``faceblind verify``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from faceblind.cli import columns as c

if TYPE_CHECKING:
    from faceblind.data.embeddings import EmbeddingSet
    from faceblind.data.findings import Finding


def verify(
    certificate: Annotated[Path, Parameter(help="Certificate file (.json).")],
    /,
    *,
    projector: Annotated[Path | None, Parameter(help="Projector file that it should be about.")] = None,
    table: Annotated[
        Path | None,
        Parameter(help="Table that it should be about; with --projector every number is computed again and compared."),
    ] = None,
    split: Annotated[Path | None, Parameter(help="split.csv that it should rest on (not needed to recompute).")] = None,
    public_key: Annotated[Path | None, Parameter(help="Public key (PEM) that must have signed it.")] = None,
    identity: c.Identity = "identity",
    sample: c.Sample = "sample",
    embedding: c.Embedding = "embedding",
    metadata: c.Metadata = None,
    drop_bad_rows: Annotated[
        bool, Parameter(help="Leave out rows with NaN, infinity or only zeros, as when it was issued.", negative=())
    ] = False,
    exact: Annotated[
        bool, Parameter(help="Demand every bit, also under other linear algebra libraries than recorded.", negative=())
    ] = False,
    every: Annotated[
        bool, Parameter(name="--all", help="List every difference, not only the first.", negative=())
    ] = False,
) -> int:
    """Check a certificate; with the projector and the table, compute every number again and compare.

    Exit codes: 0 nothing failed (see what was not checked), 1 something failed, 2 usage error or an unreadable file.
    """
    from faceblind._errors import UsageError
    from faceblind.audit.certificate.certificate import Certificate
    from faceblind.audit.certificate.check import verify as check
    from faceblind.cli import EXIT_DONE, EXIT_NO, console
    from faceblind.cli.evidence import show_certificate, show_verification
    from faceblind.data.tables import read_with_findings

    if split is not None and table is None:
        raise UsageError("--split needs the table whose rows it names: add --table")
    loaded = Certificate.load(certificate)
    people: EmbeddingSet | None = None
    noticed: tuple[Finding, ...] = ()
    if table is not None:
        people, noticed = read_with_findings(
            table, identity=identity, sample=sample, embedding=embedding, metadata=metadata, drop_bad_rows=drop_bad_rows
        )
    with console.staged() as progress:
        result = check(
            loaded,
            projector=projector,
            embeddings=people,
            split=split,
            public_key=public_key,
            findings=noticed,
            exact=True if exact else None,
            progress=progress,
        )
    show_verification(result, every=every)
    if not any(check.name == "structure" and check.status == "failed" for check in result.checks):
        show_certificate(loaded)
    return EXIT_DONE if result.ok else EXIT_NO
