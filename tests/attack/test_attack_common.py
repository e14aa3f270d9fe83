"""What holds for every attacker that learns."""

from __future__ import annotations

import json
from itertools import islice

import numpy as np
import pytest

from faceblind._errors import DataError, UsageError
from faceblind.attack import LDA, PLDA, WCCN, BestEffort, Cosine, MLPProbe, RidgeProbe
from strategies import planted, unit_gauss

ATTACKERS = [
    RidgeProbe(),
    RidgeProbe(covariance="all"),
    WCCN(),
    LDA(),
    PLDA(),
    MLPProbe(widths=(16, 8), epochs=20, batch=16),
    BestEffort(),
]
every = pytest.mark.parametrize("attacker", ATTACKERS, ids=lambda a: f"{a.name}-{getattr(a, 'covariance', '')}")
SOME = 48  # candidates looked at: past the closed forms of the best-effort attacker, into its networks


def fit(attacker, X, identity, k=4, seed=0):
    return list(islice(attacker.fit(X, identity, k=k, rng=np.random.default_rng(seed)), SOME))


@every
@pytest.mark.parametrize("dim", [10, 60])
def test_the_same_seed_gives_the_same_bytes_and_another_seed_draws_other_images(attacker, dim):
    made = planted(1, people=9, images=6, dim=dim)
    new = unit_gauss(np.random.default_rng(3), 7, dim)
    one, again, other = (fit(attacker, made.vectors, made.identity, seed=seed) for seed in (0, 0, 1))
    assert [c.setting for c in one] == [c.setting for c in again]
    assert [c.map(new).tobytes() for c in one] == [c.map(new).tobytes() for c in again]
    assert one[0].map(new).tobytes() != other[0].map(new).tobytes()


@every
def test_rows_are_unit_float32_and_rows_of_zeros_stay_zeros(attacker):
    """Emptied rows would all become the same point: cosine 1, false accepts that hide everybody else's leak."""
    made = planted(2, people=9, images=6, dim=10)
    new = unit_gauss(np.random.default_rng(3), 6, 10)
    new[[1, 4]] = 0
    for candidate in fit(attacker, made.vectors, made.identity):
        mapped = candidate.map(new)
        assert mapped.dtype == np.float32
        assert not mapped[[1, 4]].any()
        np.testing.assert_allclose(np.linalg.norm(mapped[[0, 2, 3, 5]], axis=1), 1, atol=1e-5)


@every
@pytest.mark.parametrize("k", [4, None])
def test_rows_of_zeros_are_not_learned_from(attacker, k):
    made = planted(3, people=9, images=6, dim=10)
    new = unit_gauss(np.random.default_rng(3), 6, 10)
    X = np.concatenate([made.vectors, np.zeros((5, 10), np.float32)])
    identity = np.concatenate([made.identity, made.identity[:4], ["nobody"]])
    for plain, more in zip(fit(attacker, made.vectors, made.identity, k), fit(attacker, X, identity, k), strict=True):
        np.testing.assert_array_equal(plain.map(new), more.map(new))


@every
@pytest.mark.parametrize("k", [1, 3, None])
def test_all_directions_of_an_erased_release_but_those_it_has_are_left_alone(attacker, k):
    """Rounding in the directions that were taken out must not be blown up into a score."""
    made = planted(4, people=12, images=5, dim=20, rank=6)
    basis = np.linalg.qr(np.random.default_rng(5).standard_normal((20, 20)))[0]
    kept = basis[:, :8]

    def release(X: np.ndarray, rounding: int) -> np.ndarray:
        noise = np.random.default_rng(rounding).standard_normal(X.shape) * 1e-8
        return ((X.astype(float) @ kept) @ kept.T + noise).astype(np.float32)

    new = unit_gauss(np.random.default_rng(3), 8, 20)
    candidates = fit(attacker, release(made.vectors, 1), made.identity, k)
    for candidate in candidates:
        one, other = candidate.map(release(new, 2)), candidate.map(release(new, 3))
        np.testing.assert_allclose(one, other, atol=1e-3, err_msg=str(candidate.setting))


