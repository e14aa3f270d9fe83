"""Margin heads: gradients against double precision, and arithmetic that stays float32."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from faceblind.frequency.heads import MarginHead  # noqa: E402


def direct(kind, x, w, label, s, m):
    """The loss as the papers write it, with an arccos, in float64."""
    cos = functional.normalize(x) @ functional.normalize(w).T
    rows = []
    for row, target in enumerate(label.tolist()):
        angle = torch.arccos(cos[row, target])
        if kind == "cosface":
            true = cos[row, target] - m
        elif angle + m < math.pi:
            true = torch.cos(angle + m)
        else:
            true = cos[row, target] - m * math.sin(m)
        logits = s * torch.where(torch.arange(w.shape[0]) == target, true, cos[row])
        rows.append(torch.logsumexp(logits, 0) - s * true)
    return torch.stack(rows).mean()


@pytest.mark.parametrize(("kind", "s", "m"), [("arcface", 8.0, 0.5), ("arcface", 64.0, 0.4), ("cosface", 30.0, 0.35)])
def test_gradients_are_those_of_the_formula(kind, s, m):
    generator = torch.Generator().manual_seed(0)
    head = MarginHead(kind, 5, 7, s=s, m=m)
    with torch.no_grad():
        head.weight.copy_(torch.randn((7, 5), generator=generator))
    x, label = torch.randn((12, 5), generator=generator), torch.randint(0, 7, (12,), generator=generator)
    with torch.no_grad():  # one face beyond the angle where the margin would turn back
        x[0] = -head.weight[label[0]] + 0.05 * x[0]
    ours, weight = x.clone().requires_grad_(), head.weight
    found = head(ours, label)
    found.backward()
    double, w = x.double().requires_grad_(), weight.detach().double().requires_grad_()
    loss = direct(kind, double, w, label, s, m)
    loss.backward()
    assert found.item() == pytest.approx(loss.item(), rel=1e-4)
    torch.testing.assert_close(ours.grad.double(), double.grad, rtol=2e-3, atol=2e-5 * s)
    torch.testing.assert_close(weight.grad.double(), w.grad, rtol=2e-3, atol=2e-5 * s)


def test_mixed_precision_does_not_reach_the_head():
    generator = torch.Generator().manual_seed(0)
    head = MarginHead("arcface", 16, 5)
    x, label = torch.randn((4, 16), generator=generator), torch.tensor([0, 1, 2, 3])
    plain = head.cosines(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = head.cosines(x)
        assert (x @ x.T).dtype == torch.bfloat16
    assert inside.dtype == torch.float32
    assert torch.equal(inside, plain)
    rounded = head.cosines(x.bfloat16())
    assert rounded.dtype == torch.float32
    assert torch.isfinite(head.loss(rounded, label))


@pytest.mark.parametrize("kind", ["arcface", "cosface"])
def test_each_partner_of_a_mix_has_the_margin_of_its_own_person(kind):
    generator = torch.Generator().manual_seed(2)
    head = MarginHead(kind, 6, 4, s=10.0, m=0.3)
    x, label = torch.randn((3, 6), generator=generator), torch.tensor([0, 2, 3])
    partners = torch.tensor([[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    weights = torch.tensor([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.6, 0.1, 0.3]])
    w = head.weight.detach().double()
    expected = 0.0
    for row in range(3):
        for k in range(3):
            of = label[partners[row, k]][None]
            expected += weights[row, k].item() * direct(kind, x[row : row + 1].double(), w, of, 10.0, 0.3).item() / 3
    assert head.loss(head.cosines(x), label, partners, weights).item() == pytest.approx(expected, rel=1e-4)


def test_cosines_do_not_depend_on_lengths():
    generator = torch.Generator().manual_seed(0)
    head = MarginHead("cosface", 6, 4)
    x = torch.randn((3, 6), generator=generator)
    torch.testing.assert_close(head.cosines(x), head.cosines(1e3 * x))
    assert head.cosines(x).abs().amax() <= 1 + 1e-6
    assert torch.isfinite(head(torch.zeros((1, 6), requires_grad=True), torch.tensor([1])))
