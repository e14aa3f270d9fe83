from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp

from faceblind.attack.losses import cross_entropy, supervised_contrastive
from faceblind.attack.network import _PIECE, AdamW, Network, hidden


def losses() -> dict:
    return {
        "cross-entropy": lambda out, codes: cross_entropy(out.copy(), codes),
        "contrastive": lambda out, codes: supervised_contrastive(out, codes, 0.3),
    }


@pytest.mark.parametrize("loss", losses().values(), ids=losses())
@pytest.mark.parametrize("sizes", [(4, 5), (4, 7, 5), (3, 6, 8, 5)])
def test_gradients_are_those_of_finite_differences(loss, sizes):
    rng = np.random.default_rng(0)
    network = Network(sizes, rng, dtype=np.float64)
    network.parameters += 0.1 * rng.standard_normal(
        network.parameters.size
    )  # biases off zero, where ReLU has its corner
    X, codes = rng.standard_normal((9, sizes[0])), np.array([0, 1, 2, 0, 1, 2, 3, 4, 0])
    passed = network.forward(X)
    _, slope = loss(passed[-1], codes)
    network.backward(passed, slope)
    found = network.gradients.copy()
    expected, step = np.empty_like(found), 1e-6
    for i in range(found.size):
        kept = network.parameters[i]
        around = []
        for at in (kept + step, kept - step):
            network.parameters[i] = at
            around.append(loss(network.forward(X)[-1], codes)[0])
        network.parameters[i] = kept
        expected[i] = (around[0] - around[1]) / (2 * step)
    np.testing.assert_allclose(found, expected, atol=1e-7)
    assert np.abs(found).max() > 1e-3


def test_cross_entropy_is_that_of_scipy_also_for_large_outputs():
    rng = np.random.default_rng(1)
    logits, codes = rng.standard_normal((6, 4)) * 500, np.array([0, 3, 1, 1, 2, 0])
    expected = -log_softmax(logits, axis=1)[np.arange(6), codes].mean()
    assert cross_entropy(logits.copy(), codes)[0] == pytest.approx(expected)


def test_the_contrastive_loss_is_its_formula_pair_by_pair():
    rng = np.random.default_rng(2)
    rows, codes = rng.standard_normal((7, 3)), np.array([0, 0, 1, 1, 1, 2, 0])
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    scores = unit @ unit.T / 0.2
    terms = []
    for i in range(7):
        others = [j for j in range(7) if j != i]
        own = [j for j in others if codes[j] == codes[i]]
        if own:
            terms.append(np.mean([logsumexp(scores[i, others]) - scores[i, j] for j in own]))
    assert len(terms) == 6
    assert supervised_contrastive(rows, codes, 0.2)[0] == pytest.approx(np.mean(terms))


def test_a_batch_without_pairs_teaches_nothing():
    rows = np.random.default_rng(3).standard_normal((4, 3))
    loss, slope = supervised_contrastive(rows, np.arange(4), 0.2)
    assert loss == 0
    assert not slope.any()


def test_outputs_of_zeros_do_not_divide_by_zero():
    rows = np.zeros((4, 3), np.float32)
    loss, slope = supervised_contrastive(rows, np.array([0, 0, 1, 1]), 0.2)
    assert np.isfinite(loss)
    assert np.isfinite(slope).all()


def adam(parameters: np.ndarray, gradients: list[np.ndarray], rate: float, decay: float) -> np.ndarray:
    """The algorithm as published, with averages and their corrections written out."""
    first, second = np.zeros_like(parameters), np.zeros_like(parameters)
    for t, gradient in enumerate(gradients, start=1):
        parameters = parameters * (1 - rate * decay)
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        parameters = parameters - rate * (first / (1 - 0.9**t)) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
    return parameters


@pytest.mark.parametrize("size", [7, _PIECE, 2 * _PIECE + 5])
def test_adamw_takes_the_published_steps(size):
    rng = np.random.default_rng(4)
    start, gradients = rng.standard_normal(size), [rng.standard_normal(size) for _ in range(5)]
    parameters = start.copy()
    optimiser = AdamW(parameters, rate=0.01, decay=0.1)
    for gradient in gradients:
        optimiser.step(gradient)
    np.testing.assert_allclose(parameters, adam(start, gradients, 0.01, 0.1), rtol=1e-9, atol=1e-12)


def test_a_probe_trains_as_in_pytorch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    network = Network((6, 5, 4, 3), rng)
    theirs = [torch.nn.Linear(i, o) for i, o in ((6, 5), (5, 4), (4, 3))]
    with torch.no_grad():
        for layer, weight, bias in zip(theirs, network.weights, network.biases, strict=True):
            layer.weight.copy_(torch.from_numpy(weight.T.copy()))
            layer.bias.copy_(torch.from_numpy(bias.copy()))
    model = torch.nn.Sequential(theirs[0], torch.nn.ReLU(), theirs[1], torch.nn.ReLU(), theirs[2])
    ours, other = AdamW(network.parameters), torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
    X, codes = rng.standard_normal((8, 6)).astype(np.float32), rng.integers(0, 3, 8)
    for _ in range(4):
        passed = network.forward(X)
        loss, slope = cross_entropy(passed[-1], codes)
        network.backward(passed, slope)
        ours.step(network.gradients)
        other.zero_grad()
        expected = torch.nn.functional.cross_entropy(model(torch.from_numpy(X)), torch.from_numpy(codes))
        expected.backward()
        other.step()
        assert loss == pytest.approx(float(expected.detach()), rel=1e-5)
    for layer, weight, bias in zip(theirs, network.weights, network.biases, strict=True):
        np.testing.assert_allclose(layer.weight.detach().numpy().T, weight, atol=2e-6)
        np.testing.assert_allclose(layer.bias.detach().numpy(), bias, atol=2e-6)


def test_weights_start_with_variance_two_over_inputs_and_one_in_the_last_layer():
    network = Network((400, 300, 200), np.random.default_rng(6))
    assert network.weights[0].var() * 400 == pytest.approx(2, rel=0.02)
    assert network.weights[1].var() * 300 == pytest.approx(1, rel=0.02)
    assert not np.concatenate(network.biases).any()
    assert network.parameters.dtype == np.float32
    assert network.parameters.size == 401 * 300 + 301 * 200


def test_hidden_layers_are_those_of_the_network_and_snapshots_stay():
    rng = np.random.default_rng(7)
    network = Network((4, 6, 5, 3), rng)
    X = rng.standard_normal((8, 4)).astype(np.float32)
    layers = network.layers(2)
    before = network.forward(X)[2].copy()
    np.testing.assert_array_equal(hidden(layers, X), before)
    network.parameters += 1
    np.testing.assert_array_equal(hidden(layers, X), before)
