"""The report of the frequency half: verdict rules at their edges, honest gaps, printed numbers, a page that is whole offline."""

from __future__ import annotations

import copy
import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faceblind._errors import FormatError, UsageError
from faceblind.audit.frequency import printed, read_models, render_report, verdict_of, write_report
from faceblind.audit.frequency.claims import FAILS, HOLDS, UNDECIDED, UNMEASURED, claims, printed_claims
from faceblind.audit.frequency.differences import Measure
from faceblind.audit.frequency.record import Model, picture
from faceblind.audit.frequency.tables import choose_measure, linkage_table, rows_csv, tab1
from faceblind.frequency.evaluation.draws import Draws

Json = dict[str, Any]
MEASURE = Measure("test-people", "tenfold")


def spread(mean: float, half: float = 0.3) -> Json:
    return {"mean": mean, "low": mean - half, "high": mean + half}


def attack(name: str, psnr: float, *, holds: str = "the mechanism", reid: tuple[float, float] | None = None) -> Json:
    found: Json = {
        "attack": name,
        "title": f"Attack {name}",
        "holds": holds,
        "denoised": False,
        "images": 8,
        "people": 4,
        "psnr": spread(psnr),
        "ssim": spread(0.4, 0.01),
        "similarity": spread(0.2, 0.02),
        "reid": None,
        "gallery": [f"gallery/{name}-0.png", f"gallery/{name}-1.png"],
    }
    if reid is not None:
        tar, null = ({"far_target": 0.01, "far": 0.01, "tar": r, "low": r - 0.05, "high": r + 0.05} for r in reid)
        found["reid"] = tar | {"grade": "supported", "null": null, "original": tar | {"tar": 0.95, "high": 0.99}}
    return found


def model(
    name: str, *, kind: str = "dctdp", accuracy: float | None = 0.8, config: Json | None = None, **parts: Any
) -> Json:
    evaluation = []
    if accuracy is not None:
        row = {
            "set": "test-people",
            "protocol": "tenfold",
            "accuracy": accuracy,
            "low": accuracy - 0.01,
            "high": accuracy + 0.01,
        }
        evaluation = [row | {"noise": True, "std": 0.01, "pairs": 600, "people": 30}]
    return {
        "name": name,
        "title": f"Model {name}",
        "kind": kind,
        "config": config or {},
        "recipe": {"head": "arcface"},
        "account": None,
        "training": {"people": 20, "images": 200, "epochs": 2, "final_loss": 3.0, "seconds": 9.0},
        "evaluation": evaluation,
        **parts,
    }


def account() -> Json:
    return {
        "eps_total": 1185408.0, "eps_mean": 0.5, "eps_min": 0.01, "eps_median": 0.4, "eps_max": 9.0,
        "effective_number": 1000.0, "elements": 2370816, "outside": 0.001,
        "channels": [{"channel": "Y(0,1)", "scale": 2.0, "signal_std": 30.0, "snr": 112.5}],
        "sentences": ["Budgets sum to eps = 1,185,408."],
    }  # fmt: skip


def attacked(**parts: Any) -> Json:
    found: Json = {
        "attacks": [
            attack("idct-zero", 14.0),
            attack("idct-right", 30.0, holds="the mechanism, and the true photograph (its DC)"),
            attack("lsq", 25.0, reid=(0.6, 0.02)),
            attack("unet", 14.1),
        ],
        "floor": {"psnr": spread(14.0), "ssim": spread(0.3, 0.01)},
        "gallery": {
            "original": ["gallery/original-0.png", "gallery/original-1.png"],
            "channels": [["gallery/channels-0-Y01.png", "Y (0,1)"]],
        },
    }
    return found | parts


def of(data: Json) -> Model:
    return Model(Path(), data)


def save(folder: Path, *models: Json) -> Path:
    (folder / "gallery").mkdir(parents=True)
    (folder / "record.json").write_text(json.dumps({"schema": "faceblind.frequency/1", "models": models}))
    return folder


