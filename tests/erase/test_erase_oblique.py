"""Projectors that are not orthogonal: oblique pairs, and maps about a mean."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save

from faceblind._errors import DataError, ProjectorError
from faceblind.data.meta import METADATA_KEY
from faceblind.erase import Projector, RankChoice
from faceblind.erase.projector import digest_of
from strategies import orthonormal, unit_gauss

GIVEN = RankChoice(rule="given")
FORMS = ["orthogonal affine", "oblique", "oblique affine"]


def make(dim: int, rank: int, form: str, seed: int = 0, *, slant: float = 1.0) -> Projector:
    rng = np.random.default_rng([seed, 3])
    basis = orthonormal(rng, dim, rank)
    away = rng.standard_normal((dim, rank)) / np.sqrt(dim)
    lift = basis + slant * (away - basis @ (basis.T @ away)) if "oblique" in form else None
    mean = 0.5 * rng.standard_normal(dim) / np.sqrt(dim) if "affine" in form else None
    return Projector.of(basis, lift=lift, mean=mean, method="test", choice=GIVEN)


def by_hand(projector: Projector, X: np.ndarray) -> np.ndarray:
    """Image of float64 rows by the full matrix; those of an affine map have unit length first."""
    lift = projector.basis if projector.lift is None else projector.lift
    P = np.eye(projector.dim) - lift @ projector.basis.T
    Z = X.astype(np.float64)
    if projector.mean is None:
        return Z @ P.T
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    return (Z - projector.mean) @ P.T + projector.mean


def relative(error: np.ndarray, X: np.ndarray) -> np.ndarray:
    return np.abs(error).max(axis=1) / np.linalg.norm(X.astype(float), axis=1)


@settings(max_examples=60)
@given(st.sampled_from(FORMS), st.integers(2, 40), st.data())
def test_all_formulas_agree_with_the_full_matrix(form, dim, data):
    projector = make(dim, data.draw(st.integers(1, dim - 1)), form, data.draw(st.integers(0, 999)))
    rng = np.random.default_rng([data.draw(st.integers(0, 999)), 1])
    X = (rng.standard_normal((7, dim)) * 10.0 ** rng.uniform(-4, 4, (7, 1))).astype(np.float32)
    expected = by_hand(projector, X)
    scale = X if projector.mean is None else np.ones((7, 1))
    full = projector.apply(X, renormalise=False).vectors
    compact = projector.apply(X, compact=True, renormalise=False).vectors
    assert projector.form == form
    assert compact.shape == (7, dim - projector.rank + ("affine" in form))
    assert compact.shape[1] == projector.compact_dim
    tolerance = 1e-6 * projector.pair.gain
    assert relative(full - expected, scale).max() < tolerance
    lengths = np.linalg.norm(scale.astype(float), axis=1) * projector.pair.gain
    dots = compact.astype(float) @ compact.astype(float).T - expected @ expected.T
    assert (np.abs(dots) / np.outer(lengths, lengths)).max() < 3e-6
    left = np.linalg.norm(expected, axis=1, keepdims=True)
    short = (left / np.linalg.norm(scale.astype(float), axis=1, keepdims=True)).clip(1e-3, 1)
    assert (np.abs(projector.apply(X).vectors - expected / left) * short).max() < 2 * tolerance


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("dim", "rank"), [(64, 20), (64, 50), (256, 96)])
def test_compact_cosines_are_those_of_the_full_form(form, dim, rank):
    projector = make(dim, rank, form)
    X = unit_gauss(np.random.default_rng(1), 300, dim)
    full, compact = projector.apply(X).vectors, projector.apply(X, compact=True).vectors
    np.testing.assert_allclose(compact @ compact.T, full @ full.T, atol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(compact, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(full, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("dim", "rank"), [(32, 5), (32, 30)])
def test_the_basis_reads_the_same_from_every_row_and_a_second_time_changes_nothing(form, dim, rank, monkeypatch):
    projector = make(dim, rank, form)
    X = unit_gauss(np.random.default_rng(1), 100, dim)
    once = projector.apply(X, renormalise=False).vectors
    constant = 0 if projector.mean is None else projector.basis.T @ projector.mean
    np.testing.assert_allclose(once.astype(float) @ projector.basis - constant, 0, atol=1e-6)
    P = np.eye(dim) - (projector.basis if projector.lift is None else projector.lift) @ projector.basis.T
    np.testing.assert_allclose(P @ P, P, atol=1e-12)
    assert np.trace(P) == pytest.approx(dim - rank)
    np.testing.assert_allclose(projector.complement @ (projector.complement.T @ P), P, atol=1e-12)  # its range
    if projector.mean is None:
        np.testing.assert_allclose(projector.apply(once, renormalise=False).vectors, once, atol=2e-6)
    other = {"low-rank": "complement", "complement": "low-rank"}[projector.formula(compact=False)]
    monkeypatch.setattr(Projector, "formula", lambda *_, **__: other)
    np.testing.assert_allclose(projector.apply(X, renormalise=False).vectors, once, atol=2e-6)


def test_an_affine_map_keeps_its_mean_and_does_not_see_how_long_rows_are():
    projector = make(12, 4, "oblique affine")
    mean = projector.mean / np.linalg.norm(projector.mean)
    about = Projector.of(projector.basis, lift=projector.lift, mean=mean, method="test", choice=GIVEN)
    np.testing.assert_allclose(about.apply(mean[None]).vectors[0], mean, atol=1e-6)
    X = unit_gauss(np.random.default_rng(0), 20, 12)
    expected = about.apply(X, renormalise=False)
    for exponent in (-20, -10, 10, 19, 37):
        found = about.apply(X.astype(float) * 10.0**exponent, renormalise=False)
        np.testing.assert_allclose(found.vectors, expected.vectors, atol=2e-6)
        np.testing.assert_allclose(found.energy_kept, expected.energy_kept, atol=1e-5)
        assert found.emptied.size == 0
    assert np.abs(make(12, 4, "oblique").apply(3 * X, renormalise=False).vectors).max() > 1  # a linear one keeps it


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize(("dim", "rank"), [(3, 2), (16, 5), (16, 11), (256, 96)])
@pytest.mark.parametrize("slant", [0.1, 3.0, 300.0])
def test_rows_in_the_kernel_become_zeros_and_are_named(dim, rank, compact, slant):
    projector = make(dim, rank, "oblique", slant=slant)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100, dim)).astype(np.float32)
    inside = rng.choice(100, 40, replace=False)
    rows = rng.standard_normal((40, rank)) @ projector.lift.T
    X[inside] = rows * 10.0 ** rng.uniform(-6, 6, (40, 1)) / np.linalg.norm(rows, axis=1, keepdims=True)
    X[inside[0]] = 0
    for renormalise in (True, False):
        found = projector.apply(X, compact=compact, renormalise=renormalise)
        np.testing.assert_array_equal(found.emptied, np.sort(inside))
        assert not found.vectors[inside].any()
        np.testing.assert_array_equal(found.energy_kept[inside], 0)


@pytest.mark.parametrize("compact", [False, True])
def test_a_row_of_zeros_has_no_image_under_an_affine_map_either(compact):
    X = unit_gauss(np.random.default_rng(0), 3, 8)
    X[1] = 0
    found = make(8, 3, "oblique affine").apply(X, compact=compact)
    np.testing.assert_array_equal(found.emptied, [1])
    assert not found.vectors[1].any()
    with pytest.raises(DataError, match="row 12 holds NaN"):
        make(8, 3, "oblique affine").apply(np.where(X == 0, np.nan, X), first_row=11)


def test_energy_kept_is_at_most_one_though_rows_grow():
    projector = make(8, 3, "oblique", slant=5.0)
    X = projector.basis.T.astype(np.float32)  # read in full, and pushed far aside
    raw = projector.apply(X, renormalise=False)
    assert (np.linalg.norm(raw.vectors, axis=1) > 1.5).all()
    np.testing.assert_array_equal(raw.energy_kept, 1)
    assert projector.pair.gain == pytest.approx(np.linalg.norm(np.eye(8) - projector.lift @ projector.basis.T, 2))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"lift": np.eye(4)[:, :1]}, r"basis and lift have one shape, got \(4, 2\) and \(4, 1\)"),
        ({"lift": np.full((4, 2), np.nan)}, "the lift holds NaN or infinity"),
        ({"lift": np.eye(4)[:, 1:3]}, r"do not belong together: their product is not the identity \(off by 1.0e\+00\)"),
        ({"lift": 1.001 * np.eye(4)[:, :2]}, r"do not belong together"),
        ({"mean": np.zeros(3)}, r"the mean of vectors of 4 features has shape \(4,\), got \(3,\)"),
        ({"mean": np.full(4, np.inf)}, "the mean holds NaN or infinity"),
    ],
)
def test_arrays_that_do_not_go_together_are_refused(arrays, message):
    with pytest.raises(ProjectorError, match=message):
        Projector.of(np.eye(4)[:, :2], method="test", choice=GIVEN, **arrays)


@pytest.mark.parametrize("form", FORMS)
def test_a_file_comes_back_as_it_was_saved_and_holds_no_square_matrix(form, tmp_path):
    projector = make(12, 4, form)
    projector.save(tmp_path / "p")
    loaded = Projector.load(tmp_path / "p")
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "p").read_bytes()
    assert loaded.digest == projector.digest
    assert loaded.describe() == projector.describe()
    assert projector.header()["form"] == loaded.form == form
    shapes = {name: tensor.shape for name, tensor in load_file(tmp_path / "p").items()}
    expected = {"basis": (12, 4), "spectrum": (0,), "compact_check": (projector.compact_dim,)}
    expected |= {"lift": (12, 4)} if "oblique" in form else {}
    expected |= {"mean": (12,)} if "affine" in form else {}
    assert shapes == expected
    X = unit_gauss(np.random.default_rng(1), 30, 12)
    for compact in (False, True):
        ours, theirs = (p.apply(X, compact=compact).vectors.tobytes() for p in (projector, loaded))
        assert ours == theirs


def test_lift_mean_and_settings_are_in_the_digest():
    base = make(12, 4, "oblique affine")
    again = {"basis": base.basis, "method": "test", "choice": GIVEN}
    others = [
        Projector.of(**again),
        Projector.of(**again, lift=base.lift),
        Projector.of(**again, mean=base.mean),
        Projector.of(**again, lift=base.lift, mean=base.mean + 1e-12),
        Projector.of(**again, lift=base.lift, mean=base.mean, settings={"ridge": 0.1}),
    ]
    assert len({p.digest for p in [base, *others]}) == 6


def test_settings_come_back(tmp_path):
    projector = Projector.of(np.eye(3)[:, :1], method="leace", choice=GIVEN, settings={"shrinkage": 0.1, "ridge": 0.0})
    projector.save(tmp_path / "p")
    assert Projector.load(tmp_path / "p").settings == {"shrinkage": 0.1, "ridge": 0.0}
    assert projector.describe()["settings"] == {"shrinkage": 0.1, "ridge": 0.0}


def forge(path, change_tensors, change_header=lambda meta: None) -> None:
    """Edit a file and put in the right digest, as a careful forger would."""
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as stream:
        meta = json.loads(stream.metadata()[METADATA_KEY])
    meta.pop("digest")
    change_header(meta)
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in change_tensors(load_file(path)).items()}
    text = json.dumps({**meta, "digest": digest_of(tensors, meta)})
    path.write_bytes(save(tensors, metadata={METADATA_KEY: text}))


def without(name):
    return lambda tensors: {k: v for k, v in tensors.items() if k != name}


@pytest.mark.parametrize(
    ("tensors", "header", "message"),
    [
        (
            without("lift"),
            lambda m: None,
            "says that its map is oblique affine, but its tensors are those of an orthogonal",
        ),
        (
            without("mean"),
            lambda m: None,
            "says that its map is oblique affine, but its tensors are those of an oblique one",
        ),
        (
            lambda t: t,
            lambda m: m.pop("form"),
            "says that its map is orthogonal, but its tensors are those of an oblique",
        ),
        (lambda t: t | {"lift": t["lift"] * 1.01}, lambda m: None, "basis and lift do not belong together"),
        (lambda t: t | {"lift": t["lift"][:, :3]}, lambda m: None, "basis and lift have one shape"),
        (lambda t: t | {"lift": t["basis"]}, lambda m: None, "comes out differently"),
        (lambda t: t | {"mean": t["mean"] + 0.1}, lambda m: None, "comes out differently"),
        (lambda t: t | {"mean": t["mean"][:5]}, lambda m: None, "the mean of vectors of 12 features"),
        (lambda t: t | {"mean": t["mean"] * np.nan}, lambda m: None, "the mean holds NaN"),
        (lambda t: t, lambda m: m.update(settings=7), "damaged header"),
    ],
)
def test_a_forged_pair_with_the_right_digest_is_refused(tensors, header, message, tmp_path):
    make(12, 4, "oblique affine").save(tmp_path / "p")
    forge(tmp_path / "p", tensors, header)
    with pytest.raises(ProjectorError, match=message):
        Projector.load(tmp_path / "p")


def test_a_changed_byte_anywhere_is_noticed(tmp_path):
    make(6, 2, "oblique affine").save(tmp_path / "p")
    data = (tmp_path / "p").read_bytes()
    digest, harmless = Projector.load(tmp_path / "p").digest, 0
    for position in range(0, len(data), 3):
        changed = bytearray(data)
        changed[position] ^= 1 << (position % 8)
        (tmp_path / "p").write_bytes(changed)
        try:
            assert Projector.load(tmp_path / "p").digest == digest
        except ProjectorError:
            continue
        harmless += 1
    assert harmless < 20  # spaces between the words of a JSON header
