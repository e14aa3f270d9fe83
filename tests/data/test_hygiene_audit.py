"""A dirty table all the way through an audit: the verdict says what happened instead of giving a clean bill."""

from __future__ import annotations

import numpy as np
import pytest
from hygiene_tables import faces

import faceblind as fb
from strategies import planted

QUICK = fb.AuditPlan(
    fars=(1e-2, 1e-3),
    ks=(1,),
    attackers=("cosine", "ridge"),
    controls=(),
    attacker_seeds=1,
    draws=100,
    planted=(0.4,),
    rank_points=2,
)


@pytest.fixture(scope="module")
def people():
    made = planted(3, people=60, images=6, rank=6, strength=0.5, noise=0.2)
    return made.vectors, made.identity


@pytest.mark.parametrize("part", ["test", "validation", "fit"])
def test_one_photograph_under_two_names_is_named_by_the_verdict(people, part):
    vectors, identity = people
    split = fb.IdentitySplit.draw(fb.EmbeddingSet.of(vectors, identity))
    rows = split.rows(part)
    first = rows[0]
    second = rows[identity[rows] != identity[first]][0]
    dirty = vectors.copy()
    dirty[second] = dirty[first]
    result = fb.audit(fb.EmbeddingSet.of(dirty, identity), plan=QUICK, split=split)
    low, high = sorted((first, second))
    pair = f"{low} ({identity[low]}) = {high} ({identity[high]})"
    assert result.verdict.level == "inconclusive"
    assert result.verdict.headline.startswith("No conclusion: the same vector carries two identities")
    assert pair in result.verdict.headline
    assert pair in result.hygiene[0].examples[0]
    clean = fb.audit(fb.EmbeddingSet.of(vectors, identity), plan=QUICK, split=split)
    assert "the same vector" not in clean.verdict.headline
    assert {f.severity for f in clean.hygiene} <= {"note"}


def test_slipped_labels_forbid_a_conclusion():
    vectors, identity = faces(0, people=60, images=6, dim=32, within=0.6)
    result = fb.audit(fb.EmbeddingSet.of(vectors, np.roll(identity, 1)), plan=QUICK)
    assert result.verdict.level == "inconclusive"
    assert "carry the label of a neighbouring row" in result.verdict.headline