def draw(folder: Path, *names: str) -> None:
    image = pytest.importorskip("PIL.Image")
    for number, name in enumerate(names):
        image.new("RGB", (16, 16), (40 + 20 * number, 90, 120)).save(folder / "gallery" / f"{name}.png")


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    rgb = model("rgb", kind="rgb", accuracy=0.9, attacks=[attack("look", 100.0)], floor={"psnr": spread(14.0)})
    private = model("dctdp-0.5", config={"eps_mean": 0.5}, account=account(), **attacked())
    bare = model("dctdp-4", config={"eps_mean": 4.0}, accuracy=None)
    made = [save(tmp_path / m["name"], m) for m in (rgb, private, bare)]
    draw(
        made[1], "original-0", "original-1", "channels-0-Y01", "idct-zero-0", "idct-zero-1", "lsq-0", "lsq-1", "unet-0"
    )
    return made


def test_page_is_whole_offline_and_repeatable(folders: list[Path], tmp_path: Path) -> None:
    page = write_report(folders, tmp_path / "out")
    assert page == tmp_path / "out" / "report.html"
    written = page.read_text(encoding="utf-8")
    assert write_report(folders[::-1], tmp_path / "again.html").read_text(encoding="utf-8") == written
    assert write_report(folders, tmp_path / "out").read_text(encoding="utf-8") == written
    addresses = _Addresses()
    addresses.feed(written)
    assert addresses.found
    assert all(a.startswith(("data:image/png;base64,", "#")) for a in addresses.found)
    assert addresses.scripts == ["application/json"]
    assert "picture missing" in written  # unet-1 was never drawn
    for part in ("verdict", "gallery", "charts", "claims", "tables", "privacy", "attacks", "linkage-part"):
        assert f'id="{part}"' in written
    inside = re.search(r'id="frequency-record">(.*?)</script>', written)
    assert inside
    assert len(json.loads(inside.group(1))["models"]) == 3
    words = re.sub(r"data:[^\"]+|<[^>]+>", " ", written[written.index("<body>") : written.index("<script")]).lower()
    assert not re.search(r"\banonymous\b|\bsafe\b|gdpr|\bnan\b|\bnone\b", words)


def test_csv_holds_what_was_measured_only(folders: list[Path]) -> None:
    rows = list(csv.DictReader(io.StringIO(rows_csv(read_models(folders)))))
    found = {(r["model"], r["part"], r["item"], r["metric"]): r for r in rows}
    assert float(found["dctdp-0.5", "attack", "lsq", "psnr"]["value"]) == 25.0
    assert float(found["dctdp-0.5", "attack", "lsq", "reid-null"]["high"]) == pytest.approx(0.07)
    assert float(found["dctdp-0.5", "account", "eps_total", "eps_total"]["value"]) == 1185408.0
    assert not [r for r in rows if r["model"] == "dctdp-4"]
    assert "99.6" not in {r["value"] for r in rows}  # the paper's numbers are not ours


@pytest.mark.parametrize(("psnr", "word"), [(15.59, "not shown viewable by these attacks"), (15.61, "viewable")])
def test_one_decibel_between_interval_ends_decides(psnr: float, word: str) -> None:
    # floor 13.7 to 14.3, attack psnr - 0.3 to psnr + 0.3: the edge is at 15.6
    data = model("m", **attacked(attacks=[attack("lsq", psnr)]))
    assert verdict_of(of(data)).word == word


@pytest.mark.parametrize(("tar", "word"), [(0.11, "not shown viewable by these attacks"), (0.13, "viewable")])
def test_reidentification_above_shuffled_people_decides(tar: float, word: str) -> None:
    data = model("m", **attacked(attacks=[attack("lsq", 13.0, reid=(tar, 0.02))]))
    assert verdict_of(of(data)).word == word


