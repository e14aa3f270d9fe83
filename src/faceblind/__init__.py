"""faceblind: measure, remove and account for face identity in the embeddings of frozen image encoders.

>>> import faceblind as fb
>>> people = fb.read_table("photos.parquet")  # doctest: +SKIP
>>> result = fb.audit(people)  # doctest: +SKIP
>>> print(result.verdict.headline)  # doctest: +SKIP

Names are imported when they are first used, so that ``import faceblind`` stays light: no torch, pyarrow or plotting
library is loaded by it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from faceblind._errors import (
        DataError,
        EncoderError,
        FaceblindError,
        FormatError,
        HygieneError,
        ImageError,
        MissingExtraError,
        OutputError,
        ProjectorError,
        RankError,
        SplitError,
        UsageError,
    )
    from faceblind.audit.certificate import Certificate, Verification, certify, verify
    from faceblind.audit.papers import reproduce
    from faceblind.audit.plan import AuditPlan
    from faceblind.audit.result import AuditResult
    from faceblind.audit.run import audit
    from faceblind.data.embeddings import EmbeddingSet
    from faceblind.data.findings import Finding
    from faceblind.data.hygiene import check_hygiene, identity_overlap
    from faceblind.data.meta import Fingerprint, TableMeta
    from faceblind.data.split import IdentitySplit
    from faceblind.data.tables import open_table, read_table, write_table
    from faceblind.deploy.query import QueryProjector, check_query, index_meta
    from faceblind.erase import (
        INLP,
        ISP,
        LEACE,
        RLACE,
        SAL,
        FisherISP,
        IdentityMoments,
        Projector,
        RatioISP,
        compare_projectors,
    )

_WHERE = {
    "_errors": (
        "DataError",
        "EncoderError",
        "FaceblindError",
        "FormatError",
        "HygieneError",
        "ImageError",
        "MissingExtraError",
        "OutputError",
        "ProjectorError",
        "RankError",
        "SplitError",
        "UsageError",
    ),
    "audit.certificate": ("Certificate", "Verification", "certify", "verify"),
    "audit.papers": ("reproduce",),
    "audit.plan": ("AuditPlan",),
    "audit.result": ("AuditResult",),
    "audit": ("audit",),
    "data.embeddings": ("EmbeddingSet",),
    "data.findings": ("Finding",),
    "data.hygiene": ("check_hygiene", "identity_overlap"),
    "data.meta": ("Fingerprint", "TableMeta"),
    "data.split": ("IdentitySplit",),
    "data.tables": ("open_table", "read_table", "write_table"),
    "deploy.query": ("QueryProjector", "check_query", "index_meta"),
    "erase": (
        "INLP",
        "ISP",
        "LEACE",
        "RLACE",
        "SAL",
        "FisherISP",
        "IdentityMoments",
        "Projector",
        "RatioISP",
        "compare_projectors",
    ),
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "INLP",
    "ISP",
    "LEACE",
    "RLACE",
    "SAL",
    "AuditPlan",
    "AuditResult",
    "Certificate",
    "DataError",
    "EmbeddingSet",
    "EncoderError",
    "FaceblindError",
    "Finding",
    "Fingerprint",
    "FisherISP",
    "FormatError",
    "HygieneError",
    "IdentityMoments",
    "IdentitySplit",
    "ImageError",
    "MissingExtraError",
    "OutputError",
    "Projector",
    "ProjectorError",
    "QueryProjector",
    "RankError",
    "RatioISP",
    "SplitError",
    "TableMeta",
    "UsageError",
    "Verification",
    "audit",
    "certify",
    "check_hygiene",
    "check_query",
    "compare_projectors",
    "identity_overlap",
    "index_meta",
    "open_table",
    "read_table",
    "reproduce",
    "verify",
    "write_table",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'faceblind' has no attribute {name!r}")
    module = import_module(f"faceblind.{_MODULE_OF[name]}")
    return module if name == "audit" else getattr(module, name)  # the package `audit` is itself callable


def __dir__() -> list[str]:
    return sorted(__all__)
