"""The similarity transform against scikit-image and against itself; chips of pictures whose every pixel is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faceblind._errors import DataError, ImageError
from faceblind.faces.align import CHIP, TEMPLATE, align, chip_transform, similarity, warp

pytest.importorskip("PIL")

angles = st.floats(-math.pi, math.pi)
scales = st.floats(0.05, 20)
shifts = st.tuples(st.floats(-500, 500), st.floats(-500, 500))
seeds = st.integers(0, 2**32 - 1)


def transform_of(angle, scale, shift, *, mirrored=False):
    c, s = scale * math.cos(angle), scale * math.sin(angle)
    matrix = np.array([[c, -s], [s, c]]) @ (np.diag([-1.0, 1.0]) if mirrored else np.eye(2))
    return np.column_stack([matrix, shift])


def moved(points, transform):
    return points @ transform[:, :2].T + transform[:, 2]


@given(angles, scales, shifts, st.integers(2, 7), seeds)
def test_a_known_similarity_is_recovered(angle, scale, shift, n, seed):
    points = np.random.default_rng(seed).normal(scale=40, size=(n, 2))
    known = transform_of(angle, scale, shift)
    np.testing.assert_allclose(similarity(points, moved(points, known)), known, atol=1e-6, rtol=1e-9)


@given(angles, scales, shifts, seeds)
def test_a_mirror_image_is_recovered_only_when_allowed(angle, scale, shift, seed):
    points = np.random.default_rng(seed).normal(scale=40, size=(5, 2))
    known = transform_of(angle, scale, shift, mirrored=True)
    target = moved(points, known)
    np.testing.assert_allclose(similarity(points, target, reflection=True), known, atol=1e-6, rtol=1e-9)
    assert np.linalg.det(similarity(points, target)[:, :2]) > 0


@given(seeds, st.booleans())
def test_it_is_what_scikit_image_finds(seed, noisy):
    transform = pytest.importorskip("skimage.transform")
    rng = np.random.default_rng(seed)
    source = rng.normal(100, 40, size=(5, 2))
    target = rng.normal(60, 20, size=(5, 2)) if noisy else TEMPLATE + rng.normal(0, 3, size=(5, 2))
    theirs = transform.SimilarityTransform.from_estimate(source, target).params
    np.testing.assert_allclose(similarity(source, target), theirs[:2], atol=1e-8)


@given(seeds, angles, st.floats(0.9, 1.1), shifts)
def test_no_similarity_nearby_fits_better(seed, angle, scale, shift):
    rng = np.random.default_rng(seed)
    source, target = rng.normal(0, 30, size=(5, 2)), rng.normal(0, 30, size=(5, 2))
    best = similarity(source, target)
    step = transform_of(angle * 0.01, scale, np.array(shift) * 1e-3)
    other = moved(moved(source, best), step)
    assert ((moved(source, best) - target) ** 2).sum() <= ((other - target) ** 2).sum() + 1e-9


@given(angles, scales, shifts)
def test_turning_the_photograph_turns_the_transform(angle, scale, shift):
    points = TEMPLATE + np.array([[1, 2], [-2, 1], [0, 3], [2, -1], [-1, -2]])
    known = transform_of(angle, scale, shift)
    chained = chip_transform(moved(points, known))
    np.testing.assert_allclose(moved(moved(points, known), chained), moved(points, chip_transform(points)), atol=1e-7)


@given(st.lists(st.floats(-50, 50), min_size=2, max_size=6, unique=True), angles)
def test_points_on_one_line_fix_a_turn(along, angle):
    along = np.array(along)
    if np.ptp(along) < 1e-3:
        return
    known = transform_of(angle, 2.0, (3.0, 4.0))
    line = np.column_stack([along, 0.5 * along])
    np.testing.assert_allclose(similarity(line, moved(line, known)), known, atol=1e-5)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ([[1, 2], [1, 2], [1, 2]], [[0, 0], [1, 0], [0, 1]], "they coincide"),
        ([[0, 0], [1, 0], [0, 1]], [[7, 7], [7, 7], [7, 7]], "they coincide"),
        ([[1, 0], [-1, 0], [0, 1], [0, -1]], [[1, 0], [-1, 0], [0, -1], [0, 1]], "mirror image, turned every way"),
        ([[0, 0]], [[1, 1]], "at least 2 points, got 1"),
        ([[0, 0], [1, 1]], [[0, 0], [1, 1], [2, 2]], "source has 2 points and target 3"),
        ([[0, 0], [1, np.nan]], [[0, 0], [1, 1]], "source: point 1 is not finite"),
        ([[0, 0], [1, 1]], [[np.inf, 0], [1, 1]], "target: point 0 is not finite"),
        ([[0, 0, 0], [1, 1, 1]], [[0, 0], [1, 1]], r"got the shape \(2, 3\)"),
        ("no points", [[0, 0], [1, 1]], "source must be"),
    ],
)
def test_points_that_fix_nothing_are_refused(source, target, message):
    with pytest.raises(DataError, match=message):
        similarity(source, target)


def test_mirrored_points_are_refused_and_named():
    with pytest.raises(ImageError, match=r"mirrored.*eyes at \(73.5, 51.5\) and \(38.3, 51.7\)"):
        chip_transform(TEMPLATE[[1, 0, 2, 4, 3]])
    assert chip_transform(TEMPLATE) == pytest.approx(np.eye(3)[:2])


@given(angles, scales, shifts)
def test_a_turned_face_is_not_taken_for_a_mirrored_one(angle, scale, shift):
    chip_transform(moved(TEMPLATE, transform_of(angle, scale, shift)))
    with pytest.raises(ImageError, match="mirrored"):
        chip_transform(moved(TEMPLATE, transform_of(angle, scale, shift, mirrored=True)))


def test_five_points_in_one_place_are_no_face():
    with pytest.raises(ImageError, match=r"lie in one place, near \(50.0, 60.0\)"):
        chip_transform([[50, 60]] * 5)
    with pytest.raises(DataError, match=r"a face has 5 points .*got 4"):
        chip_transform(TEMPLATE[:4])


def test_a_larger_chip_shows_the_same():
    points = TEMPLATE * 2.5 + 10
    # Pixel centres: (x + 0.5) of the small chip is (x + 0.5) * 2 of the large one.
    small, large = moved(points, chip_transform(points)), moved(points, chip_transform(points, size=224))
    np.testing.assert_allclose((small + 0.5) * 2 - 0.5, large, atol=1e-9)


# Pictures whose every pixel is known


def gradient(height, width):
    """Red is x, green is y: a picture that says where each of its pixels is."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x, y, np.full_like(x, 7)], axis=2).astype(np.uint8)