def test_attackers_who_have_the_photograph_decide_nothing() -> None:
    photograph = attack("idct-right", 40.0, holds="the mechanism, and the true photograph (its DC)", reid=(0.9, 0.02))
    colour = attack("lsq-mean", 40.0, holds="the mechanism, the mean colour of the true photograph")
    data = model("m", **attacked(attacks=[photograph, colour, attack("lsq", 14.0)]))
    verdict = verdict_of(of(data))
    assert verdict.word == "not shown viewable by these attacks"
    assert verdict.best == "lsq"
    colour["reid"] = attack("x", 0, reid=(0.9, 0.02))["reid"]
    assert verdict_of(of(data)).word == "viewable"


@pytest.mark.parametrize(
    "change",
    [
        {"attacks": []},
        {"floor": None},
        {"attacks": [attack("lsq", 30.0) | {"psnr": {"mean": 30.0, "low": None, "high": None}}]},
    ],
)
def test_without_intervals_or_floor_there_is_no_verdict(change: Json) -> None:
    data = model("m", **attacked(attacks=[attack("lsq", 30.0)]) | change)
    assert verdict_of(of(data)).word == "not measured"
    assert "Not measured" in render_report([of(data)]) or "not measured" in render_report([of(data)])


def outcome(models: list[Json], start: str) -> str:
    found = [c for c in claims([of(m) for m in models], MEASURE) if c.text.startswith(start)]
    assert len(found) == 1
    return found[0].outcome


def test_claims_follow_the_intervals() -> None:
    rgb = model("rgb", kind="rgb", accuracy=0.9)
    close, far = model("a", accuracy=0.899), model("b", accuracy=0.7)
    close["evaluation"][0] |= {"low": 0.898, "high": 0.9}
    narrow = copy.deepcopy(rgb)
    narrow["evaluation"][0] |= {"low": 0.899, "high": 0.901}
    assert outcome([narrow, close], "Accuracy at mean") == HOLDS
    assert outcome([rgb, far], "Accuracy at mean") == FAILS
    assert outcome([rgb, model("c", accuracy=0.88)], "Accuracy at mean") == UNDECIDED
    assert outcome([far], "Accuracy at mean") == UNMEASURED
    equal = model("equal", config={"budgets": "uniform"}, accuracy=0.75)
    assert outcome([model("l", accuracy=0.8), equal], "Learned budgets") == HOLDS
    assert outcome([model("l", accuracy=0.7), equal], "Learned budgets") == FAILS
    assert outcome([model("l", accuracy=0.755), equal], "Learned budgets") == UNDECIDED
    rich, rich_equal = (
        model(f"rich{value}", config={"eps_mean": 20.0} | more, accuracy=value)
        for value, more in ((0.9, {}), (0.85, {"budgets": "uniform"}))
    )
    assert outcome([model("l", accuracy=0.755), equal, rich, rich_equal], "Learned budgets") == HOLDS
    assert outcome([model("l", accuracy=0.7), equal, rich, rich_equal], "Learned budgets") == FAILS
    # budgets of another mean are no control
    other = model("other", config={"budgets": "uniform", "eps_mean": 4.0}, accuracy=0.7)
    assert outcome([model("l", accuracy=0.8), other], "Learned budgets") == UNMEASURED


def drawn(data: Json, values: list[float], of: str = "same people") -> Json:
    row = data["evaluation"][0]
    row["draws"] = Draws(row["accuracy"], 60.0, np.array(values), of).to_dict()
    row |= {"low": row["accuracy"] - 0.05, "high": row["accuracy"] + 0.05}
    return data


