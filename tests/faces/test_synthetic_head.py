"""The head's geometry against closed forms, and its landmarks against the picture."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faceblind.faces.synthetic.head import COLUMNS, DEPTH, ROWS, meet, pose_of, solid_of
from faceblind.faces.synthetic.identity import identity_of
from faceblind.faces.synthetic.render import landmarks_of
from faceblind.faces.synthetic.shot import Shot, shot_of

_SIZE = 256


def _shot(**changes: object) -> Shot:
    still = {"yaw": 0.0, "pitch": 0.0, "roll": 0.0, "scale": 0.24, "shift": (0.0, 0.0)}
    return dataclasses.replace(shot_of(0, 0, 0), **{**still, **changes})


_angles = st.floats(-0.4, 0.4)


@given(_angles, _angles, _angles)
def test_rays_are_the_inverse_of_the_view(yaw, pitch, roll):
    pose = pose_of(_shot(yaw=yaw, pitch=pitch, roll=roll), _SIZE)
    points = np.random.default_rng(0).normal(0, 1, (20, 3))
    seen = pose.view(points)
    start, direction = pose.ray(seen[:, 0].astype(np.float32), seen[:, 1].astype(np.float32))
    again = np.stack([s + d * seen[:, 2] for s, d in zip(start, direction, strict=True)], axis=1)
    np.testing.assert_allclose(again, points, atol=1e-5)
    np.testing.assert_allclose(pose.rotation @ pose.rotation.T, np.eye(3), atol=1e-12)


@pytest.mark.parametrize(("yaw", "pitch", "roll"), [(0, 0, 0), (0.4, 0, 0), (-0.3, 0.2, 0.1), (0.1, -0.25, -0.2)])
def test_rays_meet_a_smooth_head_where_algebra_says(yaw, pitch, roll):
    pose = pose_of(_shot(yaw=yaw, pitch=pitch, roll=roll), _SIZE)
    circle = [(0.0, 1.0), (1.0, 1.0), (np.pi, 1.0)]
    solid = solid_of(circle, np.zeros((ROWS, COLUMNS), np.float32))
    vx, vy = (g.ravel().astype(np.float32) for g in np.meshgrid(np.linspace(-1.5, 1.5, 61), np.linspace(-1.5, 1.5, 61)))
    hits = meet(solid, pose, vx, vy, np.full(vx.shape, 1.6, np.float32))

    # (A + B t) on the ellipsoid x^2 + (y - c)^2 + (z / DEPTH)^2 = 1 is a quadratic in t.
    start, direction = pose.ray(vx, vy)
    c = (0.0, -0.06, 0.0)
    axes = (1.0, 1.0, DEPTH)
    a = sum((d / r) ** 2 for d, r in zip(direction, axes, strict=True))
    b = sum((s - m) * d / r**2 for s, d, r, m in zip(start, direction, axes, c, strict=True))
    k = sum(((s - m) / r) ** 2 for s, r, m in zip(start, axes, c, strict=True)) - 1.0
    disc = b * b - a * k
    t = (-b + np.sqrt(np.maximum(disc, 0))) / a

    inside = disc[hits.index] > 0.02
    assert inside.sum() > 1000
    np.testing.assert_allclose(hits.depth[inside], t[hits.index][inside], atol=0.012)
    assert hits.coverage[inside].min() == 1.0
    missing = np.setdiff1d(np.arange(vx.size), hits.index[hits.coverage > 0])
    assert disc[missing].max() < 0.02
    normal = np.stack([(p - m) / r**2 for p, r, m in zip((hits.x, hits.y, hits.z), axes, c, strict=True)])
    normal = pose.rotation @ (normal / np.linalg.norm(normal, axis=0))
    assert (normal * hits.normal).sum(axis=0)[inside].min() > 0.99


def _marks(**changes: object) -> np.ndarray:
    return landmarks_of(identity_of(0, 1), _shot(**changes), _SIZE)


def test_a_frontal_face_is_symmetric_and_upright():
    left, right, nose, mouth_left, mouth_right = _marks()
    assert left[0] < nose[0] < right[0]
    assert left[1] == pytest.approx(right[1])
    assert left[1] < nose[1] < mouth_left[1]
    assert nose[0] == pytest.approx((left[0] + right[0]) / 2)
    assert mouth_left[0] + mouth_right[0] == pytest.approx(2 * nose[0])


@pytest.mark.parametrize("yaw", [-0.4, -0.2, 0.2, 0.4])
def test_turning_moves_the_nose_further_than_the_eyes_and_shortens_the_far_side(yaw):
    left, right, nose, *_ = _marks(yaw=yaw)
    front = _marks()
    assert np.sign(nose[0] - (left[0] + right[0]) / 2) == np.sign(yaw)
    near, far = (nose[0] - left[0], right[0] - nose[0]) if yaw > 0 else (right[0] - nose[0], nose[0] - left[0])
    assert far < near
    assert right[0] - left[0] < front[1, 0] - front[0, 0]


def test_looking_down_moves_the_nose_towards_the_mouth():
    down, up = _marks(pitch=0.25), _marks(pitch=-0.25)

    def share(m: np.ndarray) -> float:
        return float((m[2, 1] - m[:2, 1].mean()) / (m[3:, 1].mean() - m[:2, 1].mean()))

    assert share(down) > share(up) + 0.1


@given(st.floats(-0.2, 0.2))
def test_rolling_turns_the_line_of_the_eyes_by_the_same_angle(roll):
    left, right, *_ = _marks(roll=roll)
    assert np.arctan2(right[1] - left[1], right[0] - left[0]) == pytest.approx(roll, abs=1e-9)


def test_scale_and_shift_act_on_all_landmarks():
    base, larger, moved = _marks(), _marks(scale=0.27), _marks(shift=(0.05, -0.02))
    np.testing.assert_allclose(np.diff(larger, axis=0), np.diff(base, axis=0) * (0.27 / 0.24), rtol=1e-9)
    np.testing.assert_allclose(moved - base, np.tile([0.05 * _SIZE, -0.02 * _SIZE], (5, 1)), rtol=1e-9)


def test_expressions_move_the_mouth():
    calm = _marks(smile=0.0, mouth_open=0.0)
    smiling = _marks(smile=1.0, mouth_open=0.0)
    assert smiling[4, 0] - smiling[3, 0] > calm[4, 0] - calm[3, 0] + 1
    assert smiling[3, 1] < calm[3, 1] - 2
    np.testing.assert_allclose(smiling[:2], calm[:2], atol=0.5)
