"""Choosing a rank by its upper bound on validation people."""

from __future__ import annotations

import numpy as np
import pytest

import faceblind as fb
from faceblind.audit.plan import AuditPlan, parse_gate
from faceblind.audit.ranks import choose_rank, rank_grid
from faceblind.audit.releases import SplitData
from strategies import planted


@pytest.fixture(scope="module")
def people():
    made = planted(3, people=120, images=6, rank=6, strength=0.35, noise=0.2)
    return fb.EmbeddingSet.of(made.vectors, made.identity)


PLAN = AuditPlan(fars=(1e-1,), ks=(4,), draws=200, attackers=("cosine", "ridge", "wccn"))


def test_the_chosen_rank_meets_the_target_by_its_upper_bound_and_lower_tried_ranks_do_not(people):
    split = fb.IdentitySplit.draw(people, seed=0)
    target = parse_gate("TAR@FAR(1e-1) <= 40%")
    projector = choose_rank(people, split, target, PLAN)
    curve = {rank: (point, low, high) for rank, point, low, high in projector.choice.curve}
    assert curve[projector.rank][2] <= 0.40
    assert all(high > 0.40 for rank, (_, _, high) in curve.items() if rank < projector.rank)
    assert projector.choice.rule == "target"
    assert projector.choice.target == str(target)


def test_the_projector_is_isp_on_the_fit_people_only(people):
    split = fb.IdentitySplit.draw(people, seed=0)
    projector = choose_rank(people, split, parse_gate("TAR@FAR(1e-1) <= 40%"), PLAN)
    fit = people.take(split.rows("fit"))
    own = fb.ISP(projector.rank).fit(fit.vectors, fit.identity).projector_
    np.testing.assert_allclose(projector.basis, own.basis, atol=1e-9)
    assert projector.fit_identities == np.unique(fit.identity).size


def test_an_impossible_target_shows_the_curve(people):
    split = fb.IdentitySplit.draw(people, seed=0)
    with pytest.raises(fb.RankError, match=r"no rank up to 31 shows TAR@FAR\(0.1\) <= 1%(.|\n)*rank +31: "):
        choose_rank(people, split, parse_gate("TAR@FAR(1e-1) <= 1%"), PLAN)


@pytest.mark.parametrize("text", ["TAR@FAR(1e-2) > 5%", "EER <= 5%"])
def test_a_target_limits_a_tar_from_above(people, text):
    with pytest.raises(fb.UsageError, match="limits a TAR from above"):
        choose_rank(people, fb.IdentitySplit.draw(people, seed=0), parse_gate(text), PLAN)


def test_grid_is_increasing_ends_at_the_most_and_holds_what_it_must():
    assert rank_grid(100, 5)[-1] == 100
    assert rank_grid(3, 10) == (1, 2, 3)
    assert 37 in rank_grid(100, 5, include=37)


def test_sums_of_the_fit_people_are_shared_by_every_rank(people):
    split = fb.IdentitySplit.draw(people, seed=0)
    data = SplitData.of(people, split)
    assert data.moments.rows_ == split.rows("fit").size
    assert data.everyone.rows_ == len(people)