def test_paired_draws_settle_what_two_intervals_leave_open() -> None:
    shared = np.random.default_rng(0).normal(0, 0.025, 400)
    config = {"budgets": "uniform"}
    learned, equal = (lambda: model("l", accuracy=0.80)), (lambda: model("e", accuracy=0.78, config=config))
    apart = list(0.78 + shared)
    assert outcome([drawn(learned(), list(0.8 + shared)), drawn(equal(), apart)], "Learned budgets") == HOLDS
    assert (
        outcome([drawn(learned(), list(0.8 + shared)), drawn(equal(), apart, "others")], "Learned budgets") == UNDECIDED
    )
    assert outcome([drawn(learned(), list(0.8 - shared)), drawn(equal(), apart)], "Learned budgets") == UNDECIDED
    text = render_report([of(drawn(learned(), list(0.8 + shared))), of(drawn(equal(), apart))])
    assert "+2.0 points (+1" in text
    assert ", paired)" in text
    rgb = drawn(model("rgb", kind="rgb", accuracy=0.81), list(0.81 + shared))
    lines = list(csv.DictReader(io.StringIO(rows_csv([of(rgb), of(drawn(learned(), list(0.8 + shared)))]))))
    gap = next(line for line in lines if line["metric"] == "accuracy more than RGB ArcFace")
    assert (gap["model"], gap["unit"]) == ("l", "share, paired")
    assert float(gap["value"]) == pytest.approx(-0.01)
    assert float(gap["high"]) < 0


def test_a_rate_is_compared_with_one_measured_alike() -> None:
    rates = {("at most", False): 0.5, ("at most", True): 0.7, ("nearest", False): 0.6, ("nearest", True): 0.8}
    row = {"set": "ijb-b", "protocol": "ijb", "noise": True, "far_target": 1e-4, "low": None, "high": None}
    rgb, other = model("rgb", kind="rgb", accuracy=None), model("l", accuracy=None)
    for data, more in ((rgb, 0.0), (other, 0.1)):
        data["evaluation"] = [
            row | {"rule": rule, "flip": flip, "tar": tar + more} for (rule, flip), tar in rates.items()
        ]
    rgb["evaluation"].pop()
    lines = csv.DictReader(io.StringIO(rows_csv([of(rgb), of(other)])))
    gaps = [float(line["value"]) for line in lines if line["metric"] == "tar more than RGB ArcFace"]
    assert gaps == pytest.approx([0.1, 0.1, 0.1])


def test_accuracy_is_of_one_release_where_flips_were_measured_too() -> None:
    flipped, plain = model("l", accuracy=0.9), model("p", accuracy=0.8)
    flipped["evaluation"][0]["flip"] = True
    assert MEASURE.of(of(flipped)).value == 0.9
    flipped["evaluation"] += plain["evaluation"]
    assert MEASURE.of(of(flipped)).value == 0.8
    assert MEASURE.difference(of(flipped), of(plain)).value == 0


def test_noise_put_on_afterwards_is_no_training_under_noise() -> None:
    learned, equal = model("l", accuracy=0.8), model("e", config={"budgets": "uniform"}, accuracy=0.75)
    put_on = model("p", config={"budgets": "uniform"}, accuracy=0.2)
    put_on |= {"training": put_on["training"] | {"started_from": "a" * 64}, "recipe": {"head": "arcface", "epochs": 0}}
    longer = copy.deepcopy(equal) | {"name": "longer", "recipe": {"head": "arcface", "epochs": 8}}
    longer["training"]["started_from"] = "b" * 64
    assert [of(m).variant for m in (learned, equal, put_on, longer)] == ["paper", "equal", "put-on", "equal"]
    assert [of(m).continued for m in (learned, equal, put_on, longer)] == [False, False, True, True]
    # neither is the control of a network that was trained as long and under the noise
    assert outcome([learned, put_on], "Learned budgets") == UNMEASURED
    assert outcome([learned, longer], "Learned budgets") == UNMEASURED
    assert outcome([learned, put_on, equal], "Learned budgets") == HOLDS
    rgb = model("rgb", kind="rgb", accuracy=0.9)
    text = render_report([of(m) for m in (rgb, learned, put_on, longer)])
    assert "noise put on a network not trained under it, ours on" in text
    assert "equal budgets, trained on from other weights, ours on" in text
    # a sweep is of one recipe
    rich = model("r", config={"eps_mean": 20.0}, accuracy=0.9)
    warm = model("w", config={"eps_mean": 100.0}, accuracy=0.1)
    warm["training"]["started_from"] = "c" * 64
    assert outcome([learned, rich, warm], "A larger budget") == HOLDS
    assert outcome([learned, warm], "A larger budget") == FAILS


