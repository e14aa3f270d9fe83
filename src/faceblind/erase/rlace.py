"""RLACE, relaxed linear adversarial concept erasure (Ravfogel et al., ICML 2022), written from its description.

A game: P removes, a softmax classifier reads identity from what is left. P ranges over the Fantope
``{0 <= P <= I, trace P = k}``, the convex hull of projections of rank k; the classifier's weights W minimise, and P
maximises, the cross-entropy of ``(I - P) x`` plus a penalty on W. The result removes the k leading eigenvectors of P.

How it is played here:

- Vectors are scaled to unit length, centred, and multiplied by one number that makes the mean variance of a dimension
  one, so that one penalty suits every encoder.
- A turn is a few Adam steps of W on all images (or a large batch), then one ascent step of P, projected onto the Fantope
  by one eigendecomposition. The published code makes one such decomposition for each of up to 75,000 small batches.
- P starts from SAL, the leading directions of the covariance between vectors and identities (``start="means"``; "uniform"
  starts from ``k/d I``). With k at least the rank of that covariance SAL is already an answer of the game: every
  classifier fitted on those images is reduced to class frequencies, which is the most P can achieve. RLACE can differ
  from SAL only below that rank.
- Every few turns the eigenvectors are tried by a judge, on images that the game did not use (`faceblind.erase.judge`);
  the best are kept, and the game ends when the judge is at chance. The published code chooses by the images it trains on.
"""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from faceblind._errors import DataError, RankError, UsageError
from faceblind.erase.base import LinearEraser, svd_flip
from faceblind.erase.judge import Judge, LabelledRows
from faceblind.erase.projector import Projector
from faceblind.erase.rank import RankChoice

Start = Literal["means", "uniform"]

_BATCH = 4_096
_WARM_UP = 40  # steps of the classifier before P first moves
_INNER = 4  # steps of the classifier a turn
_RATE = 0.05  # of Adam, for weights of vectors with variance one
_STEP = 0.1  # of P, in the Frobenius norm over sqrt(rank); falls to a tenth. Larger ones leave a good start unlearned
_EVERY = 10  # turns between trials by the judge
_LOST = 1e-4  # a classifier within this share of the loss of class frequencies reads nothing


