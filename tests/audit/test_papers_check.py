"""The errors of the printed tables are found, each with its numbers; tables without contradictions give none."""

from __future__ import annotations

import copy
import json
from importlib.resources import files

import pytest

from faceblind._errors import FormatError
from faceblind.audit.papers import Printed, check_printed, printed_paper
from faceblind.audit.papers.check import images_each, true_impostors

SLIPS = check_printed()


def slips(rule, words=""):
    return [slip for slip in SLIPS if slip.rule == rule and words in slip.sentence]


def consistent():
    """A made-up paper that keeps its own rules: all pairs, one value per measurement, orders that hold."""
    columns = [{"k": k, "release": r} for k in (1, 16) for r in ("RAW", "ISP-W")]
    shared = {"dataset": "D", "metric": "TAR", "far": 1e-4, "people": 320, "caption": ""}
    return {
        "far": 1e-4,
        "people": 320,
        "pair_counts": [
            {"dataset": "D", "people": 80, "images": 20, "mated": 15_200, "impostors": 1_264_000, "min_far": 7.9e-7}
        ],
        "ranks": {"A": 128},
        "rank_limit": {"metric": "TAR", "far": 1e-4, "limit": 5.0, "words": ""},
        "near_chance": {"tables": ["1"], "words": "near chance"},
        "tables": {
            "1": {**shared, "probe": "ridge", "columns": columns, "rows": {"A": [5.0, 0.05, 9.0, 0.1]}},
            "4": {
                **shared, "metric": "pAUC", "far": 1e-3, "probe": "ridge", "columns": columns, "rows": {"A": [4.0, 0.1, 8.0, 0.1]}
            },
            "5": {
                **shared, "probe": "ridge", "rows": {"A": [9.0, 7.0, 0.1, 0.1]},
                "columns": [{"k": 16, "release": "RAW" if r == 0 else "ISP-W", "rank": r} for r in (0, 64, 128, 192)],
            },
            "6": {
                **shared, "probe": "ridge", "rows": {"A": [0.1, 0.1, 0.05]},
                "columns": [{"k": 16, "release": "ISP-W", "rank": 128, "people": m} for m in (320, 640, 1280)],
            },
            "8": {**shared, "probe": "mlp", "columns": columns, "rows": {"A": [6.0, 0.1, 9.5, 0.1]}},
        },
    }  # fmt: skip


def test_a_consistent_paper_gives_nothing():
    assert check_printed(Printed.from_dict(consistent())) == ()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda p: p["pair_counts"][0].update(impostors=6_400, min_far=1.6e-4), "far_below_floor"),
        (lambda p: p["pair_counts"][0].update(impostors=16_000, min_far=6.3e-5), "far_unsupported"),
        (lambda p: p["pair_counts"][0].update(min_far=1e-6), "floor_is_wrong"),
        (lambda p: p["pair_counts"][0].update(mated=480), "mated_count"),
        (lambda p: p["pair_counts"][0].update(impostors=1_264_001), "impostor_count"),
        (lambda p: p["pair_counts"][0].update(impostors=2_000, min_far=5e-4), "area_of_few_steps"),
        (lambda p: p["tables"]["5"]["rows"]["A"].__setitem__(0, 8.8), "tables_disagree"),
        (lambda p: p["tables"]["1"]["rows"]["A"].__setitem__(1, 6.0), "rank_rule_missed"),
        (lambda p: p["tables"]["5"]["rows"]["A"].__setitem__(1, 4.0), "rank_not_smallest"),
        (lambda p: p["tables"]["1"]["rows"].update(A=[5.0, 0.2, 9.0, 0.2]), "not_near_chance"),
        (lambda p: p["tables"]["5"]["rows"]["A"].__setitem__(3, 0.3), "rank_sweep_rises"),
        (lambda p: p["tables"]["6"]["rows"]["A"].__setitem__(2, 0.4), "people_sweep_rises"),
        (lambda p: p["tables"]["4"]["rows"]["A"].__setitem__(1, 4.4), "erasing_raises"),
        (lambda p: p["tables"]["4"]["rows"]["A"].__setitem__(2, 2.0), "more_images_read_less"),
        (lambda p: p["tables"]["8"]["rows"]["A"].__setitem__(0, 4.0), "mlp_weaker_than_ridge"),
    ],
)
def test_one_change_makes_one_rule_speak(change, rule):
    paper = copy.deepcopy(consistent())
    change(paper)
    assert rule in {slip.rule for slip in check_printed(Printed.from_dict(paper))}


def test_rounding_is_no_contradiction():
    paper = consistent()
    paper["tables"]["5"]["rows"]["A"][0] = 9.1
    assert check_printed(Printed.from_dict(paper)) == ()


