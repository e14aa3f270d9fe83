"""Random projectors of every form, rows of every kind, and how far two float32 results of a row may be apart."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from faceblind.erase import Projector, RankChoice
from strategies import orthonormal

FORMS = ("orthogonal", "oblique", "orthogonal affine", "oblique affine")
OUTPUTS = tuple({"compact": c, "renormalise": n} for c, n in itertools.product((False, True), repeat=2))


def projector_of(dim: int, rank: int, form: str = "orthogonal", seed: int = 0, **provenance: object) -> Projector:
    rng = np.random.default_rng(seed)
    basis = orthonormal(rng, dim, rank)
    lift = mean = None
    if "oblique" in form:
        extra = rng.standard_normal((dim, rank)) / np.sqrt(dim)
        lift = basis + extra - basis @ (basis.T @ extra)
    if "affine" in form:
        mean = rng.standard_normal(dim) / np.sqrt(dim)
    choice = RankChoice(rule="given")
    return Projector.of(basis, method="test", choice=choice, lift=lift, mean=mean, **provenance)


@dataclass(frozen=True)
class Case:
    projector: Projector
    rows: np.ndarray
    compact: bool
    renormalise: bool

    @property
    def output(self) -> dict[str, bool]:
        return {"compact": self.compact, "renormalise": self.renormalise}


@st.composite
def cases(draw: st.DrawFn, *, magnitude: float = 25.0, degenerate: bool = True) -> Case:
    """A projector of any form, an output form, and rows: of many lengths and, if `degenerate`, zeros and erased rows."""
    dim = draw(st.integers(2, 24))
    rank = draw(st.integers(1, dim - 1))
    seed = draw(st.integers(0, 2**16))
    projector = projector_of(dim, rank, draw(st.sampled_from(FORMS)), seed)
    rng = np.random.default_rng([seed, 1])
    rows = rng.standard_normal((9, dim)) * 10.0 ** rng.uniform(-magnitude, magnitude, (9, 1))
    if degenerate:
        rows[0] = 0
        rows[1] = (projector.basis if projector.lift is None else projector.lift)[:, rank // 2]
        rows[2] = rows[3] * 1e-33 / np.abs(rows[3]).max()
    return Case(projector, rows.astype(np.float32), draw(st.booleans()), draw(st.booleans()))


def assert_same(case: Case, found: np.ndarray) -> None:
    """The result is that of `Projector.apply`, but for float32 rounding of the row that went in."""
    applied = case.projector.apply(case.rows, **case.output)
    assert found.shape == applied.vectors.shape
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[applied.emptied], 0)
    np.testing.assert_array_less(np.abs(found - applied.vectors).max(axis=1), rounding(case) + 1e-44)


def rounding(case: Case) -> np.ndarray:
    """How far apart results may be, from the definition in float64."""
    exact = by_definition(case.projector, case.rows)
    before = np.linalg.norm(case.rows.astype(np.float64), axis=1)
    if case.projector.mean is not None:
        before = np.minimum(before, 1.0)
    left = np.linalg.norm(exact, axis=1)
    scale = 1 / np.maximum(left, 1e-300) if case.renormalise else np.ones(len(left))
    return 5e-6 * case.projector.pair.gain * np.maximum(before, left) * scale


def by_definition(projector: Projector, rows: np.ndarray) -> np.ndarray:
    """``m + P (z - m)`` with P = I - L U', of unit rows when affine, in float64."""
    z = rows.astype(np.float64)
    lift = projector.basis if projector.lift is None else projector.lift
    if projector.mean is not None:
        z = z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-300)
        z = z - projector.mean
    left = z - z @ projector.basis @ lift.T
    return left if projector.mean is None else left + projector.mean
