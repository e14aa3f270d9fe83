"""The best-effort attacker: everything in reach that may read what the others miss.

It exists to find identity that is not linear: held by sizes without signs, by products, by regions. Candidates in order:

1. PLDA with its whole grid, so that it is never weaker on validation than that;
2. PLDA on all products of the leading 8, 16 and 32 principal coordinates, and on random ramps of them (`expansion`). Closed form,
   hence the strongest by far when people are few: it finds a sign-free code from 60 people x 8 images where networks need 200;
3. two networks wider than the probe of the paper, trained with the supervised contrastive loss, which is the comparison
   an attacker makes, rather than with cross-entropy. Each is offered every few steps, alone and side by side with
   whitened vectors (WCCN), until validation stops improving.

Tried on faces and on planted codes and left out, as they did not help: training the network on whitened vectors, noise and
exchanged within-identity differences as augmentation, and a linear skip trained along with the network.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind.attack.base import Candidate
from faceblind.attack.expansion import Expansion, Ramps, leading
from faceblind.attack.losses import supervised_contrastive
from faceblind.attack.mlp import Standard
from faceblind.attack.network import AdamW, Floats, Network, hidden
from faceblind.attack.plda import PLDA
from faceblind.attack.training import Training, score_rows
from faceblind.attack.wccn import WCCN
from faceblind.data.embeddings import unit_rows

LINEAR = PLDA()
ON_PRODUCTS = PLDA(shrinkages=(0.01, 0.1, 0.5), between=(0.0, 0.5))
ON_RAMPS = PLDA(shrinkages=(0.1,), between=(0.0, 0.5))
BESIDE = WCCN(shrinkages=(0.3,))
PRODUCTS_OF = (8, 16, 32)
RAMPS_OF = (8, 16)
RAMPS = 1024
NETWORKS = ((512, 3e-3), (1024, 1e-3))
"""Hidden width and learning rate of each network."""
OUTPUTS, TEMPERATURE, DECAY, BATCH = 128, 0.1, 1e-2, 256
ROUND, ROUNDS = 24, 20
"""Steps between candidates, and how often a network is offered at most."""


@dataclass(frozen=True)
class BestEffort:
    """The strongest attacker that numpy trains in reasonable time.

    Parameters
    ----------
    patience : int
        Candidates in a row that may fail to improve on validation. The closed forms are up to 42, so that networks are reached.
    """

    patience: int | None = 60
    name: str = field(default="best-effort", init=False)
    learns: bool = field(default=True, init=False)

    def fit(
        self, X: NDArray[np.float32], identity: NDArray[Any], *, k: int | None, rng: np.random.Generator
    ) -> Iterable[Candidate]:
        """Fit on k random images per identity (all when k is None); candidates are made as they are asked for.

        Raises
        ------
        DataError
            Fewer than two identities, all training vectors are the same, or a row that is not finite.
        """
        own = np.random.default_rng(rng.integers(2**63))
        training = Training.draw(X, identity, k, own, who="the best-effort attacker")
        if training.counts.max() < 2:  # nobody has two images: there is no pair to learn from
            return LINEAR.fit(X, identity, k=k, rng=own)
        return self._candidates(training, X[training.rows], own)

    def _candidates(self, training: Training, X: NDArray[np.float32], rng: np.random.Generator) -> Iterator[Candidate]:
        codes = training.codes
        yield from LINEAR.fit(X, codes, k=None, rng=rng)
        for size in PRODUCTS_OF:
            yield from _expanded(training, X, ON_PRODUCTS, size, rng, ramps=False)
        for size in RAMPS_OF:
            yield from _expanded(training, X, ON_RAMPS, size, rng, ramps=True)
        (beside,) = BESIDE.fit(X, codes, k=None, rng=rng)
        trainers = [_Trainer(training, width, rate, rng) for width, rate in NETWORKS]
        for turn in range(1, ROUNDS + 1):
            for number, trainer in enumerate(trainers, start=1):
                trainer.train(ROUND)
                layers = trainer.network.layers(2)
                setting = {"network": number, "steps": turn * ROUND}
                yield NetworkMap(trainer.standard, layers, None, {**setting, "beside_wccn": 0.0})
                yield NetworkMap(trainer.standard, layers, beside, {**setting, "beside_wccn": 1.0})

    def describe(self) -> dict[str, Any]:
        """Return the recipe and the grid, for the record."""
        return {
            "name": self.name,
            "recipe": "PLDA; PLDA on products and on random ramps of leading principal coordinates; networks "
            f"d -> width -> ReLU -> {OUTPUTS} trained with the supervised contrastive loss (temperature {TEMPERATURE:g}, AdamW, "
            f"weight decay {DECAY:g}, batches of {BATCH}), alone and beside WCCN",
            "grid": {
                "plda": LINEAR.describe()["grid"],
                "products_of": list(PRODUCTS_OF),
                "products_plda": ON_PRODUCTS.describe()["grid"],
                "ramps_of": list(RAMPS_OF),
                "ramps_plda": ON_RAMPS.describe()["grid"],
                "networks": [{"width": width, "rate": rate} for width, rate in NETWORKS],
                "steps": f"every {ROUND} up to {ROUND * ROUNDS}, stopped after {self.patience} candidates that do not improve",
            },
        }


def _expanded(
    training: Training, X: NDArray[np.float32], attacker: PLDA, size: int, rng: np.random.Generator, *, ramps: bool
) -> Iterator[Candidate]:
    """Fit an attacker on features of the training images."""
    projection = leading(training.vectors, size)
    size = projection.basis.shape[1]
    expansion = Expansion(projection, Ramps.draw(size, RAMPS, rng) if ramps else None)
    kind = "ramps_of" if ramps else "products_of"
    for candidate in attacker.fit(expansion(X), training.codes, k=None, rng=rng):
        yield ExpandedMap(expansion, candidate, {kind: size, **candidate.setting})


class _Trainer:
    """A network and its state of training."""

    def __init__(self, training: Training, width: int, rate: float, rng: np.random.Generator) -> None:
        self.standard = Standard.of(training.vectors)
        self._inputs = self.standard(training.vectors)
        self._codes = training.codes
        self._rng = np.random.default_rng(rng.integers(2**63))
        self.network = Network((self._inputs.shape[1], width, OUTPUTS), self._rng)
        self._optimiser = AdamW(self.network.parameters, rate=rate, decay=DECAY)
        self._people_per_batch = max(2, round(BATCH / training.counts.mean()))

    def train(self, steps: int) -> None:
        """Take steps on batches of all images of random people: every image has its partners in the batch."""
        people = int(self._codes.max()) + 1
        for _ in range(steps):
            chosen = np.zeros(people, dtype=np.bool_)
            chosen[self._rng.permutation(people)[: self._people_per_batch]] = True
            rows = np.flatnonzero(chosen[self._codes])
            passed = self.network.forward(self._inputs[rows])
            _, slope = supervised_contrastive(passed[-1], self._codes[rows], TEMPERATURE)
            self.network.backward(passed, slope)
            self._optimiser.step(self.network.gradients)


@dataclass(frozen=True, eq=False)
class ExpandedMap:
    """A linear attacker on features of the released vectors."""

    expansion: Expansion
    candidate: Candidate
    setting: Mapping[str, float]

    def map(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Map (n, d) released vectors to unit rows; rows of zeros stay zeros."""
        return self.candidate.map(self.expansion(X))


@dataclass(frozen=True, eq=False)
class NetworkMap:
    """A network as it stood after some steps, alone or beside a linear attacker that counts as much."""

    standard: Standard
    layers: list[tuple[Floats, Floats]]
    beside: Candidate | None
    setting: Mapping[str, float]

    def map(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Map (n, d) released vectors to unit rows; rows of zeros stay zeros."""
        weight, bias = self.layers[-1]
        rows = score_rows(hidden(self.layers[:-1], self.standard(X)) @ weight + bias, X)
        return rows if self.beside is None else unit_rows(np.concatenate([rows, self.beside.map(X)], axis=1))
