from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faceblind._errors import DataError, EncoderError, ProjectorError
from faceblind.erase import Projector, RankChoice
from strategies import fingerprint, orthonormal, unit_gauss

GIVEN = RankChoice(rule="given")


def make(dim: int, rank: int, seed: int = 0, **provenance) -> Projector:
    basis = orthonormal(np.random.default_rng(seed), dim, rank)
    return Projector.of(basis, method="test", choice=GIVEN, **provenance)


def by_hand(projector: Projector, X: np.ndarray) -> np.ndarray:
    """(I - U U') z, then unit length, in float64."""
    Z = X.astype(np.float64)
    left = Z - Z @ projector.basis @ projector.basis.T
    return left / np.linalg.norm(left, axis=1, keepdims=True)


@settings(max_examples=60)
@given(st.integers(2, 40), st.data())
def test_all_formulas_agree_with_the_definition(dim, data):
    projector = make(dim, data.draw(st.integers(1, dim - 1)), data.draw(st.integers(0, 999)))
    rng = np.random.default_rng([data.draw(st.integers(0, 999)), 1])
    X = (rng.standard_normal((7, dim)) * 10.0 ** rng.uniform(-4, 4, (7, 1))).astype(np.float32)
    full, compact = projector.apply(X), projector.apply(X, compact=True)
    assert full.vectors.shape == (7, dim)
    assert compact.vectors.shape == (7, dim - projector.rank)
    expected = by_hand(projector, X)
    # what is left of a row may be short: float32 rounding is relative to the whole row
    short = 1 / np.sqrt(full.energy_kept).clip(1e-3)
    np.testing.assert_array_less(np.abs(full.vectors - expected).max(axis=1), 1e-6 * short)
    np.testing.assert_array_less(
        np.abs(compact.vectors @ compact.vectors.T - expected @ expected.T).max(axis=1), 2e-6 * short.max()
    )
    np.testing.assert_allclose(
        compact.vectors @ projector.complement.T.astype(np.float32), full.vectors, atol=3e-6 * short.max()
    )


@pytest.mark.parametrize(
    ("dim", "rank", "formula"), [(10, 5, "low-rank"), (10, 6, "complement"), (11, 5, "low-rank"), (11, 6, "complement")]
)
def test_the_cheaper_formula_is_taken_and_both_give_the_same(dim, rank, formula, monkeypatch):
    projector = make(dim, rank)
    assert projector.formula(compact=False) == formula
    assert projector.formula(compact=True) == "compact"
    X = unit_gauss(np.random.default_rng(1), 50, dim)
    expected = projector.apply(X).vectors
    other = {"low-rank": "complement", "complement": "low-rank"}[formula]
    monkeypatch.setattr(Projector, "formula", lambda *_, **__: other)
    np.testing.assert_allclose(projector.apply(X).vectors, expected, atol=1e-6)


@pytest.mark.parametrize(("dim", "rank"), [(64, 20), (64, 50), (256, 96)])
def test_compact_cosines_are_those_of_the_full_form(dim, rank):
    projector = make(dim, rank)
    X = unit_gauss(np.random.default_rng(1), 300, dim)
    full, compact = projector.apply(X).vectors, projector.apply(X, compact=True).vectors
    np.testing.assert_allclose(compact @ compact.T, full @ full.T, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(full, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(compact, axis=1), 1, atol=1e-6)
    V = projector.complement
    np.testing.assert_allclose(V.T @ V, np.eye(dim - rank), atol=1e-12)
    np.testing.assert_allclose(V.T @ projector.basis, 0, atol=1e-12)


@pytest.mark.parametrize(("dim", "rank"), [(32, 5), (32, 30)])
def test_applying_twice_changes_nothing(dim, rank):
    projector = make(dim, rank)
    once = projector.apply(unit_gauss(np.random.default_rng(1), 100, dim)).vectors
    twice = projector.apply(once)
    np.testing.assert_allclose(twice.vectors, once, atol=1e-6)
    np.testing.assert_allclose(twice.energy_kept, 1, atol=1e-5)
    assert np.abs(once.astype(float) @ projector.basis).max() < 1e-6


def test_without_renormalising_the_map_is_linear():
    projector = make(16, 6)
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((2, 20, 16)).astype(np.float32)
    plain = lambda X: projector.apply(X, renormalise=False).vectors  # noqa: E731
    np.testing.assert_allclose(plain(2 * A - 3 * B), 2 * plain(A) - 3 * plain(B), atol=1e-5)
    np.testing.assert_allclose(plain(A), A - A @ projector.basis @ projector.basis.T, atol=1e-6)
    scaled = plain(A) / np.linalg.norm(plain(A), axis=1, keepdims=True)
    np.testing.assert_allclose(scaled, projector.apply(A).vectors, atol=1e-6)


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize(("dim", "rank"), [(2, 1), (3, 2), (16, 5), (16, 11), (256, 96), (256, 200)])
def test_rows_inside_the_removed_subspace_become_zeros_and_are_named(dim, rank, compact):
    projector = make(dim, rank)
    rng = np.random.default_rng(1)
    X = unit_gauss(rng, 400, dim)
    inside = rng.choice(400, 150, replace=False)
    rows = rng.standard_normal((150, rank)) @ projector.basis.T
    X[inside] = rows * 10.0 ** rng.uniform(-6, 6, (150, 1)) / np.linalg.norm(rows, axis=1, keepdims=True)
    X[inside[0]] = 0
    for renormalise in (True, False):
        found = projector.apply(X, compact=compact, renormalise=renormalise)
        np.testing.assert_array_equal(found.emptied, np.sort(inside))
        assert not found.vectors[inside].any()
        assert np.isfinite(found.vectors).all()
        np.testing.assert_array_equal(found.energy_kept[inside], 0)


def test_a_short_remainder_that_is_not_rounding_is_kept():
    projector = Projector.of(np.eye(8)[:, :3], method="test", choice=GIVEN)
    X = np.zeros((1, 8), np.float32)
    X[0, 0], X[0, 5] = 1, 1e-4
    found = projector.apply(X)
    assert found.emptied.size == 0
    np.testing.assert_allclose(found.vectors[0], np.eye(8)[5], atol=1e-6)
    assert found.energy_kept[0] == pytest.approx(1e-8, rel=1e-3)


@pytest.mark.parametrize("exponent", [-20, -10, 0, 10, 19, 25, 37])
def test_the_length_of_rows_does_not_matter(exponent):
    projector = make(8, 3)
    X = unit_gauss(np.random.default_rng(0), 20, 8)
    found = projector.apply(X.astype(float) * 10.0**exponent)
    assert found.emptied.size == 0
    np.testing.assert_allclose(found.vectors, projector.apply(X).vectors, atol=2e-6)
    np.testing.assert_allclose(found.energy_kept, projector.apply(X).energy_kept, rtol=1e-5)


def test_the_energy_kept_is_the_share_of_squared_length():
    projector = make(24, 9)
    rng = np.random.default_rng(3)
    X = (rng.standard_normal((9_000, 24)) * rng.uniform(0.1, 50, (9_000, 1))).astype(np.float32)  # several blocks
    removed = X.astype(float) @ projector.basis
    expected = 1 - (removed**2).sum(axis=1) / (X.astype(float) ** 2).sum(axis=1)
    for compact in (False, True):
        kept = projector.apply(X, compact=compact).energy_kept
        np.testing.assert_allclose(kept, expected, atol=1e-6)
        assert kept.max() <= 1
    assert expected.mean() == pytest.approx(15 / 24, abs=0.01)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int16])
