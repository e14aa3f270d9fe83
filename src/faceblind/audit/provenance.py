"""Provenance: what an auditor needs to recompute the record."""

from __future__ import annotations

import hashlib
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from faceblind.audit.plan import AuditPlan
from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.split import IdentitySplit
from faceblind.erase import Projector

THRESHOLD_RULE = "accept iff score >= t; t is the smallest value whose false accepts stay within the target (at most, ties rejected together)"


def library_versions() -> dict[str, str]:
    """Return the versions of what computes the numbers."""
    found = {"python": platform.python_version()}
    for name in ("faceblind", "numpy", "scipy", "safetensors"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed as a package"
    return found


def table_digest(embeddings: EmbeddingSet) -> str:
    """SHA-256 of keys, identities and float32 vectors, independent of the file format."""
    digest = hashlib.sha256()
    digest.update("\n".join(embeddings.sample.tolist()).encode())
    digest.update("\n".join(embeddings.require_identity().tolist()).encode())
    digest.update(np.ascontiguousarray(embeddings.vectors, dtype="<f4").tobytes())
    return digest.hexdigest()


def provenance(
    embeddings: EmbeddingSet,
    split: IdentitySplit,
    plan: AuditPlan,
    *,
    name: str,
    projector: Projector,
    rank_note: str,
    attackers: list[dict[str, Any]],
) -> dict[str, Any]:
    """Collect the provenance block of an audit record."""
    identity = embeddings.require_identity()
    versions = library_versions()
    return {
        "faceblind": versions["faceblind"],
        "seed": plan.seed,
        "plan": plan.to_dict(),
        "table": {
            "name": name,
            "rows": len(embeddings),
            "dim": embeddings.dim,
            "identities": int(np.unique(identity).size),
            "vectors_sha256": table_digest(embeddings),
        },
        "encoder": embeddings.encoder.to_dict() if embeddings.encoder else None,
        "table_projector": embeddings.meta.projector,
        "projector": {**projector.describe(), "rank_note": rank_note},
        "split": split.counts(identity),
        "split_rule": split.rule,
        "far_targets": list(plan.fars),
        "attackers": attackers,
        "bootstrap": {
            "unit": "identity",
            "draws": plan.draws,
            "level": 0.95,
            "method": "binomial limits on the effective number of people",
        },
        "threshold_rule": THRESHOLD_RULE,
        "libraries": versions,
    }