class RLACE(LinearEraser):
    """Relaxed linear adversarial concept erasure.

    Parameters
    ----------
    rank : int
        Dimensions to remove; no more than the number of identities less one.
    turns : int
        The most turns of the game.
    penalty : float
        Half of it times the squared weights is added to the classifier's loss. Without it, few images in many
        dimensions are told apart at no loss, and P learns nothing.
    start : {"means", "uniform"}
        Where P starts.
    stop_at_chance : bool
        End when the judge is at chance.
    rng : numpy.random.Generator or int
        Chooses the images held out for the judge, and batches when there are more than 4,096 images.

    Attributes
    ----------
    projector_ : Projector
        The fitted map; its `spectrum` holds the eigenvalues of P, largest first (k ones and zeros: P is a projection).
    directions_ : (d, k) float64
        Orthonormal, by eigenvalue. Not nested: another rank is another game.
    turns_ : int
        Turns played.
    chosen_ : int
        The turn whose directions were kept; 0 is the start.
    accuracies_ : tuple of float
        The judge's accuracy before anything is removed, at the start and at each trial; empty without a judge. The
        smallest was chosen, and is flattered by that.
    losses_ : tuple of float
        Cross-entropy of the classifier on the game's images, each turn.
    chance_ : float or None
        Accuracy of naming always the most frequent identity, on the judge's images.
    stopped_ : str
        Why it ended.
    """

    method = "rlace"

    def __init__(
        self,
        rank: int,
        *,
        turns: int = 80,
        penalty: float = 1e-2,
        start: Start = "means",
        stop_at_chance: bool = True,
        rng: np.random.Generator | int = 0,
    ) -> None:
        super().__init__(rank)
        if start not in ("means", "uniform"):
            raise UsageError(f"the game starts from 'means' or 'uniform', got {start!r}")
        if turns < 1:
            raise UsageError(f"the game has at least one turn, got {turns}")
        if not 0 < penalty < np.inf:
            raise UsageError(f"the penalty on weights must be positive, got {penalty}")
        self.turns, self.penalty, self.start = turns, penalty, start
        self.stop_at_chance, self.rng = stop_at_chance, rng

    def fit(self, X: ArrayLike, identity: ArrayLike, *, validation: tuple[ArrayLike, ArrayLike] | None = None) -> Self:
        """Fit on (n, d) vectors and their identities; rows are scaled to unit length.

        Parameters
        ----------
        validation : (vectors, identity), optional
            Images for the judge, of the same or of other people, two or more of each. Without it, a quarter of the
            images of every person who has four or more are held out (at least two).

        Raises
        ------
        RankError
            The rank is larger than the data supports.
        DataError
            Fewer than two identities, one image per identity, or a non-finite or zero row (named).
        """
        data = LabelledRows.of(X, identity)
        rng = np.random.default_rng(self.rng)
        rows, judge = Judge.set_up(data, validation, rng, wanted=True)
        means = data.cross_directions(rows)[0]
        most = min(means.shape[1], data.dim - 1)
        if self.rank > most:
            raise RankError(
                f"rank {self.rank} is too large: {data.people} identities in {data.dim} dimensions support at most "
                f"rank {most}; use that or fit on more identities"
            )
        P, kept, eigenvalues = self._start(means)
        accuracies = [] if judge is None else [judge.accuracy(kept[:, :0]), judge.accuracy(kept)]
        game = _Game(data, rows, penalty=self.penalty, rng=rng)
        losses: list[float] = []
        self.chosen_, self.stopped_ = 0, f"{self.turns} turns were played"
        for turn in range(1, self.turns + 1):
            if judge is not None and self.stop_at_chance and judge.at_chance(min(accuracies[1:])):
                lowest = min(accuracies[1:])
                self.stopped_ = f"the judge is at chance (accuracy {lowest:.4f}, chance {judge.chance:.4f})"
                break
            loss, gradient = game.move(P)
            losses.append(loss)
            won = loss >= game.most
            if not won:
                step = _STEP * 0.1 ** (turn / self.turns) * np.sqrt(self.rank) / np.linalg.norm(gradient)
                P, values, vectors = _project(P + step * gradient, self.rank)
            if turn > won and (won or turn % _EVERY == 0 or turn == self.turns):
                tried = svd_flip(vectors[:, : self.rank])
                if judge is not None:
                    accuracies.append(judge.accuracy(tried))
                if judge is None or accuracies[-1] < min(accuracies[1:-1]):
                    kept, eigenvalues, self.chosen_ = tried, values, turn
            if won:
                self.stopped_ = "the classifier is reduced to class frequencies on the fitted images"
                break
        if judge is None:
            self.stopped_ += "; nobody has four images: no judge, the last turn is kept"
        self.turns_, self.losses_, self.accuracies_ = len(losses), tuple(losses), tuple(accuracies)
        self.chance_ = None if judge is None else judge.chance
        self.directions_ = kept
        self.projector_ = Projector.of(kept, method=self.method, spectrum=eigenvalues, choice=RankChoice(rule="given"))
        return self

    def _start(
        self, means: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return P to start from, the directions it stands for, and its eigenvalues."""
        dim = means.shape[0]
        if self.start == "uniform":  # all directions alike: the first ones are as good as any
            return np.eye(dim) * (self.rank / dim), np.eye(dim)[:, : self.rank], np.full(dim, self.rank / dim)
        kept = means[:, : self.rank]
        return kept @ kept.T, svd_flip(kept), (np.arange(dim) < self.rank).astype(np.float64)


class _Game:
    """The classifier's side: weights and their Adam state, and the slope that P climbs."""

    def __init__(self, data: LabelledRows, rows: NDArray[np.intp], *, penalty: float, rng: np.random.Generator) -> None:
        self.data, self.rows, self.penalty, self.rng = data, rows, penalty, rng
        self.mean, variance = data.mean_and_variance(rows)
        self.scale = np.sqrt(data.dim / variance)
        counts = np.bincount(data.codes[rows], minlength=data.people)
        self.theta = np.zeros((data.dim + 1, data.people))  # the last row is the offset
        share = np.maximum(counts, 0.5) / rows.size
        self.theta[-1] = np.log(share)
        self.most = float(-share @ np.log(share)) * (1 - _LOST)
        self.first, self.second, self.steps = np.zeros_like(self.theta), np.zeros_like(self.theta), 0
        self.whole = self._load(rows) if rows.size <= _BATCH else None

    def move(self, P: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Let the classifier take its steps against P; return its cross-entropy and the gradient in P, (d, d)."""
        loss, Z, error = self._steps(P, _INNER if self.steps else _WARM_UP)
        if loss >= self.most:  # beaten, or only behind: it may catch up
            loss, Z, error = self._steps(P, _WARM_UP)
        product = (Z.T @ error) @ self.theta[:-1].T
        return loss, -(product + product.T) / 2

    def _steps(self, P: NDArray[np.float64], number: int) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        """Take steps against P; return the loss after them, the images of the last, and the errors on those."""
        Z, codes, left = self._facing(P)
        for step in range(number):
            if step and self.whole is None:
                Z, codes, left = self._facing(P)
            _, error = self._read(left, codes)
            self._adam(np.vstack([left.T @ error + self.penalty * self.theta[:-1], error.sum(axis=0)]))
        loss, error = self._read(left, codes)
        return loss, Z, error

    def _facing(self, P: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.float64]]:
        """Return images, their people, and what P leaves of the images."""
        Z, codes = self.whole or self._load(self.rng.choice(self.rows, _BATCH, replace=False))
        return Z, codes, Z - Z @ P

    def _read(self, left: NDArray[np.float64], codes: NDArray[np.intp]) -> tuple[float, NDArray[np.float64]]:
        """Return the mean cross-entropy, and its derivative by the outputs, (b, people)."""
        outputs = left @ self.theta[:-1]
        outputs += self.theta[-1]
        outputs -= outputs.max(axis=1, keepdims=True)
        own = outputs[np.arange(codes.size), codes]
        np.exp(outputs, out=outputs)
        total = outputs.sum(axis=1)
        outputs /= total[:, None]
        outputs[np.arange(codes.size), codes] -= 1
        outputs /= codes.size
        return float(np.mean(np.log(total) - own)), outputs

    def _adam(self, slope: NDArray[np.float64]) -> None:
        self.steps += 1
        self.first += 0.1 * (slope - self.first)
        self.second += 0.01 * (slope**2 - self.second)
        first, second = self.first / (1 - 0.9**self.steps), self.second / (1 - 0.99**self.steps)
        self.theta -= _RATE * first / (np.sqrt(second) + 1e-8)

    def _load(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        return (self.data.unit(rows) - self.mean) * self.scale, self.data.codes[rows]


def project_fantope(A: ArrayLike, rank: int) -> NDArray[np.float64]:
    """Return the point of the Fantope ``{0 <= P <= I, trace P = rank}`` nearest to A in the Frobenius norm.

    The eigenvectors stay, and the eigenvalues are shifted by one number and cut to [0, 1]; the number is the one that makes
    them sum to `rank`.

    Parameters
    ----------
    A : (d, d) real
        Its symmetric part counts.
    rank : int
        1 to d.

    Raises
    ------
    DataError
        A is not square or not finite.
    RankError
        The rank is not from 1 to d.
    """
    matrix = np.asarray(A, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise DataError(f"the Fantope holds square matrices, got shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise DataError("the matrix holds NaN or infinity: nothing is nearest to it")
    if not 1 <= rank <= matrix.shape[0]:
        raise RankError(f"the trace is a whole number from 1 to {matrix.shape[0]}, got {rank}")
    return _project(matrix, rank)[0]


def _project(A: NDArray[np.float64], rank: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the projection, its eigenvalues, largest first, and the eigenvectors in that order."""
    # Divide and conquer: LAPACK's default in scipy (evr) can fail on the many equal eigenvalues that P has.
    values, vectors = linalg.eigh((A + A.T) / 2, driver="evd")
    cut, vectors = np.clip(values - _shift(values, rank), 0, 1)[::-1], vectors[:, ::-1]
    return (vectors * cut) @ vectors.T, cut, vectors


def _shift(values: NDArray[np.float64], rank: int) -> float:
    """Return t with ``sum(clip(values - t, 0, 1)) = rank``.

    The sum falls in t, and is linear between the points where an eigenvalue meets 0 or 1. Bisection over those points finds
    the piece, and one division the place in it: there is no tolerance to choose.
    """

    def total(t: float) -> float:
        return float(np.clip(values - t, 0, 1).sum())

    corners = np.sort(np.concatenate([values, values - 1]))
    low, high = 0, corners.size - 1  # at the first corner the sum is d, at the last 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if total(corners[middle]) >= rank else (low, middle)
    above, below = total(corners[low]), total(corners[high])
    if above <= below:
        return float(corners[low])
    return float(corners[low] + (above - rank) / (above - below) * (corners[high] - corners[low]))
