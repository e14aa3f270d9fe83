"""Laplace noise with learnable budgets: distribution, guarantee, gradients, and what the published code does instead."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from faceblind import DataError, FormatError, UsageError
from faceblind.frequency.accounting import pair_eps
from faceblind.frequency.sensitivity import Sensitivity, SensitivityMeter, load_sensitivity, save_sensitivity

torch = pytest.importorskip("torch")

from faceblind.frequency.noise import LaplaceBudget, OfficialNoiseWarning, _Scale, _uniform, unit_laplace  # noqa: E402

SHAPE = (3, 4, 5)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def ranges(seed=0, shape=SHAPE):
    rng = np.random.default_rng(seed)
    low = rng.uniform(-9, 0, shape).astype(np.float32)
    return Sensitivity(low, low + rng.uniform(0.5, 8, shape).astype(np.float32), np.ones(shape[0]), 100)


def budget(seed=0, **options):
    made = LaplaceBudget(SHAPE, **options)
    made.calibrate(ranges(seed))
    with torch.no_grad():
        made.theta.copy_(torch.randn(SHAPE, generator=seeded(seed)) * 2)
    return made


@given(seed=st.integers(0, 999), mean=st.floats(0.01, 100), spread=st.floats(0, 30))
@settings(deadline=None, max_examples=40)
def test_budgets_sum_to_the_total_whatever_is_learnt(seed, mean, spread):
    made = LaplaceBudget(SHAPE, eps_mean=mean)
    with torch.no_grad():
        made.theta.copy_(torch.randn(SHAPE, generator=seeded(seed)) * spread)
    assert float(made.eps().detach().double().sum()) == pytest.approx(mean * 60, rel=1e-5)
    assert made.eps_total == pytest.approx(mean * 60)


def test_noise_follows_the_laplace_distribution_of_its_scale():
    made = budget(1, eps_mean=2.0)
    zeros = torch.zeros((4000, *SHAPE)).clamp(made.low, made.high)
    noise = (made(zeros, seeded(3)) - made.clip(zeros)).detach().numpy()
    scale = ((made.high - made.low) / made.eps()).detach().numpy()
    for place in [(0, 0, 0), (1, 2, 3), (2, 3, 4)]:
        drawn = noise[(slice(None), *place)]
        assert stats.kstest(drawn, stats.laplace(scale=scale[place]).cdf).pvalue > 1e-3
        assert np.mean(np.abs(drawn)) == pytest.approx(scale[place], rel=0.08)
    # Elements are independent of each other and faces of each other.
    unit = (noise / scale).reshape(4000, -1)
    off = np.corrcoef(unit[:, :20].T) - np.eye(20)
    assert np.abs(off).max() < 0.08
    assert abs(np.corrcoef(unit[:-1, 0], unit[1:, 0])[0, 1]) < 0.06
    # A wrong scale is seen by the same test.
    assert stats.kstest(noise[:, 0, 0, 0], stats.laplace(scale=1.2 * scale[0, 0, 0]).cdf).pvalue < 1e-4


def test_unit_noise_is_finite_and_symmetric():
    drawn = unit_laplace((200_000,), seeded(5)).numpy()
    assert np.isfinite(drawn).all()
    assert stats.kstest(drawn, stats.laplace.cdf).pvalue > 1e-3
    assert np.array_equal(drawn, unit_laplace((200_000,), seeded(5)).numpy())


@given(seed=st.integers(0, 200), mean=st.floats(0.05, 3))
@settings(deadline=None, max_examples=40)
def test_no_release_is_more_than_exp_eps_d_times_as_likely_for_another_face(seed, mean):
    """The bound from densities of every element, for faces inside and outside the calibrated ranges."""
    made = budget(seed, eps_mean=mean)
    a, b = (torch.randn((1, *SHAPE), generator=seeded(seed + k)) * 9 for k in (1, 2))
    out = made(a, seeded(seed)).detach().double().numpy()[0]
    ca, cb = (made.clip(x).double().numpy()[0] for x in (a, b))
    scale = made.scale().detach().double().numpy()
    log_ratio = (stats.laplace.logpdf(out, ca, scale) - stats.laplace.logpdf(out, cb, scale)).sum()
    width = (made.high - made.low).double().numpy()
    distance = (np.abs(ca - cb) / width).max()
    eps = made.eps().detach().double().numpy()
    assert distance <= 1 + 1e-6
    assert log_ratio <= (eps * np.abs(ca - cb) / width).sum() + 1e-3
    assert log_ratio <= made.eps_total * distance * (1 + 1e-5) + 1e-3


def test_without_clipping_the_bound_breaks():
    made = budget(4, eps_mean=0.5)
    scale = made.scale().detach().double().numpy()
    far = made.high.double().numpy() + 10 * (made.high - made.low).double().numpy()
    low = made.low.double().numpy()
    unclipped = (stats.laplace.logpdf(far, far, scale) - stats.laplace.logpdf(far, low, scale)).sum()
    assert unclipped > made.eps_total
    clipped = made.clip(torch.from_numpy(far)[None].float())
    assert torch.equal(clipped[0], made.high)


def test_gradient_of_the_budgets_by_finite_differences():
    made = budget(2, eps_mean=1.0)
    values = torch.randn((3, *SHAPE), generator=seeded(1))
    target = torch.randn((3, *SHAPE), generator=seeded(2))

    def loss():
        return ((made.double()(values.double(), seeded(9)) - target) ** 2).mean()

    loss().backward()
    gradient = made.theta.grad.clone()
    assert gradient.abs().max() > 0
    for place in [(0, 0, 0), (1, 3, 2), (2, 1, 4)]:
        with torch.no_grad():
            step = 1e-5
            made.theta[place] += step
            up = loss()
            made.theta[place] -= 2 * step
            down = loss()
            made.theta[place] += step
        assert float(gradient[place]) == pytest.approx(float((up - down) / (2 * step)), rel=1e-3, abs=1e-9)


def test_faces_of_a_batch_get_noise_of_their_own_but_not_in_official_mode():
    values = torch.zeros((2, *SHAPE))
    own = budget(0)(values, seeded(1)) - budget(0).clip(values)
    assert not torch.equal(own[0], own[1])
    with pytest.warns(OfficialNoiseWarning, match="no formal guarantee"):
        official = LaplaceBudget(SHAPE, official=True)
    released = official(torch.randn((2, *SHAPE), generator=seeded(4)), seeded(1))
    other = torch.randn((2, *SHAPE), generator=seeded(4))
    assert torch.allclose(released[0] - released[1], other[0] - other[1], atol=1e-4)
    official(values, seeded(1)).square().sum().backward()
    assert official.loc.grad.abs().max() > 0
    assert torch.allclose(official.scale().detach(), torch.full(SHAPE, 2.0))  # range 1, budget 0.5


def test_it_refuses_to_run_uncalibrated_and_on_wrong_shapes():
    with pytest.raises(UsageError, match="calibrate"):
        LaplaceBudget(SHAPE)(torch.zeros((1, *SHAPE)))
    with pytest.raises(DataError, match="values must be"):
        budget()(torch.zeros((1, 3, 4, 6)))
    with pytest.raises(DataError, match="another release"):
        LaplaceBudget(SHAPE).calibrate(ranges(0, (3, 4, 4)))
    for wrong in (0, -1, math.nan, math.inf):
        with pytest.raises(UsageError, match="eps_mean"):
            LaplaceBudget(SHAPE, eps_mean=wrong)


def test_the_noise_is_saved_with_the_model():
    made, other = budget(3), LaplaceBudget(SHAPE)
    other.load_state_dict(made.state_dict())
    values = torch.randn((2, *SHAPE), generator=seeded(1))
    assert other.calibrated
    assert torch.equal(made(values, seeded(5)), other(values, seeded(5)))


def test_starved_elements_keep_finite_gradients():
    made = budget()
    with torch.no_grad():
        made.theta.zero_()
        made.theta[0, 0, 0] = 60
    made(torch.zeros((1, *SHAPE)), seeded()).abs().mean().backward()
    assert torch.isfinite(made.theta.grad).all()


def test_constant_elements_get_no_noise_and_are_counted():
    found = ranges()
    flat = Sensitivity(found.low, np.where(np.arange(5) == 0, found.low, found.high), found.std, 9)
    made = LaplaceBudget(SHAPE)
    made.calibrate(flat)
    released = made(torch.full((2, *SHAPE), 3.0), seeded()).detach()
    assert torch.equal(released[..., 0], made.low[..., 0].expand(2, -1, -1))
    assert made.account().constant == 12
    assert "never change" in " ".join(made.account().sentences())


def test_budgets_are_a_softmax_and_sum_to_the_total_over_many_elements():
    """In float32 alone the sum misses by 6e-5 here."""
    made = LaplaceBudget((189, 64, 64), eps_mean=0.5)
    flat = Sensitivity(np.zeros(made.shape, np.float32), np.full(made.shape, 3, np.float32), np.ones(189), 2)
    made.calibrate(flat)
    with torch.no_grad():
        made.theta.normal_(0, 5, generator=seeded(1))
    oracle = special.softmax(made.theta.detach().double().numpy()) * made.eps_total
    np.testing.assert_allclose(made.eps().numpy(), oracle, rtol=1e-5)
    assert float(made.eps().double().sum()) == pytest.approx(made.eps_total, rel=1e-6)
    assert float((3 / made.scale().detach().double()).sum()) == pytest.approx(made.eps_total, rel=1e-6)
    assert made.account().eps_total == pytest.approx(made.eps_total, rel=1e-12)


def test_a_starved_element_is_hidden_by_finite_noise_and_can_come_back():
    flat = Sensitivity(np.zeros((1, 1, 3), np.float32), np.array([[[1, 1, 0]]], np.float32), np.ones(1), 2)
    made = LaplaceBudget((1, 1, 3), sensitivity=flat)
    with torch.no_grad():
        made.theta[0, 0, 0] = 500  # float32 holds no exp(-500)
    released = made(torch.zeros((4, 1, 1, 3)), seeded())
    assert torch.isfinite(released).all()
    assert released[..., 1].abs().min() > 1e15
    assert torch.equal(released[..., 2], torch.zeros((4, 1, 1)))
    released.abs().sum().backward()
    assert torch.isfinite(made.theta.grad).all()
    assert made.theta.grad[0, 0, 1] < 0  # less noise there, and the loss falls
    assert made.account().eps_total == pytest.approx(1.5)


def test_gradient_of_the_scale_is_that_of_the_softmax():
    low, high = torch.zeros(SHAPE).double(), torch.rand(SHAPE, generator=seeded(1)).double() + 0.5
    theta = torch.randn(SHAPE, generator=seeded(2)).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda t: _Scale.apply(t, low, high, 30.0), (theta,))


def test_both_ways_to_add_noise_agree():
    """Where the values need a gradient too, autograd adds it; else a function that keeps less."""
    made, values = budget(6), torch.randn((3, *SHAPE), generator=seeded(1)) * 9
    weight = torch.randn((3, *SHAPE), generator=seeded(2))
    found = []
    for taken in (values, values.clone().requires_grad_()):
        made.zero_grad()
        released = made(taken, seeded(3))
        (released * weight).sum().backward()
        found.append((released.detach(), made.theta.grad.clone()))
    assert torch.equal(found[0][0], found[1][0])
    torch.testing.assert_close(found[0][1], found[1][1])
    with torch.no_grad():
        assert torch.equal(made(values, seeded(3)), found[0][0])
    for untouched in (made.low, made.high, values):
        assert torch.isfinite(untouched).all()
    assert torch.equal(values, torch.randn((3, *SHAPE), generator=seeded(1)) * 9)  # not noised in place


def test_unit_noise_is_the_inverse_of_the_distribution_function():
    """Over several pieces, against scipy from the same uniform numbers."""
    shape = (3, 70_000)
    uniform = _uniform(shape, seeded(4), torch.device("cpu")).double().numpy()
    np.testing.assert_allclose(unit_laplace(shape, seeded(4)).numpy(), stats.laplace.ppf(uniform), rtol=2e-5, atol=1e-7)
    assert unit_laplace((0, 2), seeded()).shape == (0, 2)


def test_the_ends_of_the_uniform_numbers_give_finite_noise(monkeypatch):
    ends = torch.tensor([0, 2**-24, 0.5, 1 - 2**-24], dtype=torch.float32)
    monkeypatch.setattr("faceblind.frequency.noise._uniform", lambda *_: ends.clone())
    found = unit_laplace((4,)).numpy()
    np.testing.assert_allclose(found, [-24 * np.log(2), -23 * np.log(2), 0, 23 * np.log(2)], rtol=1e-6)


@pytest.mark.parametrize("channel", range(3))
def test_anderson_and_darling_see_no_other_distribution_in_any_channel(channel):
    made = budget(7, eps_mean=0.3)
    values = made.low.expand(300, *SHAPE)
    unit = ((made(values, seeded(channel)) - values) / made.scale()).detach().double().numpy()[:, channel].ravel()
    uniform = np.sort(stats.laplace.cdf(unit))

    def statistic(u):
        n, i = len(u), np.arange(1, len(u) + 1)
        return -n - ((2 * i - 1) * (np.log(u) + np.log1p(-u[::-1]))).mean()

    assert statistic(uniform) < 3.857  # its 1 % point, nothing estimated (M. A. Stephens, JASA 69, 1974)
    assert statistic(np.sort(stats.norm.cdf(unit / 2**0.5))) > 3.857


@given(seed=st.integers(0, 300), mean=st.floats(0.05, 3))
@settings(deadline=None, max_examples=40)
def test_the_bound_for_a_pair_is_exact(seed, mean):
    """No release exceeds it, and one beyond both faces everywhere reaches it."""
    made = budget(seed, eps_mean=mean)
    eps, scale = (x.detach().double().numpy() for x in (made.eps(), made.scale()))
    low, high = made.low.double().numpy(), made.high.double().numpy()
    rng = np.random.default_rng(seed)
    a, b = rng.normal(0, 9, (2, *SHAPE))
    bound = pair_eps(a, b, eps=eps, low=low, high=high)
    ca, cb = np.clip(a, low, high), np.clip(b, low, high)

    def ratio(out):
        # Of log densities -|x - face| / scale; densities themselves underflow far out.
        return (np.abs(out - cb) - np.abs(out - ca)) / scale

    assert (ratio(rng.normal(0, 30, SHAPE)) <= bound + 1e-4).all()
    beyond = np.where(ca > cb, high + 1, low - 1)
    np.testing.assert_allclose(ratio(beyond), bound, rtol=1e-4, atol=1e-4)
    assert (bound <= eps * (1 + 1e-6)).all()
    assert bound.sum() <= made.eps_total * (np.abs(ca - cb) / (high - low)).max() * (1 + 1e-6)


def test_departures_of_the_published_code_one_by_one():
    values = torch.randn((2, *SHAPE), generator=seeded(4))
    with pytest.warns(OfficialNoiseWarning, match="taken to be one"):
        ones = LaplaceBudget(SHAPE, ones=True)
    assert ones.calibrated
    assert ones.loc is None
    own = ones(values, seeded(1)) - values
    assert not torch.equal(own[0], own[1])
    with pytest.warns(OfficialNoiseWarning, match="shared by the whole batch"):
        shared = LaplaceBudget(SHAPE, per_sample=False, sensitivity=ranges())
    noise = shared(values, seeded(1)) - shared.clip(values)
    torch.testing.assert_close(noise[0], noise[1], atol=1e-4, rtol=0)
    with pytest.warns(OfficialNoiseWarning, match="not clipped"):
        open_ended = LaplaceBudget(SHAPE, clip=False, sensitivity=ranges())
    assert torch.equal(open_ended.clip(values * 100), values * 100)
    assert "not clipped" in " ".join(open_ended.account().sentences())
    moved = LaplaceBudget(SHAPE, learn_loc=True, sensitivity=ranges())  # a shift breaks nothing
    with torch.no_grad():
        moved.loc.fill_(1000)
    assert (moved(values, seeded(1)) - moved.loc).abs().max() < 1000
    assert "The guarantee bounds" in " ".join(moved.account().sentences())


def test_options_that_contradict_each_other():
    for wrong in ({"ones": False}, {"learn_loc": False}, {"per_sample": True}, {"clip": True}):
        with pytest.raises(UsageError, match=f"leave out {next(iter(wrong))}"):
            LaplaceBudget(SHAPE, official=True, **wrong)
    with pytest.raises(UsageError, match="ranges of one"):
        LaplaceBudget(SHAPE, ones=True, clip=True)
    with pytest.raises(UsageError, match="ranges of one"):
        LaplaceBudget(SHAPE, official=True, sensitivity=ranges())


# Calibration


@given(cuts=st.lists(st.integers(0, 12), max_size=5), seed=st.integers(0, 50))
@settings(deadline=None, max_examples=40)
def test_calibration_does_not_depend_on_the_batches(cuts, seed):
    values = np.random.default_rng(seed).normal(3, 2, (12, *SHAPE)).astype(np.float32)
    meter = SensitivityMeter()
    edges = [0, *sorted(cuts), 12]
    for start, stop in itertools.pairwise(edges):
        meter.update(values[start:stop])
    found = meter.result()
    assert np.array_equal(found.low, values.min(axis=0))
    assert np.array_equal(found.high, values.max(axis=0))
    np.testing.assert_allclose(found.std, values.std(axis=(0, 2, 3)), rtol=1e-5)
    assert found.images == 12
    assert found.outside(values) == 0
    assert found.outside(values + 100) == 1


def test_ranges_are_saved_and_damaged_files_are_named(tmp_path):
    path = tmp_path / "ranges.safetensors"
    save_sensitivity(ranges(), path)
    back = load_sensitivity(path)
    assert np.array_equal(back.low, ranges().low)
    assert back.images == 100
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(FormatError, match="holds no sensitivity"):
        load_sensitivity(path)
    with pytest.raises(FormatError, match="missing"):
        load_sensitivity(tmp_path / "none")


def test_bad_calibration():
    with pytest.raises(DataError, match="at least two faces"):
        SensitivityMeter().result()
    meter = SensitivityMeter()
    meter.update(np.zeros((2, *SHAPE)))
    with pytest.raises(DataError, match="values must be"):
        meter.update(np.zeros((2, 3, 4, 4)))
    with pytest.raises(DataError, match="finite"):
        meter.update(np.full((2, *SHAPE), np.inf))
    with pytest.raises(DataError, match="low <= high"):
        Sensitivity(np.ones(SHAPE, np.float32), np.zeros(SHAPE, np.float32), np.ones(3), 2)


@given(cuts=st.lists(st.integers(0, 12), max_size=4), seed=st.integers(0, 50))
@settings(deadline=None, max_examples=40)
def test_meters_are_merged_in_any_order(cuts, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(3, 2, (12, *SHAPE)).astype(np.float32)
    whole, merged = SensitivityMeter(), SensitivityMeter()
    whole.update(values)
    shuffled = values[rng.permutation(12)]
    for start, stop in itertools.pairwise([0, *sorted(cuts), 12]):
        part = SensitivityMeter()
        part.update(shuffled[start:stop])
        merged.merge(part)
    found, wanted = merged.result(source="faces"), whole.result()
    assert np.array_equal(found.low, wanted.low)
    assert np.array_equal(found.high, wanted.high)
    np.testing.assert_allclose(found.std, wanted.std, rtol=1e-9)
    assert (found.images, found.source) == (12, "faces")


def test_a_merged_meter_leaves_the_other_as_it_was():
    one, other = SensitivityMeter(), SensitivityMeter()
    other.update(np.ones((3, *SHAPE)))
    one.merge(other)
    one.update(np.full((1, *SHAPE), 9))
    assert other.result().high.max() == 1
    assert one.images == 4
    strange = SensitivityMeter()
    strange.update(np.zeros((2, 3, 4, 4)))
    with pytest.raises(DataError, match="cannot be merged"):
        one.merge(strange)


def test_a_file_of_ranges_says_where_they_are_from_and_notices_changes(tmp_path):
    path = tmp_path / "ranges.safetensors"
    named = dataclasses.replace(ranges(), source="LFW, people of fit")
    save_sensitivity(named, path)
    back = load_sensitivity(path)
    assert (back.source, back.digest) == (named.source, named.digest)
    before = path.read_bytes()
    save_sensitivity(named, path)
    assert path.read_bytes() == before
    assert dataclasses.replace(named, images=99).digest != named.digest
    path.write_bytes(before[:-4] + np.float32(-100).tobytes())
    with pytest.raises(FormatError, match="changed since"):
        load_sensitivity(path)
    path.write_bytes(before[:-4] + np.float32(np.nan).tobytes())
    with pytest.raises(FormatError, match=r"ranges\.safetensors"):
        load_sensitivity(path)
    with pytest.raises(DataError, match="std must be finite"):
        Sensitivity(ranges().low, ranges().high, np.full(3, np.nan), 2)
