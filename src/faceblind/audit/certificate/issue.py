"""`certify`: audit a projector again and pack everything that someone else needs to recompute it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from faceblind._errors import ProjectorError, UsageError
from faceblind._files import sha256_file
from faceblind.audit.certificate import signing
from faceblind.audit.certificate.certificate import Certificate, digests_of
from faceblind.audit.certificate.environment import environment
from faceblind.audit.certificate.evidence import evidence
from faceblind.audit.certificate.texts import FORMAT, HOW_TO_VERIFY, INVALIDATED_BY, NON_CLAIMS, WHAT
from faceblind.audit.plan import AuditPlan
from faceblind.audit.run import Progress, run_audit
from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.findings import Finding
from faceblind.data.split import IdentitySplit
from faceblind.erase import Projector

VALID_DAYS = 365
MOST_DAYS = 3650
TIME = "%Y-%m-%dT%H:%M:%SZ"


def certify(
    embeddings: EmbeddingSet,
    projector: Projector | str | Path,
    *,
    plan: AuditPlan | None = None,
    split: IdentitySplit | None = None,
    key: str | Path | None = None,
    valid_days: int = VALID_DAYS,
    note: str = "",
    name: str = "table",
    findings: Sequence[Finding] = (),
    issued: datetime | None = None,
    command: str | None = None,
    on_findings: Callable[[Sequence[Finding]], None] | None = None,
    progress: Progress | None = None,
) -> Certificate:
    """Audit a projector on a table and return the evidence.

    Parameters
    ----------
    embeddings : EmbeddingSet
        (n, d) vectors as the encoder gave them, with identities.
    projector : Projector or path
        What is certified. From a path, the SHA-256 of the file goes into the certificate.
    plan : AuditPlan, optional
    split : IdentitySplit, optional
        Drawn with the plan's seed when missing. It should be the split whose fit people the projector was fitted on.
    key : path, optional
        Ed25519 private key (PEM, PKCS8) to sign with; needs the extra ``sign``.
    valid_days : int
        Days until the certificate expires, 1 to 3650.
    note : str
        Free text of the issuer, for example on what the data may be used for.
    name : str
        How the record calls the table.
    findings : sequence of Finding
        What was already noticed when the table was read.
    issued : datetime, optional
        Time of issue with its zone; now when missing.
    command : str, optional
        The command with its settings and without paths, for the record.

    Returns
    -------
    Certificate
        Also when the data forbid a conclusion: ``conclusion["reached"]`` is then False.

    Raises
    ------
    UsageError
        `valid_days` out of range, or `issued` without a time zone.
    ProjectorError, EncoderError
        The file is damaged, or the projector is for another encoder or dimension.
    MissingExtraError, FormatError
        The key cannot be read; noticed before the audit begins.
    DataError, SplitError
        The table cannot be audited.

    Notes
    -----
    Linear algebra runs on one thread a product, here and in `verify`, so that the figures do not depend on the number of
    processors.
    """
    validity = _validity(issued or datetime.now(UTC), valid_days)
    private = signing.load_key(key) if key is not None else None
    loaded, sha256 = load_projector(projector)
    plan = plan or AuditPlan()
    with threadpool_limits(limits=1, user_api="blas"):
        run = run_audit(
            embeddings,
            plan=plan,
            split=split,
            projector=loaded,
            findings=findings,
            name=name,
            on_findings=on_findings,
            progress=progress,
        )
        found = evidence(run, embeddings, plan, file_sha256=sha256)
    data: dict[str, Any] = {
        "format": FORMAT,
        "what": WHAT,
        "conclusion": found.pop("conclusion"),
        "synthetic": found.pop("synthetic"),
        "validity": validity,
        "subject": found.pop("subject"),
        "figures": found.pop("figures"),
        "findings": found.pop("findings"),
        "non_claims": list(NON_CLAIMS),
        "how_to_verify": list(HOW_TO_VERIFY),
        "note": note,
        "environment": environment(command=command),
        **found,
    }
    digests = digests_of(data)
    signature = signing.sign(digests["overall"], private) if private is not None else None
    return Certificate({**data, "digests": digests, "signature": signature})


def load_projector(projector: Projector | str | Path) -> tuple[Projector, str | None]:
    """Return a projector with the SHA-256 of its file, or None when it did not come from one."""
    if isinstance(projector, Projector):
        return projector, None
    path = Path(projector)
    if not path.is_file():
        raise ProjectorError(f"no projector file at {path}")
    return Projector.load(path), sha256_file(path)


def _validity(issued: datetime, days: int) -> dict[str, Any]:
    if not 1 <= days <= MOST_DAYS:
        raise UsageError(f"a certificate is valid for 1 to {MOST_DAYS} days, got {days}")
    if issued.tzinfo is None:
        raise UsageError(
            f"the time of issue needs a time zone, got {issued.isoformat()}; for example datetime.now(UTC)"
        )
    start = issued.astimezone(UTC).replace(microsecond=0)
    return {
        "issued": start.strftime(TIME),
        "expires": (start + timedelta(days=days)).strftime(TIME),
        "valid_days": days,
        "invalidated_by": list(INVALIDATED_BY),
    }
