"""Checks that need the projector or the table: who they are, and every number once more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from faceblind._errors import FaceblindError, FormatError, ProjectorError
from faceblind._files import sha256_file
from faceblind.audit.certificate.compare import Difference, compare
from faceblind.audit.certificate.environment import computes_alike, differences_of, environment
from faceblind.audit.certificate.evidence import evidence
from faceblind.audit.certificate.residual import probe_vectors, residual_of
from faceblind.audit.certificate.splitcode import decode, encode, shared_identities
from faceblind.audit.certificate.verification import Check
from faceblind.audit.plan import AuditPlan
from faceblind.audit.provenance import table_digest
from faceblind.audit.run import Progress, run_audit
from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.findings import Finding
from faceblind.data.meta import Fingerprint
from faceblind.data.split import IdentitySplit
from faceblind.erase import Projector

_PLACE = ("audit/provenance/libraries", "audit/provenance/faceblind")
"""Says where an audit was computed, which is elsewhere now."""
_GROWTH, _ROUNDING = 2.0, 1e-6
"""By how much a residual, which is rounding, may differ under other libraries: a factor, and an amount."""


def check_projector(
    data: Mapping[str, Any], given: Projector | str | Path, *, exact: bool | None = None
) -> tuple[list[Check], Projector | None]:
    """Check that a projector is the one certified; also return it, or None when it is not."""
    recorded = data["subject"]["projector"]
    checks = []
    if isinstance(given, Projector):
        projector = given
        checks.append(Check("projector file", "not checked", "a projector in memory has no file"))
    else:
        path = Path(given)
        if not path.is_file():
            raise ProjectorError(f"no projector file at {path}")
        checks.append(_projector_file(recorded["file_sha256"], sha256_file(path)))
        try:
            projector = Projector.load(path)
        except ProjectorError as error:
            return [*checks, Check("projector digest", "failed", str(error))], None
    if projector.digest != recorded["digest"]:
        difference = Difference("subject/projector/digest", recorded["digest"], projector.digest)
        checks.append(Check("projector digest", "failed", "this is another projector", (difference,)))
        return checks, None
    checks.append(Check("projector digest", "passed", projector.digest))
    with threadpool_limits(limits=1, user_api="blas"):
        found = residual_of(projector, probe_vectors(projector.dim))
    strict = computes_alike(data["environment"], environment()) if exact is None else exact
    checks.append(_residual("projector residual", data, {"probe_vectors": found}, strict=strict))
    return checks, projector


def check_table(data: Mapping[str, Any], embeddings: EmbeddingSet) -> tuple[Check, Check]:
    """Check that a table holds the same keys, identities and vectors, by the same encoder."""
    recorded = data["subject"]["table"]
    found = {
        "rows": len(embeddings),
        "dim": embeddings.dim,
        "identities": int(np.unique(embeddings.require_identity()).size),
        "vectors_sha256": table_digest(embeddings),
    }
    differences = [d for key, value in found.items() for d in compare(recorded[key], value, f"subject/table/{key}")]
    if differences:
        table = Check("table", "failed", "these are other data than those certified", tuple(differences))
    else:
        table = Check("table", "passed", f"keys, identities and vectors of {len(embeddings):,} rows are the same")
    return table, _encoder(data["subject"], embeddings)


def check_split(data: Mapping[str, Any], embeddings: EmbeddingSet, given: IdentitySplit | None) -> Iterator[Check]:
    """Rebuild the split, check that no identity is in two parts, that the seed draws it, and that it is the one given."""
    split = _rebuilt(data, embeddings)
    identity = embeddings.require_identity()
    people = shared_identities(split, identity)
    differences = compare(data["split"]["counts"], split.counts(identity), "split/counts")
    differences += compare(data["split"]["shared_identities"], people, "split/shared_identities")
    if differences:
        yield Check("split", "failed", "rebuilt on this table it has other people in its parts", tuple(differences))
    else:
        shared = sum(people.values())
        said = "no identity is in two parts" if not shared else f"{shared} identities are in two parts, as recorded"
        yield Check("split", "passed", f"rebuilt from the table; {said}")
    try:
        drawn = IdentitySplit.draw(embeddings, seed=data["plan"]["seed"], shares=data["plan"]["shares"])
    except FaceblindError:  # a manifest may split a table that cannot be drawn from
        drawn = None
    if drawn is not None and drawn.rule == split.rule:
        yield _same_parts("split as drawn", "the seed draws these parts", "the seed draws other parts", split, drawn)
    if given is not None:
        yield _same_parts("split file", "it is the split that you gave", "you gave another split", split, given)


def recompute(
    data: Mapping[str, Any],
    embeddings: EmbeddingSet,
    projector: Projector,
    *,
    findings: Sequence[Finding] = (),
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run the recorded plan again and return the sections that follow from it.

    Raises
    ------
    FaceblindError
        The plan cannot be run.
    """
    plan = AuditPlan.from_dict(data["plan"])
    with threadpool_limits(limits=1, user_api="blas"):
        run = run_audit(
            embeddings,
            plan=plan,
            split=_rebuilt(data, embeddings),
            projector=projector,
            findings=findings,
            name=data["subject"]["table"]["name"],
            progress=progress,
        )
        return evidence(run, embeddings, plan, file_sha256=data["subject"]["projector"]["file_sha256"])