def test_far_below_the_floor_and_what_it_means():
    (celeba,) = slips("far_below_floor", "CelebA-20")
    assert {"1", "5", "6", "8"} <= set(celeba.tables)
    assert celeba.numbers["floor"] == pytest.approx(1 / 6_400)
    assert celeba.numbers["mean"] == pytest.approx(1.56e-4, rel=0.01)
    assert "the highest of 6,400 scores" in celeba.sentence
    (lfw,) = slips("far_below_floor", "LFW-20")
    assert "7.5e-4" in lfw.sentence
    (vgg,) = slips("far_unsupported")
    assert vgg.numbers["allowed"] == 1


def test_lfw_pairs_are_counted_wrong():
    (mated,) = slips("mated_count")
    assert (mated.numbers["printed"], mated.numbers["expected"], mated.numbers["images"]) == (78, 2_470, 4)
    (impostors,) = slips("impostor_count")
    assert (impostors.numbers["printed"], impostors.numbers["possible"]) == (1_326, 1_248)
    assert "C(52,2)" in impostors.sentence
    assert "ArcFace prints 87.4 %" in impostors.sentence  # so they cannot have been scored as impostors
    lfw = next(c for c in printed_paper().pair_counts if c.dataset == "LFW-20")
    assert (images_each(lfw), true_impostors(lfw)) == (4, 1_248)
    (area,) = slips("area_of_few_steps")
    assert area.numbers["steps"] == 1


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("RAW k=16 of CLIP", (19.8, 7.3)),
        ("RAW k=16 of SSCD", (9.8, 2.9)),
        ("ISP-W r=192 k=16 of CLIP", (13.0, 3.5)),
        ("ISP-W r=192 k=16 of SSCD", (4.4, 1.0)),
    ],
)
def test_tables_1_and_5_disagree(words, values):
    (slip,) = slips("tables_disagree", words)
    assert tuple(slip.numbers.values()) == values
    assert slip.tables == ("1", "5")


def test_measurements_at_other_ranks_are_not_compared():
    assert slips("tables_disagree", "ISP-W r=256") == []  # DINOv2 has rank 256 in Table 1, at most 192 in Table 5
    assert slips("tables_disagree", "Table 6") == []  # Tables 5 and 6 agree where they meet


def test_the_other_errors():
    (clip,) = slips("rank_rule_missed")
    assert clip.sentence.startswith("CLIP at its chosen rank 192 prints 11.9 / 15.4 / 13 % on test")
    (near,) = slips("not_near_chance")
    assert (near.numbers["lift_low"], near.numbers["lift_high"]) == pytest.approx((190, 1_540))
    (ranks,) = slips("rank_sweep_rises")
    assert ranks.numbers["DINOv3 on VGGFace2-20 96 to 128"] == pytest.approx(1.2)
    (people,) = slips("people_sweep_rises")
    assert people.numbers["DINOv3 on CelebA-20 320 to 640"] == pytest.approx(3.9)
    (raised,) = slips("erasing_raises", "0.8 to 10.3 %")
    assert raised.tables == ("4",)
    before, after = slips("mlp_weaker_than_ridge")
    assert "CLIP k=4: 1.8 against 15.4 %" in after.sentence
    assert "14 of 17" in before.sentence
    assert slips("more_images_read_less")[0].tables == ("4",)


def test_printed_values_are_those_of_the_paper():
    cells = {(c.table, c.dataset, c.encoder, c.k, c.release, c.rank, c.people): c.value for c in printed_paper().cells}
    assert cells["1", "CelebA-20", "CLIP", 4, "ISP-W", 192, 320] == 15.4
    assert cells["1", "CelebA-20", "DINOv2", 1, "ISP-X", 256, 320] == 3.7
    assert cells["5", "VGGFace2-20", "DINOv3", 16, "ISP-W", 96, 320] == 1.0
    assert cells["6", "CelebA-20", "CLIP", 16, "ISP-W", 192, 2000] == 1.5
    assert cells["9", "VGGFace2-20", "ArcFace", 1, "RAW", 0, None] == 89.3
    data = json.loads(files("faceblind.audit.papers").joinpath("printed.json").read_text())
    assert sorted(data["others"]) == ["10", "11", "2", "7"]
    for other in data["others"].values():
        assert all(len(values) == len(other["columns"]) for values in other["rows"].values())


def test_damaged_values_are_named():
    short = consistent()
    short["tables"]["1"]["rows"]["A"].pop()
    with pytest.raises(FormatError, match="table 1: A has 3 values for 4 columns"):
        Printed.from_dict(short)
    lacking = consistent()
    del lacking["ranks"]
    with pytest.raises(FormatError, match="lack 'ranks'"):
        Printed.from_dict(lacking)