def test_other_number_types_are_read_and_float32_comes_out(dtype):
    projector = make(6, 2)
    X = (10 * np.random.default_rng(0).standard_normal((5, 6))).astype(dtype)
    found = projector.apply(X.tolist()).vectors
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, by_hand(projector, X), atol=1e-6)
    np.testing.assert_array_equal(found, projector.apply(X).vectors)
    assert projector.apply(np.zeros((0, 6))).vectors.shape == (0, 6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_a_row_that_is_not_finite_is_named(bad):
    projector = make(6, 2)
    X = np.ones((5_000, 6))
    X[4_500, 3] = bad
    with pytest.raises(DataError, match="row 4500 holds NaN or infinity: re-embed that image or drop the row"):
        projector.apply(X)
    with pytest.raises(DataError, match="row 14500 holds NaN"):
        projector.apply(X, first_row=10_000)


@pytest.mark.parametrize("shape", [(3, 5), (3, 7), (6,), (2, 3, 6)])
def test_vectors_of_another_length_are_refused(shape):
    with pytest.raises(DataError, match=r"the projector is for vectors of 6 features, the table has shape \("):
        make(6, 2).apply(np.ones(shape))


@pytest.mark.parametrize(
    ("basis", "message"),
    [
        (np.eye(3), r"a basis is \(d, r\) with 0 < r < d, got shape \(3, 3\)"),
        (np.zeros((3, 0)), r"got shape \(3, 0\)"),
        (np.eye(3)[0], r"got shape \(3,\)"),
        (np.full((3, 1), np.nan), "the basis holds NaN or infinity"),
        (np.ones((3, 1)), r"not orthonormal \(off by 2.0e\+00\)"),
        (np.eye(4)[:, [0, 0]], r"not orthonormal \(off by 1.0e\+00\)"),
        (np.eye(4)[:, :2] * (1 + 1e-5), "not orthonormal"),
    ],
)
def test_only_orthonormal_columns_are_a_basis(basis, message):
    with pytest.raises(ProjectorError, match=message):
        Projector.of(basis, method="test", choice=GIVEN)


def test_the_basis_cannot_be_changed_afterwards():
    source = np.eye(4)[:, :2].copy()
    projector = Projector.of(source, method="test", choice=GIVEN)
    source[0, 0] = 7
    assert projector.basis[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        projector.basis[0, 0] = 2


KNOWN, OTHER = fingerprint(), fingerprint(weights_sha256="cd" * 32, precision="int8", encoder="other")


@pytest.mark.parametrize(
    ("ours", "theirs", "caution"),
    [
        (None, None, "the projector does not say which encoder"),
        (None, KNOWN, "the projector does not say which encoder"),
        (KNOWN, None, "the table does not say which encoder"),
        (KNOWN, KNOWN, None),
        (KNOWN, fingerprint(libraries={"numpy": "3"}, encoder="alias"), None),
    ],
)
@pytest.mark.parametrize("force", [False, True])
def test_the_same_or_an_unknown_encoder_passes(ours, theirs, caution, force):
    found = make(12, 2, encoder=ours).check_encoder(theirs, force=force)
    assert found is None if caution is None else found.startswith(caution)


def test_another_encoder_is_refused_unless_forced_and_the_differences_are_named():
    projector = make(12, 2, encoder=KNOWN)
    with pytest.raises(EncoderError) as caught:
        projector.check_encoder(OTHER)
    assert "the projector was made for encoder 'test', the table holds 'other'" in str(caught.value)
    assert "precision: float32 != int8" in str(caught.value)
    assert "fit a projector for it, or pass --force" in str(caught.value)
    forced = projector.check_encoder(OTHER, force=True)
    assert forced.endswith("; forced")
    assert "weights_sha256: abab" in forced
