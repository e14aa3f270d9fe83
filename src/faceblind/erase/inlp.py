"""INLP, iterative null-space projection (Ravfogel et al., ACL 2020), for many identities.

Each round fits a linear classifier of identity to what is left, and removes the directions it relies on most. Where
this differs from the paper, and why:

- The classifier is least squares with a ridge, in closed form from sums per identity (no one-hot matrix), or softmax
  regression. The paper trains support vector machines or logistic regression.
- A round removes the classifier's top `per_round` directions (left singular vectors of its weights), not all of them:
  with hundreds of identities a single softmax round would otherwise remove everything it will ever remove.
- Removed subspaces are joined by QR, which gives an orthonormal basis of their union, nested in order of discovery. The
  paper takes the range of a sum of projections, which loses digits and the order. Every round starts again from the
  original vectors.
- The paper skips a round whose classifier does badly. Here a *judge* decides: a fresh classifier that learns from
  images that the eraser did not use, on the vectors as they would be released. A classifier fitted on the eraser's own
  images is blind once their identity means agree, whatever others can still read.

What it converges to. Rounds end by themselves when no least-squares weight is left, that is when the removed span
contains all covariance between vectors and labels (the span that SAL and ISP remove at full rank). It equals that span
when the vectors' covariance leaves it in place, as with spherical noise, or in the limit of a large ridge, which makes
the weights the covariance itself. In general it is larger: for two identities, k rounds of exact least squares
span ``S^-1 s, ..., S^-k s`` (S the covariance, s the difference of means), and s is in it only when S has no more
than k distinct eigenvalues that s meets.
"""

from __future__ import annotations

import warnings
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from faceblind._errors import DataError, MissingExtraError, RankError, UsageError
from faceblind.erase.base import LinearEraser, svd_flip
from faceblind.erase.judge import Judge, LabelledRows, ridge_weights, without
from faceblind.erase.projector import Projector
from faceblind.erase.rank import RankChoice

Classifier = Literal["ridge", "logistic"]

_GUARDED = 1e-6  # share of the covariance with labels that is rounding of float32 vectors
_PINV = 1e-10  # eigenvalues below this share of the largest are no direction for exact least squares


