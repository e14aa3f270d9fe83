"""Encoders run by torch: batches, threads, shapes and failures; SSCD's TorchScript."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hub_checkpoints import IMAGENET_MEAN, IMAGENET_STD, photo

from faceblind._errors import EncoderError, UsageError
from faceblind.encoders import PreprocessSpec, TorchEncoder, open_encoder
from faceblind.encoders.device import choose_device, running

torch = pytest.importorskip("torch")
pytest.importorskip("PIL")

KEYS = {"channels": "RGB", "layout": "NCHW", "dtype": "float32", "scale": "1/255", "mean": [0.5] * 3, "std": [0.5] * 3}
SQUARE = PreprocessSpec.parse(KEYS | {"size": 32, "resize": "squash", "interpolation": "bilinear"})
FREE = PreprocessSpec.parse(KEYS | {"resize": "none"})
PHOTOS = [photo(40 + i, 50, seed=i) for i in range(7)]


def network(width: int = 48) -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, width, 8, 8),
        torch.nn.GELU(),
        torch.nn.Conv2d(width, width, 1),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(width, 24),
    ).eval()


def encoder(net: Any = None, spec: PreprocessSpec = SQUARE, **options: Any) -> TorchEncoder:
    facts = {"name": "test", "weights_sha256": "0" * 64, "pooling": "mean"}
    return TorchEncoder(network() if net is None else net, spec, **facts, **options)


def test_numbers_are_the_networks() -> None:
    net = network()
    made = encoder(net)
    with torch.no_grad():
        expected = [net(torch.from_numpy(made.prepare(each))[None])[0].numpy() for each in PHOTOS]
    vectors = made.embed(PHOTOS)
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert made.embed([]).shape == made.run([]).shape == (0, 24)


def test_a_vector_agrees_between_batches() -> None:
    made = encoder()
    whole = made.embed(PHOTOS)
    for rows in ([0], [3, 2], [6, 5, 4, 3, 2, 1, 0]):
        part = made.embed([PHOTOS[row] for row in rows])
        np.testing.assert_allclose(part, whole[rows], rtol=0, atol=1e-6 * np.linalg.norm(whole, axis=1).max())
    assert np.array_equal(made.embed(PHOTOS), whole)  # the same batch again: the same bits, whatever lay in the buffer


def test_results_do_not_share_memory_with_the_next_batch() -> None:
    class Channels(torch.nn.Module):
        def forward(self, batch: Any) -> Any:
            return batch[:, :, 0, 0]

    made = encoder(Channels())
    first = made.embed(PHOTOS[:2])
    kept = first.copy()
    made.embed(PHOTOS[2:4])
    assert np.array_equal(first, kept)


def test_photographs_of_different_shapes() -> None:
    made = encoder(spec=FREE)
    photos = [photo(32, 40), photo(40, 32), photo(32, 40, seed=1), photo(64, 64)]
    alone = np.concatenate([made.embed([each]) for each in photos])
    np.testing.assert_allclose(made.embed(photos), alone, atol=1e-6)


def test_several_threads_may_prepare_and_run() -> None:
    made = encoder()
    whole = made.embed(PHOTOS)
    with ThreadPoolExecutor(4) as pool:
        for vectors in pool.map(lambda _: made.embed(PHOTOS), range(12)):
            assert np.array_equal(vectors, whole)


def test_threads_are_set_for_its_own_calls_only() -> None:
    seen = []

    class Watch(torch.nn.Module):
        def forward(self, batch: Any) -> Any:
            seen.append((torch.get_num_threads(), torch.is_inference_mode_enabled()))
            return batch.mean((2, 3))

    before = torch.get_num_threads()
    made = encoder(Watch(), threads=before + 1)
    made.embed(PHOTOS[:1])
    assert seen == [(before + 1, True)] * 2
    assert torch.get_num_threads() == before
    with pytest.raises(RuntimeError), running(torch, torch.device("cpu"), before + 2):
        raise RuntimeError
    assert torch.get_num_threads() == before
    assert not torch.is_inference_mode_enabled()


class _Fails(torch.nn.Module):
    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error

    def forward(self, batch: Any) -> Any:
        if self.error is not None:
            raise self.error
        return batch


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (
            _Fails(RuntimeError("sizes\ndo not match")),
            r"test failed on an input of shape \[1, 3, 32, 32\]: sizes do not m",
        ),
        (_Fails(), r"gave an output of shape \[1, 3, 32, 32\], not one vector per image"),
        (_Fails(torch.OutOfMemoryError("x")), "out of memory on cpu with 1 photographs .* smaller --batch-size"),
    ],
)
def test_networks_that_fail_are_found_out_when_opened(net: Any, message: str) -> None:
    with pytest.raises(EncoderError, match=message):
        encoder(net)


def test_an_encoder_of_ones_own_is_not_pickled_by_recipe() -> None:
    with pytest.raises(TypeError, match="pickle"):  # it holds a lock; only what a name opens can be opened again
        pickle.dumps(encoder())


def test_devices_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("", "CPU", "cuda:", "cuda:x", "mps", "cpu:0"):
        with pytest.raises(UsageError, match="device must be cpu, cuda or cuda:N"):
            choose_device(torch, name, "float32")
    assert choose_device(torch, "cpu", "bfloat16") == (torch.device("cpu"), torch.bfloat16)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device(torch, "cuda", "float16") == (torch.device("cuda:0"), torch.float16)
    assert choose_device(torch, "cuda:1", "float32") == (torch.device("cuda:1"), torch.float32)
    with pytest.raises(EncoderError, match=r"'cuda:2' is not there: torch finds 2 GPU.s., cuda:0 to cuda:1"):
        choose_device(torch, "cuda:2", "float32")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(EncoderError, match="torch finds no GPU: check the driver and CUDA_VISIBLE_DEVICES"):
        choose_device(torch, "cuda", "float32")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_vectors() -> None:
    cpu = encoder().embed(PHOTOS)
    gpu = encoder(network().cuda(), device="cuda").embed(PHOTOS)
    np.testing.assert_allclose(gpu, cpu, atol=1e-4)


class _Small(torch.nn.Module):
    """A descriptor as SSCD's: convolutions, generalised mean, projection, unit length."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 7, 4), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Conv2d(8, 16, 3, 2)
        )
        self.project = torch.nn.Linear(16, 512)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.convolutions(x).clamp(min=1e-6).pow(3.0).mean((2, 3)).pow(1.0 / 3.0)
        return torch.nn.functional.normalize(self.project(x))


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    torch.manual_seed(1)
    module = _Small().eval()
    path = tmp_path_factory.mktemp("sscd") / "sscd_disc_mixup.torchscript.pt"
    with pytest.warns(DeprecationWarning, match="torch.jit"):  # how SSCD was released
        torch.jit.script(module).save(str(path))
    return path, module


