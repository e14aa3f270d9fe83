"""Attacks: against dense oracles, above 40 dB without noise, at the floor under calibrated noise, and useless where they must be."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from faceblind import DataError, UsageError  # noqa: E402
from faceblind.frequency.attacks.base import Public, View  # noqa: E402
from faceblind.frequency.attacks.catalogue import attacks_on  # noqa: E402
from faceblind.frequency.attacks.difference import BatchDifference  # noqa: E402
from faceblind.frequency.attacks.inverse import GradientIntegration, InverseDct  # noqa: E402
from faceblind.frequency.attacks.least_squares import LeastSquares, mean_release  # noqa: E402
from faceblind.frequency.attacks.unet import PAPER_UNET, UNetAttack, UNetPlan  # noqa: E402
from faceblind.frequency.attacks.wiener import FacePrior, Wiener, whole_dct, whole_inverse  # noqa: E402
from faceblind.frequency.bands import bands  # noqa: E402
from faceblind.frequency.batches import tensor_of  # noqa: E402
from faceblind.frequency.noise import OfficialNoiseWarning  # noqa: E402
from faceblind.frequency.releases.cloak import Cloak  # noqa: E402
from faceblind.frequency.releases.dctdp import DctDp  # noqa: E402
from faceblind.frequency.releases.rgb import Rgb  # noqa: E402
from faceblind.frequency.torch_bdct import BlockDCT  # noqa: E402

SIDE = 24


pytestmark = pytest.mark.usefixtures("one_torch_thread")


def blobs(seed, count, side=SIDE):
    """Smooth pictures with a bright oval in the middle, as alike as faces are."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side] / side - 0.5
    images = []
    for _ in range(count):
        image = 90 + 30 * rng.standard_normal(3) * np.ones((side, side, 3))
        image += (90 * np.exp(-((x / 0.3) ** 2 + (y / 0.38) ** 2)))[..., None]
        for _ in range(6):
            cx, cy, w = rng.uniform(-0.4, 0.4), rng.uniform(-0.4, 0.4), rng.uniform(0.04, 0.2)
            image += rng.normal(0, 45, 3) * np.exp(-(((x - cx) / w) ** 2 + ((y - cy) / w) ** 2))[..., None]
        images.append(image)
    return np.clip(images, 0, 255).astype(np.uint8)


def public(seed=1, count=80, side=SIDE):
    return Public(blobs(seed, count, side), np.array([f"p{i}" for i in range(count)]))


def release_of(**options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OfficialNoiseWarning)
        made = DctDp((SIDE, SIDE), **options)
    made.calibrate(lambda: iter([(tensor_of(blobs(2, 60)), ["x"] * 60)]))
    return made.eval()


def view_of(release, images, seed=0):
    generator = torch.Generator().manual_seed(seed)
    pixels = tensor_of(images)

    def again(m):
        with torch.no_grad():
            return torch.stack([release(pixels, generator).tensor for _ in range(m)])

    return View(again(1)[0], again, images, np.roll(images, 1, axis=0))


def psnr(found, images):
    return float((10 * np.log10(255**2 / np.square(found - images.astype(float)).mean(axis=(1, 2, 3)))).mean())


def floor(images):
    return psnr(np.broadcast_to(blobs(1, 80).mean(axis=(0, 1, 2)), images.shape), images)


def run(attack, release, images, seed=0):
    attack.prepare(release, public(), seed=0)
    return attack.recover(view_of(release, images, seed))


def test_without_noise_least_squares_gives_the_picture_back():
    images = blobs(9, 3)
    release = release_of(noise=False)
    assert psnr(run(LeastSquares(brightness=True), release, images), images) > 40
    found = run(LeastSquares(), release, images)
    off = (found - images).mean(axis=(1, 2), keepdims=True)
    # All that is missing is the brightness of each picture.
    assert psnr(found - off, images) > 35
    assert psnr(run(InverseDct(), release, images), images) < psnr(found, images)


def test_calibrated_noise_leaves_the_constant_picture():
    images = blobs(9, 6)
    release = release_of(eps_mean=0.01, budgets="uniform")
    for attack in (LeastSquares(), InverseDct(), GradientIntegration()):
        assert psnr(run(attack, release, images), images) < floor(images) + 3, attack.name
    # The mean of public pictures is all that is left of the estimate, and it is no part of the release.
    mean = np.broadcast_to(blobs(1, 80).mean(axis=0), images.shape)
    assert abs(psnr(run(LeastSquares(), release, images), images) - psnr(mean, images)) < 1


