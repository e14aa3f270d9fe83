"""Comparing two removed subspaces by principal angles, each number beside what it would be without identity.

That two projectors share directions says little by itself. Any two 192-d subspaces of 512 dimensions have a leading
cosine near 0.97, and two subspaces whose ranks exceed the dimension together share directions exactly. Vectors of one
encoder also share a covariance, and means of a few images follow it whoever is in them: fitted to noise with a falling
spectrum, two ISP subspaces have dozens of cosines above 0.99. So a comparison carries three nulls:

random
    subspaces of the same ranks drawn at random: what dimensions alone give.
label-free
    the leading principal components of either side's vectors, at the same ranks: what a shared covariance gives.
permuted identities
    the same recipe on shuffled identities: what a shared covariance gives through means of as many images.

Only an overlap above all three speaks of a shared identity subspace. The last two are severe: where identity is itself a
large part of the variance they contain it too, and the answer is then that the comparison cannot tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from faceblind._errors import DataError, ProjectorError, RankError, UsageError
from faceblind.data.embeddings import as_text, bad_rows
from faceblind.erase.base import svd_flip
from faceblind.erase.moments import IdentityMoments
from faceblind.erase.projector import Projector

NEAR_ONE = 0.99
"""Cosines above this are counted, as the literature does."""

_RANDOM, _LABEL_FREE, _PERMUTED = _NULLS = ("random", "label-free", "permuted identities")

Recipe = Callable[[NDArray[Any], NDArray[Any], int], NDArray[np.float64]]
"""(vectors, identity, rank) -> orthonormal basis (d, rank)."""

Side = tuple[ArrayLike, ArrayLike | None]
"""Vectors (n, d) that a projector was fitted on, with their identities (n,) where known."""

Range = tuple[float, float, float]
"""Mean, and the ends of the range that holds 95 % of the draws."""


def principal_cosines(U1: ArrayLike, U2: ArrayLike) -> NDArray[np.float64]:
    """Return the cosines of `principal_angles`, largest first."""
    return np.asarray(np.cos(principal_angles(U1, U2)))


def principal_angles(U1: ArrayLike, U2: ArrayLike) -> NDArray[np.float64]:
    """Return the principal angles between two subspaces in radians, smallest first; as many as the smaller rank.

    Angles below 45 degrees come from their sines, since a cosine near one has no digits left for them (Björck and Golub,
    1973): angles of 1e-12 come out as such.

    Parameters
    ----------
    U1, U2 : (d, r1), (d, r2)
        Orthonormal columns.

    Raises
    ------
    ProjectorError
        Not two bases of the same space, or columns that are not orthonormal.
    """
    large, small = _bases(U1, U2)
    inner = large.T @ small
    cosines = np.clip(linalg.svd(inner, compute_uv=False), 0, 1)
    sines = np.clip(linalg.svd(small - large @ inner, compute_uv=False)[::-1], 0, 1)
    return np.asarray(np.where(cosines**2 > 0.5, np.arcsin(sines), np.arccos(cosines)))


def overlap(U1: ArrayLike, U2: ArrayLike) -> float:
    """Return ``||U1' U2||_F^2 / r``, the share of the smaller subspace (of rank r) that lies in the larger.

    The mean of the squared principal cosines: 1 when one holds the other, 0 when they are orthogonal, and on average
    ``max(r1, r2) / d`` for random subspaces.

    Raises
    ------
    ProjectorError
        Not two bases of the same space, or columns that are not orthonormal.
    """
    large, small = _bases(U1, U2)
    return float(np.sum((large.T @ small) ** 2) / small.shape[1])


@dataclass(frozen=True, kw_only=True)
class SubspaceNull:
    """What two subspaces share without a common identity subspace: mean and 95 % range over draws of each number."""

    name: str
    """``random``, ``label-free`` or ``permuted identities``."""
    draws: int
    """Draws behind the ranges; 1 for the label-free null, which has nothing random in it."""
    overlap: Range
    top: Range
    mean: Range
    near_one: Range

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        ranges = {name: list(getattr(self, name)) for name in ("overlap", "top", "mean", "near_one")}
        return {"name": self.name, "draws": self.draws, **ranges}


@dataclass(frozen=True, kw_only=True)
class SubspaceComparison:
    """Two subspaces by their principal angles, beside the nulls; built by `compare_projectors`."""

    dim: int
    ranks: tuple[int, int]
    cosines: tuple[float, ...]
    """All principal cosines, largest first."""
    overlap: float
    top: float
    mean: float
    near_one: int
    """How many cosines are above `NEAR_ONE`."""
    nulls: tuple[SubspaceNull, ...]

    @property
    def not_exceeded(self) -> tuple[str, ...]:
        """Names of the nulls whose range the overlap does not exceed."""
        return tuple(null.name for null in self.nulls if not self.overlap > null.overlap[2])

    @property
    def evidence(self) -> bool | None:
        """Whether all nulls are exceeded; None when some were not computed and the others are exceeded."""
        if self.not_exceeded:
            return False
        return True if {null.name for null in self.nulls} == set(_NULLS) else None

    def sentence(self) -> str:
        """Say in plain words what the overlap shows and what it does not."""
        count = len(self.cosines)
        text = (
            f"The removed subspaces (ranks {self.ranks[0]} and {self.ranks[1]} of {self.dim} dimensions) overlap by "
            f"{100 * self.overlap:.1f} %; their leading cosine is {self.top:.3f}, and {self.near_one} of {count} are above {NEAR_ONE}. "
            f"Without a shared identity subspace the overlap is {_listed(_words(null) for null in self.nulls)}. "
        )
        if self.evidence is None:
            missing = _listed(name for name in _NULLS if name not in {null.name for null in self.nulls})
            return text + (
                "It exceeds what was compared, but nothing can be said about identity without the missing comparison: "
                f"{missing}. Pass the vectors and identities that both projectors were fitted on."
            )
        if self.evidence:
            return (
                text + "It exceeds every one of them: the two share directions that identity, not variance, explains."
            )
        return text + (
            f"It does not exceed {_listed(f'the {name} null' for name in self.not_exceeded)}: this is not evidence of a "
            "shared identity subspace."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types, with the whole spectrum."""
        return {
            "dim": self.dim,
            "ranks": list(self.ranks),
            "overlap": self.overlap,
            "top": self.top,
            "mean": self.mean,
            "near_one": self.near_one,
            "near_one_above": NEAR_ONE,
            "cosines": list(self.cosines),
            "nulls": [null.to_dict() for null in self.nulls],
            "not_exceeded": list(self.not_exceeded),
            "evidence": self.evidence,
            "sentence": self.sentence(),
        }


