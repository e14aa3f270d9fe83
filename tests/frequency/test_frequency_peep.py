"""PEEP: eigenfaces against a singular value decomposition, noise against its distribution and its bound."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch")

from faceblind import DataError, UsageError  # noqa: E402
from faceblind.frequency.releases import peep as peep_module  # noqa: E402
from faceblind.frequency.releases.peep import Peep  # noqa: E402
from faceblind.frequency.releases.rgb import Rgb  # noqa: E402
from small_pixels import SIZE, batches, pixels, seeded  # noqa: E402


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
    assert made.account()["eps_max"] == pytest.approx(1.25)
    component = Peep(SIZE, eps=5.0, components=4, per="component")
    component.calibrate(batches())
    assert component.account()["eps_total"] == pytest.approx(20.0)


def test_peep_without_noise_to_speak_of_is_the_projection():
    made = Peep(SIZE, eps=1e12, components=6)
    made.calibrate(batches())
    inside = pixels(2)  # was calibrated on: nothing is clipped
    assert torch.allclose(made(inside, seeded()).tensor, made(inside, noise=False).tensor, atol=1e-5)
    double = made(inside.double(), noise=False).tensor
    assert double.dtype == torch.float32
    assert torch.allclose(double, made(inside, noise=False).tensor, atol=1e-5)


def test_peep_keeps_its_bound_for_any_two_faces():
    made = Peep(SIZE, eps=2.0, components=5)
    made.calibrate(batches())
    # Far from all calibration faces, along the eigenfaces, so that clipping has work to do.
    far = (made.mean + 40 * made.basis.sum(dim=0)).view(1, 3, *SIZE)
    faces = torch.cat([pixels(77, 20), (far + 1) * 127.5, (1 - far) * 127.5])
    raw = made._coefficients(faces)
    assert ((raw > made.high) | (raw < made.low)).any(dim=1)[-2:].all()
    # Without noise, but clipped: what the noise is added to.
    made.eps = 1e12
    centre = made._coefficients((made(faces, seeded()).tensor + 1) * 127.5).double()
    made.eps = 2.0
    assert (centre >= made.low - 1e-4).all()
    assert (centre <= made.high + 1e-4).all()
    scale = made.scale().double()
    released = made._coefficients((made(faces, seeded(4)).tensor + 1) * 127.5).double()
    density = -((released[:, None] - centre[None]).abs() / scale).sum(dim=2)  # log, of each release under each face
    ratio = density[:, :, None] - density[:, None, :]
    assert ratio.max() <= 2.0 + 1e-3
    assert ratio.max() > 1.0  # the bound is near


def test_peep_takes_an_even_sample_whatever_the_batches(monkeypatch):
    monkeypatch.setattr(peep_module, "MOST", 20)
    faces = pixels(3, 400)
    faces[200:] = 255 - faces[200:] // 8  # the second half of the people are bright
    people = [f"p{i // 4}" for i in range(400)]
    made = {}
    for size in (1, 7, 400):
        cut = [(faces[i : i + size], people[i : i + size]) for i in range(0, 400, size)]
        counted = []
        made[size] = Peep(SIZE, components=5)
        made[size].calibrate(lambda cut=cut: iter(cut), lambda done, of, counted=counted: counted.append(done))
        assert counted == sorted(counted[: len(cut)]) * 2
        assert counted[-1] == 400
        assert torch.equal(made[size].mean, made[1].mean)
        assert torch.equal(made[size].basis, made[1].basis)
        assert torch.allclose(made[size].high, made[1].high, atol=1e-4)
    dark, bright = (faces[half] / 127.5 - 1 for half in (slice(0, 200), slice(200, 400)))
    share = (made[1].mean.mean() - dark.mean()) / (bright.mean() - dark.mean())
    assert 0.2 < share < 0.8  # not the first faces alone
    again = Peep(SIZE, components=5)
    again.calibrate(lambda: iter([(faces, people)]))
    assert torch.equal(again.basis, made[400].basis)


def test_peep_of_few_or_equal_faces():
    made = Peep(SIZE, components=9)
    few = pixels(0, 4)
    twice = torch.cat([few, few])
    made.calibrate(lambda: iter([(twice, [str(i) for i in range(8)])]))
    gram = made.basis @ made.basis.T
    assert torch.allclose(gram, torch.diag(torch.tensor([1.0] * 3 + [0.0] * 6)), atol=1e-5)
    assert made.scale()[3:].abs().max() == 0
    assert made.account()["constant"] == 6
    assert torch.allclose(made(twice, noise=False).tensor, Rgb(SIZE)(twice).tensor, atol=1e-4)
    with pytest.raises(DataError, match="all 3 are the same"):
        Peep(SIZE).calibrate(lambda: iter([(few[:1].expand(3, -1, -1, -1), ["a", "b", "c"])]))
    with pytest.raises(DataError, match="at least two faces, got 1"):
        Peep(SIZE).calibrate(lambda: iter([(few[:2], ["a", "a"])]))
    with pytest.raises(UsageError, match="eigenfaces yet"):
        Peep(SIZE).account()
