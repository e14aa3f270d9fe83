"""Backbones and margin heads against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from faceblind import UsageError  # noqa: E402
from faceblind.frequency.backbones import make_backbone  # noqa: E402
from faceblind.frequency.heads import MarginHead  # noqa: E402


def count(network):
    return sum(p.numel() for p in network.parameters())


def ir_parameters(units, channels, width, embedding, side):
    """Convolutions, two numbers for every normalised channel, one slope for every PReLU."""
    total = channels * width * 9 + 2 * width + width
    inside = width
    for stage, number in enumerate(units):
        out = width * 2**stage
        for i in range(number):
            c = inside if i == 0 else out
            total += 2 * c + 9 * c * out + 2 * out + out + 9 * out * out + 2 * out
            if c != out:
                total += c * out + 2 * out
        inside = out
    end = math.ceil(side / 16)
    return total + 2 * inside + inside * end * end * embedding + embedding + 2 * embedding


@pytest.mark.parametrize(("name", "units"), [("ir18", (2, 2, 2, 2)), ("ir50", (3, 4, 14, 3))])
@pytest.mark.parametrize(("channels", "side", "width"), [(189, 32, 8), (3, 40, 4)])
def test_ir_networks_have_the_parameters_of_their_plan(name, units, channels, side, width):
    network = make_backbone(name, (channels, side, side), width=width, embedding=16)
    assert count(network) == ir_parameters(units, channels, width, 16, side)
    assert network(torch.zeros((2, channels, side, side))).shape == (2, 16)


def test_the_paper_networks_have_their_known_sizes():
    # InsightFace's IR-50 for 112 x 112 RGB faces has 43.57 million parameters with this output layer.
    assert count(make_backbone("ir50", (3, 112, 112))) == pytest.approx(43.57e6, rel=2e-3)
    # ResNet-50 without its classifier has 23.5 million; its stem is 3 x 3 here, and the output layer is that of ArcFace.
    network = make_backbone("resnet50", (3, 112, 112))
    inside = count(network.stages)
    assert inside == pytest.approx(23.5e6, rel=1e-2)


def test_normalising_the_input_makes_the_scale_of_a_channel_irrelevant():
    network = make_backbone("ir18", (3, 16, 16), width=4, embedding=8, normalise=True, dropout=0.0)
    x = torch.randn((6, 3, 16, 16), generator=torch.Generator().manual_seed(0))
    scale = torch.tensor([1e3, 1.0, 1e2])[None, :, None, None]
    assert torch.allclose(network(x), network(x * scale), atol=1e-2)
    plain = make_backbone("ir18", (3, 16, 16), width=4, embedding=8, dropout=0.0)
    assert not torch.allclose(plain(x), plain(x * scale), atol=1e-2)


def test_bad_networks():
    with pytest.raises(UsageError, match="unknown backbone"):
        make_backbone("vgg", (3, 32, 32))
    with pytest.raises(UsageError, match="at least 16"):
        make_backbone("ir18", (3, 8, 32))
    with pytest.raises(UsageError, match="at least 1"):
        make_backbone("ir18", (3, 32, 32), width=0)


@pytest.mark.parametrize(("kind", "m"), [("arcface", 0.5), ("cosface", 0.35), ("arcface", 0.0)])
def test_heads_are_their_formula(kind, m):
    rng = np.random.default_rng(0)
    head = MarginHead(kind, 5, 7, s=10.0, m=m)
    x, label = rng.standard_normal((9, 5)), rng.integers(0, 7, 9)
    w = head.weight.detach().double().numpy()
    cos = (x / np.linalg.norm(x, axis=1, keepdims=True)) @ (w / np.linalg.norm(w, axis=1, keepdims=True)).T
    losses = []
    for row, target in enumerate(label):
        logits = cos[row].copy()
        angle = np.arccos(logits[target])
        if kind == "cosface":
            logits[target] -= m
        else:
            logits[target] = np.cos(angle + m) if angle + m < np.pi else logits[target] - m * np.sin(m)
        logits *= 10
        losses.append(np.log(np.exp(logits).sum()) - logits[target])
    found = head(torch.from_numpy(x).float(), torch.from_numpy(label))
    assert found.item() == pytest.approx(np.mean(losses), rel=1e-4)


def test_a_mixed_loss_is_the_mix_of_losses():
    generator = torch.Generator().manual_seed(1)
    head = MarginHead("arcface", 4, 3)
    x, label = torch.randn((4, 4), generator=generator), torch.tensor([0, 1, 2, 0])
    partners = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 0]])
    weights = torch.tensor([[0.6, 0.4]] * 4)
    cosines = head.cosines(x)
    expected = 0.6 * head.loss(cosines, label) + 0.4 * head.loss(cosines, label[partners[:, 1]])
    assert torch.allclose(head.loss(cosines, label, partners, weights), expected)


@pytest.mark.parametrize("at", [1.0, -1.0])
def test_gradients_stay_finite_where_an_embedding_lies_on_its_centre(at):
    head = MarginHead("arcface", 4, 3)
    x = (at * head.weight.detach()[:1]).clone().requires_grad_()
    head(x, torch.tensor([0])).backward()
    assert torch.isfinite(x.grad).all()


def test_the_margin_makes_the_loss_harder_and_never_rises_with_the_cosine():
    label = torch.tensor([0])
    head, easy = MarginHead("arcface", 2, 2, m=0.5), MarginHead("arcface", 2, 2, m=0.0)
    cosines = torch.linspace(-1, 1, 401)
    losses = [head.loss(torch.tensor([[c, 0.0]]), label).item() for c in cosines]
    assert (np.diff(losses) <= 1e-4).all()
    at = torch.tensor([[0.3, 0.1]])
    assert head.loss(at, label).item() > easy.loss(at, label).item()


def test_bad_heads():
    for arguments, message in [
        (("softmax", 4, 3), "unknown head"),
        (("arcface", 4, 1), "at least two people"),
    ]:
        with pytest.raises(UsageError, match=message):
            MarginHead(*arguments)
    with pytest.raises(UsageError, match="m in"):
        MarginHead("cosface", 4, 3, m=1.0)
