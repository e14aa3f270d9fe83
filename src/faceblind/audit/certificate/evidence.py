"""The sections of a certificate that follow from the audit: made when it is issued, and made again when it is verified."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faceblind.audit.certificate.canonical import plain
from faceblind.audit.certificate.residual import residuals
from faceblind.audit.certificate.splitcode import describe_split
from faceblind.audit.certificate.texts import EFFECTS
from faceblind.audit.plan import CONTROLS, AuditPlan
from faceblind.audit.report.figures import erased_of, worst
from faceblind.audit.run import AuditRun
from faceblind.data.embeddings import EmbeddingSet

UNREACHED = "inconclusive"


def evidence(run: AuditRun, embeddings: EmbeddingSet, plan: AuditPlan, *, file_sha256: str | None) -> dict[str, Any]:
    """Return every section that follows from a finished audit, in plain JSON types.

    Parameters
    ----------
    file_sha256 : str or None
        Hash of the projector's file; None when it did not come from a file.
    """
    record = plain(run.result.to_dict())
    test = embeddings.take(run.split.rows("test"))
    found = derived(record, file_sha256=file_sha256) | {
        "plan": plan.to_dict(),
        "split": describe_split(run.split, embeddings.require_identity()),
        "residual": residuals(run.projector, test.vectors),
        "audit": record,
    }
    return dict(plain(found))


def derived(record: Mapping[str, Any], *, file_sha256: str | None) -> dict[str, Any]:
    """Return the sections that restate an audit record, so that they can be checked against it without the data."""
    source = record["provenance"]
    return {
        "conclusion": conclusion(record),
        "synthetic": record["synthetic"],
        "subject": {
            "projector": {"file_sha256": file_sha256, **source["projector"]},
            "encoder": source["encoder"],
            "table": source["table"],
            "projector_already_applied_to_table": source["table_projector"],
        },
        "figures": figures(record),
        "findings": [
            {key: finding[key] for key in ("kind", "severity", "count")} | {"effect": EFFECTS[finding["severity"]]}
            for finding in record["hygiene"]
        ],
    }


def conclusion(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was concluded, and which findings forbade a conclusion."""
    verdict = record["verdict"]
    return {
        "reached": verdict["level"] != UNREACHED,
        "level": verdict["level"],
        "headline": verdict["headline"],
        "because_of": [finding["kind"] for finding in record["hygiene"] if finding["severity"] == "error"],
        "gate_failed": record["gate"]["failed"] if record["gate"] else None,
    }


def figures(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the worst attacker on every release at every FAR, and the part each release plays."""
    summary = record["summary"]
    erased = erased_of(record)
    found = []
    for far in sorted({item["far_target"] for item in summary}, reverse=True):
        for release in dict.fromkeys(item["release"] for item in summary):
            top = worst(summary, release=release, far=far)
            if top is not None:
                found.append({"role": role(release, erased), **top})
    return found


def role(release: str, erased: str | None) -> str:
    """Return the part a release plays: ``raw``, ``erased``, ``control`` or ``compared``."""
    if release == "raw":
        return "raw"
    if release == erased:
        return "erased"
    return "control" if release in CONTROLS else "compared"
