"""Who the people are and how they are photographed: drawn apart, spread widely, and each from its own numbers."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest

from faceblind.faces.synthetic import SCENES, SyntheticPeople
from faceblind.faces.synthetic.identity import Identity, identity_of
from faceblind.faces.synthetic.scene import TEMPLATES
from faceblind.faces.synthetic.shot import Shot, shot_of

_PEOPLE, _SHOTS = 240, 6


@pytest.fixture(scope="module")
def crowd() -> list[Identity]:
    return [identity_of(0, person) for person in range(_PEOPLE)]


@pytest.fixture(scope="module")
def shots() -> list[list[Shot]]:
    return [[shot_of(0, person, shot) for shot in range(_SHOTS)] for person in range(_PEOPLE)]


def _numbers(item: object) -> dict[str, float]:
    return {k: v for k, v in vars(item).items() if isinstance(v, float)}


def test_a_person_is_the_same_in_every_shot_and_every_set():
    small, large = SyntheticPeople(5, 2), SyntheticPeople(900, 40, size=64)
    assert small.person(3) == large.person(3) == identity_of(0, 3)
    assert small.shot(3, 1) == large.shot(3, 1) == shot_of(0, 3, 1)


def test_shots_differ_in_every_number_that_is_not_clipped():
    first, second = _numbers(shot_of(0, 3, 0)), _numbers(shot_of(0, 3, 1))
    same = {name for name in first if first[name] == second[name]}
    assert same <= {"mouth_open", "eye_close", "brow_knit", "rim", "blur", "noise", "squint"}


def test_people_and_seeds_differ():
    assert len({identity_of(0, person) for person in range(300)}) == 300
    assert identity_of(0, 1) != identity_of(1, 0)
    assert shot_of(0, 1, 2) != shot_of(0, 2, 1)
    assert shot_of(1, 0, 2) != shot_of(0, 1, 2)


def test_shot_zero_shares_no_random_numbers_with_the_person():
    # A SeedSequence pads with zeros: [seed, person] and [seed, person, 0] would be one stream.
    drawn_for_person = identity_of(7, 4)
    drawn_for_shot = shot_of(7, 4, 0)
    assert drawn_for_person.skin_pattern not in {drawn_for_shot.scene_seed, drawn_for_shot.grain_seed}


def test_traits_are_spread_and_plausible(crowd):
    widths = np.array([who.jaw_width for who in crowd])
    assert 0.05 < widths.std() < 0.12
    tones = np.histogram([who.tone for who in crowd], bins=5, range=(0, 1))[0]
    assert tones.min() >= 0.08 * _PEOPLE
    for who in crowd:
        assert who.chin_width < who.jaw_width < who.cheek_width + 0.06
        assert who.eye_spacing > who.eye_width
        assert who.nose_length < who.mouth_height < who.chin_length - 0.2
        assert who.hairline < who.skull_height
        assert all(0 <= channel <= 1 for channel in (*who.skin, *who.lip_colour, *who.hair_light))


def test_every_style_occurs(crowd):
    assert len(Counter(who.hair_style for who in crowd)) == 17
    assert len(Counter(who.beard for who in crowd)) == 7
    assert 0.2 < np.mean([who.glasses != "none" for who in crowd]) < 0.45
    assert len({who.eye_colour for who in crowd}) == 9
    assert all(who.beard == "none" for who in crowd if who.hair_style in {"bob", "straight", "waves", "bun"})


def test_backgrounds_are_spread_evenly(shots):
    assert len(TEMPLATES) == SCENES
    counts = np.bincount([shot.background for row in shots for shot in row], minlength=SCENES)
    expected = _PEOPLE * _SHOTS / SCENES
    assert counts.size == SCENES
    assert np.abs(counts - expected).max() < 4.0 * np.sqrt(expected)


def test_backgrounds_do_not_depend_on_the_person(shots):
    table = np.array([[shot.background for shot in row] for row in shots])
    pairs = [(i, j) for i in range(_SHOTS) for j in range(i)]
    shared = np.mean([table[:, i] == table[:, j] for i, j in pairs])
    deviation = np.sqrt(1 / SCENES / (_PEOPLE * len(pairs)))
    assert abs(shared - 1 / SCENES) < 4 * deviation


def test_no_trait_tells_about_the_photograph(crowd, shots):
    traits = np.array([[v for _, v in sorted(_numbers(who).items())] for who in crowd])
    nuisance = np.array([np.mean([[v for _, v in sorted(_numbers(s).items())] for s in row], axis=0) for row in shots])
    a = (traits - traits.mean(0)) / (traits.std(0) + 1e-12)
    b = (nuisance - nuisance.mean(0)) / (nuisance.std(0) + 1e-12)
    correlation = a.T @ b / _PEOPLE
    # About 1600 correlations of independent numbers: the largest stays near 3.6 deviations.
    assert np.abs(correlation).max() < 4.7 / np.sqrt(_PEOPLE)


def test_traits_and_shots_are_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        identity_of(0, 0).age = 0.1  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        shot_of(0, 0, 0).yaw = 0.1  # type: ignore[misc]
