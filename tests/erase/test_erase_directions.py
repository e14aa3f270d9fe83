from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import subspace_angles

from faceblind._errors import RankError
from faceblind.erase import DEFAULT_RANK, ISP, LEACE, SAL, Directions, Eraser, FisherISP, IdentityMoments, RatioISP
from strategies import fingerprint, planted

ALL = [ISP, FisherISP, RatioISP, SAL, LEACE]


@pytest.fixture(scope="module")
def made():
    return planted(1, people=15, images=6, dim=24, noise=0.5)


@pytest.fixture(scope="module")
def moments(made):
    return IdentityMoments(scatter=True).partial_fit(made.vectors, made.identity)


def bare(dim: int, usable: int, *, identities: int = 400, complete: bool = False) -> Directions:
    return Directions(
        method="test",
        reads=np.eye(dim)[:, :usable],
        spectrum=np.ones(usable),
        complete=complete,
        fit_identities=identities,
    )


@pytest.mark.parametrize("eraser", ALL)
def test_every_prefix_is_a_projection_and_is_inside_the_next(eraser, moments):
    directions = eraser.directions(moments)
    lifts = directions.reads if directions.lifts is None else directions.lifts
    np.testing.assert_allclose(directions.reads.T @ lifts, np.eye(directions.usable), atol=1e-10)
    assert directions.most == directions.usable == 14
    before = None
    for rank in range(1, directions.most + 1):
        projector = directions.projector(rank)
        lift = projector.basis if projector.lift is None else projector.lift
        removed, reads = lift @ projector.basis.T, directions.reads[:, :rank]
        np.testing.assert_allclose(removed, lifts[:, :rank] @ reads.T, atol=1e-9)
        assert subspace_angles(projector.basis, reads).max() < 1e-7
        if before is not None:  # P_small P_large = P_large P_small = P_large
            np.testing.assert_allclose(removed @ before, before, atol=1e-9)
            np.testing.assert_allclose(before @ removed, before, atol=1e-9)
        before = removed


@pytest.mark.parametrize("eraser", ALL)
def test_an_eraser_is_its_directions_cut_at_its_rank(eraser, made, moments):
    fitted = eraser(5).fit(made.vectors, made.identity)
    cut = eraser.directions(moments).projector(5)
    assert fitted.projector_.digest == cut.digest
    assert fitted.projector_.method == eraser.method == fitted.directions_.method
    assert isinstance(fitted, Eraser)
    np.testing.assert_array_equal(fitted.transform(made.vectors), cut.apply(made.vectors).vectors)
    streamed = IdentityMoments(scatter=eraser.scatter)
    for rows in np.array_split(np.arange(len(made.vectors)), 4):
        streamed.partial_fit(made.vectors[rows], made.identity[rows])
    other = eraser(5).fit_moments(streamed, encoder=fingerprint(dim=24), synthetic=True).projector_
    np.testing.assert_allclose(other.basis, cut.basis, atol=1e-9)
    assert other.fit_digest == cut.fit_digest
    assert (other.encoder, other.synthetic, other.choice.rule) == (fingerprint(dim=24), True, "given")
    assert (other.fit_identities, other.fit_images) == (15, 90)


@pytest.mark.parametrize("eraser", ALL)
def test_without_a_rank_the_default_is_taken_and_noted(eraser, made, moments):
    projector = eraser().fit(made.vectors, made.identity).projector_
    assert projector.rank == (14 if eraser is LEACE else 12)
    _, note = eraser.directions(moments).settle(None)
    assert projector.choice.note == note
    assert note == (
        "rank 14: all directions in which the means of 15 identities differ"
        if eraser is LEACE
        else "rank 12 by default"
    )


@pytest.mark.parametrize("eraser", ALL)
def test_ranks_the_data_does_not_support_are_refused_with_the_most_it_does(eraser, moments):
    directions = eraser.directions(moments)
    message = "rank 15 is too large: 15 identities in 24 dimensions support at most rank 14; use rank 14 or fit on more"
    for cut in (directions.projector, directions.settle, directions.check):
        with pytest.raises(RankError, match=message):
            cut(15)
        with pytest.raises(RankError, match="1 to 14 here, got 0"):
            cut(0)


def test_the_default_is_capped_by_the_data_and_says_so():
    assert bare(512, 250).settle(None) == (DEFAULT_RANK, "rank 192 by default")
    assert bare(512, 250).settle(7) == (7, "rank 7 as asked for")
    assert bare(40, 40).settle(None) == (20, "rank 20 by default")
    assert bare(40, 40).most == 39
    rank, note = bare(512, 191, identities=192).settle(None)
    assert (rank, note) == (191, "rank 191: capped from the default 192, 192 identities support no more")


def test_a_method_that_takes_all_directions_says_when_that_would_be_everything():
    assert bare(40, 39, complete=True).settle(None)[0] == 39
    rank, note = bare(40, 40, complete=True).settle(None)
    assert rank == 20
    assert "span all 40 dimensions, so full LEACE would erase everything; a truncated one makes no guarantee" in note
    assert bare(40, 40, complete=True).settle(11) == (11, "rank 11 as asked for")
