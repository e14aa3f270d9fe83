"""The pictures and their ground truth."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial import ConvexHull

from faceblind._errors import DataError
from faceblind.faces.synthetic import SCENES, Portrait, SyntheticPeople, contact_sheet
from faceblind.faces.synthetic.identity import Identity
from faceblind.faces.synthetic.render import render
from faceblind.faces.synthetic.shot import Shot

pytest.importorskip("PIL")


@pytest.fixture(scope="module")
def data() -> SyntheticPeople:
    return SyntheticPeople(24, 2, seed=1)


@pytest.fixture(scope="module")
def portraits(data) -> list[Portrait]:
    return list(data)


def _plain(data: SyntheticPeople, person: int, **changes: object) -> tuple[Identity, Shot]:
    """Return a person without spectacles and a calm shot without the camera's faults."""
    who = dataclasses.replace(data.person(person), glasses="none", hair_style="swept", beard="none")
    calm = {
        "yaw": 0.1,
        "pitch": 0.0,
        "eye_close": 0.0,
        "squint": 0.0,
        "gaze": (0.0, 0.0),
        "mouth_open": 0.0,
        "blur": 0.0,
        "noise": 0.0,
        "jpeg": 0,
    }
    return who, dataclasses.replace(data.shot(person, 0), **{**calm, **changes})


def _changed(
    who: Identity, shot: Shot, trait: dict[str, object], size: int = 256
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
    """Return where the picture changes with a trait, its mask and its landmarks."""
    before = render(who, shot, size)
    after = render(dataclasses.replace(who, **trait), shot, size)
    np.testing.assert_array_equal(before.mask, after.mask)
    change = np.abs(before.image.astype(int) - after.image.astype(int)).max(axis=2).astype(float)
    change[change < 8] = 0.0
    return change, before.mask, before.landmarks


def test_shapes_types_and_names(data, portraits):
    assert len(data) == 48
    for i, portrait in enumerate(portraits):
        person, shot = divmod(i, 2)
        assert portrait.image.shape == (256, 256, 3)
        assert portrait.image.dtype == np.uint8
        assert portrait.mask.shape == (256, 256)
        assert portrait.mask.dtype == np.bool_
        assert portrait.landmarks.shape == (5, 2)
        assert portrait.landmarks.dtype == np.float64
        assert portrait.identity == f"person-{person:04d}"
        assert portrait.sample == f"person-{person:04d}/{shot:02d}.png"
        assert 0 <= portrait.background < SCENES


def test_same_bytes_in_any_order_and_any_set(data, portraits):
    for i in (31, 4, 30, 5):
        again = data[i]
        alone = SyntheticPeople(500, 99, seed=1).portrait(i // 2, i % 2)
        for other in (again, alone):
            assert other.image.tobytes() == portraits[i].image.tobytes()
            assert other.mask.tobytes() == portraits[i].mask.tobytes()
            assert other.landmarks.tobytes() == portraits[i].landmarks.tobytes()


def test_indexing_follows_sequences(data, portraits):
    assert data[-1].sample == portraits[-1].sample == "person-0023/01.png"
    assert [p.sample for p in data[1:4]] == [p.sample for p in portraits[1:4]]
    with pytest.raises(IndexError, match="image 48 of a synthetic set of 48"):
        data[48]
    with pytest.raises(IndexError):
        data[-49]


def test_another_seed_gives_other_people(portraits):
    other = SyntheticPeople(24, 2, seed=2)[0]
    assert not np.array_equal(other.image, portraits[0].image)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"people": 0}, "people is 0"),
        ({"images_per_person": -1}, "images_per_person is -1"),
        ({"seed": -3}, "seed is -3"),
        ({"size": 20}, "size is 20.*64 to 1024"),
    ],
)
def test_numbers_out_of_range_are_named(arguments, message):
    with pytest.raises(DataError, match=message):
        SyntheticPeople(**arguments)


def test_pictures_are_not_trivial(portraits):
    for portrait in portraits:
        assert portrait.image.std() > 20
        assert 25 < portrait.image.mean() < 225
        colours = portrait.image.astype(np.int64) @ [1, 256, 65536]
        assert len(np.unique(colours)) > 4000
        # Neighbouring pixels agree: a drawing, not noise.
        rows = portrait.image.astype(float)
        assert np.abs(np.diff(rows, axis=1)).mean() < 0.25 * rows.std()
    assert len({portrait.image.tobytes() for portrait in portraits}) == len(portraits)


def test_masks_are_plausible_and_hold_the_landmarks(portraits):
    for portrait in portraits:
        assert 0.08 < portrait.mask.mean() < 0.45, portrait.sample
        rows, columns = np.nonzero(portrait.mask)
        hull = ConvexHull(np.stack([columns + 0.5, rows + 0.5], axis=1)).equations
        assert np.all(hull[:, :2] @ portrait.landmarks.T + hull[:, 2:] <= 0), portrait.sample
        left, right, nose, mouth_left, mouth_right = portrait.landmarks
        assert left[0] < right[0]
        assert mouth_left[0] < mouth_right[0]
        assert max(left[1], right[1]) < nose[1] < max(mouth_left[1], mouth_right[1])


def test_landmarks_need_no_rendering(data, portraits):
    np.testing.assert_array_equal(data.landmarks(3, 1), portraits[7].landmarks)