class INLP(LinearEraser):
    """Iterative null-space projection.

    Parameters
    ----------
    rank : int
        The most dimensions to remove.
    classifier : {"ridge", "logistic"}
        Least squares to one-hot identities, in closed form; or softmax regression (needs scikit-learn).
    per_round : int
        Directions removed in a round; never more than the number of identities less one.
    ridge : float
        Strength of regularisation, as a share of the mean variance of a dimension of what is left; 0 for exact least
        squares.
    stop_at_chance : bool
        Stop before `rank` when the judge is at chance. False removes `rank` dimensions whatever the judge says, as a
        comparison at matched rank needs; without `validation` no images are then held out.
    rng : numpy.random.Generator or int
        Chooses the images held out for the judge.

    Attributes
    ----------
    projector_ : Projector
        The fitted map; its `spectrum` holds the singular values of the weights in order of discovery.
    directions_ : (d, q) float64
        Orthonormal directions in order of discovery: the first r serve rank r.
    rounds_ : int
        Classifiers whose directions were removed.
    accuracies_ : tuple of float
        The judge's accuracy before the first round and after each; empty without a judge.
    chance_ : float or None
        Accuracy of naming always the most frequent identity, on the judge's images.
    stopped_ : str
        Why it ended.
    """

    method = "inlp"

    def __init__(
        self,
        rank: int,
        *,
        classifier: Classifier = "ridge",
        per_round: int = 8,
        ridge: float = 1.0,
        stop_at_chance: bool = True,
        rng: np.random.Generator | int = 0,
    ) -> None:
        super().__init__(rank)
        if classifier not in ("ridge", "logistic"):
            raise UsageError(f"the classifier is 'ridge' or 'logistic', got {classifier!r}")
        if per_round < 1:
            raise UsageError(f"a round removes at least one direction, got per_round={per_round}")
        if not 0 <= ridge < np.inf or (classifier == "logistic" and ridge == 0):
            raise UsageError(f"the ridge is zero or more, and more than zero for 'logistic', got {ridge}")
        self.classifier, self.per_round, self.ridge = classifier, per_round, ridge
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
            Fewer than two identities, one image per identity, a non-finite or zero row (named), or the judge is at
            chance before anything is removed.
        """
        data = LabelledRows.of(X, identity)
        rows, judge = Judge.set_up(data, validation, self.rng, wanted=self.stop_at_chance)
        most = min(data.dim, rows.size) - 1
        if self.rank > most:
            raise RankError(f"rank {self.rank} is too large: {rows.size} vectors of {data.dim} features allow {most}")
        model = _Classifier(self, data, rows)
        found, values, accuracies = np.zeros((data.dim, 0)), np.zeros(0), []
        self.rounds_, stopped = 0, ""
        while True:
            if judge is not None:
                accuracies.append(judge.accuracy(found))
                if self.stop_at_chance and judge.at_chance(accuracies[-1]):
                    stopped = f"the judge is at chance (accuracy {accuracies[-1]:.4f}, chance {judge.chance:.4f})"
            if not stopped and found.shape[1] == self.rank:
                stopped = f"rank {self.rank} was reached"
            if not stopped and model.guarded(found):
                stopped = "no linear trace of identity is left in the fitted images"
            if stopped:
                break
            new, strength = model.directions(found)
            room = self.rank - found.shape[1]
            found = np.hstack([found, _orthogonalise(new, found)[:, :room]])
            values = np.append(values, strength[:room])
            self.rounds_ += 1
        if found.shape[1] == 0:
            raise DataError(
                f"nothing to remove: {stopped} before the first round; pass stop_at_chance=False to remove "
                "what the classifier uses all the same"
            )
        self.accuracies_, self.chance_ = tuple(accuracies), None if judge is None else judge.chance
        self.stopped_ = (
            stopped if judge is not None or not self.stop_at_chance else f"{stopped}; nobody has four images: no judge"
        )
        self.directions_ = found
        note = "" if found.shape[1] == self.rank else f"{found.shape[1]} of {self.rank}: {stopped}"
        self.projector_ = Projector.of(
            found, method=self.method, spectrum=values, choice=RankChoice(rule="given", note=note)
        )
        return self


class _Classifier:
    """Linear classifiers of identity on what is left; all rounds share the moments of the original vectors."""

    def __init__(self, settings: INLP, data: LabelledRows, rows: NDArray[np.intp]) -> None:
        self.settings, self.data, self.rows = settings, data, rows
        self.scatter = data.scatter(rows)
        # Only W W' matters for the directions of weights W: a factor of no more than d columns stands in for the sums.
        left, values = data.cross_directions(rows)
        self.cross: NDArray[np.float64] = left * values

    def guarded(self, found: NDArray[np.float64]) -> bool:
        left = without(self.cross, found)
        return float(np.linalg.norm(left)) <= _GUARDED * float(np.linalg.norm(self.cross))

    def directions(self, found: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the top left singular vectors of the weights, (d, q), and their singular values."""
        weights = self._ridge(found) if self.settings.classifier == "ridge" else self._logistic(found)
        left, values, _ = linalg.svd(weights, full_matrices=False)
        strong = int((values > _GUARDED * values[0]).sum())
        q = min(self.settings.per_round, strong, self.data.people - 1)
        return left[:, :q], values[:q]

    def _ridge(self, found: NDArray[np.float64]) -> NDArray[np.float64]:
        scatter = without(without(self.scatter, found).T, found)
        cross = without(self.cross, found)
        if self.settings.ridge > 0:
            return ridge_weights(scatter, cross, self.settings.ridge)
        values, vectors = linalg.eigh((scatter + scatter.T) / 2)
        keep = values > _PINV * values[-1]
        solved: NDArray[np.float64] = vectors[:, keep] @ ((vectors[:, keep].T @ cross) / values[keep, None])
        return solved

    def _logistic(self, found: NDArray[np.float64]) -> NDArray[np.float64]:
        try:
            from sklearn.exceptions import ConvergenceWarning
            from sklearn.linear_model import LogisticRegression
        except ImportError as error:
            raise MissingExtraError("scikit-learn", "report", "INLP with softmax regression") from error
        Z = without(self.data.unit(self.rows).T, found).T
        Z -= Z.mean(axis=0)
        scale = np.sqrt(np.einsum("ij,ij->", Z, Z) / Z.size)
        model = LogisticRegression(C=1 / (self.settings.ridge * Z.shape[0]), max_iter=300)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # directions are of use before the last digit
            weights = np.asarray(model.fit(Z / scale, self.data.codes[self.rows]).coef_, dtype=np.float64)
        if weights.shape[0] > 1:
            weights = weights - weights.mean(axis=0)  # a shift common to all identities decides nothing
        return weights.T


def _orthogonalise(new: NDArray[np.float64], found: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return an orthonormal basis of `new` outside the span of `found`, in order; twice, since once loses digits."""
    for _ in range(2):
        new, _triangle = linalg.qr(without(new, found), mode="economic")
    return svd_flip(new)