def source_of(transform, size):
    """(size, size, 2): where in the photograph each pixel of the chip lies."""
    y, x = np.mgrid[:size, :size]
    whole = np.linalg.inv(np.vstack([transform, [0, 0, 1]]))
    return np.stack([x, y], axis=2) @ whole[:2, :2].T + whole[:2, 2]


@given(st.floats(-0.9, 0.9), st.floats(0.6, 3), st.sampled_from(["bilinear", "bicubic"]), st.sampled_from([64, 112]))
def test_every_pixel_comes_from_where_the_transform_says(angle, scale, interpolation, size):
    image = gradient(200, 240)
    centre = np.array([(size - 1) / 2] * 2)
    shift = centre - transform_of(angle, scale, (0, 0))[:, :2] @ np.array([119.5, 99.5])
    transform = transform_of(angle, scale, shift)
    chip = warp(image, transform, size=size, interpolation=interpolation)
    at = source_of(transform, size)
    inside = (at >= 2).all(axis=2) & (at[..., 0] <= 237) & (at[..., 1] <= 197)
    assert inside.mean() > 0.4
    assert np.abs(chip[..., :2] - at)[inside].max() <= 0.51  # rounding
    assert (chip[inside][:, 2] == 7).all()


@given(st.floats(-0.9, 0.9), st.sampled_from([0.4, 0.34, 0.26, 0.2]))
def test_shrinking_averages_and_moves_nothing(angle, scale):
    size = 40
    shift = np.array([19.5, 19.5]) - transform_of(angle, scale, (0, 0))[:, :2] @ np.array([119.5, 119.5])
    transform = transform_of(angle, scale, shift)
    stripes = gradient(240, 240)
    stripes[:, ::2, 2], stripes[:, 1::2, 2] = 0, 200
    chip = warp(stripes, transform, size=size)
    at = source_of(transform, size)
    inside = (at >= 12).all(axis=2) & (at <= 227).all(axis=2)
    assert np.abs(chip[..., :2] - at)[inside].max() <= 1.5
    spread = {0.4: 0, 0.34: 0, 0.26: 34, 0.2: 21}[scale]  # blocks of 2, 2, 3 and 5 pixels
    assert np.abs(chip[inside][:, 2].astype(int) - 100).max() <= spread


def test_the_identity_gives_the_picture_back_and_outside_is_black():
    image = np.random.default_rng(0).integers(1, 256, size=(CHIP, CHIP, 3), dtype=np.uint8)
    np.testing.assert_array_equal(align(image, TEMPLATE), image)
    small = warp(image[:50, :60], np.eye(3)[:2])
    np.testing.assert_array_equal(small[:50, :60], image[:50, :60])
    assert not small[51:].any()
    assert not small[:, 61:].any()


def test_whole_pixel_shifts_and_quarter_turns_are_exact():
    image = np.random.default_rng(1).integers(0, 256, size=(CHIP, CHIP, 3), dtype=np.uint8)
    shifted = warp(image, np.array([[1.0, 0, 5], [0, 1.0, -3]]))
    np.testing.assert_array_equal(shifted[: CHIP - 3, 5:], image[3:, : CHIP - 5])
    turned = warp(image, np.array([[0.0, -1, CHIP - 1], [1, 0, 0]]))
    np.testing.assert_array_equal(turned, np.rot90(image, -1))


@pytest.mark.parametrize(
    ("image", "transform", "options", "message"),
    [
        (np.zeros((9, 9), np.uint8), np.eye(3)[:2], {}, r"uint8, got uint8 of shape \(9, 9\)"),
        (np.zeros((9, 9, 3)), np.eye(3)[:2], {}, "got float64"),
        (np.zeros((0, 9, 3), np.uint8), np.eye(3)[:2], {}, "must be"),
        (np.zeros((9, 9, 3), np.uint8), np.eye(3), {}, r"got shape \(3, 3\)"),
        (np.zeros((9, 9, 3), np.uint8), np.zeros((2, 3)), {}, "cannot be undone"),
        (np.zeros((9, 9, 3), np.uint8), np.eye(3)[:2], {"interpolation": "nearest"}, "one of bilinear, bicubic"),
        (np.zeros((9, 9, 3), np.uint8), np.eye(3)[:2], {"size": 0}, "at least 1 pixel"),
    ],
)
def test_what_cannot_be_warped_is_refused(image, transform, options, message):
    with pytest.raises(DataError, match=message):
        warp(image, transform, **options)
