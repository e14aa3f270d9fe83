"""Laplace noise with learnable budgets: distribution, guarantee, gradients, and what the published code does instead."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from faceblind import DataError, FormatError, UsageError
from faceblind.frequency.accounting import BudgetAccount
from faceblind.frequency.sensitivity import Sensitivity, SensitivityMeter, load_sensitivity, save_sensitivity

torch = pytest.importorskip("torch")


from faceblind.frequency.noise import LaplaceBudget, OfficialNoiseWarning, unit_laplace  # noqa: E402
from faceblind.frequency.releases.dctdp import DctDp  # noqa: E402

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


# Accounting


def test_accounts_of_equal_and_of_concentrated_budgets():
    equal = BudgetAccount.of(
        np.full(SHAPE, 0.5), np.ones(SHAPE), signal_std=np.array([1.0, 10, 100]), names=["a", "b", "c"]
    )
    assert (equal.eps_total, equal.eps_mean) == (30, 0.5)
    assert equal.effective_number == pytest.approx(60)
    assert [c.scale for c in equal.channels] == [2, 2, 2]
    assert [c.snr for c in equal.channels] == pytest.approx([1 / 8, 100 / 8, 10_000 / 8])
    one = np.full(SHAPE, 1e-9)
    one[0, 0, 0] = 30
    assert BudgetAccount.of(one, np.ones(SHAPE)).effective_number == pytest.approx(1, abs=1e-4)
    said = equal.to_dict()
    json.dumps(said, allow_nan=False)
    assert [c["channel"] for c in said["channels"]] == ["c", "b", "a"]


def test_the_paper_budget_is_said_as_a_sum():
    said = " ".join(BudgetAccount.of(np.full((189, 112, 112), 0.5), np.ones((189, 112, 112))).sentences())
    assert "1,185,408" in said
    assert "excludes nothing" in said
    official = BudgetAccount.of(np.ones(SHAPE), np.ones(SHAPE), official=True)
    assert "No formal guarantee" in " ".join(official.sentences())
    small = BudgetAccount.of(np.full(SHAPE, 0.01), np.ones(SHAPE), outside=0.25)
    assert "25.00%" in " ".join(small.sentences())
    assert "excludes nothing" not in " ".join(small.sentences())


def test_constant_elements_get_no_noise_and_are_counted():
    found = ranges()
    flat = Sensitivity(found.low, np.where(np.arange(5) == 0, found.low, found.high), found.std, 9)
    made = LaplaceBudget(SHAPE)
    made.calibrate(flat)
    released = made(torch.full((2, *SHAPE), 3.0), seeded()).detach()
    assert torch.equal(released[..., 0], made.low[..., 0].expand(2, -1, -1))
    assert made.account().constant == 12
    assert "never change" in " ".join(made.account().sentences())


# The release


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
