"""A tiny planted table, a projector and a certificate for it, made once; edits of any leaf of a JSON document."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

import faceblind as fb
from faceblind.audit.certificate import certify
from faceblind.audit.certificate.canonical import parse
from faceblind.audit.certificate.certificate import digests_of
from faceblind.data.meta import TableMeta
from strategies import fingerprint, planted

ISSUED = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOW = datetime(2026, 6, 1, tzinfo=UTC)
PLAN = fb.AuditPlan(
    fars=(1e-1, 1e-2),
    ks=(1,),
    attackers=("cosine", "ridge"),
    attacker_seeds=1,
    draws=100,
    planted=(0.3,),
    rank_points=2,
    controls=("random",),
)


@cache
def table(**changes: Any) -> fb.EmbeddingSet:
    """40 people with 5 images each, in rows that are not grouped."""
    made = planted(3, people=40, images=5, rank=6, strength=0.5, noise=0.2)
    vectors = made.vectors / np.linalg.norm(made.vectors, axis=1, keepdims=True)
    return fb.EmbeddingSet.of(vectors, made.identity, meta=TableMeta(encoder=fingerprint(**({"dim": 32} | changes))))


@cache
def projector_file() -> Path:
    """ISP at rank 5, fitted on the fit people of the default split."""
    people = table()
    fit = people.take(fb.IdentitySplit.draw(people, seed=PLAN.seed).rows("fit"))
    path = Path(mkdtemp(prefix="faceblind-test-")) / "isp.safetensors"
    fb.ISP(5).fit(fit.vectors, fit.identity).projector_.save(path)
    return path


@cache
def issued_text() -> str:
    """The certificate as JSON text."""
    return certify(table(), projector_file(), plan=PLAN, issued=ISSUED, note="for tests").to_json()


def issued() -> dict[str, Any]:
    """A fresh copy of the certificate, as read from its file."""
    return parse(issued_text())


def with_duplicate() -> fb.EmbeddingSet:
    """The same table with one vector under two names."""
    people = table()
    vectors = people.vectors.copy()
    first, second = (np.flatnonzero(people.identity == name)[0] for name in np.unique(people.identity)[:2])
    vectors[second] = vectors[first]
    return fb.EmbeddingSet.of(vectors, people.identity, sample=people.sample, meta=people.meta)


Path_ = tuple[str | int, ...]


def leaves(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Paths of all scalars of a JSON document."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    else:
        yield path


def at(data: Any, path: Path_) -> Any:
    """The value at a path."""
    for step in path:
        data = data[step]
    return data


def edited(data: dict[str, Any], path: Path_) -> dict[str, Any]:
    """A copy in which one scalar is another, by as little as its type allows."""
    changed = copy.deepcopy(data)
    place = at(changed, path[:-1])
    place[path[-1]] = another(place[path[-1]])
    return changed


def another(value: Any) -> Any:
    """Another value of the same type."""
    if value is None:
        return "x"
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return math.nextafter(value, math.inf)
    if isinstance(value, int):
        return value + 1
    return value + "x"


def resealed(data: dict[str, Any]) -> dict[str, Any]:
    """The document with digests that fit it, as whoever edits it would make them."""
    return {**data, "digests": digests_of(data), "signature": None}
