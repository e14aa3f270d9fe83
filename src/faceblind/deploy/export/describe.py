"""What every exported file says about itself: which projector, for which encoder, what goes in and what comes out."""

from __future__ import annotations

from typing import Any

from faceblind.data.meta import Fingerprint, TableMeta
from faceblind.deploy.export.steps import Steps
from faceblind.erase import Projector


def meta_of(projector: Projector, encoder: Fingerprint | None = None) -> TableMeta:
    """Provenance of vectors that come out of an exported form, as a table would carry it.

    `encoder` is the one that was really used, where that is known; otherwise the one that the projector is for.
    """
    return TableMeta(encoder=encoder or projector.encoder, synthetic=projector.synthetic, projector=projector.digest)


def described(projector: Projector, *, compact: bool, renormalise: bool) -> dict[str, Any]:
    """Describe an exported form in JSON types."""
    steps = Steps.of(projector, compact=compact, renormalise=renormalise)
    return {
        "projector": projector.digest,
        "method": projector.method,
        "form": projector.form,
        "rank": projector.rank,
        "encoder": projector.encoder.to_dict() if projector.encoder else None,
        "synthetic": projector.synthetic,
        "dim": steps.dim,
        "output_dim": steps.output_dim,
        "compact": compact,
        "renormalise": renormalise,
    }