def test_claims_about_attacks() -> None:
    clean = model("clean", config={"noise": False}, **attacked())
    assert outcome([clean], "Dropping DC") == FAILS
    assert outcome([model("clean", config={"noise": False})], "Dropping DC") == UNMEASURED
    private = model("p", account=account(), **attacked())
    assert outcome([private], "A trained U-Net") == HOLDS
    official = model("o", config={"official": True}, **attacked(attacks=[attack("difference", 22.0)]))
    assert outcome([official], "The published code draws") == FAILS
    assert outcome([private], "At mean budget 0.5 even the right") == FAILS  # 30 dB, though it decides no verdict
    assert outcome([private], "The release gives a meaningful guarantee") == FAILS
    blind = attacked(attacks=[attack("idct-zero", 14.0)])
    assert outcome([model("h", config={"eps_mean": 100.0}, **blind)], "The white-box inverse") == HOLDS
    assert outcome([model("h", config={"eps_mean": 100.0}, **attacked())], "The white-box inverse") == FAILS


def test_arithmetic_on_the_printed_numbers() -> None:
    assert printed.table_drop(("CFP-FP", "AgeDB", "CPLFW")) == pytest.approx(1.698, abs=1e-3)
    assert printed.table_drop(("LFW",)) == pytest.approx(0.14)
    assert printed.table_drop(("CALFW",)) == pytest.approx(0.645)
    found = {claim.text: claim for claim in printed_claims()}
    wrong = next(claim for text, claim in found.items() if "2.5 %" in text)
    assert wrong.outcome == FAILS
    assert "1.70" in wrong.figures
    assert [c.outcome for c in printed_claims()][:2] == [HOLDS, HOLDS]
    fig8 = found["The accuracy drop shrinks as the budget grows."]
    assert fig8.outcome == FAILS
    assert "CPLFW 1.45 then 1.82" in fig8.figures


def test_table_one_keeps_the_papers_rows_apart() -> None:
    data = model("m")
    data["evaluation"] += [
        {"set": "lfw", "protocol": "tenfold", "noise": False, "accuracy": 0.99, "low": None, "high": None},
        {"set": "agedb_30", "protocol": "tenfold", "noise": True, "accuracy": 0.7, "low": None, "high": None},
        {"set": "ijbc", "protocol": "ijb", "noise": True, "far_target": 1e-4, "tar": 0.25, "low": 0.2, "high": 0.3},
        {"set": "ijbc", "protocol": "ijb", "noise": True, "far_target": 1e-3, "tar": 0.5, "low": 0.4, "high": 0.6},
    ]
    table = tab1([of(data)])
    assert [row.paper for row in table.rows] == [True] * 7 + [False]
    own = dict(zip(table.columns, table.rows[-1].cells, strict=True))
    assert own["LFW"].missing  # measured with noise off only: not what is released
    assert (own["AgeDB"].value, own["AgeDB"].note) == ("70.0", "no interval")
    assert own["IJB-C"].value == "25.0"
    assert own["test-people"].value == "80.0"
    assert choose_measure([of(data)]) == MEASURE
    assert choose_measure([of(model("x", accuracy=None))]) is None


def test_names_cannot_break_out_of_the_page() -> None:
    data = model("<script>alert(1)</script>", **attacked())
    data["title"] = "</script><img src=http://x>"
    page = render_report([of(data)])
    assert "<script>alert" not in page
    assert "<img src=http" not in page


