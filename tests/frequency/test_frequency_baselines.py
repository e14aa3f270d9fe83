"""Baselines on the one interface: what each of them must and must not let through."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch")

from faceblind import DataError, UsageError  # noqa: E402
from faceblind.frequency.releases.cloak import Cloak  # noqa: E402
from faceblind.frequency.releases.instahide import InstaHide  # noqa: E402
from faceblind.frequency.releases.peep import Peep  # noqa: E402
from faceblind.frequency.releases.registry import KINDS, PRESETS, open_release, preset  # noqa: E402
from faceblind.frequency.releases.rgb import Rgb  # noqa: E402

SIZE = (8, 8)


def pixels(seed=0, count=12):
    return torch.randint(0, 256, (count, 3, *SIZE), generator=torch.Generator().manual_seed(seed)).float()


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def batches(count=5):
    return lambda: iter([(pixels(k), [f"p{i // 2}" for i in range(12)]) for k in range(count)])


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
    signs = torch.sign(a.tensor / b.tensor)
    assert abs(signs.mean()) < 0.1
    alone = InstaHide(SIZE, k=1, signs=False)
    assert torch.allclose(alone(pixels()).tensor, pixels() / 127.5 - 1)


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
    assert gradient[0, 1, 2].item() == pytest.approx(((up - down) / 2e-4).item(), rel=2e-2)
    louder = Cloak(SIZE)
    with torch.no_grad():
        louder.rho.add_(1)
    assert louder.penalty() < Cloak(SIZE).penalty()
    assert louder.sigma().max() < louder.largest


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


def test_peep_projects_on_eigenfaces():
    made = Peep(SIZE, eps=5.0, components=6)
    made.calibrate(batches())
    assert torch.allclose(made.basis @ made.basis.T, torch.eye(6), atol=1e-4)
    # Every second image of each person, in order: the oracle is a singular value decomposition of them.
    rows, seen = [], {}
    for images, people in batches()():
        for image, person in zip(images, people, strict=True):
            seen[person] = seen.get(person, 0) + 1
            if seen[person] % 2:
                rows.append((image / 127.5 - 1).flatten().double().numpy())
    matrix = np.array(rows)
    _, _, vt = np.linalg.svd(matrix - matrix.mean(axis=0), full_matrices=False)
    projector = vt[:6].T @ vt[:6]
    centred = (pixels(9) / 127.5 - 1).flatten(1).numpy() - matrix.mean(axis=0)
    expected = matrix.mean(axis=0) + centred @ projector
    np.testing.assert_allclose(made(pixels(9), noise=False).tensor.flatten(1).numpy(), expected, atol=1e-4)


def test_peep_noise_has_its_scale_and_calibration_streams():
    made = Peep(SIZE, eps=5.0, components=4)
    made.calibrate(batches())
    one = Peep(SIZE, eps=5.0, components=4)
    flat = [(p[None], [i]) for images, people in batches()() for p, i in zip(images, people, strict=True)]
    one.calibrate(lambda: iter(flat))
    assert torch.allclose(made.scale(), one.scale(), rtol=1e-3)
    faces = pixels(1)[:1].expand(3000, -1, -1, -1)
    released = made(faces, seeded(1)).tensor.flatten(1)
    noise = (released - made.mean) @ made.basis.T
    noise -= torch.clamp((faces[:1] / 127.5 - 1).flatten(1).sub(made.mean) @ made.basis.T, made.low, made.high)
    for k in range(4):
        scale = made.scale()[k].item()
        assert scale == pytest.approx((made.high[k] - made.low[k]).item() * 4 / 5.0, rel=1e-5)
        assert stats.kstest(noise[:, k].numpy(), stats.laplace(scale=scale).cdf).pvalue > 1e-3
    assert made.account()["eps_total"] == pytest.approx(5.0)
    component = Peep(SIZE, eps=5.0, components=4, per="component")
    component.calibrate(batches())
    assert component.account()["eps_total"] == pytest.approx(20.0)


def test_bad_releases():
    assert set(KINDS) == {"dctdp", "rgb", "peep", "cloak", "instahide"}
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
    ]:
        with pytest.raises(UsageError):
            open_release(kind, SIZE, config)
