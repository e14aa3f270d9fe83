"""Units of the networks against their definition, known sizes, and inputs of every shape."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from faceblind.frequency.backbones import Bottleneck, IrUnit, make_backbone  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def used(module, seed=0):
    """Give every tensor of a module random values, and put it in the state for use."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in module.state_dict().items():
            if value.is_floating_point():
                value.copy_(torch.rand(value.shape, generator=generator) + (0.5 if "var" in name else -0.2))
    return module.eval()


def normalised(x, state, name):
    shape = (1, -1, 1, 1)
    mean, var, weight, bias = (
        state[f"{name}.{key}"].view(shape) for key in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / (var + 1e-5).sqrt() * weight + bias


def convolved(x, weight, stride=1):
    """Sum over shifted copies, not a convolution of torch."""
    side = weight.shape[2]
    padded = functional.pad(x, [side // 2] * 4)
    total = 0
    for i in range(side):
        for j in range(side):
            shifted = padded[:, :, i : i + x.shape[2], j : j + x.shape[3]]
            total = total + torch.einsum("bchw,oc->bohw", shifted, weight[:, :, i, j])
    return total[:, :, ::stride, ::stride]


@pytest.mark.parametrize(("channels", "out", "stride"), [(4, 8, 2), (4, 4, 2), (4, 4, 1), (4, 8, 1)])
def test_an_ir_unit_is_its_definition(channels, out, stride):
    unit = used(IrUnit(channels, out, stride))
    x = torch.randn((2, channels, 6, 9), generator=torch.Generator().manual_seed(1))
    state = unit.state_dict()
    inside = normalised(convolved(normalised(x, state, "body.0"), state["body.1.weight"]), state, "body.2")
    slope = state["body.3.weight"].view(1, -1, 1, 1)
    inside = torch.where(inside > 0, inside, slope * inside)
    inside = normalised(convolved(inside, state["body.4.weight"], stride), state, "body.5")
    if channels == out:
        past = x[:, :, ::stride, ::stride]
    else:
        past = normalised(convolved(x, state["shortcut.0.weight"], stride), state, "shortcut.1")
    torch.testing.assert_close(unit(x), inside + past, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("channels", "out", "stride"), [(4, 8, 2), (8, 8, 1), (8, 8, 2)])
def test_a_bottleneck_is_its_definition(channels, out, stride):
    unit = used(Bottleneck(channels, out, stride))
    x = torch.randn((2, channels, 6, 9), generator=torch.Generator().manual_seed(1))
    state = unit.state_dict()
    inside = x
    for conv, norm, step in ((0, 1, 1), (3, 4, stride), (6, 7, 1)):
        inside = normalised(convolved(inside, state[f"body.{conv}.weight"], step), state, f"body.{norm}")
        inside = inside.relu() if conv < 6 else inside
    if channels == out and stride == 1:
        past = x
    else:
        past = normalised(convolved(x, state["shortcut.0.weight"], stride), state, "shortcut.1")
    torch.testing.assert_close(unit(x), (inside + past).relu(), rtol=1e-4, atol=1e-4)


def test_the_stages_of_resnet50_have_exactly_its_parameters():
    # torchvision's resnet50: 25,557,032 with classifier (2048 * 1000 + 1000) and stem (7 * 7 * 3 * 64 + 2 * 64).
    known = 25_557_032 - 2_049_000 - 9_536
    assert sum(p.numel() for p in make_backbone("resnet50", (3, 64, 64)).stages.parameters()) == known


def test_resnet50_takes_as_many_parameters_as_its_plan():
    width, channels, embedding = 8, 189, 16
    total, inside = channels * width * 9 + 2 * width + width, width
    for stage, number in enumerate((3, 4, 6, 3)):
        out = 4 * width * 2**stage
        for i in range(number):
            c, mid = (inside if i == 0 else out), out // 4
            total += c * mid + 2 * mid + 9 * mid * mid + 2 * mid + mid * out + 2 * out
            total += c * out + 2 * out if i == 0 else 0
        inside = out
    total += 2 * inside + inside * 2 * 3 * embedding + embedding + 2 * embedding
    network = make_backbone("resnet50", (channels, 32, 48), width=width, embedding=embedding)
    assert sum(p.numel() for p in network.parameters()) == total


@pytest.mark.parametrize("name", ["ir18", "resnet50"])
@pytest.mark.parametrize("shape", [(1, 16, 16), (3, 17, 33), (189, 32, 16), (192, 24, 40)])
def test_every_shape_is_embedded_and_every_weight_learns(name, shape):
    torch.manual_seed(0)
    network = make_backbone(name, shape, width=4, embedding=8, dropout=0.0)
    x = torch.randn((4, *shape), generator=torch.Generator().manual_seed(0))
    found = network(x)
    assert found.shape == (4, 8)
    (found * torch.arange(8.0)).square().sum().backward()
    still = [key for key, p in network.named_parameters() if p.grad is None or not torch.isfinite(p.grad).all()]
    assert still == []
    assert network.stem[0].weight.grad.abs().amax() > 0


def test_where_it_is_used_each_face_is_embedded_by_itself():
    torch.manual_seed(0)
    network = make_backbone("ir18", (3, 32, 32), width=8, embedding=8)
    x = torch.randn((5, 3, 32, 32), generator=torch.Generator().manual_seed(0))
    network(x)  # a pass with dropout and statistics of the batch
    assert not torch.equal(network(x), network(x))
    network.eval()
    torch.testing.assert_close(network(x)[1:2], network(x[1:2]), rtol=1e-4, atol=1e-5)
    assert torch.equal(network(x), network(x))
