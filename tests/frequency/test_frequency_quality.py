"""PSNR and SSIM against references, the judge's figures at their ends, and runs of attacks."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from faceblind import DataError  # noqa: E402
from faceblind.frequency.attacks.base import Public  # noqa: E402
from faceblind.frequency.attacks.judge import feature_similarity, reidentify  # noqa: E402
from faceblind.frequency.attacks.look import Look  # noqa: E402
from faceblind.frequency.attacks.run import run_attacks  # noqa: E402
from faceblind.frequency.attacks.targets import Targets  # noqa: E402
from faceblind.frequency.quality import constant_floor, over_people, psnr, ssim  # noqa: E402
from faceblind.frequency.releases.rgb import Rgb  # noqa: E402

SIDE = 16


def people(seed, count, each=4):
    rng = np.random.default_rng(seed)
    base = rng.uniform(30, 225, (count, 4, 4, 3)).repeat(4, 1).repeat(4, 2)
    images = base[:, None] + rng.normal(0, 12, (count, each, SIDE, SIDE, 3))
    names = np.repeat([f"{seed}-{i}" for i in range(count)], each)
    return np.clip(images, 0, 255).astype(np.uint8).reshape(-1, SIDE, SIDE, 3), names


def judge(images):
    """Sees the pattern of a person: block means about their average."""
    small = images.reshape(len(images), 4, 4, 4, 4, 3).mean(axis=(2, 4)).reshape(len(images), -1)
    centred = small - 127.5
    return (centred / np.linalg.norm(centred, axis=1, keepdims=True)).astype(np.float32)


def test_psnr_and_ssim_are_those_of_scikit_image():
    metrics = pytest.importorskip("skimage.metrics")
    a, _ = people(0, 3, 1)
    b = np.clip(a + np.random.default_rng(1).normal(0, 25, a.shape), 0, 255)
    for row in range(3):
        assert psnr(b, a)[row] == pytest.approx(
            metrics.peak_signal_noise_ratio(a[row].astype(float), b[row], data_range=255)
        )
        expected = metrics.structural_similarity(
            a[row].astype(float), b[row], data_range=255, channel_axis=2, gaussian_weights=True, sigma=1.5,
            use_sample_covariance=False,
        )  # fmt: skip
        assert ssim(b, a)[row] == pytest.approx(expected, abs=1e-6)
    assert psnr(a, a).tolist() == [100] * 3
    assert ssim(a, a) == pytest.approx(1)
    assert psnr(np.full((1, 2, 2, 3), 10.0), np.zeros((1, 2, 2, 3)))[0] == pytest.approx(20 * np.log10(25.5))


def test_means_are_over_people_and_intervals_draw_them():
    values = np.array([1.0, 1, 1, 1, 5])
    found = over_people(values, np.array(["a", "a", "a", "a", "b"]))
    assert found["mean"] == 3
    assert (found["low"], found["high"]) == (1, 5)
    with pytest.raises(DataError, match="at least two"):
        over_people(values, np.array(["a"] * 5))


def test_bad_pictures():
    a = np.zeros((1, 16, 16, 3))
    with pytest.raises(DataError, match="must both be"):
        psnr(a, a[:, :8])
    with pytest.raises(DataError, match="not finite"):
        psnr(a * np.nan, a)
    with pytest.raises(DataError, match="more than 10"):
        ssim(a[:, :8, :8], a[:, :8, :8])


def test_perfect_recovery_is_the_ceiling_and_noise_is_chance():
    images, names = people(3, 30)
    targets = Targets.draw(images, names, each=2)
    assert len(targets.pixels) == 60
    assert len(targets.gallery) == 60
    original, gallery = judge(targets.pixels), judge(targets.gallery)
    args = (gallery, targets.identity, targets.gallery_identity)
    perfect = reidentify(original, original, *args)
    assert perfect["tar"] == perfect["original"]["tar"] > 0.95
    assert perfect["null"]["tar"] < 0.1
    assert feature_similarity(original, original, targets.identity)["mean"] == pytest.approx(1)
    noise = judge(np.random.default_rng(0).integers(0, 256, targets.pixels.shape).astype(np.uint8))
    lost = reidentify(noise, original, *args)
    assert lost["tar"] < 0.1
    assert lost["original"]["tar"] == perfect["tar"]
    assert abs(feature_similarity(noise, original, targets.identity)["mean"]) < 0.2


def test_a_run_writes_the_record_and_goes_on_where_it_was(tmp_path):
    images, names = people(4, 8)
    public = Public(*people(5, 6))
    targets = Targets.draw(images, names, each=1)
    looks = []

    class Counting(Look):
        def recover(self, view):
            looks.append(len(view.released))
            return super().recover(view)

    def run(**options):
        return run_attacks(Rgb((SIDE, SIDE)), targets, public, [Counting()], tmp_path, judge=judge, batch=5, **options)

    found = run()
    assert looks == [5, 3]
    assert run() == found
    assert looks == [5, 3]
    run(seed=1)
    assert len(looks) == 4
    json.dumps(found, allow_nan=False)
    (attack,) = found["attacks"]
    assert attack["psnr"]["mean"] > 50
    assert attack["reid"]["tar"] == attack["reid"]["original"]["tar"]
    for path in (*attack["gallery"], *found["gallery"]["original"], *(p for p, _ in found["gallery"]["channels"])):
        assert (tmp_path / path).read_bytes()[:4] == b"\x89PNG"
    flat = constant_floor(public.pixels, targets.pixels)
    assert found["floor"]["psnr"] == over_people(psnr(flat, targets.pixels), targets.identity)
    assert (flat == public.pixels.mean(axis=(0, 1, 2))).all()


def test_targets_and_the_attackers_own_people_must_differ(tmp_path):
    images, names = people(4, 8)
    targets = Targets.draw(images, names)
    with pytest.raises(DataError, match="both the attacker's own and targets"):
        run_attacks(Rgb((SIDE, SIDE)), targets, Public(images, names), [Look()], tmp_path)
    with pytest.raises(DataError, match="at least two photographs"):
        Targets.draw(*people(1, 4, each=1))
