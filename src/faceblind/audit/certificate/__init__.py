"""Evidence files: `certify` makes one, `verify` checks one, by recomputing it where the data are at hand."""

from __future__ import annotations

from faceblind.audit.certificate.certificate import Certificate
from faceblind.audit.certificate.check import verify
from faceblind.audit.certificate.compare import Difference
from faceblind.audit.certificate.issue import certify
from faceblind.audit.certificate.structure import certificate_schema
from faceblind.audit.certificate.verification import Check, Verification

__all__ = ["Certificate", "Check", "Difference", "Verification", "certificate_schema", "certify", "verify"]
