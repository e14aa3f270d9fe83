"""Baselines on the one interface: what each of them must and must not let through."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

torch = pytest.importorskip("torch")

from faceblind import DataError, UsageError  # noqa: E402
from faceblind.frequency.releases.cloak import Cloak  # noqa: E402
from faceblind.frequency.releases.instahide import InstaHide, _within  # noqa: E402
from faceblind.frequency.releases.peep import Peep  # noqa: E402
from faceblind.frequency.releases.registry import PRESETS, kinds, open_release, preset  # noqa: E402
from faceblind.frequency.releases.rgb import Rgb  # noqa: E402
from small_pixels import SIZE, batches, pixels, seeded  # noqa: E402


@pytest.mark.filterwarnings("ignore::faceblind.frequency.noise.OfficialNoiseWarning")
@pytest.mark.parametrize("name", [n for n in PRESETS if n != "dctdp-official"])
def test_every_release_has_one_shape_and_comes_back_from_its_config(name):
    kind, config = preset(name)
    made = open_release(kind, SIZE, config)
    made.calibrate(batches())
    made.eval()
    released = made(pixels(9), seeded(1)).tensor
    assert tuple(released.shape[1:]) == made.shape
    assert torch.equal(made(pixels(9), seeded(1)).tensor, released)
    again = open_release(kind, SIZE, json.loads(json.dumps(made.config())))
    again.load_state_dict(made.state_dict())
    if kind == "instahide":
        assert not again.calibrated  # private pictures are not part of a model
        again.calibrate(batches())
    again.eval()
    assert torch.equal(again(pixels(9), seeded(1)).tensor, released)
    picture = made.picture(released)
    assert picture.shape == (12, 3, *SIZE)
    assert 0 <= picture.min() <= picture.max() <= 255
    quiet = made(pixels(9), seeded(1), noise=False).tensor
    assert torch.equal(quiet, made(pixels(9), seeded(2), noise=False).tensor)
    noisy = name not in ("rgb", "dct-clean")
    assert torch.equal(released, made(pixels(9), seeded(2)).tensor) is not noisy
    if noisy:  # faces of a batch have noise of their own
        same = made(pixels(9)[:1].expand(2, -1, -1, -1), seeded(3)).tensor
        assert not torch.equal(same[0], same[1])
    for wrong in (torch.zeros((1, 3, 8, 9)), torch.zeros((1, 3, 8, 8), dtype=torch.uint8)):
        with pytest.raises(DataError, match="pixels must be"):
            made(wrong, seeded())


def test_rgb_is_the_picture():
    assert torch.allclose(Rgb(SIZE).picture(Rgb(SIZE)(pixels()).tensor), pixels(), atol=1e-4)
    assert Rgb(SIZE).account() is None


def test_instahide_is_a_mix_with_random_signs():
    made = InstaHide(SIZE, k=3)
    mixed = InstaHide(SIZE, k=3, signs=False)
    a, b = made(pixels(), seeded(4)), mixed(pixels(), seeded(4))
    assert torch.allclose(a.tensor.abs(), b.tensor.abs())
    assert torch.allclose(a.weights.sum(dim=1), torch.ones(12))
    assert a.weights.max() <= 0.65
    assert torch.equal(a.partners[:, 0], torch.arange(12))
    expected = torch.einsum("bk,bkchw->bchw", b.weights, (pixels() / 127.5 - 1)[b.partners])
    assert torch.allclose(b.tensor, expected, atol=1e-5)
    alone = InstaHide(SIZE, k=1, signs=False)
    assert torch.equal(alone(pixels()).tensor, Rgb(SIZE)(pixels()).tensor)
    assert torch.equal(InstaHide(SIZE, k=1)(pixels(), seeded()).tensor.abs(), Rgb(SIZE)(pixels()).tensor.abs())
    seen = made.picture(a.tensor)
    assert torch.allclose(seen, 255 * b.tensor.abs(), atol=1e-3)
    assert torch.equal(made.picture(-a.tensor), seen)  # a person does not see signs


def test_instahide_signs_are_fair_and_know_nothing_of_the_picture():
    made = InstaHide(SIZE, k=1)
    count = 4000
    bright, dark = (made(torch.full((count, 3, *SIZE), level), seeded(6)).tensor for level in (255.0, 55.0))
    signs = bright  # of a white picture
    assert set(signs.unique().tolist()) == {-1.0, 1.0}
    assert torch.equal(torch.sign(dark), -signs)  # another picture, the same mask
    # Fair at every place, and no two places or faces go together: z below 5 among thousands.
    assert signs.mean(dim=0).abs().max() < 5 / count**0.5
    flat = signs.flatten(1)
    together = flat.T @ flat / count - torch.eye(flat.shape[1])
    assert together.abs().max() < 5.5 / count**0.5
    assert abs(float((flat[1:] * flat[:-1]).mean())) < 5 / flat[1:].numel() ** 0.5


def test_instahide_never_mixes_a_face_with_itself_alone():
    made = InstaHide(SIZE, k=4)
    for seed in range(30):
        partners = made(pixels(count=6), seeded(seed)).partners
        assert all(len(set(row)) == 4 for row in partners.tolist())
    few = made(pixels(count=2), seeded()).partners  # a last batch smaller than the mix
    assert few.tolist() == [[0, 1, 1, 1], [1, 0, 0, 0]]
    with pytest.raises(DataError, match="batch of 1 has none to mix"):
        made(pixels(count=1), seeded())
    drawn = torch.cat([InstaHide(SIZE)(pixels(count=4), seeded(s)).partners[:, 1] for s in range(600)]).view(-1, 4)
    for row in range(4):  # each other face as often as any
        assert (
            stats.chisquare([int((drawn[:, row] == other).sum()) for other in range(4) if other != row]).pvalue > 1e-4
        )


def test_instahide_weights_are_even_on_what_the_bound_leaves():
    made = InstaHide(SIZE, k=2)
    first = made._weights(4000, seeded(2))[:, 0].numpy()
    assert stats.kstest(first, stats.uniform(0.35, 0.30).cdf).pvalue > 1e-3
    three = InstaHide(SIZE, k=3)._weights(4000, seeded(3)).numpy()
    np.testing.assert_allclose(three.sum(axis=1), 1, atol=1e-6)

    def below(x):  # the density of one weight of three: the length of what the others may be, by their bound
        return min(0.65, 1 - x) - max(0.0, 1 - x - 0.65)

    whole = integrate.quad(below, 0, 0.65, points=[0.35])[0]
    edges = np.linspace(0, 0.65, 14)
    expected = [integrate.quad(below, a, b)[0] / whole * 4000 for a, b in pairwise(edges)]
    for column in three.T:
        assert stats.chisquare(np.histogram(column, edges)[0], expected).pvalue > 1e-4
    drawn = np.random.default_rng(0).dirichlet(np.ones(4), 40_000).max(axis=1)
    for most in (0.3, 0.45, 0.65, 1.0):
        assert _within(4, most) == pytest.approx((drawn <= most).mean(), abs=0.01)
    with pytest.raises(UsageError, match=r"k=10 pictures are all below most=0\.11"):
        InstaHide(SIZE, k=10, most=0.11)


def test_instahide_in_use_mixes_with_private_pictures():
    made = InstaHide(SIZE, signs=False).eval()
    with pytest.raises(UsageError, match="set_pool"):
        made(pixels(), seeded())
    with pytest.raises(DataError, match="pool of at least"):
        made.set_pool(pixels()[:1])
    made.set_pool(torch.full((4, 3, *SIZE), 255.0))
    found = made(torch.zeros((50, 3, *SIZE)), seeded())
    assert found.partners is None
    share = (found.tensor[:, 0, 0, 0] + 1) / 2  # the weight of the private picture
    assert 0.35 - 1e-6 <= share.min() <= share.max() <= 0.65 + 1e-6


def test_cloak_learns_its_noise():
    made = Cloak(SIZE)
    target = pixels(1) / 127.5 - 1

    def loss():
        return ((made.double()(pixels().double(), seeded(2)).tensor - target) ** 2).mean()

    loss().backward()
    gradient = made.rho.grad.clone()
    with torch.no_grad():
        made.rho[0, 1, 2] += 1e-4
        up = loss()
        made.rho[0, 1, 2] -= 2e-4
        down = loss()
    assert gradient[0, 1, 2].item() == pytest.approx(((up - down) / 2e-4).item(), rel=1e-5)
    louder = Cloak(SIZE)
    with torch.no_grad():
        louder.rho.add_(1)
    assert louder.penalty() < Cloak(SIZE).penalty()
    for rho, sigma in [(-30.0, 0.0), (0.0, 0.75), (30.0, 1.5)]:
        at = Cloak(SIZE)
        with torch.no_grad():
            at.rho.fill_(rho)
        assert torch.allclose(at.sigma(), torch.tensor(sigma))
        assert at.penalty().item() == pytest.approx(-np.log(1.5) + np.logaddexp(0, -2 * rho), rel=1e-5)
        # However quiet, what is worth noise can still grow: the gradient does not vanish at the bottom.
        at.penalty().backward()
        assert at.rho.grad.sum().item() == pytest.approx(-2 / (1 + np.exp(2 * rho)), rel=1e-4, abs=1e-20)
    assert Cloak(SIZE, weight=50).penalty().item() == pytest.approx(Cloak(SIZE).penalty().item() / 2)


def test_cloak_adds_normal_noise_of_its_deviation():
    made = Cloak(SIZE)
    with torch.no_grad():
        made.rho.copy_(torch.randn(made.rho.shape, generator=seeded(1)))
    faces = pixels()[:1].expand(2000, -1, -1, -1)
    with torch.no_grad():
        unit = (made(faces, seeded(2)).tensor - (faces / 127.5 - 1)) / made.sigma()
    assert stats.kstest(unit.flatten().numpy()[::50], "norm").pvalue > 1e-3
    assert unit.std(dim=0).sub(1).abs().max() < 0.1
    assert made.account() is None


def test_cloak_learns_what_stands_for_what_is_cut_out():
    made = Cloak(SIZE, suppress=0.5)
    with torch.no_grad():
        made.rho.copy_(torch.randn(made.rho.shape, generator=seeded(1)))
        made.mean.fill_(0.25)
    cut, released = made.suppressed(), made(pixels(), seeded(3)).tensor
    assert (released[1::2][:, cut] == 0.25).all()  # in training every second face is cut
    assert (released[0::2][:, cut] != 0.25).float().mean() > 0.99
    (released - 1).pow(2).sum().backward()
    # Six faces, each with d/dm (m - 1)^2 at 0.25.
    assert torch.allclose(made.mean.grad, torch.where(cut, 6 * 2 * -0.75, 0.0))
    assert (made.rho.grad != 0).all()  # and what is cut still learns its noise, from the other faces
    optimiser = torch.optim.Adam(made.noise_parameters(), lr=0.1)
    for step in range(60):
        optimiser.zero_grad()
        (made(pixels(step), seeded(step)).tensor - 0.5).pow(2).mean().backward()
        optimiser.step()
    cut = made.suppressed()
    assert (made.eval()(pixels(), seeded()).tensor[:, cut] - 0.5).abs().median() < 0.05


def test_cloak_cuts_out_what_bears_most_noise():
    made = Cloak(SIZE, suppress=0.25).eval()
    with torch.no_grad():
        made.rho.copy_(torch.randn(made.rho.shape, generator=seeded(1)))
    cut = made.suppressed()
    assert int(cut.sum()) == 48
    assert made.rho[cut].min() >= made.rho[~cut].max()
    a, b = (made(pixels(k), seeded(5)).tensor for k in (1, 2))
    assert torch.equal(a[:, cut], b[:, cut])
    assert not torch.equal(a[:, ~cut], b[:, ~cut])


def test_bad_releases():
    assert set(kinds()) == {"dctdp", "rgb", "peep", "cloak", "instahide"}
    with pytest.raises(UsageError, match="unknown release 'magic'"):
        preset("magic")
    with pytest.raises(UsageError, match="unknown release"):
        open_release("magic", SIZE, {})
    with pytest.raises(UsageError, match=r"peep.*it takes eps, components, per"):
        open_release("peep", SIZE, {"budget": 3})
    with pytest.raises(UsageError, match="eigenfaces yet"):
        Peep(SIZE)(pixels())
    for kind, config in [
        ("peep", {"eps": 0}),
        ("cloak", {"largest": 0}),
        ("instahide", {"k": 0}),
        ("instahide", {"most": 0.4}),
        ("instahide", {"most": float("nan")}),
        ("peep", {"eps": float("inf")}),
        ("peep", {"per": "batch"}),
        ("cloak", {"weight": float("inf")}),
        ("cloak", {"largest": float("nan")}),
        ("cloak", {"suppress": 1.0}),
    ]:
        with pytest.raises(UsageError, match=rf"\b{next(iter(config))}\b.* got .*"):
            open_release(kind, SIZE, config)


@pytest.mark.parametrize(
    ("kind", "config", "message"),
    [
        ("rgb", {"eps": 1}, "release rgb has no option 'eps'; it takes no options"),
        ("peep", {"eps": "5"}, "release peep: eps must be a number, got '5'"),
        ("peep", {"components": 2.5}, r"release peep: components must be a whole number, got 2\.5"),
        ("instahide", {"k": True}, "release instahide: k must be a whole number, got True"),
        ("instahide", {"signs": 1}, "release instahide: signs must be true or false, got 1"),
        ("peep", {"per": None}, "release peep: per must be a name, got None"),
        ("dctdp", {"noise": "no"}, "release dctdp: noise must be true or false, got 'no'"),
    ],
)
def test_options_of_another_name_or_type(kind, config, message):
    with pytest.raises(UsageError, match=message):
        open_release(kind, SIZE, config)