def mean_directions(vectors: NDArray[Any], identity: NDArray[Any], rank: int) -> NDArray[np.float64]:
    """Return the leading directions of differences of identity means, (d, rank): the recipe of mean-only ISP."""
    means = IdentityMoments().partial_fit(vectors, identity).means()
    return _leading(means, rank, f"{means.shape[0]} identities")


def pca_directions(vectors: NDArray[Any], rank: int) -> NDArray[np.float64]:
    """Return the leading principal components of unit rows, (d, rank)."""
    Z = np.asarray(vectors, dtype=np.float64)
    Z = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    return _leading(Z, rank, f"{Z.shape[0]} vectors")


def compare_projectors(
    first: Projector,
    second: Projector,
    *,
    rng: np.random.Generator | int,
    first_data: Side | None = None,
    second_data: Side | None = None,
    recipe: Recipe = mean_directions,
    draws: int = 200,
    permutations: int = 20,
) -> SubspaceComparison:
    """Compare what two projectors remove (their kernels), beside the nulls that the given data allow.

    Parameters
    ----------
    first, second : Projector
        Of the same encoder; their ranks may differ.
    rng : numpy.random.Generator or int
        Draws the random subspaces and the permutations.
    first_data, second_data : (vectors, identity or None), optional
        What each was fitted on: gives the label-free null, and with identities on both sides that of permuted identities.
    recipe : callable
        (vectors, identity, rank) -> orthonormal (d, rank), by which the projectors were fitted; mean-only ISP if not said.
    draws, permutations : int
        Random subspaces and permutations drawn.

    Raises
    ------
    ProjectorError
        The projectors are for vectors of different length or of different encoders.
    UsageError
        Data for one side only, or fewer than two draws or permutations.
    DataError
        Vectors that do not fit the projectors, or with rows that cannot be used.
    RankError
        Too few vectors or identities on a side for the rank of its projector.
    """
    if first.dim != second.dim:
        raise ProjectorError(f"projectors for vectors of {first.dim} and {second.dim} features cannot be compared")
    if first.encoder and second.encoder and (differences := first.encoder.differs_from(second.encoder)):
        raise ProjectorError(f"the projectors are for different encoders ({'; '.join(differences)}): their axes differ")
    if (first_data is None) != (second_data is None):
        raise UsageError(
            "give the vectors of both sides or of neither: the label-free nulls compare one with the other"
        )
    if min(draws, permutations) < 2:
        raise UsageError(f"a range needs at least two draws, got draws={draws} and permutations={permutations}")
    rng = np.random.default_rng(rng)
    ranks = (first.rank, second.rank)
    nulls = [_null(_RANDOM, (_random_cosines(first.dim, ranks, rng) for _ in range(draws)))]
    if first_data is not None and second_data is not None:
        sides = (_checked(first_data, first, "first"), _checked(second_data, second, "second"))
        components = [pca_directions(vectors, rank) for (vectors, _), rank in zip(sides, ranks, strict=True)]
        nulls.append(_null(_LABEL_FREE, [principal_cosines(*components)]))
        (X1, names1), (X2, names2) = sides
        if names1 is not None and names2 is not None:

            def permuted(labels1: NDArray[Any] = names1, labels2: NDArray[Any] = names2) -> NDArray[np.float64]:
                one = recipe(X1, rng.permutation(labels1), ranks[0])
                return principal_cosines(one, recipe(X2, rng.permutation(labels2), ranks[1]))

            nulls.append(_null(_PERMUTED, (permuted() for _ in range(permutations))))
    cosines = principal_cosines(_removed(first), _removed(second))
    share, top, mean, near_one = _numbers(cosines)
    return SubspaceComparison(
        dim=first.dim,
        ranks=ranks,
        cosines=tuple(cosines.tolist()),
        overlap=share,
        top=top,
        mean=mean,
        near_one=near_one,
        nulls=tuple(nulls),
    )