@pytest.mark.parametrize("person", [0, 5, 11])
def test_eye_landmarks_are_where_eye_colour_shows(data, person):
    who, shot = _plain(data, person)
    who = dataclasses.replace(who, eye_colour=(0.1, 0.2, 0.9))
    change, _, landmarks = _changed(who, shot, {"eye_colour": (0.9, 0.5, 0.1)})
    rows, columns = np.nonzero(change)
    assert rows.size > 40
    middle = landmarks[:2, 0].mean()
    for eye, side in zip(landmarks[:2], (columns < middle, columns >= middle), strict=True):
        centre = np.array([columns[side].mean() + 0.5, rows[side].mean() + 0.5])
        assert np.hypot(*(centre - eye)) < 3.0
        assert np.hypot(columns[side] + 0.5 - eye[0], rows[side] + 0.5 - eye[1]).max() < 12.0


@pytest.mark.parametrize("person", [1, 8])
def test_mouth_landmarks_are_the_ends_of_the_lips(data, person):
    who, shot = _plain(data, person, roll=0.0)
    change, _, landmarks = _changed(who, shot, {"lip_colour": (0.1, 0.9, 0.2)})
    rows, columns = np.nonzero(change)
    left, right = landmarks[3], landmarks[4]
    assert abs(columns.min() - left[0]) < 6
    assert abs(columns.max() - right[0]) < 6
    assert abs(rows.mean() - (left[1] + right[1]) / 2) < 8


@pytest.mark.parametrize("person", [2, 9])
def test_skin_colour_shows_all_over_the_mask(data, person):
    who, shot = _plain(data, person)
    change, mask, _ = _changed(who, shot, {"skin": (0.3, 0.8, 0.4)})
    assert (change[mask] > 0).mean() > 0.85
    # Ears and neck are skin, but not face.
    assert np.count_nonzero((change > 0) & ~mask) > 0.1 * mask.sum()


def test_hair_and_frames_are_left_out_of_the_mask(data):
    who, shot = _plain(data, 3)
    bare = render(who, shot, 256).mask
    fringe = render(dataclasses.replace(who, hair_style="fringe long", fringe=1.0), shot, 256).mask
    frames = render(dataclasses.replace(who, glasses="square"), shot, 256).mask
    assert fringe.sum() < 0.9 * bare.sum()
    assert 0.85 * bare.sum() < frames.sum() < 0.99 * bare.sum()
    assert not np.any(frames & ~bare)


def test_the_background_is_behind_the_face(data):
    who, shot = _plain(data, 4)
    here = render(who, dataclasses.replace(shot, background=4), 256)
    there = render(who, dataclasses.replace(shot, background=19), 256)
    change = np.abs(here.image.astype(int) - there.image.astype(int)).sum(axis=2)
    np.testing.assert_array_equal(here.mask, there.mask)
    assert change[here.mask].mean() < 0.25 * change[:40, :40].mean()


def test_other_sizes_show_the_same_picture(data):
    who, shot = _plain(data, 6)
    small, large = render(who, shot, 128), render(who, shot, 384)
    np.testing.assert_allclose(small.landmarks * 3, large.landmarks, atol=1e-6)
    assert small.mask.mean() == pytest.approx(large.mask.mean(), rel=0.05)
    assert small.image.mean() == pytest.approx(large.image.mean(), abs=6)


@pytest.mark.parametrize("size", [64, 97, 333, 1000])
def test_sizes_that_divide_by_nothing_work_too(size):
    portrait = SyntheticPeople(1, 1, size=size)[0]
    assert portrait.image.shape == (size, size, 3)
    assert 0.08 < portrait.mask.mean() < 0.45


@pytest.mark.parametrize("background", range(SCENES))
def test_every_background_is_drawn_and_varies(data, background):
    who, shot = _plain(data, 7, background=background)
    first = render(who, shot, 64).image
    second = render(who, dataclasses.replace(shot, scene_seed=shot.scene_seed + 1), 64).image
    assert not np.array_equal(first[:8], second[:8])


def test_a_contact_sheet_says_that_it_is_synthetic(portraits):
    sheet = contact_sheet(portraits[:5], 3)
    assert sheet.size == (3 * 256, 2 * 256 + 22)
    pixels = np.asarray(sheet)
    np.testing.assert_array_equal(pixels[256:512, :256], portraits[3].image)
    strip = pixels[512:]
    assert strip.min() < 120 < strip.max()
    assert contact_sheet(portraits[:1], 9).size == (256, 278)


def test_a_contact_sheet_names_what_it_cannot_lay_out(portraits):
    with pytest.raises(DataError, match="at least one portrait"):
        contact_sheet([], 3)
    with pytest.raises(DataError, match="columns is 0"):
        contact_sheet(portraits[:1], 0)
    with pytest.raises(DataError, match="different sizes"):
        contact_sheet([portraits[0], SyntheticPeople(1, 1, size=64)[0]], 2)


def _python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_does_not_load_pillow():
    assert _python("import sys, faceblind.faces.synthetic; print('PIL' in sys.modules)") == "False"


def test_without_pillow_it_says_what_to_install():
    code = (
        "import sys; sys.modules['PIL'] = None\n"
        "from faceblind.faces.synthetic import SyntheticPeople\n"
        "try:\n    SyntheticPeople(1, 1)[0]\nexcept Exception as error:\n    print(type(error).__name__, error)"
    )
    said = _python(code)
    assert said.startswith("MissingExtraError rendering synthetic people needs pillow")
    assert "faceblind[images]" in said
