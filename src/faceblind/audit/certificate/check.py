"""`verify`: check a certificate, as far as what is given allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from faceblind._errors import FaceblindError, FormatError
from faceblind.audit.certificate.certificate import Certificate
from faceblind.audit.certificate.offline import (
    check_consistency,
    check_digests,
    check_signature,
    check_structure,
    check_validity,
)
from faceblind.audit.certificate.recompute import (
    check_projector,
    check_split,
    check_table,
    compare_sections,
    recompute,
)
from faceblind.audit.certificate.texts import FORMAT
from faceblind.audit.certificate.verification import Check, Verification
from faceblind.audit.run import Progress
from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.findings import Finding
from faceblind.data.split import IdentitySplit
from faceblind.erase import Projector

STATED = "time of issue, note, command, versions and the table's name are what the issuer says"


def verify(
    certificate: Certificate | Mapping[str, Any] | str | Path,
    *,
    projector: Projector | str | Path | None = None,
    embeddings: EmbeddingSet | None = None,
    split: IdentitySplit | str | Path | None = None,
    public_key: str | Path | None = None,
    findings: Sequence[Finding] = (),
    now: datetime | None = None,
    exact: bool | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Check a certificate; with the projector and the table, compute every number again and compare.

    Parameters
    ----------
    certificate : Certificate, mapping or path
    projector : Projector or path, optional
    embeddings : EmbeddingSet, optional
        The table that was audited, its rows in the same order.
    split : IdentitySplit or path, optional
        The split you expect (it is not needed: the certificate holds it).
    public_key : path, optional
        PEM file of the key that must have signed.
    findings : sequence of Finding
        What was noticed when the table was read, as for `certify`.
    now : datetime, optional
        Time, with its zone, at which the certificate is to be valid; now when missing.
    exact : bool, optional
        True demands equality to the last bit, False allows the tolerances of `faceblind.audit.certificate.compare`. By
        default it is True where versions, platform and linear algebra libraries are those recorded.

    Returns
    -------
    Verification
        What was checked, with what result. It never raises for what is wrong with the certificate's content.

    Raises
    ------
    FormatError
        The certificate cannot be read or is of another layout; a key or manifest cannot be read.
    ProjectorError
        There is no projector file at the path (a damaged one is a failed check).
    MissingExtraError
        A public key was given and `cryptography` is not installed.
    DataError
        The table has no identities.
    """
    data = _read(certificate)
    checks = [Check("format", "passed", FORMAT), check_structure(data), *check_digests(data)]
    if checks[1].status == "failed":
        said = "the certificate is not whole: put right what the structure check names"
        return Verification((*checks, Check("everything else", "not checked", said)))
    checks += check_signature(data, public_key)
    checks.append(check_validity(data, now or datetime.now(UTC)))
    if not data["conclusion"]["reached"]:
        checks.append(
            Check("conclusion", "warning", "the certificate draws no conclusion: its figures show nothing either way")
        )
    checks += check_consistency(data)
    loaded = None
    if projector is not None:
        found, loaded = check_projector(data, projector, exact=exact)
        checks += found
    table_fits = False
    if embeddings is not None:
        table, encoder = check_table(data, embeddings)
        checks += [table, encoder]
        table_fits = table.status == "passed"
        if table_fits:
            checks += _split_checks(data, embeddings, split)
    reason = _hindrance(projector, embeddings, loaded, table_fits=table_fits)
    if reason is None and loaded is not None and embeddings is not None:
        try:
            again = recompute(data, embeddings, loaded, findings=findings, progress=progress)
        except (FaceblindError, TypeError) as error:  # a plan with settings of the wrong kind
            checks.append(Check("recomputed: audit", "failed", f"the audit cannot be repeated as recorded: {error}"))
        else:
            checks += compare_sections(data, again, exact=exact)
    else:
        checks.append(Check("recomputed: audit", "not checked", str(reason)))
    checks.append(_stated(checks, signed_by_wanted=public_key is not None))
    return Verification(tuple(checks))


def _read(certificate: Certificate | Mapping[str, Any] | str | Path) -> Mapping[str, Any]:
    if isinstance(certificate, Certificate):
        return certificate.data
    if isinstance(certificate, Mapping):
        return Certificate.from_dict(certificate).data
    return Certificate.load(certificate).data


def _split_checks(
    data: Mapping[str, Any], embeddings: EmbeddingSet, split: IdentitySplit | str | Path | None
) -> list[Check]:
    given = IdentitySplit.from_csv(split, embeddings) if isinstance(split, str | Path) else split
    try:
        return list(check_split(data, embeddings, given))
    except FormatError as error:
        return [Check("split", "failed", str(error))]


def _hindrance(
    projector: object, embeddings: EmbeddingSet | None, loaded: Projector | None, *, table_fits: bool
) -> str | None:
    """Say why nothing can be recomputed, or None when it can."""
    missing = [name for name, value in (("the projector", projector), ("the table", embeddings)) if value is None]
    if missing:
        return f"computing the figures again needs {' and '.join(missing)}"
    if loaded is None or not table_fits:
        return f"this is not {'the projector' if loaded is None else 'the table'} that was certified"
    return None


def _stated(checks: Sequence[Check], *, signed_by_wanted: bool) -> Check:
    signed = signed_by_wanted and all(
        c.status == "passed" for c in checks if c.name.startswith(("sign", "section", "over"))
    )
    if signed:
        return Check("statements", "passed", f"{STATED}; the signature by your key covers them")
    return Check("statements", "not checked", f"{STATED}; no computation can check them")