def _bases(U1: ArrayLike, U2: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Check two bases and return the one of larger rank first."""
    one, two = np.asarray(U1, dtype=np.float64), np.asarray(U2, dtype=np.float64)
    if one.ndim != 2 or two.ndim != 2 or one.shape[0] != two.shape[0] or 0 in one.shape + two.shape:
        raise ProjectorError(f"two bases of the same space are (d, r1) and (d, r2), got {one.shape} and {two.shape}")
    for basis in (one, two):
        off = np.abs(basis.T @ basis - np.eye(basis.shape[1])).max()
        if not off <= 1e-6:  # NaN is not orthonormal either
            raise ProjectorError(f"the columns of a basis are not orthonormal (off by {off:.1e})")
    return (one, two) if one.shape[1] >= two.shape[1] else (two, one)


def _removed(projector: Projector) -> NDArray[np.float64]:
    """Return an orthonormal basis of what a projector maps to nothing, whether it is orthogonal or oblique."""
    if projector.lift is None:
        return projector.basis
    return np.asarray(linalg.qr(projector.lift, mode="economic")[0])


def _checked(side: Side, projector: Projector, which: str) -> tuple[NDArray[Any], NDArray[Any] | None]:
    vectors = np.asarray(side[0])
    if vectors.ndim != 2 or vectors.shape[1] != projector.dim:
        raise DataError(
            f"the {which} projector is for {projector.dim} features, its vectors have shape {vectors.shape}"
        )
    bad = bad_rows(vectors)
    if bad.any:
        row = int(np.concatenate([bad.non_finite, bad.zero]).min())
        raise DataError(f"row {row} of the {which} vectors holds NaN, infinity or only zeros: drop it")
    return vectors, None if side[1] is None else as_text(side[1], vectors.shape[0], "identity")


def _leading(rows: NDArray[np.float64], rank: int, what: str) -> NDArray[np.float64]:
    """Return the top right singular vectors of centred rows, as columns."""
    centred = rows - rows.mean(axis=0)
    if rank > min(centred.shape[0] - 1, centred.shape[1]):
        raise RankError(f"{what} do not support rank {rank}: the null at this rank needs at least {rank + 1}")
    if centred.shape[0] > 2 * centred.shape[1]:
        return svd_flip(linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :rank])
    return svd_flip(linalg.svd(centred, full_matrices=False)[2][:rank].T)


def _random_cosines(dim: int, ranks: tuple[int, int], rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw principal cosines of two random subspaces: by symmetry one can be spanned by the first coordinates."""
    basis, _ = linalg.qr(rng.standard_normal((dim, min(ranks))), mode="economic")
    return np.asarray(np.clip(linalg.svd(basis[: max(ranks)], compute_uv=False), 0, 1))


def _numbers(cosines: NDArray[np.float64]) -> tuple[float, float, float, int]:
    """Return overlap, top, mean and count near one."""
    return float(np.mean(cosines**2)), float(cosines[0]), float(cosines.mean()), int((cosines > NEAR_ONE).sum())


def _null(name: str, drawn: Iterable[NDArray[np.float64]]) -> SubspaceNull:
    table = np.array([_numbers(cosines) for cosines in drawn])
    low, high = np.quantile(table, [0.025, 0.975], axis=0)
    rows = zip(table.mean(axis=0), low, high, strict=True)
    share, top, mean, near_one = ((float(m), float(a), float(b)) for m, a, b in rows)
    return SubspaceNull(name=name, draws=table.shape[0], overlap=share, top=top, mean=mean, near_one=near_one)


def _words(null: SubspaceNull) -> str:
    mean, low, high = (100 * value for value in null.overlap)
    if null.draws == 1:
        return f"{mean:.1f} % ({null.name})"
    return f"{mean:.1f} % ({null.name}, 95 % of draws {low:.1f} to {high:.1f} %)"


def _listed(parts: Iterable[str]) -> str:
    items = list(parts)
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
