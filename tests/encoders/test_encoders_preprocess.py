"""Preprocessing against torchvision's rules worked out by hand, and pooling against plain means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faceblind._errors import EncoderError, ImageError
from faceblind.encoders import PreprocessSpec
from faceblind.encoders.preprocess import Preprocessor, pool

pytest.importorskip("PIL")
from PIL import Image

IMAGE = np.random.default_rng(1).integers(0, 256, (30, 50, 3), dtype=np.uint8)
BYTES = {"resize": "none", "channels": "RGB", "layout": "NHWC", "dtype": "uint8"}
FLOATS = {"dtype": "float32", "scale": "1/255", "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}


def prepare(image: np.ndarray, **keys: Any) -> np.ndarray:
    out = Preprocessor(PreprocessSpec.parse(BYTES | keys))(image)
    assert out.flags.c_contiguous
    return out


def pillow(image: np.ndarray, size: tuple[int, int], method: Image.Resampling) -> np.ndarray:
    return np.asarray(Image.fromarray(image).resize(size, method))


def test_nothing_to_do() -> None:
    assert np.array_equal(prepare(IMAGE), IMAGE)


@pytest.mark.parametrize("name", ["bilinear", "bicubic", "lanczos"])
def test_squash_is_pillows_resize(name: str) -> None:
    out = prepare(IMAGE, resize="squash", size=[20, 24], interpolation=name)
    assert np.array_equal(out, pillow(IMAGE, (24, 20), Image.Resampling[name.upper()]))


def test_shortest_and_center_crop_as_torchvision() -> None:
    # Resize(25) makes 30x50 into 25x41 (41.67 is cut off), CenterCrop(20) starts at round(2.5) = 2 and round(10.5) = 10.
    out = prepare(IMAGE, resize="shortest", resize_size=25, crop="center", size=20, interpolation="bicubic")
    expected = pillow(IMAGE, (41, 25), Image.Resampling.BICUBIC)[2:22, 10:30]
    assert np.array_equal(out, expected)


def test_shortest_without_crop_keeps_the_shape() -> None:
    assert prepare(IMAGE, resize="shortest", size=15, interpolation="bilinear").shape == (15, 25, 3)


@given(st.tuples(st.integers(1, 40), st.integers(1, 40)), st.tuples(st.integers(1, 30), st.integers(1, 30)))
def test_shortest_covers_the_size_and_the_crop_always_fits(shape: tuple[int, int], size: tuple[int, int]) -> None:
    image = np.zeros((*shape, 3), dtype=np.uint8)
    keys = {"resize": "shortest", "size": list(size), "interpolation": "bilinear"}
    assert prepare(image, **keys, crop="center").shape == (*size, 3)
    height, width = prepare(image, **keys).shape[:2]
    assert height >= size[0]
    assert width >= size[1]
    assert height == size[0] or width == size[1]


def test_crop_of_a_small_photograph_is_an_image_error() -> None:
    with pytest.raises(ImageError, match="50x30 pixels is smaller than the encoder's crop of 32x40"):
        prepare(IMAGE, crop="center", size=[40, 32])
    assert np.array_equal(prepare(IMAGE, crop="center", size=[30, 50]), IMAGE)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_arithmetic(dtype: str) -> None:
    out = prepare(IMAGE, **(FLOATS | {"dtype": dtype}))
    expected = (IMAGE.astype(np.float64) / 255 - FLOATS["mean"]) / np.array(FLOATS["std"])
    assert out.dtype == dtype
    assert np.array_equal(out, expected.astype(dtype))


def test_channel_and_axis_order() -> None:
    means = {**FLOATS, "scale": 1, "mean": [1, 2, 3], "std": [1, 1, 1]}
    out = prepare(IMAGE, **means, layout="NCHW", channels="BGR")
    assert out.shape == (3, 30, 50)
    # mean is in the order of the channels: the first belongs to blue here
    assert np.array_equal(out[0], IMAGE[:, :, 2] - 1.0)
    assert np.array_equal(out[2], IMAGE[:, :, 0] - 3.0)


def spec(**keys: Any) -> PreprocessSpec:
    return PreprocessSpec.parse(BYTES | keys)


TOKENS = np.random.default_rng(2).normal(size=(2, 6, 4)).astype(np.float32)


def test_pooling() -> None:
    assert np.array_equal(pool(TOKENS[:, 0], spec()), TOKENS[:, 0])
    assert np.array_equal(pool(TOKENS, spec(pooling="cls")), TOKENS[:, 0])
    np.testing.assert_allclose(pool(TOKENS, spec(pooling="mean")), TOKENS.mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(pool(TOKENS, spec(pooling="patch mean")), TOKENS[:, 1:].mean(axis=1), rtol=1e-6)
    registers = pool(TOKENS, spec(pooling="patch mean", prefix_tokens=5))
    assert np.array_equal(registers, TOKENS[:, 5])
    maps = TOKENS.reshape(2, 2, 3, 4)
    np.testing.assert_allclose(pool(maps, spec(pooling="mean")), maps.mean(axis=(2, 3)), rtol=1e-6)
    assert pool(maps.astype(np.float16), spec(pooling="mean")).dtype == np.float32


def test_normalising() -> None:
    unit = pool(TOKENS, spec(pooling="cls", normalise=True))
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(unit * np.linalg.norm(TOKENS[:, 0], axis=1, keepdims=True), TOKENS[:, 0], atol=1e-6)
    odd = pool(np.array([[0, 0], [np.nan, 1], [np.inf, 1]], dtype=np.float32), spec(normalise=True))
    assert np.array_equal(odd[0], [0, 0])
    assert not np.isfinite(odd[1:]).all(axis=1).any()


@pytest.mark.parametrize(
    ("shape", "pooling", "fitting"),
    [
        ((1, 4), "cls", '"as output"'),
        ((1, 6, 4), "as output", '"cls", "mean" or "patch mean"'),
        ((1, 4, 2, 2), "cls", '"mean"'),
        ((1, 1, 4), "patch mean", '"cls", "mean" or "patch mean"'),
        ((4,), "as output", "none"),
    ],
)
def test_pooling_that_does_not_suit_the_output(shape: tuple[int, ...], pooling: str, fitting: str) -> None:
    with pytest.raises(EncoderError) as caught:
        pool(np.ones(shape, dtype=np.float32), spec(pooling=pooling))
    assert f"shape {list(shape)} does not suit 'pooling': \"{pooling}\" (fitting here: {fitting};" in str(caught.value)
