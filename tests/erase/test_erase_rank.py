from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faceblind._errors import RankError
from faceblind.erase import RankChoice, smallest_rank
from faceblind.measure import parse_condition

TARGET = parse_condition("TAR@FAR(1e-4) <= 5%")


def from_curve(curve: dict[int, tuple[float, float, float]]):
    asked = []

    def bounds(rank: int) -> tuple[float, float, float]:
        asked.append(rank)
        return curve[rank]

    return bounds, asked


def test_the_first_rank_whose_upper_bound_meets_the_target_wins():
    curve = {
        8: (0.30, 0.2, 0.4),
        16: (0.04, 0.03, 0.051),  # the point is under the target, but the data cannot show it
        32: (0.03, 0.02, 0.05),
        64: (0.01, 0.0, 0.02),
    }
    bounds, asked = from_curve(curve)
    rank, tried = smallest_rank([8, 16, 32, 64], bounds, TARGET)
    assert rank == 32
    assert asked == [8, 16, 32]  # nothing beyond is looked at
    assert tried == {r: curve[r] for r in (8, 16, 32)}


def test_leakage_that_rises_again_does_not_matter():
    curve = {1: (0.9, 0.8, 1.0), 2: (0.01, 0.0, 0.04), 3: (0.5, 0.4, 0.6), 4: (0.0, 0.0, 0.01)}
    assert smallest_rank([1, 2, 3, 4], from_curve(curve)[0], TARGET)[0] == 2
    assert smallest_rank([1, 3, 4], from_curve(curve)[0], TARGET)[0] == 4


def test_a_strict_target_is_not_met_by_equality():
    strict = parse_condition("TAR@FAR(1e-4) < 5%")
    curve = {1: (0.04, 0.03, 0.05), 2: (0.04, 0.03, 0.0499)}
    assert smallest_rank([1, 2], from_curve(curve)[0], TARGET)[0] == 1
    assert smallest_rank([1, 2], from_curve(curve)[0], strict)[0] == 2


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_every_rank_below_the_chosen_one_failed(highs):
    curve = {i + 1: (high, 0.0, high) for i, high in enumerate(highs)}
    bounds, _ = from_curve(curve)
    if min(highs) > 0.05:
        with pytest.raises(RankError):
            smallest_rank(list(curve), bounds, TARGET)
    else:
        rank, _ = smallest_rank(list(curve), bounds, TARGET)
        assert highs[rank - 1] <= 0.05
        assert all(high > 0.05 for high in highs[: rank - 1])


def test_when_no_rank_meets_it_the_message_shows_the_curve_and_what_would_help():
    curve = {8: (0.30, 0.2, 0.4), 128: (0.10, 0.05, 0.152)}
    with pytest.raises(RankError) as caught:
        smallest_rank([8, 128], from_curve(curve)[0], TARGET)
    text = str(caught.value)
    assert text.startswith("no rank up to 128 shows TAR@FAR(0.0001) <= 5% on validation identities; the curve is\n")
    assert "  rank    8: 30.00 % (95 % interval 20.00 to 40.00 %)\n" in text
    assert "  rank  128: 10.00 % (95 % interval 5.00 to 15.20 %)\n" in text
    assert text.endswith("more fit identities allow larger ranks, more validation identities narrower intervals")


def test_a_choice_survives_its_dictionary():
    choice = RankChoice(rule="target", target="EER > 5%", curve=((1, 0.5, 0.25, 0.75), (2, 0, 0, 1)), note="n")
    assert RankChoice.from_dict(choice.to_dict()) == choice