def test_official_noise_hides_nothing():
    images = blobs(9, 4)
    release = release_of(official=True, eps_mean=0.5)
    assert psnr(run(LeastSquares(brightness=True), release, images), images) > 30


def test_more_releases_of_a_face_show_more_of_it():
    images = blobs(9, 4)
    release = release_of(eps_mean=2.0, budgets="uniform")
    one, four, sixteen = (
        psnr(run(LeastSquares(repeats=m, brightness=True), release, images), images) for m in (1, 4, 16)
    )
    assert one + 0.5 < four < sixteen - 0.5
    view = view_of(release, images)
    clean = release.clean(tensor_of(images))
    spread = [(mean_release(view_of(release, images, 5), m) - clean).std().item() for m in (1, 16)]
    assert spread[0] / spread[1] == pytest.approx(4, rel=0.1)
    assert mean_release(view, 1).shape == view.released.shape


def test_differences_inside_a_batch_are_clean_only_against_the_published_code():
    images = blobs(9, 6)
    official, own = release_of(official=True, eps_mean=0.05), release_of(eps_mean=0.05, budgets="uniform")
    with torch.no_grad():
        official.budget.loc.normal_(0, 50, generator=torch.Generator().manual_seed(1))
    found = run(BatchDifference(known=True), official, images)
    off = (found - images).mean(axis=(1, 2), keepdims=True)
    assert psnr((found - off)[1:], images[1:]) > 35
    mean = run(BatchDifference(), official, images)
    assert psnr(mean, images) > floor(images) + 1
    for known in (True, False):
        assert psnr(run(BatchDifference(known=known), own, images)[1:], images[1:]) < floor(images[1:]) + 3
    with pytest.raises(UsageError, match="at least two"):
        run(BatchDifference(), official, images[:1])


def test_integration_recovers_the_dropped_dc():
    images = blobs(9, 4)
    release = release_of(noise=False)
    found = run(GradientIntegration(), release, images)
    dc = [
        release.transform.dc(tensor_of(x))[:, 0].flatten(1) for x in (images, np.clip(found, 0, 255).astype(np.uint8))
    ]
    for a, b in zip(*dc, strict=True):
        assert np.corrcoef(a.numpy(), b.numpy())[0, 1] > 0.98
    assert psnr(found, images) > psnr(run(InverseDct(), release, images), images) + 3


def test_a_guessed_dc_shows_the_guess():
    images = blobs(9, 4)
    release = release_of(eps_mean=20.0, budgets="uniform")
    right, wrong = (run(InverseDct(dc=dc), release, images) for dc in ("right", "wrong"))
    others = np.roll(images, 1, axis=0)
    assert psnr(right, images) > psnr(wrong, images)
    assert psnr(wrong, others) > psnr(wrong, images)


def test_non_local_means_takes_noise_off():
    pytest.importorskip("skimage")
    images = blobs(9, 2)
    # An inverse with the right DC and moderate noise, so that there is a picture to clean.
    release = release_of(eps_mean=60.0, budgets="uniform")
    release_noise = run(InverseDct(dc="right"), release, images)
    cleaned = run(InverseDct(dc="right", denoise=True), release, images)
    assert psnr(cleaned, images) > psnr(release_noise, images)


def test_the_solver_is_the_dense_posterior_mean():
    """Against the closed form with explicit matrices on 6 x 6 pixels."""
    rng = np.random.default_rng(0)
    transform = BlockDCT((6, 6), block=4, up=4)
    planes = torch.from_numpy(rng.normal(0, 30, (12, 3, 6, 6)))
    prior = FacePrior.of(planes)
    sigma = torch.from_numpy(rng.uniform(0.5, 20, transform.shape))
    solver = Wiener(transform, sigma, prior)
    values = torch.from_numpy(rng.normal(0, 30, (2, *transform.shape)))
    found = solver.estimate(values, tolerance=1e-12, steps=2000)
    axis = bands(6, 4, 4).matrix
    for plane in range(3):
        a = np.einsum("umh,vnw->uvmnhw", axis, axis).reshape(16, -1, 36)[1:].reshape(-1, 36)
        weight = (1 / sigma.view(3, 15, -1)[plane].flatten() ** 2).numpy()
        basis = np.stack(
            [whole_inverse(torch.eye(36, dtype=torch.float64)[k].view(6, 6)).flatten() for k in range(36)], 1
        )
        precision = basis @ np.diag(1 / prior.variance[plane].flatten().numpy()) @ basis.T
        mean = prior.mean[plane].flatten().numpy()
        for row in range(2):
            c = values.view(2, 3, 15, -1)[row, plane].flatten().numpy()
            expected = np.linalg.solve(a.T @ (weight[:, None] * a) + precision, a.T @ (weight * c) + precision @ mean)
            np.testing.assert_allclose(found[row, plane].flatten().numpy(), expected, rtol=1e-5, atol=1e-5)
    round_trip = whole_inverse(whole_dct(planes))
    assert torch.allclose(round_trip, planes)