@every
def test_what_an_array_holds_now_counts_and_not_what_it_held(attacker):
    made = planted(5, people=6, images=4, dim=10)
    candidates = fit(attacker, made.vectors, made.identity)
    new = unit_gauss(np.random.default_rng(1), 6, 10)
    before = [c.map(new) for c in candidates]
    new[:] = new[::-1].copy()
    for candidate, rows in zip(candidates, before, strict=True):
        np.testing.assert_allclose(candidate.map(new), rows[::-1], atol=1e-5)


@every
def test_candidates_do_not_change_when_later_ones_are_asked_for(attacker):
    made = planted(6, people=6, images=4, dim=10)
    new = unit_gauss(np.random.default_rng(1), 6, 10)
    stream = iter(attacker.fit(made.vectors, made.identity, k=None, rng=np.random.default_rng(0)))
    seen = [(candidate, candidate.map(new)) for candidate in islice(stream, SOME)]
    for candidate, rows in seen:
        np.testing.assert_array_equal(candidate.map(new), rows)


@every
def test_labels_may_be_anything_sortable_and_the_order_of_people_does_not_matter(attacker):
    made = planted(7, people=6, images=4, dim=10)
    _, codes = np.unique(made.identity, return_inverse=True)
    new = unit_gauss(np.random.default_rng(1), 6, 10)
    for one, other in zip(fit(attacker, made.vectors, made.identity), fit(attacker, made.vectors, codes), strict=True):
        np.testing.assert_array_equal(one.map(new), other.map(new))


@every
def test_what_cannot_be_learned_is_refused_with_the_fix(attacker):
    made = planted(8, people=4, images=3, dim=5)
    X, identity, rng = made.vectors, made.identity, np.random.default_rng(0)
    with pytest.raises(DataError, match=r"at least two training identities, got 1; give it the images of more people"):
        attacker.fit(X, np.repeat("a", 12), k=2, rng=rng)
    with pytest.raises(DataError, match="all training vectors are the same"):
        attacker.fit(np.full_like(X, 1 / 3), identity, k=2, rng=rng)
    with pytest.raises(DataError, match="at least one image per identity, got k=0"):
        attacker.fit(X, identity, k=0, rng=rng)
    with pytest.raises(DataError, match=r"got shapes \(12, 5\) and \(11,\)"):
        attacker.fit(X, identity[:-1], k=2, rng=rng)
    for bad in (np.nan, np.inf):
        broken = X.copy()
        broken[7, 2] = bad
        with pytest.raises(DataError, match="row 7 holds NaN or infinity; drop it"):
            attacker.fit(broken, identity, k=2, rng=rng)


@every
def test_the_recipe_says_what_was_done_and_can_be_written_down(attacker):
    described = attacker.describe()
    assert described["name"] == attacker.name
    assert attacker.learns
    assert described["recipe"]
    assert described["grid"]
    assert json.loads(json.dumps(described)) == described
    for candidate in fit(attacker, *[getattr(planted(9, people=5, images=4), n) for n in ("vectors", "identity")]):
        assert all(isinstance(value, (int, float)) for value in candidate.setting.values())


def test_only_attackers_that_train_step_by_step_stop_early():
    assert [a.patience is None for a in ATTACKERS] == [True] * 5 + [False] * 2
    assert Cosine().patience is None


def test_attackers_with_the_same_recipe_are_equal_and_can_be_keys():
    """An audit looks attacks up by what they are."""
    assert WCCN() == WCCN() != WCCN((0.5,))
    assert len({RidgeProbe(), RidgeProbe(), LDA(), PLDA(), MLPProbe(), BestEffort(), BestEffort()}) == 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WCCN(()), "shrinkages are shares between 0 and 1"),
        (lambda: WCCN((0.1, 1.5)), "shrinkages are shares between 0 and 1"),
        (lambda: LDA(dimensions=(0,)), "dimensions must be whole numbers of at least 1"),
        (lambda: PLDA(between=(-0.1,)), "between-identity shrinkages lie between 0 and 1"),
        (lambda: RidgeProbe(covariance="some"), "comes from 'drawn' or 'all' images, got 'some'"),
        (lambda: RidgeProbe((0.0,)), "must be greater than 0"),
        (lambda: MLPProbe(widths=()), "needs widths, epochs and a batch of at least 1"),
    ],
)
def test_a_grid_that_means_nothing_is_refused(make, message):
    with pytest.raises(UsageError, match=message):
        make()
