"""The DCTDP release and its ablations."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from faceblind import DataError, UsageError

torch = pytest.importorskip("torch")

from faceblind.frequency.noise import OfficialNoiseWarning  # noqa: E402
from faceblind.frequency.record import title_of  # noqa: E402
from faceblind.frequency.releases.dctdp import DctDp  # noqa: E402
from faceblind.frequency.releases.registry import preset  # noqa: E402


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(seed, count=4, size=(8, 8)):
    return torch.randint(0, 256, (count, 3, *size), generator=seeded(seed)).float()


def calibrated(**options):
    made = DctDp((8, 8), **options)
    made.calibrate(lambda: iter([(pictures(k), ["a"] * 4) for k in range(5)]))
    return made


@pytest.mark.parametrize(
    ("options", "shape"),
    [({}, (189, 8, 8)), ({"keep_dc": True}, (192, 8, 8)), ({"frequency": False}, (3, 8, 8)), ({"up": 4}, (189, 4, 4))],
)
def test_release_shapes_and_round_trip_of_the_config(options, shape):
    made = calibrated(**options)
    released = made(pictures(9), seeded(1))
    assert tuple(released.tensor.shape[1:]) == made.shape == shape
    again = DctDp((8, 8), **json.loads(json.dumps(made.config())))
    again.load_state_dict(made.state_dict())
    assert torch.equal(again(pictures(9), seeded(1)).tensor, released.tensor)
    assert len(made.channels) == shape[0]
    assert made.picture(released.tensor).shape == (4, 3, 8, 8)
    assert made.account()["elements"] == math.prod(shape)


def test_noise_can_be_left_out_and_never_comes_in_the_clean_ablation():
    made = calibrated()
    assert torch.equal(made(pictures(0), noise=False).tensor, made.clean(pictures(0)))
    assert not torch.equal(made(pictures(0), seeded()).tensor, made.clean(pictures(0)))
    clean = DctDp((8, 8), noise=False)
    assert clean.calibrated
    assert clean.account() is None
    assert torch.equal(clean(pictures(0)).tensor, made.clean(pictures(0)))
    assert list(clean.parameters()) == []


def test_equal_budgets_are_not_learnt_and_pixels_get_no_gradient():
    assert calibrated(budgets="uniform").noise_parameters() == []
    pixels = pictures(0).requires_grad_()
    calibrated()(pixels, seeded()).tensor.sum().backward()
    assert pixels.grad is None


def test_bad_options():
    with pytest.raises(UsageError, match="budgets must be"):
        DctDp((8, 8), budgets="some")
    with pytest.raises(UsageError, match="no DC to keep"):
        DctDp((8, 8), keep_dc=True, frequency=False)
    with pytest.raises(UsageError, match="calibrate"):
        DctDp((8, 8))(pictures(0))
    with pytest.raises(DataError, match="pixels must be"):
        DctDp((8, 8), frequency=False, noise=False)(torch.zeros((1, 3, 8, 9)))


def test_the_same_generator_gives_the_same_release_and_another_does_not():
    made = calibrated()
    first, second, other = (made(pictures(1), seeded(k)).tensor for k in (3, 3, 4))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    twice = seeded(3)
    assert torch.equal(made(pictures(1), twice).tensor, first)
    assert not torch.equal(made(pictures(1), twice).tensor, first)  # the generator moves on


def test_calibration_does_not_depend_on_the_order_of_the_batches():
    made, other = DctDp((8, 8)), DctDp((8, 8))
    made.calibrate(lambda: iter([(pictures(k), ["a"] * 4) for k in range(3)]))
    whole = torch.cat([pictures(k) for k in (2, 0, 1)])
    other.calibrate(lambda: iter([(whole[:5], ["a"] * 5), (whole[5:], ["a"] * 7)]))
    for name in ("low", "high", "images"):
        assert torch.equal(getattr(made.budget, name), getattr(other.budget, name))
    torch.testing.assert_close(made.budget.std, other.budget.std)


def test_the_share_of_values_outside_on_other_faces():
    made = calibrated()
    known = lambda: iter([(pictures(k), ["a"] * 4) for k in range(5)])  # noqa: E731
    assert made.outside(known) == 0
    others = [pictures(8, 3), pictures(9, 5)]
    values = torch.cat([made.clean(each) for each in others])
    wanted = float(((values < made.budget.low) | (values > made.budget.high)).double().mean())
    found = made.outside(lambda: iter([(each, ["b"] * len(each)) for each in others]))
    assert 0.01 < wanted < 0.5
    assert found == pytest.approx(wanted)
    assert made.account()["outside"] is None
    account = made.account(outside=found)
    assert account["outside"] == found
    assert "are clipped" in " ".join(account["sentences"])
    released = made.budget.clip(values)
    assert ((released >= made.budget.low) & (released <= made.budget.high)).all()
    assert DctDp((8, 8), noise=False).outside(known) is None
    with pytest.raises(DataError, match="no faces"):
        made.outside(lambda: iter([]))


def test_ranges_of_one_alone_need_no_calibration_and_do_not_clip():
    with pytest.warns(OfficialNoiseWarning, match="taken to be one"):
        made = DctDp((8, 8), sensitivity="ones")
    noise = made(pictures(0), seeded()).tensor - made.clean(pictures(0))
    assert not torch.equal(noise[0], noise[1])
    assert float(noise.detach().abs().mean()) == pytest.approx(2, rel=0.05)
    assert made.outside(lambda: iter([])) is None
    assert made.account()["channels"] == []  # the signal is not known yet
    made.calibrate(lambda: iter([(pictures(k), ["a"] * 4) for k in range(3)]))
    assert float(made.budget.high.max()) == 0.5
    assert made.account()["channels"][0]["channel"].startswith(("Y", "C"))


def test_config_says_which_sensitivity_it_was():
    assert DctDp((8, 8)).config()["sensitivity"] == "range"
    with pytest.warns(OfficialNoiseWarning, match="published code"):
        made = DctDp((8, 8), official=True)
    assert made.config()["sensitivity"] == "ones"
    with pytest.warns(OfficialNoiseWarning, match="published code"):
        assert DctDp((8, 8), **made.config()).config() == made.config()


def test_pixels_without_the_transform_are_noised_in_place_of_coefficients():
    made = calibrated(frequency=False, eps_mean=1e5)
    assert made.channels == ("R", "G", "B")
    released = made(pictures(2), seeded()).tensor
    assert torch.allclose(released, pictures(2) / 127.5 - 1, atol=1e-2)
    assert torch.allclose(made.picture(released), pictures(2), atol=1)
    loud = made.picture(released * 10)
    assert (loud.min(), loud.max()) == (0, 255)


def test_a_picture_is_the_inverse_with_no_dc():
    made = calibrated(eps_mean=1e6)
    flat = torch.full((1, 3, 8, 8), 200.0)
    assert torch.allclose(made.picture(made.clean(flat)), torch.full_like(flat, 128), atol=0.1)


def test_grey_faces_are_told_apart_by_brightness_alone():
    """Colour coefficients of grey faces never change, but for rounding: nothing of a coloured face comes through them."""
    made = DctDp((8, 8))
    grey = lambda k: pictures(k)[:, :1].expand(-1, 3, -1, -1)  # noqa: E731
    made.calibrate(lambda: iter([(grey(k), ["a"] * 4) for k in range(3)]))
    assert made.account()["constant"] > 0
    assert "never change" in " ".join(made.account()["sentences"])
    released = made(pictures(9), seeded()).tensor.detach()
    assert torch.isfinite(released).all()
    assert released[:, 63:].abs().max() < 0.01 < made.clean(pictures(9))[:, 63:].abs().max()


def test_options_of_noise_that_contradict_each_other():
    with pytest.raises(UsageError, match="sensitivity must be"):
        DctDp((8, 8), sensitivity="none")
    with pytest.raises(UsageError, match="ranges of one"):
        DctDp((8, 8), official=True, sensitivity="range")
    for wrong in ({"official": True}, {"sensitivity": "ones"}):
        with pytest.raises(UsageError, match="adds no noise"):
            DctDp((8, 8), noise=False, **wrong)


def test_budgets_are_learnt_where_the_loss_looks():
    """A loss that reads one channel alone draws the budget to it; the total stays."""
    made = calibrated(eps_mean=1.0)
    optimiser = torch.optim.Adam(made.noise_parameters(), lr=0.1)
    values = made.clean(pictures(0))
    for step in range(30):
        optimiser.zero_grad()
        released = made(pictures(0), seeded(step)).tensor
        ((released[:, 5] - values[:, 5]) ** 2).mean().backward()
        optimiser.step()
    eps = made.budget.eps().detach().double()
    assert float(eps[5].mean()) > 10 * float(np.delete(eps.numpy(), 5, axis=0).mean())
    assert float(eps.sum()) == pytest.approx(189 * 64, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("dctdp", "DCTDP, mean eps 0.5, ArcFace"),
        ("dctdp-ones", "DCTDP, ranges of one, mean eps 0.5, ArcFace"),
        ("dctdp-official", "official DCTDP, mean eps 0.5, ArcFace"),
        ("dctdp-uniform", "DCTDP, equal budgets, mean eps 0.5, ArcFace"),
        ("dctdp-dc", "DCTDP, DC kept, mean eps 0.5, ArcFace"),
        ("rgb-noise", "noise on RGB, no DCT, mean eps 0.5, ArcFace"),
        ("dct-clean", "DCT without noise, ArcFace"),
        ("peep", "PEEP, eps 5, ArcFace"),
        ("instahide", "InstaHide, k=2, ArcFace"),
    ],
)
def test_titles_tell_variants_apart(name, title):
    kind, config = preset(name)
    recipe = {"release": kind, "config": config, "head": "arcface", "epochs": 8}
    assert title_of(recipe) == title
    assert title_of(recipe, continued=True) == f"{title}, trained on"
    assert (
        title_of(recipe | {"epochs": 0}, continued=True) == f"{title}, put on a network that was not trained under it"
    )
