from __future__ import annotations

import colorsys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faceblind.faces.synthetic import palette
from faceblind.faces.synthetic.fields import (
    band,
    bell,
    box_blurred,
    edge,
    enlarged,
    hermite,
    noise,
    pooled,
    step,
    table,
)

_unit = st.floats(0.0, 1.0)


def _line(low: float, high: float, count: int = 101) -> np.ndarray:
    return np.linspace(low, high, count).astype(np.float32)


def test_step_rises_or_falls_between_its_ends():
    x = _line(-1, 2)
    up, down = step(0.0, 1.0, x), step(1.0, 0.0, x)
    assert up[0] == 0
    assert up[-1] == 1
    assert np.all(np.diff(up) >= 0)
    np.testing.assert_allclose(up + down, 1.0, atol=1e-6)
    assert step(0.0, 1.0, np.float32([0.5]))[0] == pytest.approx(0.5)


def test_edge_is_half_on_the_outline_and_linear_across_it():
    np.testing.assert_allclose(edge(np.float32([-9, -0.25, 0, 0.25, 9]), 1.0), [1, 0.75, 0.5, 0.25, 0])


def test_band_and_bell_peak_at_their_centre():
    x = _line(-1, 1)
    assert np.argmax(band(x, 0.4)) == 50
    assert np.all(band(x, 0.4)[np.abs(x) > 0.4] == 0)
    assert bell(np.float32([0.3]), np.float32([0.1]), (0.3, 0.1), (0.2, 0.2))[0] == pytest.approx(1.0)


def test_bell_of_a_row_and_a_column_equals_bell_of_their_grid():
    x, y = _line(-1, 1, 7)[None, :], _line(-1, 1, 5)[:, None]
    full_x, full_y = np.broadcast_arrays(x, y)
    whole = bell(full_x.copy(), full_y.copy(), (0.1, -0.2), (0.3, 0.5))
    np.testing.assert_allclose(bell(x, y, (0.1, -0.2), (0.3, 0.5)), whole, rtol=1e-5)


@given(st.lists(st.floats(-2.0, 2.0), min_size=3, max_size=8))
def test_hermite_passes_through_its_knots_and_never_overshoots(heights):
    knots = [(float(i), h) for i, h in enumerate(heights)]
    at_knots = hermite(knots, np.arange(len(heights)))
    np.testing.assert_allclose(at_knots, np.float32(heights), atol=1e-6)
    for i in range(len(heights) - 1):
        between = hermite(knots, np.linspace(i, i + 1, 17))
        assert between.min() >= min(heights[i : i + 2]) - 1e-5
        assert between.max() <= max(heights[i : i + 2]) + 1e-5
    assert hermite(knots, -5.0) == np.float32(heights[0])


def test_table_agrees_with_hermite():
    knots = [(0.0, 0.0), (0.4, 1.0), (1.0, -0.5), (2.0, 0.3)]
    x = _line(-0.5, 2.5, 301)
    np.testing.assert_allclose(table(knots, x), hermite(knots, x), atol=2e-3)


def test_noise_is_centred_smooth_and_repeats_every_64_units():
    x = _line(0, 64, 257)[None, :-1] + np.zeros((256, 1), np.float32)
    y = np.ascontiguousarray(x.T)
    values = noise(x, y)
    assert abs(values.mean()) < 0.01
    assert values.std() == pytest.approx(1.0, abs=0.02)
    steps = np.diff(values, axis=1)  # a quarter of a feature each
    assert steps.std() < 0.7
    assert np.diff(values[:, ::8], axis=1).std() > 1.2
    np.testing.assert_allclose(noise(x + 64.0, y - 128.0), values, atol=2e-2)


@pytest.mark.parametrize("factor", [1, 2, 3, 4])
def test_pooled_is_the_mean_of_blocks(factor):
    plane = np.random.default_rng(0).random((12, 24)).astype(np.float32)
    blocks = plane.reshape(12 // factor, factor, 24 // factor, factor).mean(axis=(1, 3))
    np.testing.assert_allclose(pooled(plane, factor), blocks, rtol=1e-5)


@pytest.mark.parametrize("factor", [2, 3])
def test_enlarged_reproduces_a_ramp_away_from_the_border(factor):
    fine = np.arange(12 * factor, dtype=np.float32)[:, None] + np.zeros(6 * factor, np.float32)
    again = enlarged(pooled(fine, factor), factor)
    np.testing.assert_allclose(again[factor:-factor], fine[factor:-factor], atol=1e-4)


@pytest.mark.parametrize("radius", [1, 3])
def test_box_blur_is_the_mean_of_the_neighbourhood(radius):
    plane = np.random.default_rng(1).random((15, 17)).astype(np.float32)
    padded = np.pad(plane, radius, mode="edge")
    width = 2 * radius + 1
    windows = np.lib.stride_tricks.sliding_window_view(padded, (width, width))
    np.testing.assert_allclose(box_blurred(plane, radius), windows.mean(axis=(2, 3)), rtol=1e-4)


@given(_unit, _unit, _unit)
def test_hsv_agrees_with_the_standard_library(hue, saturation, value):
    np.testing.assert_allclose(
        palette.hsv(hue, saturation, value), colorsys.hsv_to_rgb(hue, saturation, value), atol=1e-9
    )


@given(_unit, st.floats(-1, 1), st.floats(-1, 1))
def test_skin_is_a_warm_colour_that_darkens_with_its_tone(tone, warmth, redness):
    red, green, blue = palette.skin(tone, warmth, redness)
    assert 1.0 >= red > green > blue > 0.0
    assert sum(palette.skin(min(tone + 0.2, 1.0), warmth, redness)) <= red + green + blue + 1e-9