def test_pictures_outside_the_folder_are_not_read(tmp_path: Path) -> None:
    folder = save(tmp_path / "m", model("m"))
    draw(folder, "a")
    (tmp_path / "secret.png").write_bytes((folder / "gallery" / "a.png").read_bytes())
    (folder / "note.png").write_text("not a picture")
    found = read_models([folder])[0]
    assert (picture(found, "gallery/a.png") or "").startswith("data:image/png;base64,")
    assert picture(found, "../secret.png") is None
    assert picture(found, str(tmp_path / "secret.png")) is None
    assert picture(found, "note.png") is None
    assert picture(found, "gallery/none.png") is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "must have the schema"),
        ('{"schema": "faceblind.audit/1", "models": []}', "faceblind.audit/1"),
        ('{"schema": "faceblind.frequency/1", "models": []}', "holds no models"),
        ('{"schema": "faceblind.frequency/1", "models": [3]}', "must be an object"),
        ('{"schema": "faceblind.frequency/1", "models": [{"name": "a"}]}', "lacks title, kind"),
    ],
)
def test_damaged_records_are_named(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "record.json").write_text(content)
    with pytest.raises(FormatError, match=said) as error:
        read_models([tmp_path])
    assert "record.json" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"floor": {"psnr": {"mean": float("nan"), "low": None, "high": None}}}, "must be null"),
        ({"floor": {"psnr": {"mean": 1.0, "low": 3.0, "high": 2.0}}}, "lower end must come first"),
        ({"floor": {"psnr": {"mean": 1.0, "low": "x", "high": 2.0}}}, "no number"),
        ({"attacks": [{"attack": "lsq"}]}, "attacks 0 lacks title, holds"),
        ({"evaluation": {}, "attacks": {"a": 1}}, "attacks must be a list"),
    ],
)
def test_bad_parts_are_named(tmp_path: Path, change: Json, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        read_models([save(tmp_path / "m", model("m") | change)])


def test_missing_records_and_models_named_twice(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least one model folder"):
        read_models([])
    with pytest.raises(FormatError, match="frequency evaluate"):
        read_models([tmp_path / "nowhere"])
    with pytest.raises(FormatError, match="holds a model 'm', as does"):
        read_models([save(tmp_path / "a", model("m")), save(tmp_path / "b", model("m"))])


class _Addresses(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.scripts: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for key, value in attrs if key in {"src", "href", "srcset", "action"}]
        if tag == "script":
            self.scripts.append(dict(attrs).get("type"))


def link(attacker: str, tar: float, *, null: float = 0.01, space: str = "released tensor") -> Json:
    found = {"far_target": 0.01, "tar": tar, "low": max(tar - 0.1, 0), "high": tar + 0.1, "people": 40}
    low = {"far_target": 0.01, "tar": null, "low": 0.0, "high": null + 0.05}
    return {"attacker": attacker, "space": space, "gallery": "other releases", **found, "null": low}


def test_the_verdict_says_who_links_releases_best() -> None:
    rows = [link("cosine", 0.2), link("wccn", 0.4), link("lda", 0.3, space="the recogniser's embedding")]
    said = verdict_of(of(model("m", **attacked(linkage=rows)))).reasons[-1]
    assert "are linked: 40.0 % (30.0 to 50.0 %) at FAR 0.01, wccn on released tensor, against 1.0 %" in said.replace(
        "\xa0", " "
    )
    weak = verdict_of(of(model("m", **attacked(linkage=[link("cosine", 0.12)])))).reasons[-1]
    assert "are not shown linked" in weak  # 2 % to 22 %, and shuffled people reach 6 %
    assert "Linkage of releases was not measured." in verdict_of(of(model("m", **attacked()))).reasons


def test_the_table_of_linkage_and_the_csv_hold_every_row() -> None:
    models = [of(model("m", **attacked(linkage=[link("cosine", 0.2), link("wccn", 0.4)])))]
    table = linkage_table(models)
    assert [[cell.value for cell in row.cells][:4] for row in table.rows] == [
        ["cosine", "released tensor", "other releases", "0.01"],
        ["wccn", "released tensor", "other releases", "0.01"],
    ]
    rows = [r for r in csv.DictReader(io.StringIO(rows_csv(models))) if r["part"] == "linkage"]
    assert [(r["item"], r["metric"], float(r["value"])) for r in rows] == [
        ("cosine", "tar", 0.2), ("cosine", "tar-null", 0.01), ("wccn", "tar", 0.4), ("wccn", "tar-null", 0.01),
    ]  # fmt: skip