def test_a_network_learns_to_undo_what_can_be_undone_and_nothing_else():
    images = blobs(9, 6)
    plan = UNetPlan(epochs=14, batch=16, width=8, lr=6e-3)
    rgb = Rgb((SIDE, SIDE))
    assert psnr(run(UNetAttack(plan), rgb, images), images) > floor(images) + 3
    noise = release_of(eps_mean=0.001, budgets="uniform")
    mean = np.broadcast_to(blobs(1, 80).mean(axis=0), images.shape)
    assert psnr(run(UNetAttack(UNetPlan(epochs=2, batch=16, width=4)), noise, images), images) < psnr(mean, images) + 1
    assert PAPER_UNET.batch == 512
    with pytest.raises(DataError, match="at least 10"):
        UNetAttack().prepare(rgb, public(count=5), seed=0)
    with pytest.raises(UsageError, match="adam or sgd"):
        UNetAttack(UNetPlan(optimiser="lion"))


def test_behind_least_squares_a_network_adds_what_no_gaussian_prior_knows():
    """Discs with sharp edges: least squares gives them back blurred."""

    side = 16

    def discs(seed, count):
        rng = np.random.default_rng(seed)
        y, x = np.mgrid[:side, :side]
        centre = rng.uniform(5, side - 5, (count, 2, 1, 1))
        inside = (x - centre[:, 0]) ** 2 + (y - centre[:, 1]) ** 2 < 12
        return np.where(inside, 220, 40).astype(np.uint8)[..., None].repeat(3, axis=3)

    images = discs(9, 12)
    own = Public(discs(1, 64), np.array([f"p{i}" for i in range(64)]))
    release = DctDp((side, side), eps_mean=3.0, budgets="uniform")
    release.calibrate(lambda: iter([(tensor_of(discs(2, 60)), ["x"] * 60)]))
    found = {}
    for attack in (LeastSquares(), UNetAttack(UNetPlan(epochs=24, batch=16, width=8, lr=6e-3), behind=LeastSquares())):
        attack.prepare(release.eval(), own, seed=0)
        found[attack.name] = psnr(attack.recover(view_of(release, images)), images)
    assert found["unet-lsq"] > found["lsq"] + 4
    assert "the mechanism" in UNetAttack(behind=LeastSquares()).holds


def test_attacks_are_repeatable_and_know_what_they_fit():
    images = blobs(9, 2)
    release = release_of(eps_mean=5.0)
    for attack in (
        LeastSquares(),
        *(UNetAttack(UNetPlan(epochs=1, width=4), behind=b) for b in (None, LeastSquares())),
    ):
        first = run(attack, release, images)
        assert np.array_equal(first, run(attack, release, images))
        assert first.shape == images.shape
        assert first.min() >= 0
        assert first.max() <= 255
    names = [attack.name for attack in attacks_on(release)]
    assert len(names) == len(set(names))
    assert {"idct-zero", "lsq", "integrate", "difference", "unet"} <= set(names)
    assert "unet-lsq" not in names
    assert [attack.name for attack in attacks_on(release, ["unet-lsq"])] == ["unet-lsq"]
    assert [attack.name for attack in attacks_on(Cloak((SIDE, SIDE)))] == ["look", "unet"]
    assert [attack.name for attack in attacks_on(release_of(noise=False), ["lsq", "difference"])] == ["lsq"]
    with pytest.raises(UsageError, match="unknown attack magic"):
        attacks_on(release, ["magic"])


@pytest.mark.parametrize(
    "attack", [LeastSquares(), InverseDct(), GradientIntegration(), BatchDifference(), UNetAttack()]
)
def test_attacks_must_be_prepared(attack):
    with pytest.raises(UsageError, match="prepare"):
        attack.recover(view_of(release_of(noise=False), blobs(9, 2)))
    assert attack.holds
    assert attack.title


def test_bad_attacks():
    with pytest.raises(UsageError, match="repeats"):
        LeastSquares(repeats=0)
    with pytest.raises(UsageError, match="dc must be"):
        InverseDct(dc="some")
    with pytest.raises(UsageError, match="releases none"):
        LeastSquares().prepare(Rgb((SIDE, SIDE)), public(), seed=0)