def compare_sections(
    data: Mapping[str, Any], found: Mapping[str, Any], *, exact: bool | None = None
) -> Iterator[Check]:
    """Compare every recomputed section with the recorded one.

    Parameters
    ----------
    exact : bool, optional
        Whether every number must be the same to the last bit; by default where versions, platform and linear algebra
        libraries are those recorded.
    """
    here = environment()
    alike = computes_alike(data["environment"], here)
    strict = alike if exact is None else exact
    why = "" if alike else f" (computed elsewhere: {differences_of(data['environment'], here)})"
    for name, section in found.items():
        if name == "residual":
            yield _residual("recomputed: residual", data, section, strict=strict)
            continue
        differences = [d for d in compare(data[name], section, name, exact=strict) if not d.path.startswith(_PLACE)]
        hard = [d for d in differences if not d.tolerated]
        if hard:
            said = f"{len(hard):,} {'value differs' if len(hard) == 1 else 'values differ'} from what is recorded{why}"
            yield Check(f"recomputed: {name}", "failed", said, tuple(differences))
        elif differences:
            said = f"{len(differences):,} values differ within the tolerance for other libraries{why}"
            yield Check(f"recomputed: {name}", "passed", said, tuple(differences))
        else:
            yield Check(f"recomputed: {name}", "passed", "every value is the same")


def _projector_file(recorded: str | None, found: str) -> Check:
    if recorded is None:
        return Check("projector file", "not checked", "the certificate was made without a projector file")
    if recorded == found:
        return Check("projector file", "passed", f"SHA-256 {found}")
    difference = Difference("subject/projector/file_sha256", recorded, found)
    return Check("projector file", "failed", "this is another file, or a byte of it was changed", (difference,))


def _encoder(subject: Mapping[str, Any], embeddings: EmbeddingSet) -> Check:
    recorded, found = subject["encoder"], embeddings.encoder
    if (recorded is None) != (found is None):
        known = "the certificate" if found is None else "the table"
        return Check("encoder", "failed", f"only {known} says which encoder made the vectors")
    if recorded is None or found is None:
        return Check(
            "encoder", "not checked", "neither the certificate nor the table says which encoder made the vectors"
        )
    try:
        differences = Fingerprint.from_dict(recorded).differs_from(found)
    except FormatError as error:
        return Check("encoder", "failed", str(error))
    if differences:
        return Check("encoder", "failed", f"the table is by another encoder: {'; '.join(differences)}")
    return Check("encoder", "passed", f"{found.encoder}: weights, pooling, preprocessing and precision are the same")


def _rebuilt(data: Mapping[str, Any], embeddings: EmbeddingSet) -> IdentitySplit:
    return IdentitySplit(decode(data["split"]["parts"]["runs"], len(embeddings)), data["split"]["rule"])


def _same_parts(name: str, same: str, other: str, recorded: IdentitySplit, found: IdentitySplit) -> Check:
    rows = np.flatnonzero(recorded.part != found.part)
    if not rows.size:
        return Check(name, "passed", same)
    difference = Difference("split/parts/runs", encode(recorded.part), encode(found.part))
    return Check(name, "failed", f"{other}: {rows.size:,} rows differ, the first is row {int(rows[0])}", (difference,))


def _residual(name: str, data: Mapping[str, Any], found: Mapping[str, Any], *, strict: bool) -> Check:
    """Compare residuals: they are rounding, so other libraries give others of the same size."""
    differences = [
        Difference(d.path, d.recorded, d.found, tolerated=not strict and _alike(d.recorded, d.found))
        for where, value in found.items()
        for d in compare(data["residual"][where], value, f"residual/{where}")
    ]
    shown = found.get("test_images", found.get("probe_vectors", {}))
    largest = ", ".join(f"{dtype} {values['largest']:.1e}" for dtype, values in shown.items())
    if any(not d.tolerated for d in differences):
        return Check(name, "failed", f"what is left in the removed directions differs: {largest}", tuple(differences))
    return Check(name, "passed", f"largest part left in the removed directions: {largest}", tuple(differences))


def _alike(recorded: Any, found: Any) -> bool:
    if not all(isinstance(value, int | float) for value in (recorded, found)):
        return False
    small, large = sorted((recorded, found))
    return bool(large <= _GROWTH * small + _ROUNDING)