def as_released(image: np.ndarray) -> Any:
    """Apply small_288: the shorter side to 288 (bilinear), keep the shape, ImageNet's mean and deviation."""
    from PIL import Image

    height, width = image.shape[:2]
    size = (288, int(288 * height / width)) if width <= height else (int(288 * width / height), 288)
    resized = np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BILINEAR)) / 255
    return torch.from_numpy((resized - IMAGENET_MEAN) / IMAGENET_STD).permute(2, 0, 1)[None].float()


def test_sscd(scripted: tuple[Path, Any]) -> None:
    path, module = scripted
    made = open_encoder("sscd-disc-mixup", weights=path)
    photos = [photo(300, 261), photo(261, 300), photo(97, 350), photo(300, 261, seed=1)]
    vectors = made.embed(photos)
    with torch.no_grad():
        expected = np.concatenate([module(as_released(each)).numpy() for each in photos])
    np.testing.assert_allclose(vectors, expected, atol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert made.fingerprint.encoder == "sscd-disc-mixup"
    assert made.fingerprint.pooling == "GeM, projected, l2-normalised in network"
    assert np.array_equal(pickle.loads(pickle.dumps(made)).embed(photos), vectors)
    half = open_encoder("sscd-disc-mixup", weights=path, precision="bfloat16").embed(photos)
    assert (half * vectors).sum(axis=1).min() > 0.99


def test_sscd_weights_that_are_not_there_or_damaged(scripted: tuple[Path, Any], tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"weights of 'sscd-disc-mixup' are yours to get: download sscd_disc_mixup"):
        open_encoder("sscd-disc-mixup")
    with pytest.raises(EncoderError, match=r"no such file of weights: .*gone.pt; download sscd_disc_mixup"):
        open_encoder("sscd-disc-mixup", weights=tmp_path / "gone.pt")
    whole = scripted[0].read_bytes()
    for data in (b"", b"text", whole[: len(whole) // 2]):
        (tmp_path / "cut.pt").write_bytes(data)
        with pytest.raises(EncoderError, match=r"cut.pt is not a whole TorchScript file .*: download") as info:
            open_encoder("sscd-disc-mixup", weights=tmp_path / "cut.pt")
        assert "\n" not in str(info.value)
    with pytest.raises(UsageError, match="encoder 'sscd' takes no weights"):
        open_encoder("sscd", weights=tmp_path / "cut.pt")
    with pytest.raises(UsageError, match=r"encoder 'sscd-distilled' takes no precision .got bfloat16.: leave it out"):
        open_encoder("sscd-distilled", precision="bfloat16")
