"""Small dense networks and their optimiser in numpy: enough to train a probe, with nothing to install.

Parameters lie in one flat array, so that the optimiser runs over them in pieces that stay in the cache. On a processor
these products are as fast as those of the large frameworks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
_PIECE = 1 << 16  # parameters the optimiser works on at a time: a few arrays of this size fit the cache


class Network:
    """Dense layers with ReLU between them, and none after the last.

    Parameters
    ----------
    sizes : sequence of int
        Width of the input, of each layer, and of the output.
    rng : Generator
        Draws the weights: normal with variance 2/inputs (He et al. 2015), 1/inputs in the last layer. Biases start at 0.
    dtype : float32, or float64 to check gradients

    Attributes
    ----------
    parameters, gradients : flat arrays; `weights`, `biases` and their gradients are views of them
    """

    def __init__(self, sizes: Sequence[int], rng: np.random.Generator, dtype: type[np.floating] = np.float32) -> None:
        self.sizes = tuple(sizes)
        count = sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))
        self.parameters: Floats = np.zeros(count, dtype=dtype)
        self.gradients: Floats = np.zeros(count, dtype=dtype)
        self.weights, self.biases = _views(self.parameters, self.sizes)
        self._weight_gradients, self._bias_gradients = _views(self.gradients, self.sizes)
        for layer, weight in enumerate(self.weights):
            gain = 2.0 if layer < len(self.weights) - 1 else 1.0
            weight[...] = rng.standard_normal(weight.shape, dtype=np.float32) * np.sqrt(gain / weight.shape[0])

    def forward(self, X: Floats) -> list[Floats]:
        """Return the input of every layer and the output of the last, as `backward` needs them."""
        passed = [X]
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            out = passed[-1] @ weight
            out += bias
            if layer < len(self.weights) - 1:
                np.maximum(out, 0, out=out)
            passed.append(out)
        return passed

    def backward(self, passed: Sequence[Floats], slope: Floats) -> None:
        """Fill `gradients` from the derivative of the loss by the output, (n, q)."""
        for layer in range(len(self.weights) - 1, -1, -1):
            np.matmul(passed[layer].T, slope, out=self._weight_gradients[layer])
            np.sum(slope, axis=0, out=self._bias_gradients[layer])
            if layer:
                slope = slope @ self.weights[layer].T
                slope *= passed[layer] > 0

    def layers(self, count: int) -> list[tuple[Floats, Floats]]:
        """Return copies of the first layers' weights and biases: a snapshot that training does not change."""
        return [(w.copy(), b.copy()) for w, b in zip(self.weights[:count], self.biases[:count], strict=True)]


def hidden(layers: Sequence[tuple[Floats, Floats]], X: Floats) -> Floats:
    """Return what comes out of the ReLU after the last of these layers."""
    for weight, bias in layers:
        X = X @ weight
        X += bias
        np.maximum(X, 0, out=X)
    return X


class AdamW:
    """Adam with decoupled weight decay (Loshchilov, Hutter 2019), as PyTorch has it: biases decay too.

    Parameters
    ----------
    parameters : flat array, changed in place
    """

    def __init__(
        self,
        parameters: Floats,
        *,
        rate: float = 1e-3,
        decay: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
    ) -> None:
        self.parameters = parameters
        self.rate, self.decay, self.betas, self.epsilon = rate, decay, betas, epsilon
        self.steps = 0
        # Sums instead of averages: m = (1 - beta1) first, v = (1 - beta2) second. It saves passes over the memory.
        self._first = np.zeros_like(parameters)
        self._second = np.zeros_like(parameters)
        self._scratch = np.empty(min(_PIECE, parameters.size), dtype=parameters.dtype)

    def step(self, gradients: Floats, *, rate: float | None = None) -> None:
        """Take one step down the gradients, at another rate when one is given."""
        self.steps += 1
        rate = self.rate if rate is None else rate
        one, two = self.betas
        spread = math.sqrt((1 - two) / (1 - two**self.steps))
        size = rate * (1 - one) / (1 - one**self.steps) / spread
        floor, keep = self.epsilon / spread, 1 - rate * self.decay
        for start in range(0, self.parameters.size, _PIECE):
            piece = slice(start, start + _PIECE)
            values, slope, first, second = (
                array[piece] for array in (self.parameters, gradients, self._first, self._second)
            )
            scratch = self._scratch[: values.size]
            first *= one
            first += slope
            np.multiply(slope, slope, out=scratch)
            second *= two
            second += scratch
            np.sqrt(second, out=scratch)
            scratch += floor
            np.divide(first, scratch, out=scratch)
            scratch *= size
            values *= keep
            values -= scratch


def _views(flat: Floats, sizes: Sequence[int]) -> tuple[list[Floats], list[Floats]]:
    """Cut a flat array into weights (inputs, outputs) and biases (outputs,), layer by layer."""
    weights, biases, start = [], [], 0
    for inputs, outputs in pairwise(sizes):
        weights.append(flat[start : start + inputs * outputs].reshape(inputs, outputs))
        start += inputs * outputs
        biases.append(flat[start : start + outputs])
        start += outputs
    return weights, biases
