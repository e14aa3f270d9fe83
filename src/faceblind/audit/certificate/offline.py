"""Checks that need the certificate alone: structure, digests, signature, dates, and whether its parts agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from faceblind._errors import FormatError, MissingExtraError
from faceblind.audit.certificate import signing
from faceblind.audit.certificate.canonical import plain
from faceblind.audit.certificate.certificate import overall_digest, section_digests
from faceblind.audit.certificate.compare import Difference, compare
from faceblind.audit.certificate.evidence import derived
from faceblind.audit.certificate.issue import TIME
from faceblind.audit.certificate.splitcode import LETTERS, decode
from faceblind.audit.certificate.structure import certificate_schema, problems
from faceblind.audit.certificate.texts import HOW_TO_VERIFY, INVALIDATED_BY, NON_CLAIMS, WHAT
from faceblind.audit.certificate.verification import Check
from faceblind.audit.provenance import library_versions
from faceblind.audit.result import audit_schema

_SHOWN = 5


def check_structure(data: Mapping[str, Any]) -> Check:
    """Check the layout against the two JSON Schemas."""
    found = problems(data, certificate_schema())
    if not found:
        found = problems(data["audit"], audit_schema(), "audit")
    if not found:
        return Check("structure", "passed", "every part is there and of the right kind")
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return Check("structure", "failed", "; ".join(found[:_SHOWN]) + more)


def check_digests(data: Mapping[str, Any]) -> Iterator[Check]:
    """Compute every digest again; a section whose digest differs is named."""
    stated = data.get("digests")
    recorded = stated.get("sections") if isinstance(stated, Mapping) else None
    if not isinstance(stated, Mapping) or not isinstance(recorded, Mapping):
        yield Check("section digests", "failed", "the certificate has no digests")
        return
    found = section_digests(data)
    names = sorted(recorded.keys() | found.keys())
    changed = [name for name in names if recorded.get(name) != found.get(name)]
    for name in changed:
        if name not in found:
            said = "the section was removed"
        elif name not in recorded:
            said = "the section was added: it has no digest"
        else:
            said = "the section was edited, or its digest was: they do not belong together"
        yield Check(f"section digest: {name}", "failed", said)
    if not changed:
        yield Check("section digests", "passed", f"all {len(names)} sections have the digests stated for them")
    overall = stated.get("overall")
    if overall == overall_digest({str(k): str(v) for k, v in recorded.items()}):
        yield Check("overall digest", "passed", str(overall))
    else:
        yield Check("overall digest", "failed", "it is not the digest of the section digests stated")


def check_signature(data: Mapping[str, Any], public_key: str | Path | None) -> Iterator[Check]:
    """Check the signature, and that it is by the key that is asked for."""
    wanted = signing.load_public_key(public_key) if public_key is not None else None
    signature = data["signature"]
    if signature is None:
        if wanted is None:
            yield Check(
                "signature", "not checked", "the certificate is not signed: whoever changed it could change its digests"
            )
        else:
            yield Check("signature", "failed", "the certificate is not signed, or its signature was removed")
        return
    try:
        fault = signing.fault_of(data["digests"]["overall"], signature)
    except MissingExtraError as error:
        yield Check("signature", "not checked", str(error))
        return
    if fault is not None:
        yield Check("signature", "failed", fault)
        return
    who = f"SHA-256 of the public key {signature['fingerprint']}"
    yield Check("signature", "passed", f"signed by the key that the certificate names ({who})")
    if wanted is None:
        said = "who owns that key is not shown; pass --public-key with a key that you have from its owner"
        yield Check("signing key", "not checked", said)
    elif wanted.hex() == signature["public_key"]:
        yield Check("signing key", "passed", "it is the key that you gave")
    else:
        other = signing.fingerprint_of(wanted)
        yield Check("signing key", "failed", f"it is signed by another key than yours ({other})")


def check_validity(data: Mapping[str, Any], now: datetime) -> Check:
    """Check the dates: an expired certificate is a warning, dates that do not agree are a fault."""
    validity = data["validity"]
    try:
        issued, expires = (datetime.strptime(validity[key], TIME).replace(tzinfo=UTC) for key in ("issued", "expires"))
        agree = issued + timedelta(days=validity["valid_days"]) == expires
    except (ValueError, OverflowError) as error:
        return Check("validity", "failed", f"its dates cannot be read: {error}")
    if not agree:
        return Check(
            "validity",
            "failed",
            f"issued {validity['issued']} for {validity['valid_days']} days does not give {validity['expires']}",
        )
    if now >= expires:
        return Check("validity", "warning", f"expired on {validity['expires']}: ask for a new audit")
    if now < issued:
        return Check("validity", "warning", f"issued on {validity['issued']}, which is in the future here")
    return Check("validity", "passed", f"from {validity['issued']} to {validity['expires']}")


def check_consistency(data: Mapping[str, Any]) -> Iterator[Check]:
    """Check that the sections that restate the audit agree with it, and its counts with its rates."""
    record = data["audit"]
    sha256 = data["subject"]["projector"]["file_sha256"]
    try:
        restated = plain(derived(record, file_sha256=sha256))
    except (KeyError, TypeError, ValueError) as error:
        yield Check("consistency: audit", "failed", f"the audit record cannot be restated: {error!r}")
        return
    found = {name: compare(data[name], value, name) for name, value in restated.items()}
    found["plan"] = _plan(data["plan"], record["provenance"])
    found["split"] = _split(data["split"], record["provenance"])
    found["audit"] = _arithmetic(record)
    found["fixed texts"] = _texts(data)
    bad = {name: differences for name, differences in found.items() if differences}
    for name, differences in bad.items():
        yield Check(f"consistency: {name}", "failed", "it does not agree with the rest", tuple(differences))
    if not bad:
        yield Check("consistency", "passed", "sections that restate the audit agree with it, and counts with rates")


def _plan(plan: Mapping[str, Any], source: Mapping[str, Any]) -> list[Difference]:
    pairs = {"seed": source["seed"], "fars": source["far_targets"]}
    if "draws" in source["bootstrap"]:
        pairs["draws"] = source["bootstrap"]["draws"]
    return [d for name, value in pairs.items() for d in compare(plan[name], value, f"plan/{name}")]


def _split(split: Mapping[str, Any], source: Mapping[str, Any]) -> list[Difference]:
    found = compare(split["rule"], source["split_rule"], "split/rule")
    found += compare(split["counts"], source["split"], "split/counts")
    found += compare(split["disjoint"], not any(split["shared_identities"].values()), "split/disjoint")
    rows = source["table"]["rows"]
    try:
        parts = decode(split["parts"]["runs"], rows)
    except FormatError as error:
        return [*found, Difference("split/parts/runs", split["parts"]["runs"], str(error))]
    found += compare(split["parts"]["rows"], rows, "split/parts/rows")
    found += compare(split["unused_rows"], int(np.count_nonzero(parts == "")), "split/unused_rows")
    for name in filter(None, LETTERS):
        path = f"split/counts/{name}/samples"
        found += compare(split["counts"][name]["samples"], int(np.count_nonzero(parts == name)), path)
    return found


def _arithmetic(record: Mapping[str, Any]) -> list[Difference]:
    found = []
    for name in ("rows", "summary"):
        for index, row in enumerate(record[name]):
            path = f"audit/{name}[{index}]"
            for rate, count, total in (("tar", "true_accepts", "mated"), ("far_achieved", "false_accepts", "nonmated")):
                if {rate, count, total} <= row.keys() and row[total]:
                    share = row[count] / row[total]
                    if abs(share - row[rate]) > 1e-12:
                        found.append(Difference(f"{path}/{rate}", row[rate], share))
            if not row["tar_low"] <= row["tar"] <= row["tar_high"]:
                found.append(Difference(f"{path}/tar", row["tar"], f"outside {row['tar_low']} to {row['tar_high']}"))
    return found


def _texts(data: Mapping[str, Any]) -> list[Difference]:
    """Compare the texts that certificates of this version have in common; those of another version may read otherwise."""
    if data["environment"]["libraries"].get("faceblind") != library_versions()["faceblind"]:
        return []
    pairs: tuple[tuple[str, Any, Any], ...] = (
        ("what", data["what"], WHAT),
        ("validity/invalidated_by", data["validity"]["invalidated_by"], list(INVALIDATED_BY)),
        ("non_claims", data["non_claims"], list(NON_CLAIMS)),
        ("how_to_verify", data["how_to_verify"], list(HOW_TO_VERIFY)),
    )
    return [d for path, recorded, fixed in pairs for d in compare(recorded, fixed, path)]
