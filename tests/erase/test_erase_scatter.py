"""Scatter in the moments, and what is made of it: covariances, shrinkage, whitening."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faceblind._errors import DataError, UsageError
from faceblind.erase import ISP, LEACE, SAL, FisherISP, IdentityMoments, RatioISP
from faceblind.erase.moments import moments_digest
from faceblind.erase.scatter import Whitening, shrinkage_weight, shrunk
from strategies import labels_of, planted


def direct(vectors: np.ndarray, identity: np.ndarray) -> dict[str, np.ndarray]:
    """Covariances of unit rows, from their definitions."""
    unit = vectors.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    names = np.unique(identity)
    onehot = (identity[:, None] == names).astype(float)
    means = np.array([unit[identity == name].mean(axis=0) for name in names])
    own = unit - onehot @ means
    return {
        "total": np.cov(unit.T, bias=True),
        "within": own.T @ own / len(unit),
        "cross": (unit - unit.mean(0)).T @ (onehot - onehot.mean(0)) / len(unit),
        "mean": unit.mean(axis=0),
    }


def check(moments: IdentityMoments, vectors: np.ndarray, identity: np.ndarray) -> None:
    expected = direct(vectors, identity)
    for name, found in {
        "total": moments.total_covariance(),
        "within": moments.within_covariance(),
        "cross": moments.cross_covariance(),
        "mean": moments.mean(),
    }.items():
        np.testing.assert_allclose(found, expected[name], rtol=0, atol=1e-12, err_msg=name)


@settings(max_examples=40)
@given(st.integers(0, 2**16), st.lists(st.integers(1, 5), min_size=2, max_size=8), st.data())
def test_any_batching_and_any_merging_of_shards_give_the_covariances(seed, counts, data):
    rng = np.random.default_rng(seed)
    identity = labels_of(counts, "shuffled", rng)
    vectors = (rng.standard_normal((identity.size, 5)) * 10.0 ** rng.uniform(-3, 3, (identity.size, 1))).astype(
        np.float32
    )
    check(IdentityMoments(scatter=True).partial_fit(vectors, identity), vectors, identity)
    cuts = sorted(data.draw(st.lists(st.integers(0, identity.size), max_size=5)))
    batched, merged = IdentityMoments(scatter=True), IdentityMoments(scatter=True)
    for rows in data.draw(st.permutations(np.split(np.arange(identity.size), cuts))):
        batched.partial_fit(vectors[rows], identity[rows])
        merged.merge(IdentityMoments(scatter=True).partial_fit(vectors[rows], identity[rows]))
    check(batched, vectors, identity)
    check(merged, vectors, identity)


@pytest.mark.parametrize("n", [1_023, 1_024, 2_049, 17_000])
def test_slices_and_stacks_leave_no_row_out(n):
    rng = np.random.default_rng(0)
    identity = rng.integers(0, 300, n).astype(str)
    vectors = (rng.standard_normal((n, 4)) + 1).astype(np.float32)
    moments = IdentityMoments(scatter=True).partial_fit(vectors, identity)
    check(moments, vectors, identity)
    np.testing.assert_array_equal(moments.means(), IdentityMoments().partial_fit(vectors, identity).means())


def test_total_is_within_plus_between():
    made = planted(0, people=12, images=5, dim=8, noise=0.4)
    moments = IdentityMoments(scatter=True).partial_fit(made.vectors[:50], made.identity[:50])
    shares = moments.counts() / 50
    centred = moments.means() - moments.mean()
    between = (centred.T * shares) @ centred
    np.testing.assert_allclose(moments.total_covariance(), moments.within_covariance() + between, atol=1e-14)
    assert np.linalg.eigvalsh(moments.within_covariance())[0] > 0


def test_dropping_single_images_takes_their_scatter_along():
    made = planted(0, people=6, images=3, dim=5)
    rng = np.random.default_rng(0)
    order = rng.permutation(21)
    vectors = np.concatenate([made.vectors, rng.standard_normal((3, 5)).astype(np.float32)])[order]
    identity = np.concatenate([made.identity, ["z1", "a0", "m5"]])[order]
    moments = IdentityMoments(scatter=True)
    for part in np.array_split(np.arange(21), 4):
        moments.partial_fit(vectors[part], identity[part])
    assert moments.drop_single_images() == 3
    check(moments, made.vectors, made.identity)
    more = rng.standard_normal((4, 5)).astype(np.float32)
    names = np.array(["a0", "a0", "p0001", "q"])
    moments.partial_fit(more, names)
    check(moments, np.concatenate([made.vectors, more]), np.concatenate([made.identity, names]))


def test_scatter_is_kept_only_where_asked_for():
    made = planted(1, people=3, images=3, dim=4)
    plain = IdentityMoments().partial_fit(made.vectors, made.identity)
    for covariance in (plain.total_covariance, plain.within_covariance):
        with pytest.raises(DataError, match=r"keep no scatter: collect them with IdentityMoments\(scatter=True\)"):
            covariance()
    with pytest.raises(DataError, match="cannot merge moments without scatter into moments that keep it"):
        IdentityMoments(scatter=True).merge(plain)
    full = IdentityMoments(scatter=True).partial_fit(made.vectors, made.identity)
    IdentityMoments(scatter=True).merge(IdentityMoments())  # nothing to miss
    np.testing.assert_array_equal(IdentityMoments().merge(full).means(), plain.means())
    for empty in (IdentityMoments(scatter=True), IdentityMoments(scatter=True).partial_fit(np.zeros((0, 2)), [])):
        for value in (empty.total_covariance, empty.within_covariance, empty.mean, empty.cross_covariance):
            with pytest.raises(DataError, match="no vectors were seen"):
                value()


def test_a_refused_batch_leaves_no_trace_and_merging_leaves_the_other_as_it_was():
    made = planted(2, people=4, images=3, dim=4)
    moments = IdentityMoments(scatter=True).partial_fit(made.vectors, made.identity)
    before = moments.total_covariance()
    with pytest.raises(DataError, match="row 13 holds NaN"):
        moments.partial_fit(np.array([[1, 0, 0, 0], [np.nan] * 4]), ["a", "b"])
    np.testing.assert_array_equal(moments.total_covariance(), before)
    other = IdentityMoments(scatter=True).merge(moments)
    other.partial_fit(made.vectors, made.identity)
    np.testing.assert_array_equal(moments.total_covariance(), before)


def test_the_digest_of_erasers_that_use_scatter_sees_it_and_that_of_others_does_not():
    one = np.array([[1, 0], [0, 1], [1, 1], [1, 1]], float)
    turned = np.array([[3, -4], [4, 3], [1, 1], [1, 1]], float)  # another mean
    wide = np.array([[0.6, 0.8], [0.8, 0.6], [1, 1], [1, 1]], float)
    vectors = [one, turned, wide]
    moments = [IdentityMoments(scatter=True).partial_fit(v, list("aabb")) for v in vectors]
    assert len({moments_digest(m, scatter=True) for m in moments}) == 3
    # the same mean in the first two coordinates, another scatter: only the digest with scatter tells them apart
    angles = np.deg2rad([0, 60, 20, 40])
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    scale = np.cos(np.deg2rad(30)) / np.cos(np.deg2rad(10))
    narrow = np.concatenate([rows[2:] * scale, np.sqrt(1 - scale**2) * np.array([[1.0], [-1.0]])], axis=1)
    broad = np.concatenate([rows[:2], np.zeros((2, 1))], axis=1)
    pair = [
        IdentityMoments(scatter=True).partial_fit(np.concatenate([v, np.eye(3)[:2]]), list("aabb"))
        for v in (narrow, broad)
    ]
    assert moments_digest(pair[0]) == moments_digest(pair[1])
    assert moments_digest(pair[0], scatter=True) != moments_digest(pair[1], scatter=True)
    plain = IdentityMoments().partial_fit(one, list("aabb"))
    assert moments_digest(plain) == moments_digest(moments[0])


def test_the_estimated_weight_is_near_the_best_one():
    """Weights are judged by distance to the covariance the sample is from."""
    rng = np.random.default_rng(0)
    truth = np.diag(np.linspace(0.2, 3, 40))
    for n in (60, 120, 400):
        sample = np.cov((rng.standard_normal((n, 40)) @ np.sqrt(truth)).T, bias=True)
        weight = shrinkage_weight(sample, n, "auto")
        assert 0 < weight < 1
        errors = [np.linalg.norm(shrunk(sample, w) - truth) for w in np.linspace(0, 1, 101)]
        assert np.linalg.norm(shrunk(sample, weight) - truth) < 1.05 * min(errors)


@pytest.mark.parametrize("n", [1, 2, 39, 40, 41])
def test_the_estimated_weight_stays_a_weight_for_spheres(n):
    sample = np.cov(np.random.default_rng(n).standard_normal((max(n, 2), 40)).T, bias=True)
    assert 0 <= shrinkage_weight(sample, n, "auto") <= 1
    assert shrinkage_weight(np.eye(40), n, "auto") == 1


def test_shrinking_keeps_the_trace_and_a_ridge_adds_to_it():
    S = np.cov(np.random.default_rng(0).standard_normal((9, 4)).T)
    assert np.trace(shrunk(S, 0.3)) == pytest.approx(np.trace(S))
    np.testing.assert_array_equal(shrunk(S, 0.0), S)
    np.testing.assert_allclose(shrunk(S, 1.0), np.trace(S) / 4 * np.eye(4))
    np.testing.assert_allclose(shrunk(S, 0.0, 0.1), S + 0.1 * np.trace(S) / 4 * np.eye(4))
    assert [shrinkage_weight(S, 9, w) for w in (None, 0, 0.25, 1)] == [0, 0, 0.25, 1]


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan"), True, False, "most"])
def test_only_weights_are_shrinkage(bad):
    with pytest.raises(UsageError, match="shrinkage is 'auto', None or a weight from 0 to 1, got"):
        shrinkage_weight(np.eye(2), 5, bad)


@pytest.mark.parametrize("rank", [3, 6])
def test_whitening_whitens_what_there_is(rank):
    rows = np.random.default_rng(0).standard_normal((50, rank)) @ np.random.default_rng(1).standard_normal((rank, 6))
    S = np.cov(rows.T)
    white = Whitening.of(S)
    assert white.down.shape == (rank, 6)
    np.testing.assert_allclose(white.down @ S @ white.down.T, np.eye(rank), atol=1e-10)
    np.testing.assert_allclose(white.down @ white.up, np.eye(rank), atol=1e-10)
    np.testing.assert_allclose(white.up @ white.up.T, S, atol=1e-10)
    assert Whitening.of(np.zeros((3, 3))).down.shape == (0, 3)


@pytest.mark.parametrize(
    "make", [lambda: ISP(5), lambda: SAL(5), lambda: FisherISP(5), lambda: RatioISP(5), lambda: LEACE(5)]
)
def test_batches_and_merged_shards_give_the_fit_over_everything(make):
    made = planted(7, people=20, images=6, dim=16, rank=5)
    whole = make().fit(made.vectors, made.identity)
    rows = np.random.default_rng(0).permutation(made.identity.size)
    shards = [make() for _ in range(3)]
    for index, part in enumerate(np.array_split(rows, 7)):
        shards[index % 3].partial_fit(made.vectors[part], made.identity[part])
    merged = shards[0].merge(shards[1]).merge(shards[2])
    np.testing.assert_allclose(merged.projector_.basis, whole.projector_.basis, atol=1e-10)
    np.testing.assert_allclose(merged.transform(made.vectors), whole.transform(made.vectors), atol=1e-6)
    before = merged.projector_
    merged.partial_fit(made.vectors[:6] + 1, ["someone new"] * 6)
    assert merged.projector_.fit_identities == before.fit_identities + 1  # made anew


def test_an_eraser_that_saw_nothing_says_so():
    with pytest.raises(AttributeError, match="this SAL is not fitted: call fit, or partial_fit"):
        SAL(3).transform(np.eye(4))
